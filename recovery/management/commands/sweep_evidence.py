"""`manage.py sweep_evidence`: removes files that were left on their way and belong to no evidence."""

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from recovery import clock
from recovery.evidence import store
from recovery.schema import SchemaCommand


class Command(SchemaCommand):
    help = "Removes files of evidence that no row names: what was cut off, or never committed. Never evidence itself."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--hours", type=int, default=24, help="only what is older (default: %(default)s)")

    def handle(self, *args: Any, hours: int, **options: Any) -> None:
        swept = store.sweep(clock.now() - timedelta(hours=hours))
        self.stdout.write(f"{swept} files removed.")
