"""Tenants, what they may use, and what they have in use."""

from django.db import models

from recovery.models.fields import Enum, Id, Key, OneRef, Ref, Text, in_states
from recovery.states import QueueStatus, TenantStatus


class Namespace(models.Model):
    """Tenant; every other row belongs to exactly one."""

    id = Id(db_comment="命名空间标识")
    name = Key(max_length=64, unique=True, db_comment="命名空间名，唯一")
    display_name = Text(max_length=128, db_comment="显示名称")
    status = Enum(choices=TenantStatus, db_comment="状态")
    created_at = models.DateTimeField(db_comment="创建时间")

    class Meta:
        db_table_comment = "命名空间"
        default_permissions = ()
        permissions = [
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
        ]
        constraints = [
            in_states("namespace", "status", TenantStatus),
        ]


class Application(models.Model):
    """Owner of instances and tasks inside a namespace; unit of the application quota."""

    id = Id(db_comment="应用标识")
    namespace = Ref("Namespace", db_comment="所属命名空间")
    name = Key(max_length=64, db_comment="应用名，命名空间内唯一")
    status = Enum(choices=TenantStatus, db_comment="状态")
    created_at = models.DateTimeField(db_comment="创建时间")

    class Meta:
        db_table_comment = "应用"
        constraints = [
            in_states("application", "status", TenantStatus),
            models.UniqueConstraint(fields=["namespace", "name"], name="application_namespace_name"),
        ]


class Credential(models.Model):
    """API credential; namespace and operator always come from it, never from a request body."""

    # also the public half of the token
    id = Id(db_comment="凭据标识")
    namespace = Ref("Namespace", db_comment="凭据所属命名空间")
    application = Ref("Application", null=True, db_comment="限定应用，空为整个命名空间")
    # the Django user whose permissions it carries
    user = models.BigIntegerField(db_comment="操作者账号主键")
    label = Text(max_length=128, db_comment="用途说明")
    secret_hash = Key(max_length=255, db_comment="密钥散列，不存明文")
    expires_at = models.DateTimeField(null=True, db_comment="过期时间")
    revoked_at = models.DateTimeField(null=True, db_comment="吊销时间")
    created_at = models.DateTimeField(db_comment="创建时间")

    class Meta:
        db_table_comment = "凭据"
        indexes = [
            # the credentials of one person (access pages)
            models.Index(fields=["user"], name="credential_user"),
        ]


class ApplicationQuota(models.Model):
    """First row locked by every management operation."""

    id = Id(db_comment="应用额度标识")
    application = OneRef("Application", db_comment="所属应用，唯一")
    max_open_tasks = models.IntegerField(db_comment="未结清任务上限")
    open_tasks = models.IntegerField(default=0, db_comment="未结清任务数")
    max_open_instances = models.IntegerField(db_comment="未结清实例上限")
    open_instances = models.IntegerField(default=0, db_comment="未结清实例数")
    # a lock row that is only read protects nothing across Galera nodes
    lock_seq = models.BigIntegerField(default=0, db_comment="加锁序号，每次加锁真实变更")

    class Meta:
        db_table_comment = "应用额度"


class Queue(models.Model):
    """Where tasks wait for workers."""

    id = Id(db_comment="队列标识")
    namespace = Ref("Namespace", db_comment="所属命名空间")
    name = Key(max_length=64, db_comment="队列名，命名空间内唯一")
    status = Enum(choices=QueueStatus, db_comment="状态")
    lease_ms = models.IntegerField(db_comment="执行租约毫秒数")
    created_at = models.DateTimeField(db_comment="创建时间")

    class Meta:
        db_table_comment = "队列"
        default_permissions = ()
        permissions = [("queues:use", "Decide on instances whose definition names this queue")]
        constraints = [
            in_states("queue", "status", QueueStatus),
            models.UniqueConstraint(fields=["namespace", "name"], name="queue_namespace_name"),
        ]


class QueueQuota(models.Model):
    """A queue's limits and counters; locked in ascending primary key, whatever the definition."""

    id = Id(db_comment="队列配额标识")
    queue = OneRef("Queue", db_comment="所属队列，唯一")
    max_open_tasks = models.IntegerField(db_comment="未结清任务上限")
    open_tasks = models.IntegerField(default=0, db_comment="未结清任务数")
    max_running = models.IntegerField(db_comment="同时执行上限")
    running = models.IntegerField(default=0, db_comment="正在执行数")

    class Meta:
        db_table_comment = "队列配额"


class QuotaHold(models.Model):
    """Ledger behind the counters: counters always equal the open holds."""

    id = Id(db_comment="占用标识")
    application = Ref("Application", db_comment="占用的应用")
    queue = Ref("Queue", db_comment="占用的队列")
    task = OneRef("Task", db_comment="占用的任务，唯一")
    held_at = models.DateTimeField(db_comment="占用时间")
    released_at = models.DateTimeField(null=True, db_comment="归还时间")

    class Meta:
        db_table_comment = "额度占用"
        indexes = [
            # open holds of an application (verify: counters equal open holds)
            models.Index(fields=["application", "released_at"], name="quotahold_app_open"),
            # open holds of a queue (queue page, verify)
            models.Index(fields=["queue", "released_at"], name="quotahold_queue_open"),
        ]
