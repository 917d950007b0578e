"""Filters of the review queue that a person keeps under a name."""

from django.db import migrations, models

import recovery.models.fields


class Migration(migrations.Migration):
    dependencies = [("recovery", "0006_evidence")]

    operations = [
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="视图标识", serialize=False)),
                ("user", models.BigIntegerField(db_comment="所属账号主键")),
                ("name", recovery.models.fields.Text(db_comment="视图名，个人内唯一", max_length=64)),
                ("query", recovery.models.fields.Text(db_comment="筛选条件(URL查询串)", max_length=1024)),
                ("created_at", models.DateTimeField(db_comment="创建时间")),
            ],
            options={
                "db_table_comment": "已存视图",
                "constraints": [models.UniqueConstraint(fields=("user", "name"), name="savedview_user_name")],
            },
        ),
    ]
