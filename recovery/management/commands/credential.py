"""`manage.py credential`: the first credential, before there is anybody who could make it on a page."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.access import credentials
from recovery.access.credentials import Issued
from recovery.access.ledger import SHELL, Ledger, change
from recovery.access.provision import document
from recovery.errors import DomainError
from recovery.models import Namespace
from recovery.operations.commands import Invalid
from recovery.schema import SchemaCommand


class Command(SchemaCommand):
    help = (
        "Makes a credential that carries the rights of an account in a namespace. Its token is printed once, as JSON "
        "on standard output, and cannot be had again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("namespace", help="the namespace's name")
        parser.add_argument("user", help="the account whose rights it carries")
        parser.add_argument("label", help="what it is for")
        parser.add_argument("--application", help="limits it to one application of the namespace")
        parser.add_argument("--expires", help="when it ends, like 2026-12-31T18:00:00Z; without it it has no end")
        parser.add_argument("--reason", required=True, help="why; the access log keeps it")

    def handle(self, *args: Any, namespace: str, user: str, label: str, **options: Any) -> None:
        row = Namespace.objects.filter(name=namespace).first()
        if row is None:
            raise CommandError(_("There is no namespace “%(name)s”.") % {"name": namespace})
        try:
            expires_at = None if options["expires"] is None else document.instant(options["expires"])
        except Invalid as error:
            raise CommandError(f"--expires: {error}") from None

        def work(ledger: Ledger) -> Issued:
            limits = (options["application"], expires_at, options["reason"])
            return credentials.make(ledger, row.pk, user, label, *limits)

        try:
            issued = change(SHELL, work)
        except DomainError as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(exact_json.dumps({"credentials": [issued.as_printed(namespace, user)]}))
