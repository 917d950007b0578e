"""No process works on a schema that its code does not match (M1).

An old writer on a new schema, or a new one on an old schema, would write rows that the other half misreads. So web,
workers, beat and every command of ours ask here before they do anything, and there is no switch to leave it out.
"""

import sys
from typing import Any

from django.apps import apps as installed_apps
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils.translation import gettext as _

EXIT_STATUS = 3
"""Of a process that refuses to start. gunicorn takes it from a web process as "do not start another one"."""


class SchemaMismatch(Exception):
    """The database is not on the code's schema; the message says what to do."""


def require_matching_schema() -> None:
    """Compares the migrations of the code with those the database records: one or two short queries.

    Raises SchemaMismatch when one is not applied yet, or when an installed app's applied one is not in the code (M1).
    """
    loader = MigrationLoader(connection)
    applied = set(loader.applied_migrations)
    installed = {config.label for config in installed_apps.get_app_configs()}
    # A squashed migration's predecessors may be recorded although their files are gone.
    replaced = {name for migration in loader.disk_migrations.values() for name in migration.replaces}
    unknown = {name for name in applied - set(loader.disk_migrations) - replaced if name[0] in installed}
    if unknown:
        raise SchemaMismatch(
            _(
                "The database has been migrated by a newer release (%(names)s is applied, and this release does not "
                "know it). Install the newer release, or restore the database from before its upgrade."
            )
            % {"names": _names(unknown)}
        )
    unapplied = set(loader.graph.nodes) - applied
    if unapplied:
        raise SchemaMismatch(
            _(
                "The database is on an older schema (%(names)s is not applied). Stop every process of the older "
                "release, run `manage.py migrate`, and start again."
            )
            % {"names": _names(unapplied)}
        )


def _names(migrations: set[tuple[str, str]]) -> str:
    first, *others = sorted(f"{app}.{name}" for app, name in migrations)
    return f"{first} (+{len(others)})" if others else first


def exit_unless_schema_matches() -> None:
    """For a process that is about to start: the sentence on standard error and exit status 3 (M1)."""
    try:
        require_matching_schema()
    except SchemaMismatch as mismatch:
        print(mismatch, file=sys.stderr, flush=True)  # noqa: T201
        sys.exit(EXIT_STATUS)
    finally:
        connection.close()  # the process may fork after this


def refuse_to_forget(*, apps: Any, plan: list[tuple[Any, bool]], using: str, **_signal: Any) -> None:
    """Before `migrate` undoes anything: the poll recovery stays once a query was retried (M1).

    Its own migration refuses too, but by then the later ones would be undone. `plan`: (migration, backwards).
    """
    undone = {(migration.app_label, migration.name) for migration, backwards in plan if backwards}
    if ("recovery", "0003_poll_recovery") not in undone:
        return
    activations = apps.get_model("recovery", "StepActivation").objects.using(using)
    if activations.filter(cause="RETRY", step__kind="POLL").exists():
        raise CommandError(
            _(
                "A POLL step has an activation of cause RETRY: its rounds could not be told apart any more, so this "
                "cannot be undone. Restore a backup from before the upgrade instead."
            )
        )


class SchemaCommand(BaseCommand):
    """The base of every command of ours that works on the database (M1)."""

    requires_matching_schema = True
    """False only for a command that migrates first, or that never opens the database."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        if self.requires_matching_schema:
            try:
                require_matching_schema()
            except SchemaMismatch as mismatch:
                raise CommandError(str(mismatch), returncode=EXIT_STATUS) from None
        return super().execute(*args, **options)
