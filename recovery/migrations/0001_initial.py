"""The schema as it was before poll recovery: 35 entities, the grants and the console's own first table."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import recovery.models.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="RunnerBeat",
            fields=[
                (
                    "name",
                    recovery.models.fields.Key(db_comment="运行器名", max_length=64, primary_key=True, serialize=False),
                ),
                ("last_at", models.DateTimeField(db_comment="最近一次运行时间", null=True)),
                ("lag_ms", models.BigIntegerField(db_comment="最久待处理的毫秒数", default=0)),
                ("handled", models.BigIntegerField(db_comment="累计处理数", default=0)),
            ],
            options={
                "db_table_comment": "运行器心跳",
            },
        ),
        migrations.CreateModel(
            name="Namespace",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="命名空间标识", serialize=False)),
                ("name", recovery.models.fields.Key(db_comment="命名空间名，唯一", max_length=64, unique=True)),
                ("display_name", recovery.models.fields.Text(db_comment="显示名称", max_length=128)),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[("ACTIVE", "Active"), ("SUSPENDED", "Suspended")], db_comment="状态", max_length=24
                    ),
                ),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
            ],
            options={
                "db_table_comment": "命名空间",
                "permissions": [
                    ("workflows:read", "See instances, steps, tasks and receipts"),
                    ("workflows:start", "Start instances"),
                    ("workflows:recover", "Decide the six recovery operations"),
                    ("workflows:pause", "Pause and resume instances"),
                    ("workflows:cancel", "Cancel instances"),
                    ("definitions:publish", "Publish definition versions"),
                    ("signals:send", "Send signals"),
                    ("tasks:work", "Claim and report tasks"),
                    ("tasks:review", "Review tasks outside of a recovery"),
                    ("tasks:cancel", "Cancel tasks that have not started"),
                    ("evidence:attach", "Attach evidence"),
                    ("evidence:read", "Read evidence"),
                    ("audit:read", "Read the audit"),
                    ("access:admin", "Grant and revoke permissions"),
                ],
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["ACTIVE", "SUSPENDED"])), name="namespace_status_known"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Application",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="应用标识", serialize=False)),
                ("name", recovery.models.fields.Key(db_comment="应用名，命名空间内唯一", max_length=64)),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[("ACTIVE", "Active"), ("SUSPENDED", "Suspended")], db_comment="状态", max_length=24
                    ),
                ),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                (
                    "namespace",
                    recovery.models.fields.Ref(
                        db_comment="所属命名空间",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.namespace",
                    ),
                ),
            ],
            options={
                "db_table_comment": "应用",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["ACTIVE", "SUSPENDED"])), name="application_status_known"
                    ),
                    models.UniqueConstraint(fields=("namespace", "name"), name="application_namespace_name"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ApplicationQuota",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="应用额度标识", serialize=False)),
                ("max_open_tasks", models.IntegerField(db_comment="未结清任务上限")),
                ("open_tasks", models.IntegerField(db_comment="未结清任务数", default=0)),
                ("max_open_instances", models.IntegerField(db_comment="未结清实例上限")),
                ("open_instances", models.IntegerField(db_comment="未结清实例数", default=0)),
                ("lock_seq", models.BigIntegerField(db_comment="加锁序号，每次加锁真实变更", default=0)),
                (
                    "application",
                    recovery.models.fields.OneRef(
                        db_comment="所属应用，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.application",
                    ),
                ),
            ],
            options={
                "db_table_comment": "应用额度",
            },
        ),
        migrations.CreateModel(
            name="NamespaceGroupGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("expires_at", models.DateTimeField(db_comment="到期时间，空为长期", null=True)),
                ("granted_by", recovery.models.fields.Text(db_comment="授予者", default="", max_length=150)),
                ("reason", recovery.models.fields.Text(db_comment="授予原因", default="", max_length=1024)),
                ("created_at", models.DateTimeField(db_comment="授予时间", null=True)),
                (
                    "content_object",
                    recovery.models.fields.Ref(
                        db_comment="命名空间",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.namespace",
                    ),
                ),
                ("group", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="auth.group")),
                ("permission", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="auth.permission")),
            ],
            options={
                "db_table_comment": "命名空间用户组授权",
                "abstract": False,
                "unique_together": {("group", "permission", "content_object")},
            },
        ),
        migrations.CreateModel(
            name="NamespaceUserGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("expires_at", models.DateTimeField(db_comment="到期时间，空为长期", null=True)),
                ("granted_by", recovery.models.fields.Text(db_comment="授予者", default="", max_length=150)),
                ("reason", recovery.models.fields.Text(db_comment="授予原因", default="", max_length=1024)),
                ("created_at", models.DateTimeField(db_comment="授予时间", null=True)),
                (
                    "content_object",
                    recovery.models.fields.Ref(
                        db_comment="命名空间",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.namespace",
                    ),
                ),
                ("permission", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="auth.permission")),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "db_table_comment": "命名空间用户授权",
                "abstract": False,
                "unique_together": {("user", "permission", "content_object")},
            },
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="队列标识", serialize=False)),
                ("name", recovery.models.fields.Key(db_comment="队列名，命名空间内唯一", max_length=64)),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[("OPEN", "Open"), ("PAUSED", "Paused")], db_comment="状态", max_length=24
                    ),
                ),
                ("lease_ms", models.IntegerField(db_comment="执行租约毫秒数")),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                (
                    "namespace",
                    recovery.models.fields.Ref(
                        db_comment="所属命名空间",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.namespace",
                    ),
                ),
            ],
            options={
                "db_table_comment": "队列",
                "permissions": [("queues:use", "Decide on instances whose definition names this queue")],
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["OPEN", "PAUSED"])), name="queue_status_known"
                    ),
                    models.UniqueConstraint(fields=("namespace", "name"), name="queue_namespace_name"),
                ],
            },
        ),
        migrations.CreateModel(
            name="QueueGroupGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("expires_at", models.DateTimeField(db_comment="到期时间，空为长期", null=True)),
                ("granted_by", recovery.models.fields.Text(db_comment="授予者", default="", max_length=150)),
                ("reason", recovery.models.fields.Text(db_comment="授予原因", default="", max_length=1024)),
                ("created_at", models.DateTimeField(db_comment="授予时间", null=True)),
                (
                    "content_object",
                    recovery.models.fields.Ref(
                        db_comment="队列",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.queue",
                    ),
                ),
                ("group", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="auth.group")),
                ("permission", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="auth.permission")),
            ],
            options={
                "db_table_comment": "队列用户组授权",
                "abstract": False,
                "unique_together": {("group", "permission", "content_object")},
            },
        ),
        migrations.CreateModel(
            name="QueueQuota",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="队列配额标识", serialize=False)),
                ("max_open_tasks", models.IntegerField(db_comment="未结清任务上限")),
                ("open_tasks", models.IntegerField(db_comment="未结清任务数", default=0)),
                ("max_running", models.IntegerField(db_comment="同时执行上限")),
                ("running", models.IntegerField(db_comment="正在执行数", default=0)),
                (
                    "queue",
                    recovery.models.fields.OneRef(
                        db_comment="所属队列，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.queue",
                    ),
                ),
            ],
            options={
                "db_table_comment": "队列配额",
            },
        ),
        migrations.CreateModel(
            name="QueueUserGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("expires_at", models.DateTimeField(db_comment="到期时间，空为长期", null=True)),
                ("granted_by", recovery.models.fields.Text(db_comment="授予者", default="", max_length=150)),
                ("reason", recovery.models.fields.Text(db_comment="授予原因", default="", max_length=1024)),
                ("created_at", models.DateTimeField(db_comment="授予时间", null=True)),
                (
                    "content_object",
                    recovery.models.fields.Ref(
                        db_comment="队列",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.queue",
                    ),
                ),
                ("permission", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="auth.permission")),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "db_table_comment": "队列用户授权",
                "abstract": False,
                "unique_together": {("user", "permission", "content_object")},
            },
        ),
        migrations.CreateModel(
            name="ResultStream",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="结果流标识", serialize=False)),
                ("next_offset", models.BigIntegerField(db_comment="下一事件位点")),
                (
                    "namespace",
                    recovery.models.fields.OneRef(
                        db_comment="所属命名空间，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.namespace",
                    ),
                ),
            ],
            options={
                "db_table_comment": "结果流",
            },
        ),
        migrations.CreateModel(
            name="WorkflowDefinition",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="定义标识", serialize=False)),
                ("name", recovery.models.fields.Key(db_comment="定义名，命名空间内唯一", max_length=128)),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                (
                    "namespace",
                    recovery.models.fields.Ref(
                        db_comment="所属命名空间",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.namespace",
                    ),
                ),
            ],
            options={
                "db_table_comment": "流程定义",
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "name"), name="workflowdefinition_namespace_name")
                ],
            },
        ),
        migrations.CreateModel(
            name="DefinitionVersion",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="版本标识", serialize=False)),
                ("version", models.IntegerField(db_comment="版本号")),
                ("graph_digest", recovery.models.fields.Key(db_comment="图、契约与时限的摘要(SHA-256)", max_length=64)),
                ("input_schema", recovery.models.fields.Json(db_comment="输入契约(JSON Schema)")),
                ("max_duration_ms", models.BigIntegerField(db_comment="实例最长持续毫秒数")),
                ("published_by", recovery.models.fields.Text(db_comment="发布者", max_length=150)),
                ("published_at", models.DateTimeField(db_comment="发布时间")),
                (
                    "definition",
                    recovery.models.fields.Ref(
                        db_comment="所属定义",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowdefinition",
                    ),
                ),
            ],
            options={
                "db_table_comment": "定义版本",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("definition", "version"), name="definitionversion_definition_version"
                    ),
                    models.UniqueConstraint(
                        fields=("definition", "graph_digest"), name="definitionversion_definition_graph_digest"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DefinitionQueue",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="引用标识", serialize=False)),
                (
                    "definition_version",
                    recovery.models.fields.Ref(
                        db_comment="所属定义版本",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.definitionversion",
                    ),
                ),
                (
                    "queue",
                    recovery.models.fields.Ref(
                        db_comment="队列",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.queue",
                    ),
                ),
            ],
            options={
                "db_table_comment": "固定队列引用",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("definition_version", "queue"), name="definitionqueue_definition_version_queue"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="StepDefinition",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="步骤定义标识", serialize=False)),
                ("step_key", recovery.models.fields.Key(db_comment="步骤键，版本内唯一", max_length=128)),
                (
                    "kind",
                    recovery.models.fields.Enum(
                        choices=[
                            ("SEQUENCE", "Sequence"),
                            ("PARALLEL", "Parallel"),
                            ("TASK", "Task"),
                            ("POLL", "Poll"),
                            ("SIGNAL", "Signal"),
                            ("TIMER", "Timer"),
                        ],
                        db_comment="类型",
                        max_length=24,
                    ),
                ),
                ("parent_key", recovery.models.fields.Key(db_comment="父步骤键，根为空", max_length=128, null=True)),
                ("position", models.IntegerField(db_comment="兄弟顺序")),
                ("handler", recovery.models.fields.Key(db_comment="固定处理器名", default="", max_length=128)),
                ("handler_version", recovery.models.fields.Key(db_comment="固定处理器版本", default="", max_length=32)),
                ("max_attempts", models.IntegerField(db_comment="尝试上限(POLL为单轮上限)", null=True)),
                ("policy", recovery.models.fields.Json(db_comment="执行策略与失败处理")),
                ("input_template", recovery.models.fields.Json(db_comment="输入映射")),
                ("output_contract", recovery.models.fields.Json(db_comment="输出契约(JSON Schema)")),
                (
                    "outcome_map",
                    recovery.models.fields.Json(db_comment="查询结果映射 PENDING/SUCCEEDED/FAILED", null=True),
                ),
                ("interval_ms", models.BigIntegerField(db_comment="查询间隔毫秒", null=True)),
                ("max_rounds", models.IntegerField(db_comment="查询轮次上限", null=True)),
                ("timeout_ms", models.BigIntegerField(db_comment="单任务时限毫秒", null=True)),
                ("total_timeout_ms", models.BigIntegerField(db_comment="查询或等待总时限毫秒", null=True)),
                ("delay_ms", models.BigIntegerField(db_comment="定时等待毫秒", null=True)),
                ("signal_contract", recovery.models.fields.Json(db_comment="信号契约", null=True)),
                (
                    "definition_version",
                    recovery.models.fields.Ref(
                        db_comment="所属定义版本",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.definitionversion",
                    ),
                ),
                (
                    "queue",
                    recovery.models.fields.Ref(
                        db_comment="固定队列",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.queue",
                    ),
                ),
            ],
            options={
                "db_table_comment": "步骤定义",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["SEQUENCE", "PARALLEL", "TASK", "POLL", "SIGNAL", "TIMER"])),
                        name="stepdefinition_kind_known",
                    ),
                    models.UniqueConstraint(
                        fields=("definition_version", "step_key"), name="stepdefinition_definition_version_step_key"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="WorkflowInstance",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="实例标识", serialize=False)),
                ("business_key", recovery.models.fields.Key(db_comment="业务关联键", max_length=191)),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[
                            ("RUNNING", "Running"),
                            ("NEEDS_REVIEW", "Needs review"),
                            ("CANCELLING", "Stopping"),
                            ("SUCCEEDED", "Succeeded"),
                            ("FAILED", "Failed"),
                            ("CANCELLED", "Cancelled"),
                        ],
                        db_comment="状态",
                        max_length=24,
                    ),
                ),
                ("revision", models.BigIntegerField(db_comment="证据版本，任何事实变更都递增")),
                ("control_revision", models.BigIntegerField(db_comment="控制版本，控制与人工操作递增")),
                ("paused", models.BooleanField(db_comment="显式暂停", default=False)),
                (
                    "stop_kind",
                    recovery.models.fields.Enum(
                        choices=[("CANCEL", "Cancel"), ("FAIL", "Fail")],
                        db_comment="停止意图",
                        max_length=24,
                        null=True,
                    ),
                ),
                ("review_reason", recovery.models.fields.Key(db_comment="进入核查的原因", default="", max_length=64)),
                ("review_since", models.DateTimeField(db_comment="进入核查的时间", null=True)),
                ("input", recovery.models.fields.Json(db_comment="固定输入")),
                ("output", recovery.models.fields.Json(db_comment="最终输出", null=True)),
                ("deadline_at", models.DateTimeField(db_comment="实例绝对截止")),
                ("created_by", recovery.models.fields.Text(db_comment="创建者", max_length=150)),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                (
                    "audit_head",
                    recovery.models.fields.Key(db_comment="审计链头: 序号与散列", default="", max_length=80),
                ),
                ("settled_at", models.DateTimeField(db_comment="结清时间", null=True)),
                (
                    "application",
                    recovery.models.fields.Ref(
                        db_comment="所属应用",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.application",
                    ),
                ),
                (
                    "definition",
                    recovery.models.fields.Ref(
                        db_comment="流程定义",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowdefinition",
                    ),
                ),
                (
                    "definition_version",
                    recovery.models.fields.Ref(
                        db_comment="固定定义版本",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.definitionversion",
                    ),
                ),
                (
                    "namespace",
                    recovery.models.fields.Ref(
                        db_comment="所属命名空间",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.namespace",
                    ),
                ),
            ],
            options={
                "db_table_comment": "流程实例",
                "indexes": [
                    models.Index(fields=["namespace", "status", "-created_at", "-id"], name="workflowinstance_status"),
                    models.Index(fields=["namespace", "-created_at", "-id"], name="workflowinstance_created"),
                    models.Index(
                        fields=["namespace", "status", "review_reason", "review_since"], name="workflowinstance_reason"
                    ),
                    models.Index(
                        fields=["definition", "status", "-created_at", "-id"], name="workflowinstance_definition"
                    ),
                    models.Index(fields=["definition_version", "status"], name="workflowinstance_version"),
                    models.Index(fields=["business_key"], name="workflowinstance_business"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                ["RUNNING", "NEEDS_REVIEW", "CANCELLING", "SUCCEEDED", "FAILED", "CANCELLED"],
                            )
                        ),
                        name="workflowinstance_status_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("stop_kind__in", ["CANCEL", "FAIL"])),
                        name="workflowinstance_stop_kind_known",
                    ),
                    models.UniqueConstraint(
                        fields=("namespace", "application", "business_key"), name="workflowinstance_business_key"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ManagementOperation",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="操作标识", serialize=False)),
                ("operation_key", recovery.models.fields.Key(db_comment="稳定幂等键", max_length=128)),
                ("action", recovery.models.fields.Key(db_comment="动作", max_length=32)),
                ("command_digest", recovery.models.fields.Key(db_comment="规范化命令摘要(SHA-256)", max_length=64)),
                ("actor", recovery.models.fields.Text(db_comment="操作者", max_length=150)),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                (
                    "namespace",
                    recovery.models.fields.Ref(
                        db_comment="所属命名空间",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.namespace",
                    ),
                ),
                (
                    "instance",
                    recovery.models.fields.Ref(
                        db_comment="目标实例",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowinstance",
                    ),
                ),
            ],
            options={
                "db_table_comment": "管理操作身份",
                "indexes": [models.Index(fields=["instance", "created_at"], name="managementoperatio_instance")],
                "constraints": [
                    models.UniqueConstraint(fields=("namespace", "operation_key"), name="managementoperation_key")
                ],
            },
        ),
        migrations.CreateModel(
            name="OperationReceipt",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="回执标识", serialize=False)),
                ("response", recovery.models.fields.Json(db_comment="冻结回执内容")),
                ("instance_revision", models.BigIntegerField(db_comment="提交后的实例版本，无实例时为0")),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                (
                    "operation",
                    recovery.models.fields.OneRef(
                        db_comment="管理操作，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.managementoperation",
                    ),
                ),
            ],
            options={
                "db_table_comment": "幂等回执",
            },
        ),
        migrations.CreateModel(
            name="RootContinuation",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="接续标识", serialize=False)),
                ("sequence", models.BigIntegerField(db_comment="接续序号")),
                (
                    "kind",
                    recovery.models.fields.Enum(
                        choices=[("START", "Start"), ("ADVANCE", "Advance"), ("RESUME", "Resume"), ("STOP", "Stop")],
                        db_comment="类型",
                        max_length=24,
                    ),
                ),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[("PENDING", "Pending"), ("DONE", "Done")], db_comment="状态", max_length=24
                    ),
                ),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                ("done_at", models.DateTimeField(db_comment="完成时间", null=True)),
                (
                    "instance",
                    recovery.models.fields.Ref(
                        db_comment="所属实例",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowinstance",
                    ),
                ),
            ],
            options={
                "db_table_comment": "根接续",
                "indexes": [
                    models.Index(fields=["status", "created_at"], name="rootcontinuation_sweep"),
                    models.Index(fields=["instance", "status", "sequence"], name="rootcontinuation_pending"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["START", "ADVANCE", "RESUME", "STOP"])),
                        name="rootcontinuation_kind_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["PENDING", "DONE"])), name="rootcontinuation_status_known"
                    ),
                    models.UniqueConstraint(fields=("instance", "sequence"), name="rootcontinuation_instance_sequence"),
                ],
            },
        ),
        migrations.CreateModel(
            name="InstanceGate",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="门控标识", serialize=False)),
                (
                    "state",
                    recovery.models.fields.Enum(
                        choices=[("OPEN", "Open"), ("CLOSED", "Closed")], db_comment="状态", max_length=24
                    ),
                ),
                ("generation", models.BigIntegerField(db_comment="门控代次，每次开合递增")),
                (
                    "instance",
                    recovery.models.fields.OneRef(
                        db_comment="所属实例，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowinstance",
                    ),
                ),
            ],
            options={
                "db_table_comment": "执行门控",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["OPEN", "CLOSED"])), name="instancegate_state_known"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="WorkflowStep",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="步骤标识", serialize=False)),
                ("step_key", recovery.models.fields.Key(db_comment="步骤键", max_length=128)),
                (
                    "kind",
                    recovery.models.fields.Enum(
                        choices=[
                            ("SEQUENCE", "Sequence"),
                            ("PARALLEL", "Parallel"),
                            ("TASK", "Task"),
                            ("POLL", "Poll"),
                            ("SIGNAL", "Signal"),
                            ("TIMER", "Timer"),
                        ],
                        db_comment="类型",
                        max_length=24,
                    ),
                ),
                ("parent_key", recovery.models.fields.Key(db_comment="父步骤键", max_length=128, null=True)),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[
                            ("PENDING", "Not started"),
                            ("RUNNING", "Running"),
                            ("WAITING", "Waiting"),
                            ("NEEDS_REVIEW", "Needs review"),
                            ("SUCCEEDED", "Succeeded"),
                            ("FAILED", "Failed"),
                            ("CANCELLED", "Cancelled"),
                        ],
                        db_comment="状态",
                        max_length=24,
                    ),
                ),
                ("revision", models.BigIntegerField(db_comment="步骤版本")),
                ("output", recovery.models.fields.Json(db_comment="步骤结论输出", null=True)),
                ("review_reason", recovery.models.fields.Key(db_comment="待核查原因", default="", max_length=64)),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                ("settled_at", models.DateTimeField(db_comment="结清时间", null=True)),
                (
                    "instance",
                    recovery.models.fields.Ref(
                        db_comment="所属实例",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowinstance",
                    ),
                ),
            ],
            options={
                "db_table_comment": "流程步骤",
                "indexes": [models.Index(fields=["instance", "status", "step_key"], name="workflowstep_status")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["SEQUENCE", "PARALLEL", "TASK", "POLL", "SIGNAL", "TIMER"])),
                        name="workflowstep_kind_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                ["PENDING", "RUNNING", "WAITING", "NEEDS_REVIEW", "SUCCEEDED", "FAILED", "CANCELLED"],
                            )
                        ),
                        name="workflowstep_status_known",
                    ),
                    models.UniqueConstraint(fields=("instance", "step_key"), name="workflowstep_instance_step_key"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Signal",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="信号标识", serialize=False)),
                ("generation", models.IntegerField(db_comment="目标激活代次")),
                ("name", recovery.models.fields.Key(db_comment="契约名", max_length=128)),
                ("correlation_key", recovery.models.fields.Key(db_comment="精确关联键", max_length=191)),
                ("source_key", recovery.models.fields.Key(db_comment="来源去重键", max_length=191)),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[("PENDING", "Pending"), ("CONSUMED", "Consumed"), ("REJECTED", "Rejected")],
                        db_comment="状态",
                        max_length=24,
                    ),
                ),
                ("disposition", recovery.models.fields.Key(db_comment="处置", default="", max_length=64)),
                ("payload", recovery.models.fields.Json(db_comment="内容")),
                ("accepted_at", models.DateTimeField(db_comment="受理时间")),
                ("settled_at", models.DateTimeField(db_comment="处置时间", null=True)),
                (
                    "instance",
                    recovery.models.fields.Ref(
                        db_comment="目标实例",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowinstance",
                    ),
                ),
                (
                    "step",
                    recovery.models.fields.Ref(
                        db_comment="目标步骤",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowstep",
                    ),
                ),
            ],
            options={
                "db_table_comment": "信号",
                "indexes": [
                    models.Index(fields=["instance", "status", "accepted_at"], name="signal_pending"),
                    models.Index(fields=["status", "accepted_at"], name="signal_sweep"),
                    models.Index(fields=["step", "generation", "status"], name="signal_step"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["PENDING", "CONSUMED", "REJECTED"])),
                        name="signal_status_known",
                    ),
                    models.UniqueConstraint(
                        fields=("instance", "step", "generation", "source_key"), name="signal_source_key"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="StepActivation",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="激活标识", serialize=False)),
                ("sequence", models.IntegerField(db_comment="激活序号(代次)")),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[
                            ("RUNNING", "Running"),
                            ("WAITING", "Waiting"),
                            ("NEEDS_REVIEW", "Needs review"),
                            ("SUCCEEDED", "Succeeded"),
                            ("FAILED", "Failed"),
                            ("CANCELLED", "Cancelled"),
                        ],
                        db_comment="状态",
                        max_length=24,
                    ),
                ),
                ("input", recovery.models.fields.Json(db_comment="首次固定输入")),
                ("input_digest", recovery.models.fields.Key(db_comment="输入摘要(SHA-256)", max_length=64)),
                ("output", recovery.models.fields.Json(db_comment="激活结论输出", null=True)),
                (
                    "cause",
                    recovery.models.fields.Enum(
                        choices=[("INITIAL", "First start"), ("RETRY", "RetryStep"), ("REARM", "RearmWait")],
                        db_comment="产生原因",
                        max_length=24,
                    ),
                ),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                ("settled_at", models.DateTimeField(db_comment="结清时间", null=True)),
                (
                    "concluded_by",
                    recovery.models.fields.Ref(
                        db_comment="人工结论的管理操作",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.managementoperation",
                    ),
                ),
                (
                    "instance",
                    recovery.models.fields.Ref(
                        db_comment="所属实例",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowinstance",
                    ),
                ),
                (
                    "step",
                    recovery.models.fields.Ref(
                        db_comment="所属步骤",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowstep",
                    ),
                ),
            ],
            options={
                "db_table_comment": "步骤激活",
                "indexes": [models.Index(fields=["instance", "created_at"], name="stepactivation_instance")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ["RUNNING", "WAITING", "NEEDS_REVIEW", "SUCCEEDED", "FAILED", "CANCELLED"])
                        ),
                        name="stepactivation_status_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("cause__in", ["INITIAL", "RETRY", "REARM"])),
                        name="stepactivation_cause_known",
                    ),
                    models.UniqueConstraint(fields=("step", "sequence"), name="stepactivation_step_sequence"),
                ],
            },
        ),
        migrations.CreateModel(
            name="PollBudget",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="预算标识", serialize=False)),
                ("in_flight", models.IntegerField(db_comment="在途请求数", default=0)),
                ("requests_used", models.IntegerField(db_comment="本激活已用请求尝试数", default=0)),
                ("next_checkpoint_at", models.DateTimeField(db_comment="后续检查点", null=True)),
                ("settled_at", models.DateTimeField(db_comment="结清时间，关闭后保留", null=True)),
                (
                    "activation",
                    recovery.models.fields.OneRef(
                        db_comment="所属激活，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.stepactivation",
                    ),
                ),
            ],
            options={
                "db_table_comment": "查询预算",
            },
        ),
        migrations.CreateModel(
            name="StepCheckpoint",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="检查点标识", serialize=False)),
                ("kind", recovery.models.fields.Key(db_comment="类型", max_length=32)),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[("OPEN", "Open"), ("CLOSED", "Closed")], db_comment="状态", max_length=24
                    ),
                ),
                ("opened_at", models.DateTimeField(db_comment="打开时间")),
                ("closed_at", models.DateTimeField(db_comment="关闭时间", null=True)),
                (
                    "activation",
                    recovery.models.fields.Ref(
                        db_comment="所属激活",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.stepactivation",
                    ),
                ),
            ],
            options={
                "db_table_comment": "检查点",
                "indexes": [models.Index(fields=["activation", "status"], name="stepcheckpoint_activation")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["OPEN", "CLOSED"])), name="stepcheckpoint_status_known"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="任务标识", serialize=False)),
                ("handler", recovery.models.fields.Key(db_comment="固定处理器名", max_length=128)),
                ("handler_version", recovery.models.fields.Key(db_comment="固定处理器版本", max_length=32)),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[
                            ("QUEUED", "Queued"),
                            ("RUNNING", "Running"),
                            ("SUCCEEDED", "Succeeded"),
                            ("FAILED", "Failed"),
                            ("CANCELLED", "Cancelled"),
                            ("NEEDS_REVIEW", "Effect unknown"),
                        ],
                        db_comment="状态",
                        max_length=24,
                    ),
                ),
                ("revision", models.BigIntegerField(db_comment="任务版本，每次变更递增")),
                ("priority", models.IntegerField(db_comment="优先级，大者先")),
                ("input", recovery.models.fields.Json(db_comment="固定输入")),
                ("input_digest", recovery.models.fields.Key(db_comment="输入摘要(SHA-256)", max_length=64)),
                ("policy", recovery.models.fields.Json(db_comment="固定执行策略")),
                ("business_key", recovery.models.fields.Key(db_comment="业务关联键", max_length=191)),
                ("concurrency_key", recovery.models.fields.Key(db_comment="互斥键", max_length=191, null=True)),
                ("max_attempts", models.IntegerField(db_comment="本任务尝试上限")),
                ("attempt_count", models.IntegerField(db_comment="已用尝试数", default=0)),
                ("latest_start_at", models.DateTimeField(db_comment="最晚开始时间", null=True)),
                ("deadline_at", models.DateTimeField(db_comment="任务绝对截止", null=True)),
                ("available_at", models.DateTimeField(db_comment="最早可领取时间")),
                ("held", models.BooleanField(db_comment="因门控关闭暂不参与领取", default=False)),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                ("settled_at", models.DateTimeField(db_comment="结清时间", null=True)),
                (
                    "application",
                    recovery.models.fields.Ref(
                        db_comment="所属应用",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.application",
                    ),
                ),
                (
                    "namespace",
                    recovery.models.fields.Ref(
                        db_comment="所属命名空间",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.namespace",
                    ),
                ),
                (
                    "owner_activation",
                    recovery.models.fields.Ref(
                        db_comment="所有者激活",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.stepactivation",
                    ),
                ),
                (
                    "queue",
                    recovery.models.fields.Ref(
                        db_comment="固定队列",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.queue",
                    ),
                ),
                (
                    "retry_of",
                    recovery.models.fields.OneRef(
                        db_comment="前一任务；同一任务只允许一个直接后继",
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.task",
                    ),
                ),
                (
                    "instance",
                    recovery.models.fields.Ref(
                        db_comment="所属实例",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowinstance",
                    ),
                ),
            ],
            options={
                "db_table_comment": "Pulse任务",
                "indexes": [
                    models.Index(
                        fields=["queue", "status", "held", "-priority", "available_at", "id"], name="task_claim"
                    ),
                    models.Index(fields=["status", "deadline_at"], name="task_deadline"),
                    models.Index(fields=["status", "latest_start_at"], name="task_latest"),
                    models.Index(fields=["instance", "status"], name="task_instance"),
                    models.Index(fields=["owner_activation"], name="task_owner"),
                    models.Index(fields=["instance", "held"], name="task_held"),
                    models.Index(fields=["business_key"], name="task_business"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "NEEDS_REVIEW"])
                        ),
                        name="task_status_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="QuotaHold",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="占用标识", serialize=False)),
                ("held_at", models.DateTimeField(db_comment="占用时间")),
                ("released_at", models.DateTimeField(db_comment="归还时间", null=True)),
                (
                    "application",
                    recovery.models.fields.Ref(
                        db_comment="占用的应用",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.application",
                    ),
                ),
                (
                    "queue",
                    recovery.models.fields.Ref(
                        db_comment="占用的队列",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.queue",
                    ),
                ),
                (
                    "task",
                    recovery.models.fields.OneRef(
                        db_comment="占用的任务，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.task",
                    ),
                ),
            ],
            options={
                "db_table_comment": "额度占用",
                "indexes": [
                    models.Index(fields=["application", "released_at"], name="quotahold_app_open"),
                    models.Index(fields=["queue", "released_at"], name="quotahold_queue_open"),
                ],
            },
        ),
        migrations.CreateModel(
            name="PollRound",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="轮次标识", serialize=False)),
                ("round", models.IntegerField(db_comment="业务轮次编号")),
                (
                    "outcome",
                    recovery.models.fields.Enum(
                        choices=[
                            ("OPEN", "Open"),
                            ("PENDING", "Answered pending"),
                            ("SUCCEEDED", "Answered succeeded"),
                            ("FAILED", "Failed"),
                            ("INVALID", "Answered outside the contract"),
                            ("UNKNOWN", "Unknown"),
                            ("CANCELLED", "Cancelled"),
                        ],
                        db_comment="本轮结论",
                        max_length=24,
                    ),
                ),
                ("deadline_at", models.DateTimeField(db_comment="本轮第一次任务的绝对截止")),
                ("started_at", models.DateTimeField(db_comment="开始时间")),
                ("settled_at", models.DateTimeField(db_comment="结清时间", null=True)),
                (
                    "activation",
                    recovery.models.fields.Ref(
                        db_comment="所属激活",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.stepactivation",
                    ),
                ),
                (
                    "task",
                    recovery.models.fields.OneRef(
                        db_comment="本轮任务，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.task",
                    ),
                ),
            ],
            options={
                "db_table_comment": "查询轮次",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "outcome__in",
                                ["OPEN", "PENDING", "SUCCEEDED", "FAILED", "INVALID", "UNKNOWN", "CANCELLED"],
                            )
                        ),
                        name="pollround_outcome_known",
                    ),
                    models.UniqueConstraint(fields=("activation", "round"), name="pollround_activation_round"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ExecutionAudit",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="执行审计标识", serialize=False)),
                ("actor", recovery.models.fields.Text(db_comment="操作者", max_length=150)),
                ("action", recovery.models.fields.Key(db_comment="动作", max_length=64)),
                ("from_status", recovery.models.fields.Key(db_comment="原状态", max_length=32)),
                ("to_status", recovery.models.fields.Key(db_comment="新状态", max_length=32)),
                ("task_revision", models.BigIntegerField(db_comment="变更后任务版本")),
                ("detail", recovery.models.fields.Json(db_comment="明细")),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                (
                    "operation",
                    recovery.models.fields.Ref(
                        db_comment="管理操作",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.managementoperation",
                    ),
                ),
                (
                    "task",
                    recovery.models.fields.Ref(
                        db_comment="所属任务",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.task",
                    ),
                ),
            ],
            options={
                "db_table_comment": "执行审计",
                "indexes": [models.Index(fields=["task", "created_at"], name="executionaudit_task")],
            },
        ),
        migrations.CreateModel(
            name="ActivationTask",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="归属标识", serialize=False)),
                ("round", models.IntegerField(db_comment="查询业务轮次，TASK为0")),
                (
                    "activation",
                    recovery.models.fields.Ref(
                        db_comment="激活",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.stepactivation",
                    ),
                ),
                (
                    "task",
                    recovery.models.fields.OneRef(
                        db_comment="任务，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.task",
                    ),
                ),
            ],
            options={
                "db_table_comment": "激活任务归属",
                "constraints": [
                    models.UniqueConstraint(fields=("activation", "round"), name="activationtask_activation_round")
                ],
            },
        ),
        migrations.CreateModel(
            name="TaskAttempt",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="尝试标识", serialize=False)),
                ("attempt_no", models.IntegerField(db_comment="任务内尝试序号")),
                ("worker", recovery.models.fields.Key(db_comment="执行者名称", max_length=128)),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[
                            ("RUNNING", "Running"),
                            ("SUCCEEDED", "Succeeded"),
                            ("FAILED", "Failed"),
                            ("UNKNOWN", "Unknown"),
                            ("CANCELLED", "Cancelled"),
                        ],
                        db_comment="状态",
                        max_length=24,
                    ),
                ),
                ("lease_token", recovery.models.fields.Key(db_comment="租约令牌", max_length=64)),
                ("lease_expires_at", models.DateTimeField(db_comment="租约到期时间")),
                ("started_at", models.DateTimeField(db_comment="开始时间")),
                ("heartbeat_at", models.DateTimeField(db_comment="最近心跳时间")),
                ("ended_at", models.DateTimeField(db_comment="结束时间", null=True)),
                ("error_code", recovery.models.fields.Key(db_comment="错误代码", default="", max_length=64)),
                ("error_message", recovery.models.fields.Text(db_comment="错误说明", default="", max_length=1024)),
                (
                    "task",
                    recovery.models.fields.Ref(
                        db_comment="所属任务",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.task",
                    ),
                ),
            ],
            options={
                "db_table_comment": "执行尝试",
                "indexes": [models.Index(fields=["status", "lease_expires_at"], name="taskattempt_lease")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["RUNNING", "SUCCEEDED", "FAILED", "UNKNOWN", "CANCELLED"])),
                        name="taskattempt_status_known",
                    ),
                    models.UniqueConstraint(fields=("task", "attempt_no"), name="taskattempt_task_attempt_no"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ExecutionPermit",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="许可标识", serialize=False)),
                (
                    "active_key",
                    recovery.models.fields.Key(
                        db_comment="有效互斥占用键(队列与互斥键)，释放后为空", max_length=300, null=True, unique=True
                    ),
                ),
                ("released_at", models.DateTimeField(db_comment="释放时间", null=True)),
                (
                    "queue",
                    recovery.models.fields.Ref(
                        db_comment="所属队列",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.queue",
                    ),
                ),
                (
                    "task",
                    recovery.models.fields.Ref(
                        db_comment="所属任务",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.task",
                    ),
                ),
                (
                    "attempt",
                    recovery.models.fields.OneRef(
                        db_comment="所属尝试，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.taskattempt",
                    ),
                ),
            ],
            options={
                "db_table_comment": "执行许可",
                "indexes": [
                    models.Index(fields=["task", "released_at"], name="executionpermit_task"),
                    models.Index(fields=["queue", "released_at"], name="executionpermit_queue"),
                ],
            },
        ),
        migrations.CreateModel(
            name="TaskResult",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="结果标识", serialize=False)),
                ("task_revision", models.BigIntegerField(db_comment="结果对应的任务版本")),
                (
                    "source",
                    recovery.models.fields.Enum(
                        choices=[
                            ("WORKER", "Worker"),
                            ("REAPER", "Lease reaper"),
                            ("REVIEW", "Review by a person"),
                            ("CONTROL", "Control"),
                            ("LATE", "Late report"),
                        ],
                        db_comment="结果来源",
                        max_length=24,
                    ),
                ),
                (
                    "outcome",
                    recovery.models.fields.Enum(
                        choices=[
                            ("SUCCEEDED", "Succeeded"),
                            ("FAILED", "Failed"),
                            ("UNKNOWN", "Unknown"),
                            ("CANCELLED", "Cancelled"),
                        ],
                        db_comment="结论",
                        max_length=24,
                    ),
                ),
                ("payload", recovery.models.fields.Json(db_comment="结果内容")),
                ("recorded_at", models.DateTimeField(db_comment="记录时间")),
                (
                    "attempt",
                    recovery.models.fields.Ref(
                        db_comment="产生结果的尝试",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.taskattempt",
                    ),
                ),
                (
                    "task",
                    recovery.models.fields.Ref(
                        db_comment="所属任务",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.task",
                    ),
                ),
            ],
            options={
                "db_table_comment": "任务结果",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("source__in", ["WORKER", "REAPER", "REVIEW", "CONTROL", "LATE"])),
                        name="taskresult_source_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("outcome__in", ["SUCCEEDED", "FAILED", "UNKNOWN", "CANCELLED"])),
                        name="taskresult_outcome_known",
                    ),
                    models.UniqueConstraint(fields=("task", "task_revision"), name="taskresult_task_task_revision"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ResultEvent",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="事件标识", serialize=False)),
                ("offset", models.BigIntegerField(db_comment="流内位点")),
                ("task_revision", models.BigIntegerField(db_comment="来源任务版本")),
                ("payload_digest", recovery.models.fields.Key(db_comment="结果内容摘要(SHA-256)", max_length=64)),
                ("occurred_at", models.DateTimeField(db_comment="事件时间")),
                (
                    "stream",
                    recovery.models.fields.Ref(
                        db_comment="所属结果流",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.resultstream",
                    ),
                ),
                (
                    "activation",
                    recovery.models.fields.Ref(
                        db_comment="固定的原激活",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.stepactivation",
                    ),
                ),
                (
                    "task",
                    recovery.models.fields.Ref(
                        db_comment="来源任务",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.task",
                    ),
                ),
                (
                    "result",
                    recovery.models.fields.OneRef(
                        db_comment="来源结果，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.taskresult",
                    ),
                ),
            ],
            options={
                "db_table_comment": "Pulse结果事件",
                "indexes": [models.Index(fields=["task", "task_revision"], name="resultevent_task")],
                "constraints": [models.UniqueConstraint(fields=("stream", "offset"), name="resultevent_stream_offset")],
            },
        ),
        migrations.CreateModel(
            name="WaitState",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="等待标识", serialize=False)),
                (
                    "kind",
                    recovery.models.fields.Enum(
                        choices=[("SIGNAL", "Signal"), ("TIMER", "Timer"), ("POLL_FINAL", "Final signal of a query")],
                        db_comment="类型",
                        max_length=24,
                    ),
                ),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[
                            ("WAITING", "Waiting"),
                            ("MATCHED", "Matched"),
                            ("EXPIRED", "Expired"),
                            ("CANCELLED", "Closed"),
                        ],
                        db_comment="状态",
                        max_length=24,
                    ),
                ),
                ("correlation_key", recovery.models.fields.Key(db_comment="精确关联键", max_length=191)),
                ("deadline_at", models.DateTimeField(db_comment="原等待截止", null=True)),
                ("settled_at", models.DateTimeField(db_comment="结清时间", null=True)),
                (
                    "activation",
                    recovery.models.fields.OneRef(
                        db_comment="所属激活，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.stepactivation",
                    ),
                ),
                (
                    "winner_signal",
                    recovery.models.fields.Ref(
                        db_comment="已选中的最终赢家",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.signal",
                    ),
                ),
            ],
            options={
                "db_table_comment": "等待",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["SIGNAL", "TIMER", "POLL_FINAL"])), name="waitstate_kind_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["WAITING", "MATCHED", "EXPIRED", "CANCELLED"])),
                        name="waitstate_status_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="WorkflowAudit",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="流程审计标识", serialize=False)),
                ("sequence", models.BigIntegerField(db_comment="实例内审计序号")),
                ("actor", recovery.models.fields.Text(db_comment="操作者", max_length=150)),
                ("action", recovery.models.fields.Key(db_comment="动作", max_length=64)),
                ("reason", recovery.models.fields.Text(db_comment="原因", default="", max_length=1024)),
                ("evidence_ref", recovery.models.fields.Key(db_comment="证据引用", default="", max_length=512)),
                ("before", recovery.models.fields.Json(db_comment="变更前")),
                ("after", recovery.models.fields.Json(db_comment="变更后")),
                ("previous_hash", recovery.models.fields.Key(db_comment="前一条审计散列", max_length=64)),
                ("entry_hash", recovery.models.fields.Key(db_comment="本条审计散列", max_length=64)),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                (
                    "execution_audit",
                    recovery.models.fields.Ref(
                        db_comment="引用的执行审计",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.executionaudit",
                    ),
                ),
                (
                    "operation",
                    recovery.models.fields.OneRef(
                        db_comment="管理操作，唯一",
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.managementoperation",
                    ),
                ),
                (
                    "instance",
                    recovery.models.fields.Ref(
                        db_comment="所属实例",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowinstance",
                    ),
                ),
            ],
            options={
                "db_table_comment": "流程审计",
                "indexes": [
                    models.Index(fields=["actor", "-created_at"], name="workflowaudit_actor"),
                    models.Index(fields=["action", "-created_at"], name="workflowaudit_action"),
                    models.Index(fields=["-created_at"], name="workflowaudit_created"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("instance", "sequence"), name="workflowaudit_instance_sequence")
                ],
            },
        ),
        migrations.CreateModel(
            name="PollState",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="查询状态标识", serialize=False)),
                ("used_rounds", models.IntegerField(db_comment="从首次激活起的业务轮次编号")),
                ("deadline_at", models.DateTimeField(db_comment="查询总截止，基于首次激活创建时间")),
                ("next_poll_at", models.DateTimeField(db_comment="下一查询时间", null=True)),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[
                            ("POLLING", "Polling"),
                            ("WAITING", "Waiting for the next round"),
                            ("SETTLED", "Settled"),
                        ],
                        db_comment="状态",
                        max_length=24,
                    ),
                ),
                ("settled_at", models.DateTimeField(db_comment="结清时间", null=True)),
                (
                    "activation",
                    recovery.models.fields.OneRef(
                        db_comment="所属激活，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.stepactivation",
                    ),
                ),
                (
                    "proof",
                    recovery.models.fields.Ref(
                        db_comment="接续证明的审计",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowaudit",
                    ),
                ),
            ],
            options={
                "db_table_comment": "查询状态",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["POLLING", "WAITING", "SETTLED"])),
                        name="pollstate_status_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="StepClock",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="时钟标识", serialize=False)),
                (
                    "kind",
                    recovery.models.fields.Enum(
                        choices=[
                            ("NEXT_ROUND", "Next round"),
                            ("POLL_DEADLINE", "Query deadline"),
                            ("TIMER", "Timer"),
                            ("WAIT_DEADLINE", "Wait deadline"),
                            ("TASK_DEADLINE", "Task deadline"),
                            ("INSTANCE_DEADLINE", "Instance deadline"),
                            ("SCHEDULE_RETRY", "Schedule again"),
                        ],
                        db_comment="类型",
                        max_length=24,
                    ),
                ),
                ("due_at", models.DateTimeField(db_comment="到期时间")),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[("ARMED", "Armed"), ("FIRED", "Fired"), ("CANCELLED", "Set aside")],
                        db_comment="状态",
                        max_length=24,
                    ),
                ),
                ("fired_at", models.DateTimeField(db_comment="触发时间", null=True)),
                (
                    "activation",
                    recovery.models.fields.Ref(
                        db_comment="所属激活，实例截止时为空",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.stepactivation",
                    ),
                ),
                (
                    "instance",
                    recovery.models.fields.Ref(
                        db_comment="所属实例",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowinstance",
                    ),
                ),
            ],
            options={
                "db_table_comment": "时钟",
                "indexes": [
                    models.Index(fields=["status", "due_at"], name="stepclock_due"),
                    models.Index(fields=["instance", "status", "kind"], name="stepclock_instance"),
                    models.Index(fields=["activation", "status"], name="stepclock_activation"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "kind__in",
                                [
                                    "NEXT_ROUND",
                                    "POLL_DEADLINE",
                                    "TIMER",
                                    "WAIT_DEADLINE",
                                    "TASK_DEADLINE",
                                    "INSTANCE_DEADLINE",
                                    "SCHEDULE_RETRY",
                                ],
                            )
                        ),
                        name="stepclock_kind_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["ARMED", "FIRED", "CANCELLED"])),
                        name="stepclock_status_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="InboxEvent",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="收件标识", serialize=False)),
                ("task_revision", models.BigIntegerField(db_comment="来源任务版本")),
                (
                    "status",
                    recovery.models.fields.Enum(
                        choices=[("PENDING", "Pending"), ("PROCESSED", "Processed"), ("QUARANTINED", "Quarantined")],
                        db_comment="状态",
                        max_length=24,
                    ),
                ),
                ("disposition", recovery.models.fields.Key(db_comment="处置", default="", max_length=64)),
                ("received_at", models.DateTimeField(db_comment="接收时间")),
                ("processed_at", models.DateTimeField(db_comment="处置时间", null=True)),
                (
                    "result_event",
                    recovery.models.fields.OneRef(
                        db_comment="来源事件，唯一",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.resultevent",
                    ),
                ),
                (
                    "activation",
                    recovery.models.fields.Ref(
                        db_comment="来源激活",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.stepactivation",
                    ),
                ),
                (
                    "task",
                    recovery.models.fields.Ref(
                        db_comment="来源任务",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.task",
                    ),
                ),
                (
                    "instance",
                    recovery.models.fields.Ref(
                        db_comment="所属实例",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.workflowinstance",
                    ),
                ),
            ],
            options={
                "db_table_comment": "内部收件",
                "indexes": [
                    models.Index(fields=["instance", "status"], name="inboxevent_unsettled"),
                    models.Index(fields=["status", "received_at"], name="inboxevent_sweep"),
                    models.Index(fields=["task", "task_revision"], name="inboxevent_task"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["PENDING", "PROCESSED", "QUARANTINED"])),
                        name="inboxevent_status_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Credential",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="凭据标识", serialize=False)),
                ("user", models.BigIntegerField(db_comment="操作者账号主键")),
                ("label", recovery.models.fields.Text(db_comment="用途说明", max_length=128)),
                ("secret_hash", recovery.models.fields.Key(db_comment="密钥散列，不存明文", max_length=255)),
                ("expires_at", models.DateTimeField(db_comment="过期时间", null=True)),
                ("revoked_at", models.DateTimeField(db_comment="吊销时间", null=True)),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
                (
                    "application",
                    recovery.models.fields.Ref(
                        db_comment="限定应用，空为整个命名空间",
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.application",
                    ),
                ),
                (
                    "namespace",
                    recovery.models.fields.Ref(
                        db_comment="凭据所属命名空间",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="recovery.namespace",
                    ),
                ),
            ],
            options={
                "db_table_comment": "凭据",
                "indexes": [models.Index(fields=["user"], name="credential_user")],
            },
        ),
        migrations.AddField(
            model_name="workflowstep",
            name="current_activation",
            field=recovery.models.fields.Ref(
                db_comment="当前激活",
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="recovery.stepactivation",
            ),
        ),
    ]
