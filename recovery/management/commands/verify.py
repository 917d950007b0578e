"""`manage.py verify`: whether everything that is stored fits together."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from recovery import exact_json
from recovery.models import Namespace
from recovery.schema import SchemaCommand
from recovery.verify import MOST, NOT_SEEN, Result, Scope, verify


class Command(SchemaCommand):
    help = "Checks the invariants over all stored rows. Exits with 0 when they hold, with 1 when one is violated."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--namespace", help="only what belongs to the namespace of this name")
        parser.add_argument("--deep", action="store_true", help="also read every history as a decision would (slow)")
        parser.add_argument("--json", action="store_true", help="one JSON object on standard output")

    def handle(self, *args: Any, namespace: str | None, deep: bool, json: bool, **options: Any) -> None:
        scope = Scope(_namespace_id(namespace) if namespace is not None else None)
        results = []
        for result in verify(scope, deep=deep):
            results.append(result)
            if not json:
                self._tell(result)
        violated = [result for result in results if result.violations]
        if json:
            self.stdout.write(exact_json.dumps(_report(results)))
        else:
            self._conclude(len(results), len(violated))
        if violated:
            raise SystemExit(1)

    def _tell(self, result: Result) -> None:
        name = result.check.name
        if not result.violations:
            self.stdout.write(f"{self.style.SUCCESS('holds')}     {name}: {result.check.promise}")
            return
        self.stdout.write(f"{self.style.ERROR('VIOLATED')}  {name}: {result.check.promise}")
        for violation in result.violations:
            self.stdout.write(f"          {violation.entity} {violation.id}: {violation.sentence}")
        if result.more:
            self.stdout.write("          " + _("and more than these %(count)d.") % {"count": MOST})

    def _conclude(self, checked: int, violated: int) -> None:
        self.stdout.write("")
        self.stdout.write(_("What nobody can see afterwards:"))
        for sentence in NOT_SEEN:
            self.stdout.write(f"  {sentence}")
        self.stdout.write("")
        if violated:
            words = ngettext(
                "%(bad)d of %(all)d invariants is violated.", "%(bad)d of %(all)d invariants are violated.", violated
            )
            self.stdout.write(self.style.ERROR(words % {"bad": violated, "all": checked}))
        else:
            self.stdout.write(self.style.SUCCESS(_("All %(all)d invariants hold.") % {"all": checked}))


def _namespace_id(name: str) -> str:
    key = Namespace.objects.filter(name=name).values_list("pk", flat=True).first()
    if key is None:
        raise CommandError(_("There is no namespace “%(name)s”.") % {"name": name}, returncode=2)
    return key


def _report(results: list[Result]) -> dict[str, Any]:
    """{"holds", "checks": [{"name", "promise", "violations": [{"entity", "id", "sentence"}], "more"}], "not_seen"}."""
    return {
        "holds": not any(result.violations for result in results),
        "checks": [
            {
                "name": result.check.name,
                "promise": str(result.check.promise),
                "violations": [vars(violation) for violation in result.violations],
                "more": result.more,
            }
            for result in results
        ],
        "not_seen": [str(sentence) for sentence in NOT_SEEN],
    }
