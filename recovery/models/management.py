"""Who decided what: operation keys, audits and frozen receipts."""

from django.db import models

from recovery.models.fields import Id, Json, Key, OneRef, Ref, Text


class ManagementOperation(models.Model):
    """Claims a namespace-wide operation key before anything else is touched."""

    id = Id(db_comment="操作标识")
    namespace = Ref("Namespace", db_comment="所属命名空间")
    operation_key = Key(max_length=128, db_comment="稳定幂等键")
    action = Key(max_length=32, db_comment="动作")
    command_digest = Key(max_length=64, db_comment="规范化命令摘要(SHA-256)")
    actor = Text(max_length=150, db_comment="操作者")
    instance = Ref("WorkflowInstance", null=True, db_comment="目标实例")
    created_at = models.DateTimeField(db_comment="创建时间")

    class Meta:
        db_table_comment = "管理操作身份"
        constraints = [
            models.UniqueConstraint(fields=["namespace", "operation_key"], name="managementoperation_key"),
        ]
        indexes = [
            # instance page: decisions
            models.Index(fields=["instance", "created_at"], name="managementoperatio_instance"),
        ]


class WorkflowAudit(models.Model):
    """Append-only, hash-chained per instance."""

    id = Id(db_comment="流程审计标识")
    instance = Ref("WorkflowInstance", db_comment="所属实例")
    sequence = models.BigIntegerField(db_comment="实例内审计序号")
    operation = OneRef("ManagementOperation", null=True, db_comment="管理操作，唯一")
    execution_audit = Ref("ExecutionAudit", null=True, db_comment="引用的执行审计")
    actor = Text(max_length=150, db_comment="操作者")
    action = Key(max_length=64, db_comment="动作")
    reason = Text(max_length=1024, default="", db_comment="原因")
    evidence_ref = Key(max_length=512, default="", db_comment="证据引用")
    before = Json(db_comment="变更前")
    after = Json(db_comment="变更后")
    previous_hash = Key(max_length=64, db_comment="前一条审计散列")
    entry_hash = Key(max_length=64, db_comment="本条审计散列")
    created_at = models.DateTimeField(db_comment="创建时间")

    class Meta:
        db_table_comment = "流程审计"
        constraints = [
            models.UniqueConstraint(fields=["instance", "sequence"], name="workflowaudit_instance_sequence"),
        ]
        indexes = [
            # audit page: by actor
            models.Index(fields=["actor", "-created_at"], name="workflowaudit_actor"),
            # audit page: by action
            models.Index(fields=["action", "-created_at"], name="workflowaudit_action"),
            # audit page: newest first
            models.Index(fields=["-created_at"], name="workflowaudit_created"),
            # evidence page: where a bundle was used
            models.Index(fields=["evidence_ref"], name="workflowaudit_evidence"),
        ]


class OperationReceipt(models.Model):
    """Frozen answer of the first success."""

    id = Id(db_comment="回执标识")
    operation = OneRef("ManagementOperation", db_comment="管理操作，唯一")
    response = Json(db_comment="冻结回执内容")
    # 0 for publishing and evidence
    instance_revision = models.BigIntegerField(db_comment="提交后的实例版本，无实例时为0")
    created_at = models.DateTimeField(db_comment="创建时间")

    class Meta:
        db_table_comment = "幂等回执"
