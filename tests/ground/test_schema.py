"""M1: no process starts on a schema that its code does not match."""

import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from recovery.schema import SchemaCommand, SchemaMismatch, exit_unless_schema_matches, require_matching_schema
from tests.support.stack import ROOT, environment

OWN_COMMANDS = sorted(name for name, app in get_commands().items() if app == "recovery")
ON_ANY_SCHEMA = {"serve", "demo", "entities"}
"""Own commands that may start on any schema: they migrate first, or never open the database."""


@pytest.fixture
def newer_database(db: None) -> None:
    MigrationRecorder(connection).record_applied("recovery", "9999_of_a_newer_release")


@pytest.fixture
def older_database(db: None) -> None:
    MigrationRecorder(connection).record_unapplied("recovery", "0003_poll_recovery")


@pytest.mark.rule("M1")
@pytest.mark.django_db
def test_the_migrated_database_matches() -> None:
    require_matching_schema()


@pytest.mark.rule("M1")
@pytest.mark.usefixtures("newer_database")
def test_a_newer_database_is_refused_and_the_answer_names_the_newer_release() -> None:
    with pytest.raises(SchemaMismatch, match=r"9999_of_a_newer_release.*Install the newer release"):
        require_matching_schema()


@pytest.mark.rule("M1")
@pytest.mark.usefixtures("older_database")
def test_an_older_database_is_refused_and_the_answer_names_migrate() -> None:
    with pytest.raises(SchemaMismatch, match=r"0003_poll_recovery is not applied.*`manage.py migrate`"):
        require_matching_schema()


@pytest.mark.django_db
def test_migrations_of_an_app_that_is_no_longer_installed_are_nobodys_business() -> None:
    MigrationRecorder(connection).record_applied("gone", "0001_initial")
    require_matching_schema()


@pytest.mark.rule("M1")
@pytest.mark.usefixtures("newer_database")
def test_a_command_of_ours_refuses_before_it_does_anything() -> None:
    done = []

    class Command(SchemaCommand):
        def handle(self, *args: object, **options: object) -> None:
            done.append(True)

    with pytest.raises(CommandError, match="newer release") as refusal:
        call_command(Command())
    assert (refusal.value.returncode, done) == (3, [])


@pytest.mark.rule("M1")
@pytest.mark.parametrize("name", OWN_COMMANDS)
def test_every_command_of_ours_asks_for_the_schema(name: str) -> None:
    command = load_command_class("recovery", name)
    assert isinstance(command, SchemaCommand)
    assert command.requires_matching_schema or name in ON_ANY_SCHEMA


@pytest.fixture
def older_folder(tmp_path: Path) -> Path:
    """A SQLite database of an older release: nothing of ours is migrated."""
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "contenttypes", "--verbosity=0"],
        cwd=ROOT,
        env=environment(tmp_path),
        check=True,
    )
    return tmp_path


@pytest.mark.rule("M1")
@pytest.mark.parametrize(
    "process",
    [
        "gunicorn weave_admin.wsgi --bind=127.0.0.1:0 --no-control-socket",
        "celery --quiet --app weave_admin worker --concurrency=1",
        "celery --quiet --app weave_admin beat",
    ],
    ids=["web", "worker", "beat"],
)
def test_every_process_ends_by_itself_with_a_sentence_that_says_what_to_do(older_folder: Path, process: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", *process.split()],
        cwd=ROOT,
        env=environment(older_folder),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 3
    assert "run `manage.py migrate`" in ended.stderr


@pytest.mark.usefixtures("older_database")
def test_the_sentence_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        exit_unless_schema_matches()
    assert ended.value.code == 3
    assert "manage.py migrate" in capsys.readouterr().err
