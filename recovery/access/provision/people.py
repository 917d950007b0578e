"""Groups, accounts and who belongs to what, of a provisioning document."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.utils.translation import gettext as _

from recovery.access import groups, holders
from recovery.access.ledger import Ledger
from recovery.access.provision.document import Document, Problems, UserEntry
from recovery.access.provision.tenants import REASON

PRUNED = "not in the provisioned document"
"""Stated in the log for what `prune` removes."""


class People:
    """`kept`: memberships beyond the document, in words; `problems`: names that are not there, with their paths."""

    def __init__(self, ledger: Ledger, prune: bool, kept: list[str], problems: Problems) -> None:
        self.ledger = ledger
        self.prune = prune
        self.kept = kept
        self.problems = problems

    def provide(self, document: Document) -> None:
        for entry in document.groups:
            if holders.group(entry.name) is None and self._is_free(Group, "name", entry.name, entry.at("name")):
                groups.make(self.ledger, entry.name, reason=REASON)
        for user in document.users:
            self._account(user)
        governed = {entry.name for entry in document.groups} if document.users else set()
        named = {user.username for user in document.users}
        for user in document.users:
            self._memberships(user, governed)
        for name in sorted(governed):
            if group := holders.group(name):
                for person in group.user_set.order_by("username"):
                    if person.get_username() not in named:
                        self._leave(group, person)

    def holder(self, kind: str, name: str, path: str) -> Any | None:
        """A user or a group, of the document or from before; None, and a problem, where there is none."""
        found = holders.group(name) if kind == "group" else holders.user(name)
        if found is None:
            sentence = _("There is no group “%(name)s”.") if kind == "group" else _("There is no account “%(name)s”.")
            self.problems.append((path, sentence % {"name": name}))
        return found

    def _is_free(self, model: Any, member: str, name: str, path: str) -> bool:
        """Whether the database can tell the name from all others: MariaDB merges case and accents here."""
        if not model._default_manager.filter(**{member: name}).exists():
            return True
        self.problems.append(
            (path, _("“%(name)s” differs from another name in case or accents only.") % {"name": name})
        )
        return False

    def _account(self, entry: UserEntry) -> None:
        model: Any = get_user_model()
        user = holders.user(entry.username)
        if user is None:
            if self._is_free(model, "username", entry.username, entry.at("username")):
                user = model(username=entry.username, is_superuser=bool(entry.superuser))
                user.set_password(entry.password)  # None: nobody can sign in with one
                user.save(force_insert=True)
                after = {"superuser": user.is_superuser, "password": entry.password is not None}
                self.ledger.enter("create_user", reason=REASON, subject=user, after=after)
            return
        before, after = {}, {}
        if entry.superuser is not None and user.is_superuser != entry.superuser:
            before, after = {"superuser": user.is_superuser}, {"superuser": entry.superuser}
            user.is_superuser = entry.superuser
        if entry.password is not None and not user.check_password(entry.password):
            user.set_password(entry.password)
            after["password"] = True
        if after:
            user.save(update_fields=["is_superuser", "password"])
            self.ledger.enter("change_user", reason=REASON, subject=user, before=before, after=after)

    def _memberships(self, entry: UserEntry, governed: set[str]) -> None:
        user = holders.user(entry.username)
        if entry.groups is None or user is None:
            return
        held = {group.name: group for group in user.groups.all()}
        for number, name in enumerate(entry.groups):
            group = self.holder("group", name, f"{entry.at('groups')}[{number}]")
            if group is not None and held.pop(name, None) is None:
                groups.add(self.ledger, group, user, reason=REASON)
        for group in held.values():
            self._leave(group, user)

    def _leave(self, group: Group, person: Any) -> None:
        if self.prune:
            groups.remove(self.ledger, group, person, reason=PRUNED)
        else:
            names = {"person": person.get_username(), "group": group.name}
            self.kept.append(_("%(person)s belongs to %(group)s") % names)
