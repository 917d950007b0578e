"""`manage.py provision FILE`: tenants, people and rights from a reviewed file (contract: "Provisioning")."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.access import provision
from recovery.errors import DomainError
from recovery.models import AccessLog, Namespace
from recovery.schema import SchemaCommand

DRIFT = 1
"""Exit status of --check where a run would change something."""
REFUSED = 2
"""Exit status where the file is bad or cannot be followed; nothing was written."""


class Command(SchemaCommand):
    help = (
        "Makes namespaces, applications, queues, groups, users, grants and credentials as the file says, in one "
        "transaction. Removes nothing without --prune. Tokens of new credentials are printed once, as JSON on standard "
        "output; everything else goes to standard error. Exit status 2: the file was refused, nothing was written."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="a JSON document, - for standard input")
        parser.add_argument(
            "--check", action="store_true", help="write nothing; exit 1 when a run would change something"
        )
        parser.add_argument(
            "--prune",
            action="store_true",
            help="also remove grants, memberships and credentials that the file governs and does not name",
        )

    def handle(self, *args: Any, file: str, check: bool, prune: bool, **options: Any) -> None:
        try:
            document = provision.read(_bytes(file))
            outcome = provision.provision(document, prune=prune, preview=check)
        except DomainError as refused:
            raise CommandError(_sentences(file, refused), returncode=REFUSED) from None
        names = dict(Namespace.objects.values_list("pk", "name"))
        for entry in outcome.entries:
            self.stderr.write(_line(entry, names))
        for right in outcome.kept:
            self.stderr.write(_("kept, --prune removes it: %(right)s") % {"right": right})
        if not check:
            self.stdout.write(exact_json.dumps({"credentials": outcome.tokens}))
        elif outcome.entries:
            raise CommandError(_("The database differs from the file."), returncode=DRIFT)


def _bytes(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CommandError(_("The file cannot be read: %(problem)s") % {"problem": error}, returncode=REFUSED) from None


def _sentences(file: str, refused: DomainError) -> str:
    problems = [f"  {path}: {sentence}" for path, sentences in refused.fields.items() for sentence in sentences]
    return "\n".join([f"{file}: {refused}", *problems])


def _line(entry: AccessLog, names: dict[str, str]) -> str:
    """One change in the terms of the log: `pay: grant workflows:read bank to oncall {...}`."""
    words = [entry.action, entry.permission, entry.queue.name if entry.queue else "", entry.subject]
    where = f"{names.get(entry.namespace_id or '', '*')}: "
    changed = exact_json.dumps(entry.before or {}), exact_json.dumps(entry.after or {})
    return where + " ".join(word for word in words if word) + f" {changed[0]} -> {changed[1]}"
