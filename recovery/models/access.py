"""Who may do what: guardian's direct foreign-key grants, with an end, a giver and a reason; and the log of changes.

Not among the 35 entities. Only `recovery.permissions` reads the grants, only `recovery.access` writes the log.
"""

from django.db import models
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from recovery.models.fields import Id, Json, Key, OneRef, Ref, Text


class Grant(models.Model):
    """What every grant carries besides guardian's grantee, permission and object."""

    expires_at = models.DateTimeField(null=True, db_comment="到期时间，空为长期")
    granted_by = Text(max_length=150, default="", db_comment="授予者")
    reason = Text(max_length=1024, default="", db_comment="授予原因")
    created_at = models.DateTimeField(null=True, db_comment="授予时间")

    class Meta:
        abstract = True


class NamespaceUserGrant(Grant, UserObjectPermissionBase):
    """A permission on a namespace, held by one person."""

    content_object = Ref("Namespace", db_comment="命名空间")

    class Meta(UserObjectPermissionBase.Meta):
        db_table_comment = "命名空间用户授权"
        indexes = [
            # who holds what on this namespace (access pages)
            models.Index(fields=["content_object"], name="namespaceusergrant_object"),
        ]


class NamespaceGroupGrant(Grant, GroupObjectPermissionBase):
    """A permission on a namespace, held through a group."""

    content_object = Ref("Namespace", db_comment="命名空间")

    class Meta(GroupObjectPermissionBase.Meta):
        db_table_comment = "命名空间用户组授权"
        indexes = [
            # who holds what on this namespace (access pages)
            models.Index(fields=["content_object"], name="namespacegroupgrant_object"),
        ]


class QueueUserGrant(Grant, UserObjectPermissionBase):
    """`queues:use` on a queue, held by one person."""

    content_object = Ref("Queue", db_comment="队列")

    class Meta(UserObjectPermissionBase.Meta):
        db_table_comment = "队列用户授权"
        indexes = [
            # who holds what on this queue (access pages)
            models.Index(fields=["content_object"], name="queueusergrant_object"),
        ]


class QueueGroupGrant(Grant, GroupObjectPermissionBase):
    """`queues:use` on a queue, held through a group."""

    content_object = Ref("Queue", db_comment="队列")

    class Meta(GroupObjectPermissionBase.Meta):
        db_table_comment = "队列用户组授权"
        indexes = [
            # who holds what on this queue (access pages)
            models.Index(fields=["content_object"], name="queuegroupgrant_object"),
        ]


class AccessLedger(models.Model):
    """The one row that every change of access locks first, and really changes: it counts the entries of the log."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, db_comment="标识，恒为1")
    entries = models.BigIntegerField(default=0, db_comment="访问日志条数")

    class Meta:
        db_table_comment = "访问日志总账"


class AccessLog(models.Model):
    """Every change of access: who, what, to whom, where, before, after, why and when. Append-only in the database."""

    id = Id(db_comment="日志标识")
    sequence = models.BigIntegerField(unique=True, db_comment="序号，无空缺")
    # empty where no namespace is concerned: an account, a group that holds nothing yet
    namespace = Ref("Namespace", null=True, db_comment="涉及的命名空间")
    queue = Ref("Queue", null=True, db_comment="涉及的队列")
    actor = Text(max_length=150, db_comment="操作者")
    action = Key(max_length=32, db_comment="动作")
    subject_kind = Key(max_length=16, default="", db_comment="对象类别：user、group或空")
    subject = Text(max_length=150, default="", db_comment="对象名称")
    permission = Key(max_length=64, default="", db_comment="权限")
    before = Json(null=True, db_comment="变更前")
    after = Json(null=True, db_comment="变更后")
    reason = Text(max_length=1024, db_comment="原因")
    created_at = models.DateTimeField(db_comment="时间")

    class Meta:
        db_table_comment = "访问日志"
        indexes = [
            # the log of a namespace, newest first
            models.Index(fields=["namespace", "sequence"], name="accesslog_namespace"),
            # what happened to one person or group
            models.Index(fields=["namespace", "subject", "sequence"], name="accesslog_subject"),
            # what one person changed
            models.Index(fields=["namespace", "actor", "sequence"], name="accesslog_actor"),
        ]


class CredentialUse(models.Model):
    """When a credential was last presented, to the minute: the entity itself has no column for it."""

    credential = OneRef("Credential", primary_key=True, db_comment="凭据")
    last_used_at = models.DateTimeField(db_comment="最近使用时间")

    class Meta:
        db_table_comment = "凭据使用"
