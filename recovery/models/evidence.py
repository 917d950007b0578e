"""Evidence: bundles of files, notes and external references, and their withdrawal. Append-only in the database.

Not among the 35 entities. The bytes of a file are in the evidence folder, under their SHA-256.
"""

from django.db import models

from recovery.models.fields import Id, Key, OneRef, Ref, Text


class EvidenceBundle(models.Model):
    """What one person attached at one time. Decisions name it as `evidence:<id>`."""

    id = Id(db_comment="证据包标识")
    namespace = Ref("Namespace", db_comment="所属命名空间")
    # empty where it is not about one instance
    instance = Ref("WorkflowInstance", null=True, db_comment="所涉实例")
    attached_by = Text(max_length=150, db_comment="提交者")
    created_at = models.DateTimeField(db_comment="提交时间")

    class Meta:
        db_table_comment = "证据包"
        indexes = [
            # evidence page, newest first: ids begin with the time
            models.Index(fields=["namespace", "-id"], name="evidencebundle_namespace"),
            # evidence about one instance
            models.Index(fields=["instance", "-id"], name="evidencebundle_instance"),
        ]


class EvidenceItem(models.Model):
    """One file, note or external reference of a bundle."""

    id = Id(db_comment="证据条目标识")
    bundle = Ref("EvidenceBundle", db_comment="所属证据包")
    position = models.IntegerField(db_comment="包内序号，从1开始")
    kind = Key(max_length=16, db_comment="类别：FILE、NOTE或REFERENCE")
    # for display only: no path is ever made of it
    name = Text(max_length=255, default="", db_comment="文件显示名")
    text = Text(max_length=4000, default="", db_comment="说明文字或外部引用")
    size = models.BigIntegerField(db_comment="字节数")
    sha256 = Key(max_length=64, db_comment="内容散列(SHA-256)")
    # found in the content, whatever the sender called it
    media_type = Key(max_length=127, db_comment="媒体类型，由内容判定")
    created_at = models.DateTimeField(db_comment="提交时间")

    class Meta:
        db_table_comment = "证据条目"
        constraints = [models.UniqueConstraint(fields=["bundle", "position"], name="evidenceitem_position")]
        indexes = [
            # whether a stored file belongs to anything
            models.Index(fields=["sha256"], name="evidenceitem_sha256"),
        ]


class EvidenceWithdrawal(models.Model):
    """That a bundle must not be relied on any more, and why. It stays readable."""

    id = Id(db_comment="撤回标识")
    bundle = OneRef("EvidenceBundle", db_comment="证据包，唯一")
    withdrawn_by = Text(max_length=150, db_comment="撤回者")
    reason = Text(max_length=1024, db_comment="原因")
    created_at = models.DateTimeField(db_comment="撤回时间")

    class Meta:
        db_table_comment = "证据撤回"
