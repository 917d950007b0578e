"""Pulse, the task layer: tasks, attempts, permits, results and their events."""

from django.db import models

from recovery.models.fields import Enum, Id, Json, Key, OneRef, Ref, Text, in_states
from recovery.states import AttemptStatus, ResultOutcome, ResultSource, TaskStatus


class Task(models.Model):
    """One unit of external work; its request budget is max_attempts."""

    id = Id(db_comment="任务标识")
    namespace = Ref("Namespace", db_comment="所属命名空间")
    application = Ref("Application", db_comment="所属应用")
    instance = Ref("WorkflowInstance", db_comment="所属实例")
    queue = Ref("Queue", db_comment="固定队列")
    handler = Key(max_length=128, db_comment="固定处理器名")
    handler_version = Key(max_length=32, db_comment="固定处理器版本")
    # NEEDS_REVIEW = effect unknown
    status = Enum(choices=TaskStatus, db_comment="状态")
    revision = models.BigIntegerField(db_comment="任务版本，每次变更递增")
    priority = models.IntegerField(db_comment="优先级，大者先")
    input = Json(db_comment="固定输入")
    input_digest = Key(max_length=64, db_comment="输入摘要(SHA-256)")
    # retryable errors, backoff
    policy = Json(db_comment="固定执行策略")
    business_key = Key(max_length=191, db_comment="业务关联键")
    concurrency_key = Key(max_length=191, null=True, db_comment="互斥键")
    # the other half of ActivationTask
    owner_activation = Ref("StepActivation", db_comment="所有者激活")
    max_attempts = models.IntegerField(db_comment="本任务尝试上限")
    attempt_count = models.IntegerField(default=0, db_comment="已用尝试数")
    retry_of = OneRef("self", null=True, db_comment="前一任务；同一任务只允许一个直接后继")
    latest_start_at = models.DateTimeField(null=True, db_comment="最晚开始时间")
    deadline_at = models.DateTimeField(null=True, db_comment="任务绝对截止")
    available_at = models.DateTimeField(db_comment="最早可领取时间")
    # set by a claim that met a closed gate, cleared in chunks after it opens; keeps claims quick
    held = models.BooleanField(default=False, db_comment="因门控关闭暂不参与领取")
    created_at = models.DateTimeField(db_comment="创建时间")
    settled_at = models.DateTimeField(null=True, db_comment="结清时间")

    class Meta:
        db_table_comment = "Pulse任务"
        constraints = [
            in_states("task", "status", TaskStatus),
        ]
        indexes = [
            # claim: the next candidates of a queue
            models.Index(fields=["queue", "status", "held", "-priority", "available_at", "id"], name="task_claim"),
            # reaper: queued tasks past their deadline
            models.Index(fields=["status", "deadline_at"], name="task_deadline"),
            # reaper: queued tasks past their latest start
            models.Index(fields=["status", "latest_start_at"], name="task_latest"),
            # stop: unstarted tasks of an instance; terminal check (B10)
            models.Index(fields=["instance", "status"], name="task_instance"),
            # case: the forward half of the ownership (G11)
            models.Index(fields=["owner_activation"], name="task_owner"),
            # gate opened: held tasks to release in chunks
            models.Index(fields=["instance", "held"], name="task_held"),
            # search: land on a business key
            models.Index(fields=["business_key"], name="task_business"),
        ]


class TaskAttempt(models.Model):
    """Kept for ever, also when unknown."""

    id = Id(db_comment="尝试标识")
    task = Ref("Task", db_comment="所属任务")
    attempt_no = models.IntegerField(db_comment="任务内尝试序号")
    worker = Key(max_length=128, db_comment="执行者名称")
    status = Enum(choices=AttemptStatus, db_comment="状态")
    lease_token = Key(max_length=64, db_comment="租约令牌")
    lease_expires_at = models.DateTimeField(db_comment="租约到期时间")
    started_at = models.DateTimeField(db_comment="开始时间")
    heartbeat_at = models.DateTimeField(db_comment="最近心跳时间")
    ended_at = models.DateTimeField(null=True, db_comment="结束时间")
    error_code = Key(max_length=64, default="", db_comment="错误代码")
    error_message = Text(max_length=1024, default="", db_comment="错误说明")

    class Meta:
        db_table_comment = "执行尝试"
        constraints = [
            in_states("taskattempt", "status", AttemptStatus),
            models.UniqueConstraint(fields=["task", "attempt_no"], name="taskattempt_task_attempt_no"),
        ]
        indexes = [
            # reaper: leases that ran out
            models.Index(fields=["status", "lease_expires_at"], name="taskattempt_lease"),
        ]


class ExecutionPermit(models.Model):
    """The slot an attempt holds in its queue and for its concurrency key."""

    id = Id(db_comment="许可标识")
    queue = Ref("Queue", db_comment="所属队列")
    task = Ref("Task", db_comment="所属任务")
    attempt = OneRef("TaskAttempt", db_comment="所属尝试，唯一")
    active_key = Key(max_length=300, unique=True, null=True, db_comment="有效互斥占用键(队列与互斥键)，释放后为空")
    released_at = models.DateTimeField(null=True, db_comment="释放时间")

    class Meta:
        db_table_comment = "执行许可"
        indexes = [
            # case: permits of a task that are still taken
            models.Index(fields=["task", "released_at"], name="executionpermit_task"),
            # queue page: permits that are still taken
            models.Index(fields=["queue", "released_at"], name="executionpermit_queue"),
        ]


class TaskResult(models.Model):
    """One per settled task revision; a review adds a row, never rewrites one."""

    id = Id(db_comment="结果标识")
    task = Ref("Task", db_comment="所属任务")
    task_revision = models.BigIntegerField(db_comment="结果对应的任务版本")
    attempt = Ref("TaskAttempt", null=True, db_comment="产生结果的尝试")
    # LATE is only recorded and never authoritative
    source = Enum(choices=ResultSource, db_comment="结果来源")
    outcome = Enum(choices=ResultOutcome, db_comment="结论")
    payload = Json(db_comment="结果内容")
    recorded_at = models.DateTimeField(db_comment="记录时间")

    class Meta:
        db_table_comment = "任务结果"
        constraints = [
            in_states("taskresult", "source", ResultSource),
            in_states("taskresult", "outcome", ResultOutcome),
            models.UniqueConstraint(fields=["task", "task_revision"], name="taskresult_task_task_revision"),
        ]


class ResultStream(models.Model):
    """One per namespace; its row is the last lock of any transaction."""

    id = Id(db_comment="结果流标识")
    namespace = OneRef("Namespace", db_comment="所属命名空间，唯一")
    next_offset = models.BigIntegerField(db_comment="下一事件位点")

    class Meta:
        db_table_comment = "结果流"


class ResultEvent(models.Model):
    """A settled task revision, at its place in the stream."""

    id = Id(db_comment="事件标识")
    stream = Ref("ResultStream", db_comment="所属结果流")
    offset = models.BigIntegerField(db_comment="流内位点")
    task = Ref("Task", db_comment="来源任务")
    task_revision = models.BigIntegerField(db_comment="来源任务版本")
    result = OneRef("TaskResult", db_comment="来源结果，唯一")
    activation = Ref("StepActivation", db_comment="固定的原激活")
    payload_digest = Key(max_length=64, db_comment="结果内容摘要(SHA-256)")
    occurred_at = models.DateTimeField(db_comment="事件时间")

    class Meta:
        db_table_comment = "Pulse结果事件"
        constraints = [
            models.UniqueConstraint(fields=["stream", "offset"], name="resultevent_stream_offset"),
        ]
        indexes = [
            # case: the event of a settled revision (CP1, CO1)
            models.Index(fields=["task", "task_revision"], name="resultevent_task"),
        ]


class ExecutionAudit(models.Model):
    """Append-only."""

    id = Id(db_comment="执行审计标识")
    task = Ref("Task", db_comment="所属任务")
    operation = Ref("ManagementOperation", null=True, db_comment="管理操作")
    actor = Text(max_length=150, db_comment="操作者")
    action = Key(max_length=64, db_comment="动作")
    from_status = Key(max_length=32, db_comment="原状态")
    to_status = Key(max_length=32, db_comment="新状态")
    task_revision = models.BigIntegerField(db_comment="变更后任务版本")
    detail = Json(db_comment="明细")
    created_at = models.DateTimeField(db_comment="创建时间")

    class Meta:
        db_table_comment = "执行审计"
        indexes = [
            # task page: what happened to a task
            models.Index(fields=["task", "created_at"], name="executionaudit_task"),
        ]
