"""One running workflow: its steps, their activations and what the scheduler still owes."""

from django.db import models

from recovery.models.fields import Enum, Id, Json, Key, OneRef, Ref, Text, in_states
from recovery.states import (
    ActivationCause,
    ActivationStatus,
    ContinuationKind,
    ContinuationStatus,
    GateState,
    InstanceStatus,
    StepKind,
    StepStatus,
    StopKind,
)


class WorkflowInstance(models.Model):
    """One run of a definition version."""

    id = Id(db_comment="实例标识")
    namespace = Ref("Namespace", db_comment="所属命名空间")
    application = Ref("Application", db_comment="所属应用")
    definition = Ref("WorkflowDefinition", db_comment="流程定义")
    definition_version = Ref("DefinitionVersion", db_comment="固定定义版本")
    business_key = Key(max_length=191, db_comment="业务关联键")
    status = Enum(choices=InstanceStatus, db_comment="状态")
    revision = models.BigIntegerField(db_comment="证据版本，任何事实变更都递增")
    control_revision = models.BigIntegerField(db_comment="控制版本，控制与人工操作递增")
    paused = models.BooleanField(default=False, db_comment="显式暂停")
    stop_kind = Enum(choices=StopKind, null=True, db_comment="停止意图")
    review_reason = Key(max_length=64, default="", db_comment="进入核查的原因")
    review_since = models.DateTimeField(null=True, db_comment="进入核查的时间")
    input = Json(db_comment="固定输入")
    output = Json(null=True, db_comment="最终输出")
    deadline_at = models.DateTimeField(db_comment="实例绝对截止")
    created_by = Text(max_length=150, db_comment="创建者")
    created_at = models.DateTimeField(db_comment="创建时间")
    # anchors the chain's tail
    audit_head = Key(max_length=80, default="", db_comment="审计链头: 序号与散列")
    settled_at = models.DateTimeField(null=True, db_comment="结清时间")

    class Meta:
        db_table_comment = "流程实例"
        constraints = [
            in_states("workflowinstance", "status", InstanceStatus),
            in_states("workflowinstance", "stop_kind", StopKind),
            models.UniqueConstraint(
                fields=["namespace", "application", "business_key"], name="workflowinstance_business_key"
            ),
        ]
        indexes = [
            # instance list by status
            models.Index(fields=["namespace", "status", "-created_at", "-id"], name="workflowinstance_status"),
            # instance list
            models.Index(fields=["namespace", "-created_at", "-id"], name="workflowinstance_created"),
            # review queue: by reason, counts
            models.Index(
                fields=["namespace", "status", "review_reason", "review_since"], name="workflowinstance_reason"
            ),
            # review queue: passed deadlines, the longest first
            models.Index(fields=["status", "deadline_at", "id", "namespace"], name="workflowinstance_deadline"),
            # instance list by definition; definition page: running instances by status
            models.Index(fields=["definition", "status", "-created_at", "-id"], name="workflowinstance_definition"),
            # definition page: instances of a version by status
            models.Index(fields=["definition_version", "status"], name="workflowinstance_version"),
            # search: exact and prefix of a business key
            models.Index(fields=["business_key"], name="workflowinstance_business"),
        ]


class InstanceGate(models.Model):
    """No attempt is granted while it is closed."""

    id = Id(db_comment="门控标识")
    instance = OneRef("WorkflowInstance", db_comment="所属实例，唯一")
    state = Enum(choices=GateState, db_comment="状态")
    generation = models.BigIntegerField(db_comment="门控代次，每次开合递增")

    class Meta:
        db_table_comment = "执行门控"
        constraints = [
            in_states("instancegate", "state", GateState),
        ]


class RootContinuation(models.Model):
    """What the scheduler still has to do at the root."""

    id = Id(db_comment="接续标识")
    instance = Ref("WorkflowInstance", db_comment="所属实例")
    sequence = models.BigIntegerField(db_comment="接续序号")
    kind = Enum(choices=ContinuationKind, db_comment="类型")
    status = Enum(choices=ContinuationStatus, db_comment="状态")
    created_at = models.DateTimeField(db_comment="创建时间")
    done_at = models.DateTimeField(null=True, db_comment="完成时间")

    class Meta:
        db_table_comment = "根接续"
        constraints = [
            in_states("rootcontinuation", "kind", ContinuationKind),
            in_states("rootcontinuation", "status", ContinuationStatus),
            models.UniqueConstraint(fields=["instance", "sequence"], name="rootcontinuation_instance_sequence"),
        ]
        indexes = [
            # sweep: instances that the scheduler owes something
            models.Index(fields=["status", "created_at"], name="rootcontinuation_sweep"),
            # scheduler: the pending continuations of an instance
            models.Index(fields=["instance", "status", "sequence"], name="rootcontinuation_pending"),
        ]


class WorkflowStep(models.Model):
    """A node of the tree in one instance."""

    id = Id(db_comment="步骤标识")
    instance = Ref("WorkflowInstance", db_comment="所属实例")
    step_key = Key(max_length=128, db_comment="步骤键")
    kind = Enum(choices=StepKind, db_comment="类型")
    parent_key = Key(max_length=128, null=True, db_comment="父步骤键")
    status = Enum(choices=StepStatus, db_comment="状态")
    revision = models.BigIntegerField(db_comment="步骤版本")
    current_activation = Ref("StepActivation", null=True, db_comment="当前激活")
    output = Json(null=True, db_comment="步骤结论输出")
    review_reason = Key(max_length=64, default="", db_comment="待核查原因")
    created_at = models.DateTimeField(db_comment="创建时间")
    settled_at = models.DateTimeField(null=True, db_comment="结清时间")

    class Meta:
        db_table_comment = "流程步骤"
        constraints = [
            in_states("workflowstep", "kind", StepKind),
            in_states("workflowstep", "status", StepStatus),
            models.UniqueConstraint(fields=["instance", "step_key"], name="workflowstep_instance_step_key"),
        ]
        indexes = [
            # Continue: unresolved steps; instance page: troubled steps first
            models.Index(fields=["instance", "status", "step_key"], name="workflowstep_status"),
        ]


class StepActivation(models.Model):
    """One execution of a leaf; sequences are consecutive from 1; history is never rewritten."""

    id = Id(db_comment="激活标识")
    instance = Ref("WorkflowInstance", db_comment="所属实例")
    step = Ref("WorkflowStep", db_comment="所属步骤")
    sequence = models.IntegerField(db_comment="激活序号(代次)")
    status = Enum(choices=ActivationStatus, db_comment="状态")
    input = Json(db_comment="首次固定输入")
    input_digest = Key(max_length=64, db_comment="输入摘要(SHA-256)")
    output = Json(null=True, db_comment="激活结论输出")
    cause = Enum(choices=ActivationCause, db_comment="产生原因")
    # set by ResolveStep only
    concluded_by = Ref("ManagementOperation", null=True, db_comment="人工结论的管理操作")
    created_at = models.DateTimeField(db_comment="创建时间")
    settled_at = models.DateTimeField(null=True, db_comment="结清时间")

    class Meta:
        db_table_comment = "步骤激活"
        constraints = [
            in_states("stepactivation", "status", ActivationStatus),
            in_states("stepactivation", "cause", ActivationCause),
            models.UniqueConstraint(fields=["step", "sequence"], name="stepactivation_step_sequence"),
        ]
        indexes = [
            # instance page: time axis; history
            models.Index(fields=["instance", "created_at"], name="stepactivation_instance"),
        ]


class ActivationTask(models.Model):
    """The reverse half of Task.owner_activation; both must agree; unique (activation, round)."""

    id = Id(db_comment="归属标识")
    activation = Ref("StepActivation", db_comment="激活")
    task = OneRef("Task", db_comment="任务，唯一")
    round = models.IntegerField(db_comment="查询业务轮次，TASK为0")

    class Meta:
        db_table_comment = "激活任务归属"
        constraints = [
            models.UniqueConstraint(fields=["activation", "round"], name="activationtask_activation_round"),
        ]
