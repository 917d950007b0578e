"""`manage.py reverify_inbox EVENT`: checks a quarantined event again, after its source was repaired (B4)."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from recovery.engine import inbox
from recovery.errors import DomainError
from recovery.schema import SchemaCommand


class Command(SchemaCommand):
    help = "Checks a quarantined inbox event again and releases it if everything fits. It is audited either way."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("event", help="id of the result event that was quarantined")
        parser.add_argument("--actor", default="shell", help="who asks for it, for the audit (default: %(default)s)")

    def handle(self, *args: Any, event: str, actor: str, **options: Any) -> None:
        try:
            problem = inbox.reverify(event, actor=actor)
        except DomainError as error:
            raise CommandError(str(error)) from None
        if problem:
            raise CommandError(f"Still quarantined: {problem}. Repair the source, then run this again.")
        self.stdout.write("Everything fits. The event is pending again and will be consumed in its turn.")
