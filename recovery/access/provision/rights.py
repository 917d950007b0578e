"""Grants and credentials of one namespace of a provisioning document."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.utils.translation import gettext as _

from recovery.access import credentials, grants
from recovery.access.ledger import Ledger
from recovery.access.provision.document import CredentialEntry, GrantEntry, NamespaceEntry, Problems
from recovery.access.provision.people import PRUNED, People
from recovery.access.provision.tenants import REASON
from recovery.models import Application, Credential, Namespace, Queue
from recovery.permissions import USE_QUEUE, Grant


class Rights:
    """`tokens`: of the credentials that were made, as they are printed once."""

    def __init__(
        self,
        ledger: Ledger,
        namespace: Namespace,
        people: People,
        prune: bool,
        kept: list[str],
        problems: Problems,
    ) -> None:
        self.ledger = ledger
        self.namespace = namespace
        self.people = people
        self.prune = prune
        self.kept = kept
        self.problems = problems
        self.tokens: list[dict[str, str]] = []

    def provide(self, entry: NamespaceEntry) -> None:
        if entry.grants is not None:
            self._grants(entry.grants)
        if entry.credentials is not None:
            self._credentials(entry.credentials)

    def _grants(self, entries: tuple[GrantEntry, ...]) -> None:
        queues = {row.name: row for row in Queue.objects.filter(namespace=self.namespace)}
        beyond = grants.index(self.namespace.pk)
        for entry in entries:
            grantee = self.people.holder(entry.to.kind, entry.to.name, f"{entry.at('to')}.{entry.to.kind}")
            wanted: list[tuple[str, Namespace | Queue]] = [(name, self.namespace) for name in entry.permissions]
            for number, name in enumerate(entry.queues):
                if queue := queues.get(name):
                    wanted.append((USE_QUEUE, queue))
                else:
                    words = {"name": name, "namespace": self.namespace.name}
                    sentence = _("The namespace “%(namespace)s” has no queue “%(name)s”.") % words
                    self.problems.append((f"{entry.at('queues')}[{number}]", sentence))
            if grantee is None:
                continue
            for permission, target in dict.fromkeys(wanted):
                before = beyond.pop(grants.key(grantee, permission, target), None)
                if before is None or (before.expires_at, before.reason) != (entry.expires_at, entry.reason):
                    to = (self.namespace.pk, grantee, permission, target)
                    grants.put(self.ledger, *to, before, entry.expires_at, entry.reason)
        targets: dict[str, Namespace | Queue] = {row.pk: row for row in queues.values()}
        targets[self.namespace.pk] = self.namespace
        for grant in beyond.values():
            self._take(grant, targets[grant.target_id])

    def _take(self, grant: Grant, target: Namespace | Queue) -> None:
        if self.prune:
            model: Any = Group if grant.kind == "group" else get_user_model()
            holder = model._default_manager.get(pk=grant.holder_id)
            grants.take(self.ledger, self.namespace.pk, holder, grant.permission, target, grant, PRUNED)
        elif grant.counts(self.ledger.now):
            words = {"holder": grant.holder, "permission": grant.permission, "target": target.name}
            self.kept.append(_("%(holder)s holds %(permission)s on %(target)s") % words)

    def _credentials(self, entries: tuple[CredentialEntry, ...]) -> None:
        applications = {row.name: row for row in Application.objects.filter(namespace=self.namespace)}
        rows = Credential.objects.filter(namespace=self.namespace, revoked_at=None)
        beyond = {row.pk: row for row in rows.select_related("application")}
        for entry in entries:
            user = self.people.holder("user", entry.user, entry.at("user"))
            application = applications.get(entry.application or "")
            if entry.application is not None and application is None:
                words = {"name": entry.application, "namespace": self.namespace.name}
                sentence = _("The namespace “%(namespace)s” has no application “%(name)s”.") % words
                self.problems.append((entry.at("application"), sentence))
            elif user is not None:
                self._credential(entry, user, application, beyond)
        names = dict(get_user_model()._default_manager.values_list("pk", "username")) if beyond else {}
        for row in beyond.values():
            if self.prune:
                credentials.withdraw(self.ledger, row, PRUNED)
            else:
                words = {"user": names.get(row.user, ""), "label": row.label, "namespace": self.namespace.name}
                self.kept.append(_("%(user)s has the credential “%(label)s” for %(namespace)s") % words)

    def _credential(
        self, entry: CredentialEntry, user: Any, application: Application | None, beyond: dict[str, Credential]
    ) -> None:
        row = credentials.find(self.namespace.pk, user.pk, entry.label)
        if row is None:
            to = (self.namespace.pk, user, entry.label, application, entry.expires_at, REASON)
            issued = credentials.issue(self.ledger, *to)
            self.tokens.append(issued.as_printed(self.namespace.name, entry.user))
            return
        beyond.pop(row.pk, None)
        if (row.application_id, row.expires_at) != (application and application.pk, entry.expires_at):
            credentials.alter(self.ledger, row, application, entry.expires_at, REASON)
