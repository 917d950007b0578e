"""The console's own tables. Not among the 35 entities."""

from django.db import models

from recovery.models.fields import Key


class RunnerBeat(models.Model):
    """When a runner last went round. The row also guards a tick: two beats do no harm."""

    name = Key(max_length=64, primary_key=True, db_comment="运行器名")
    last_at = models.DateTimeField(null=True, db_comment="最近一次运行时间")
    lag_ms = models.BigIntegerField(default=0, db_comment="最久待处理的毫秒数")
    handled = models.BigIntegerField(default=0, db_comment="累计处理数")

    class Meta:
        db_table_comment = "运行器心跳"
