"""What an activation waits for: query rounds, signals, clocks, and the inbox of results."""

from django.db import models

from recovery.models.fields import Enum, Id, Json, Key, OneRef, Ref, in_states
from recovery.states import (
    CheckpointStatus,
    ClockKind,
    ClockStatus,
    InboxStatus,
    PollStatus,
    RoundOutcome,
    SignalStatus,
    WaitKind,
    WaitStatus,
)


class PollState(models.Model):
    """One per POLL activation."""

    id = Id(db_comment="查询状态标识")
    activation = OneRef("StepActivation", db_comment="所属激活，唯一")
    first_round = models.IntegerField(db_comment="当前激活保存的首个业务轮次")
    first_round_attempts_used = models.IntegerField(db_comment="首轮在此前激活已用的请求尝试数")
    used_rounds = models.IntegerField(db_comment="从首次激活起的业务轮次编号")
    deadline_at = models.DateTimeField(db_comment="查询总截止，基于首次激活创建时间")
    next_poll_at = models.DateTimeField(null=True, db_comment="下一查询时间")
    # written by ContinuePoll, checked before the next round
    proof = Ref("WorkflowAudit", null=True, db_comment="接续证明的审计")
    status = Enum(choices=PollStatus, db_comment="状态")
    settled_at = models.DateTimeField(null=True, db_comment="结清时间")

    class Meta:
        db_table_comment = "查询状态"
        constraints = [
            in_states("pollstate", "status", PollStatus),
        ]


class PollRound(models.Model):
    """One business question of a query."""

    id = Id(db_comment="轮次标识")
    activation = Ref("StepActivation", db_comment="所属激活")
    round = models.IntegerField(db_comment="业务轮次编号")
    task = OneRef("Task", db_comment="本轮任务，唯一")
    # INVALID: answered outside the contract or the map
    outcome = Enum(choices=RoundOutcome, db_comment="本轮结论")
    deadline_at = models.DateTimeField(db_comment="本轮第一次任务的绝对截止")
    started_at = models.DateTimeField(db_comment="开始时间")
    settled_at = models.DateTimeField(null=True, db_comment="结清时间")

    class Meta:
        db_table_comment = "查询轮次"
        constraints = [
            in_states("pollround", "outcome", RoundOutcome),
            models.UniqueConstraint(fields=["activation", "round"], name="pollround_activation_round"),
        ]


class PollBudget(models.Model):
    """Requests of one activation of a query."""

    id = Id(db_comment="预算标识")
    activation = OneRef("StepActivation", db_comment="所属激活，唯一")
    in_flight = models.IntegerField(default=0, db_comment="在途请求数")
    requests_used = models.IntegerField(default=0, db_comment="本激活已用请求尝试数")
    next_checkpoint_at = models.DateTimeField(null=True, db_comment="后续检查点")
    settled_at = models.DateTimeField(null=True, db_comment="结清时间，关闭后保留")

    class Meta:
        db_table_comment = "查询预算"


class WaitState(models.Model):
    """SIGNAL and TIMER leaves, and the final signal of a POLL; its generation is its activation's sequence."""

    id = Id(db_comment="等待标识")
    activation = OneRef("StepActivation", db_comment="所属激活，唯一")
    kind = Enum(choices=WaitKind, db_comment="类型")
    status = Enum(choices=WaitStatus, db_comment="状态")
    correlation_key = Key(max_length=191, db_comment="精确关联键")
    deadline_at = models.DateTimeField(null=True, db_comment="原等待截止")
    winner_signal = Ref("Signal", null=True, db_comment="已选中的最终赢家")
    settled_at = models.DateTimeField(null=True, db_comment="结清时间")

    class Meta:
        db_table_comment = "等待"
        constraints = [
            in_states("waitstate", "kind", WaitKind),
            in_states("waitstate", "status", WaitStatus),
        ]


class Signal(models.Model):
    """Every accepted signal is kept, also the rejected."""

    id = Id(db_comment="信号标识")
    instance = Ref("WorkflowInstance", db_comment="目标实例")
    step = Ref("WorkflowStep", db_comment="目标步骤")
    generation = models.IntegerField(db_comment="目标激活代次")
    name = Key(max_length=128, db_comment="契约名")
    correlation_key = Key(max_length=191, db_comment="精确关联键")
    source_key = Key(max_length=191, db_comment="来源去重键")
    status = Enum(choices=SignalStatus, db_comment="状态")
    # MATCHED, STALE_ACTIVATION, WAIT_CLOSED, EXPIRED, CONTRACT_VIOLATION ...
    disposition = Key(max_length=64, default="", db_comment="处置")
    payload = Json(db_comment="内容")
    accepted_at = models.DateTimeField(db_comment="受理时间")
    settled_at = models.DateTimeField(null=True, db_comment="处置时间")

    class Meta:
        db_table_comment = "信号"
        constraints = [
            in_states("signal", "status", SignalStatus),
            models.UniqueConstraint(fields=["instance", "step", "generation", "source_key"], name="signal_source_key"),
        ]
        indexes = [
            # adjudication: pending signals of an instance in order of acceptance
            models.Index(fields=["instance", "status", "accepted_at"], name="signal_pending"),
            # sweep: signals not adjudicated yet
            models.Index(fields=["status", "accepted_at"], name="signal_sweep"),
            # case: pending signals of the current generation
            models.Index(fields=["step", "generation", "status"], name="signal_step"),
        ]


class InboxEvent(models.Model):
    """Inserted PENDING in the transaction that publishes the event, before the stream lock."""

    id = Id(db_comment="收件标识")
    instance = Ref("WorkflowInstance", db_comment="所属实例")
    activation = Ref("StepActivation", db_comment="来源激活")
    task = Ref("Task", db_comment="来源任务")
    task_revision = models.BigIntegerField(db_comment="来源任务版本")
    result_event = OneRef("ResultEvent", db_comment="来源事件，唯一")
    status = Enum(choices=InboxStatus, db_comment="状态")
    # ADVANCED, ROUND_PENDING, REVIEW_RAISED, STALE_ACTIVATION, STEP_ALREADY_SETTLED, SOURCE_CORRUPT ...
    disposition = Key(max_length=64, default="", db_comment="处置")
    received_at = models.DateTimeField(db_comment="接收时间")
    processed_at = models.DateTimeField(null=True, db_comment="处置时间")

    class Meta:
        db_table_comment = "内部收件"
        constraints = [
            in_states("inboxevent", "status", InboxStatus),
        ]
        indexes = [
            # consumption and G6: unsettled events of an instance
            models.Index(fields=["instance", "status"], name="inboxevent_unsettled"),
            # sweep: events not consumed yet; system page: backlog, quarantine
            models.Index(fields=["status", "received_at"], name="inboxevent_sweep"),
            # case: the inbox row of a settled revision (G6)
            models.Index(fields=["task", "task_revision"], name="inboxevent_task"),
        ]


class StepClock(models.Model):
    """Due times the clock runner fires."""

    id = Id(db_comment="时钟标识")
    instance = Ref("WorkflowInstance", db_comment="所属实例")
    activation = Ref("StepActivation", null=True, db_comment="所属激活，实例截止时为空")
    kind = Enum(choices=ClockKind, db_comment="类型")
    due_at = models.DateTimeField(db_comment="到期时间")
    status = Enum(choices=ClockStatus, db_comment="状态")
    fired_at = models.DateTimeField(null=True, db_comment="触发时间")

    class Meta:
        db_table_comment = "时钟"
        constraints = [
            in_states("stepclock", "kind", ClockKind),
            in_states("stepclock", "status", ClockStatus),
        ]
        indexes = [
            # clock runner: what is due
            models.Index(fields=["status", "due_at"], name="stepclock_due"),
            # gate opened: clocks set aside; instance page
            models.Index(fields=["instance", "status", "kind"], name="stepclock_instance"),
            # effects: the armed clocks of an activation
            models.Index(fields=["activation", "status"], name="stepclock_activation"),
        ]


class StepCheckpoint(models.Model):
    """What an activation still owes before it counts as settled."""

    id = Id(db_comment="检查点标识")
    activation = Ref("StepActivation", db_comment="所属激活")
    # TASK_RESULT, ROUND, WAIT ...
    kind = Key(max_length=32, db_comment="类型")
    status = Enum(choices=CheckpointStatus, db_comment="状态")
    opened_at = models.DateTimeField(db_comment="打开时间")
    closed_at = models.DateTimeField(null=True, db_comment="关闭时间")

    class Meta:
        db_table_comment = "检查点"
        constraints = [
            in_states("stepcheckpoint", "status", CheckpointStatus),
        ]
        indexes = [
            # effects: the open checkpoints of an activation
            models.Index(fields=["activation", "status"], name="stepcheckpoint_activation"),
        ]
