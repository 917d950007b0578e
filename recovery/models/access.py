"""Who may do what: guardian's direct foreign-key grants, with an end, a giver and a reason.

Not among the 35 entities. Only `recovery.permissions` reads these tables.
"""

from django.db import models
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from recovery.models.fields import Ref, Text


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

    content_object = Ref("Namespace", db_index=True, db_comment="命名空间")

    class Meta(UserObjectPermissionBase.Meta):
        db_table_comment = "命名空间用户授权"


class NamespaceGroupGrant(Grant, GroupObjectPermissionBase):
    """A permission on a namespace, held through a group."""

    content_object = Ref("Namespace", db_index=True, db_comment="命名空间")

    class Meta(GroupObjectPermissionBase.Meta):
        db_table_comment = "命名空间用户组授权"


class QueueUserGrant(Grant, UserObjectPermissionBase):
    """`queues:use` on a queue, held by one person."""

    content_object = Ref("Queue", db_index=True, db_comment="队列")

    class Meta(UserObjectPermissionBase.Meta):
        db_table_comment = "队列用户授权"


class QueueGroupGrant(Grant, GroupObjectPermissionBase):
    """`queues:use` on a queue, held through a group."""

    content_object = Ref("Queue", db_index=True, db_comment="队列")

    class Meta(GroupObjectPermissionBase.Meta):
        db_table_comment = "队列用户组授权"
