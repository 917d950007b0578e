"""The harness itself: several connections meet in the test database, and guarded tables are empty again afterwards."""

import pytest
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, connection, transaction

from tests.support.statements import capture_statements
from tests.support.threads import together

GUARDED = "recovery_operationreceipt"


@pytest.mark.django_db(transaction=True)
def test_another_connection_sees_what_this_one_committed() -> None:
    User.objects.create(username="somebody")
    assert together([User.objects.count, User.objects.count]) == [1, 1]


def _guarded_row() -> None:
    """A row of nonsense, written past the models: only the triggers are of interest."""
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, GUARDED)
        names = [connection.ops.quote_name(column.name) for column in columns]
        values = ["'2026-01-01 00:00:00'" if column.name.endswith("_at") else "'1'" for column in columns]
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = ON")
        else:
            cursor.execute("SET check_constraint_checks = 0")
        cursor.execute(f"INSERT INTO {GUARDED} ({', '.join(names)}) VALUES ({', '.join(values)})")
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = OFF")
        else:
            cursor.execute("SET check_constraint_checks = 1")


def _guarded_rows() -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {GUARDED}")
        return int(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("round_", [1, 2])
def test_the_flush_empties_a_guarded_table_and_leaves_its_guard(round_: int) -> None:
    assert _guarded_rows() == 0  # in the second round: after the flush of the first
    _guarded_row()
    for refused in (f"DELETE FROM {GUARDED}", f"UPDATE {GUARDED} SET id = 'other'"):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(refused)
    assert _guarded_rows() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("round_", [1, 2])
def test_content_types_outlive_the_flush(round_: int) -> None:
    assert ContentType.objects.filter(app_label="recovery").exists()


@pytest.mark.django_db
def test_statements_are_captured_with_their_parameters() -> None:
    with capture_statements() as statements:
        User.objects.filter(username="nobody").exists()
    User.objects.count()
    assert len(statements) == 1
    assert "nobody" in statements[0].params
