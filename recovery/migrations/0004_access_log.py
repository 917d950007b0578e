"""The log of access, which the database itself keeps append-only, and where grants are looked up by their object."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import recovery.models.fields

TABLE = "recovery_accesslog"


def refuse_changes(apps: Any, schema_editor: Any) -> None:
    for verb in ("UPDATE", "DELETE"):
        words = f"{TABLE} is append-only: {verb} is refused"
        if schema_editor.connection.vendor == "sqlite":
            body = f"BEGIN SELECT RAISE(ABORT, '{words}'); END"
        else:
            body = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{words}'"
        name = f"{TABLE}_no_{verb.lower()}"
        schema_editor.execute(f"CREATE TRIGGER {name} BEFORE {verb} ON {TABLE} FOR EACH ROW {body}")


def allow_changes(apps: Any, schema_editor: Any) -> None:
    for verb in ("update", "delete"):
        schema_editor.execute(f"DROP TRIGGER {TABLE}_no_{verb}")


class Migration(migrations.Migration):
    atomic = False  # MariaDB cannot roll DDL back
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("recovery", "0003_poll_recovery"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AccessLedger",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(
                        db_comment="标识，恒为1", default=1, primary_key=True, serialize=False
                    ),
                ),
                ("entries", models.BigIntegerField(db_comment="访问日志条数", default=0)),
            ],
            options={
                "db_table_comment": "访问日志总账",
            },
        ),
        migrations.CreateModel(
            name="AccessLog",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="日志标识", serialize=False)),
                ("sequence", models.BigIntegerField(db_comment="序号，无空缺", unique=True)),
                ("actor", recovery.models.fields.Text(db_comment="操作者", max_length=150)),
                ("action", recovery.models.fields.Key(db_comment="动作", max_length=32)),
                (
                    "subject_kind",
                    recovery.models.fields.Key(db_comment="对象类别：user、group或空", default="", max_length=16),
                ),
                ("subject", recovery.models.fields.Text(db_comment="对象名称", default="", max_length=150)),
                ("permission", recovery.models.fields.Key(db_comment="权限", default="", max_length=64)),
                ("before", recovery.models.fields.Json(db_comment="变更前", null=True)),
                ("after", recovery.models.fields.Json(db_comment="变更后", null=True)),
                ("reason", recovery.models.fields.Text(db_comment="原因", max_length=1024)),
                ("created_at", models.DateTimeField(db_comment="时间")),
            ],
            options={
                "db_table_comment": "访问日志",
            },
        ),
        migrations.CreateModel(
            name="CredentialUse",
            fields=[
                (
                    "credential",
                    recovery.models.fields.OneRef(
                        db_comment="凭据",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        serialize=False,
                        to="recovery.credential",
                    ),
                ),
                ("last_used_at", models.DateTimeField(db_comment="最近使用时间")),
            ],
            options={
                "db_table_comment": "凭据使用",
            },
        ),
        migrations.AddIndex(
            model_name="namespacegroupgrant",
            index=models.Index(fields=["content_object"], name="namespacegroupgrant_object"),
        ),
        migrations.AddIndex(
            model_name="namespaceusergrant",
            index=models.Index(fields=["content_object"], name="namespaceusergrant_object"),
        ),
        migrations.AddIndex(
            model_name="queuegroupgrant",
            index=models.Index(fields=["content_object"], name="queuegroupgrant_object"),
        ),
        migrations.AddIndex(
            model_name="queueusergrant",
            index=models.Index(fields=["content_object"], name="queueusergrant_object"),
        ),
        migrations.AddField(
            model_name="accesslog",
            name="namespace",
            field=recovery.models.fields.Ref(
                db_comment="涉及的命名空间",
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="recovery.namespace",
            ),
        ),
        migrations.AddField(
            model_name="accesslog",
            name="queue",
            field=recovery.models.fields.Ref(
                db_comment="涉及的队列",
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="recovery.queue",
            ),
        ),
        migrations.AddIndex(
            model_name="accesslog",
            index=models.Index(fields=["namespace", "sequence"], name="accesslog_namespace"),
        ),
        migrations.AddIndex(
            model_name="accesslog",
            index=models.Index(fields=["namespace", "subject", "sequence"], name="accesslog_subject"),
        ),
        migrations.AddIndex(
            model_name="accesslog",
            index=models.Index(fields=["namespace", "actor", "sequence"], name="accesslog_actor"),
        ),
        migrations.RunPython(refuse_changes, allow_changes),
    ]
