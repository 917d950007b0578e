"""Sign-ins that were refused, to slow down who guesses."""

from django.db import migrations, models

import recovery.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("recovery", "0007_saved_views"),
    ]

    operations = [
        migrations.CreateModel(
            name="SignInFailure",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="失败标识", serialize=False)),
                ("who", recovery.models.fields.Key(db_comment="登录名与来源地址的摘要", max_length=64)),
                ("failed_at", models.DateTimeField(db_comment="失败时间")),
            ],
            options={
                "db_table_comment": "登录失败",
                "indexes": [
                    models.Index(fields=["who", "failed_at"], name="signinfailure_who"),
                    models.Index(fields=["failed_at"], name="signinfailure_age"),
                ],
            },
        ),
    ]
