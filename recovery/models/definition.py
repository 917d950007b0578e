"""Published definitions: immutable trees of steps."""

from django.db import models

from recovery.models.fields import Enum, Id, Json, Key, Ref, Text, in_states
from recovery.states import StepKind


class WorkflowDefinition(models.Model):
    """The name under which versions are published."""

    id = Id(db_comment="定义标识")
    namespace = Ref("Namespace", db_comment="所属命名空间")
    name = Key(max_length=128, db_comment="定义名，命名空间内唯一")
    created_at = models.DateTimeField(db_comment="创建时间")

    class Meta:
        db_table_comment = "流程定义"
        constraints = [
            models.UniqueConstraint(fields=["namespace", "name"], name="workflowdefinition_namespace_name"),
        ]


class DefinitionVersion(models.Model):
    """Immutable once published."""

    id = Id(db_comment="版本标识")
    definition = Ref("WorkflowDefinition", db_comment="所属定义")
    version = models.IntegerField(db_comment="版本号")
    graph_digest = Key(max_length=64, db_comment="图、契约与时限的摘要(SHA-256)")
    input_schema = Json(db_comment="输入契约(JSON Schema)")
    max_duration_ms = models.BigIntegerField(db_comment="实例最长持续毫秒数")
    published_by = Text(max_length=150, db_comment="发布者")
    published_at = models.DateTimeField(db_comment="发布时间")

    class Meta:
        db_table_comment = "定义版本"
        constraints = [
            models.UniqueConstraint(fields=["definition", "version"], name="definitionversion_definition_version"),
            models.UniqueConstraint(
                fields=["definition", "graph_digest"], name="definitionversion_definition_graph_digest"
            ),
        ]


class StepDefinition(models.Model):
    """Node of the tree: SEQUENCE and PARALLEL hold children, the four others are leaves."""

    id = Id(db_comment="步骤定义标识")
    definition_version = Ref("DefinitionVersion", db_comment="所属定义版本")
    step_key = Key(max_length=128, db_comment="步骤键，版本内唯一")
    kind = Enum(choices=StepKind, db_comment="类型")
    parent_key = Key(max_length=128, null=True, db_comment="父步骤键，根为空")
    position = models.IntegerField(db_comment="兄弟顺序")
    queue = Ref("Queue", null=True, db_comment="固定队列")
    handler = Key(max_length=128, default="", db_comment="固定处理器名")
    handler_version = Key(max_length=32, default="", db_comment="固定处理器版本")
    max_attempts = models.IntegerField(null=True, db_comment="尝试上限(POLL为单轮上限)")
    # retryable codes, backoff, priority, keys, on_failure REVIEW or FAIL
    policy = Json(db_comment="执行策略与失败处理")
    input_template = Json(db_comment="输入映射")
    output_contract = Json(db_comment="输出契约(JSON Schema)")
    outcome_map = Json(null=True, db_comment="查询结果映射 PENDING/SUCCEEDED/FAILED")
    interval_ms = models.BigIntegerField(null=True, db_comment="查询间隔毫秒")
    max_rounds = models.IntegerField(null=True, db_comment="查询轮次上限")
    timeout_ms = models.BigIntegerField(null=True, db_comment="单任务时限毫秒")
    total_timeout_ms = models.BigIntegerField(null=True, db_comment="查询或等待总时限毫秒")
    delay_ms = models.BigIntegerField(null=True, db_comment="定时等待毫秒")
    # name, schema, correlation template; on SIGNAL, and on POLL as its final signal
    signal_contract = Json(null=True, db_comment="信号契约")

    class Meta:
        db_table_comment = "步骤定义"
        constraints = [
            in_states("stepdefinition", "kind", StepKind),
            models.UniqueConstraint(
                fields=["definition_version", "step_key"], name="stepdefinition_definition_version_step_key"
            ),
        ]


class DefinitionQueue(models.Model):
    """The version's queues; locked in ascending primary key, whatever the version."""

    id = Id(db_comment="引用标识")
    definition_version = Ref("DefinitionVersion", db_comment="所属定义版本")
    queue = Ref("Queue", db_comment="队列")

    class Meta:
        db_table_comment = "固定队列引用"
        constraints = [
            models.UniqueConstraint(
                fields=["definition_version", "queue"], name="definitionqueue_definition_version_queue"
            ),
        ]
