"""The database itself refuses to change or remove audits and receipts (G10)."""

from typing import Any

from django.db import migrations

TABLES = ("recovery_workflowaudit", "recovery_executionaudit", "recovery_operationreceipt")


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
    dependencies = [("recovery", "0001_initial")]

    operations = [migrations.RunPython(refuse_changes, allow_changes)]
