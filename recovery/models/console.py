"""The console's own tables. Not among the 35 entities."""

from django.db import models

from recovery.models.fields import Id, Key, Text


class RunnerBeat(models.Model):
    """When a runner last went round. The row also guards a tick: two beats do no harm."""

    name = Key(max_length=64, primary_key=True, db_comment="运行器名")
    last_at = models.DateTimeField(null=True, db_comment="最近一次运行时间")
    lag_ms = models.BigIntegerField(default=0, db_comment="最久待处理的毫秒数")
    handled = models.BigIntegerField(default=0, db_comment="累计处理数")

    class Meta:
        db_table_comment = "运行器心跳"


class SavedView(models.Model):
    """A set of filters of the review queue under a name of one person's own."""

    id = Id(db_comment="视图标识")
    user = models.BigIntegerField(db_comment="所属账号主键")
    name = Text(max_length=64, db_comment="视图名，个人内唯一")
    query = Text(max_length=1024, db_comment="筛选条件(URL查询串)")
    created_at = models.DateTimeField(db_comment="创建时间")

    class Meta:
        db_table_comment = "已存视图"
        constraints = [
            models.UniqueConstraint(fields=["user", "name"], name="savedview_user_name"),
        ]


class SignInFailure(models.Model):
    """A sign-in that was refused. `who`: digest of user name and address; people also type passwords as names."""

    id = Id(db_comment="失败标识")
    who = Key(max_length=64, db_comment="登录名与来源地址的摘要")
    failed_at = models.DateTimeField(db_comment="失败时间")

    class Meta:
        db_table_comment = "登录失败"
        indexes = [
            # Does this name have to wait?
            models.Index(fields=["who", "failed_at"], name="signinfailure_who"),
            # Forgetting what counts no more
            models.Index(fields=["failed_at"], name="signinfailure_age"),
        ]
