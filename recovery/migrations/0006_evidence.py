"""Evidence, which the database itself keeps append-only, and where a reference to it was used."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

import recovery.models.fields

TABLES = ("recovery_evidencebundle", "recovery_evidenceitem", "recovery_evidencewithdrawal")


def refuse_changes(apps: Any, schema_editor: Any) -> None:
    for table in TABLES:
        for verb in ("UPDATE", "DELETE"):
            name = f"{table}_no_{verb.lower()}"
            words = f"{table} is append-only: {verb} is refused"
            if schema_editor.connection.vendor == "sqlite":
                body = f"BEGIN SELECT RAISE(ABORT, '{words}'); END"
            else:
                body = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{words}'"
            schema_editor.execute(f"CREATE TRIGGER {name} BEFORE {verb} ON {table} FOR EACH ROW {body}")


def allow_changes(apps: Any, schema_editor: Any) -> None:
    for table in TABLES:
        for verb in ("update", "delete"):
            schema_editor.execute(f"DROP TRIGGER {table}_no_{verb}")


class Migration(migrations.Migration):
    atomic = False  # MariaDB cannot roll DDL back

    dependencies = [
        ("recovery", "0005_review_queue"),
    ]

    operations = [
        migrations.CreateModel(
            name="EvidenceBundle",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="证据包标识", serialize=False)),
                ("attached_by", recovery.models.fields.Text(db_comment="提交者", max_length=150)),
                ("created_at", models.DateTimeField(db_comment="提交时间")),
            ],
            options={
                "db_table_comment": "证据包",
            },
        ),
        migrations.CreateModel(
            name="EvidenceItem",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="证据条目标识", serialize=False)),
                ("position", models.IntegerField(db_comment="包内序号，从1开始")),
                ("kind", recovery.models.fields.Key(db_comment="类别：FILE、NOTE或REFERENCE", max_length=16)),
                ("name", recovery.models.fields.Text(db_comment="文件显示名", default="", max_length=255)),
                ("text", recovery.models.fields.Text(db_comment="说明文字或外部引用", default="", max_length=4000)),
                ("size", models.BigIntegerField(db_comment="字节数")),
                ("sha256", recovery.models.fields.Key(db_comment="内容散列(SHA-256)", max_length=64)),
                ("media_type", recovery.models.fields.Key(db_comment="媒体类型，由内容判定", max_length=127)),
                ("created_at", models.DateTimeField(db_comment="提交时间")),
            ],
            options={
                "db_table_comment": "证据条目",
            },
        ),
        migrations.CreateModel(
            name="EvidenceWithdrawal",
            fields=[
                ("id", recovery.models.fields.Id(db_comment="撤回标识", serialize=False)),
                ("withdrawn_by", recovery.models.fields.Text(db_comment="撤回者", max_length=150)),
                ("reason", recovery.models.fields.Text(db_comment="原因", max_length=1024)),
                ("created_at", models.DateTimeField(db_comment="撤回时间")),
            ],
            options={
                "db_table_comment": "证据撤回",
            },
        ),
        migrations.AddIndex(
            model_name="workflowaudit",
            index=models.Index(fields=["evidence_ref"], name="workflowaudit_evidence"),
        ),
        migrations.AddField(
            model_name="evidencebundle",
            name="instance",
            field=recovery.models.fields.Ref(
                db_comment="所涉实例",
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="recovery.workflowinstance",
            ),
        ),
        migrations.AddField(
            model_name="evidencebundle",
            name="namespace",
            field=recovery.models.fields.Ref(
                db_comment="所属命名空间",
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="recovery.namespace",
            ),
        ),
        migrations.AddField(
            model_name="evidenceitem",
            name="bundle",
            field=recovery.models.fields.Ref(
                db_comment="所属证据包",
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="recovery.evidencebundle",
            ),
        ),
        migrations.AddField(
            model_name="evidencewithdrawal",
            name="bundle",
            field=recovery.models.fields.OneRef(
                db_comment="证据包，唯一",
                db_constraint=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="recovery.evidencebundle",
            ),
        ),
        migrations.AddIndex(
            model_name="evidencebundle",
            index=models.Index(fields=["namespace", "-id"], name="evidencebundle_namespace"),
        ),
        migrations.AddIndex(
            model_name="evidencebundle",
            index=models.Index(fields=["instance", "-id"], name="evidencebundle_instance"),
        ),
        migrations.AddIndex(
            model_name="evidenceitem",
            index=models.Index(fields=["sha256"], name="evidenceitem_sha256"),
        ),
        migrations.AddConstraint(
            model_name="evidenceitem",
            constraint=models.UniqueConstraint(fields=("bundle", "position"), name="evidenceitem_position"),
        ),
        migrations.RunPython(refuse_changes, allow_changes),
    ]
