"""`manage.py serve`: the whole product in the foreground."""

from typing import Any

from django.core.management.base import CommandError

from recovery.schema import SchemaCommand
from recovery.supervisor import StackFailure, run_stack


class Command(SchemaCommand):
    help = "Migrates, then runs web, workers and beat until Ctrl-C. One line on standard output says when it is ready."
    requires_matching_schema = False  # it migrates first; its processes check for themselves
    requires_system_checks = ()  # the same holds for these

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run_stack()
        except StackFailure as failure:
            raise CommandError(str(failure)) from None
