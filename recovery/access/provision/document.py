"""The provisioning document, checked as a whole before the database is asked (contract: "Provisioning").

A member that is absent is not governed by the file: what is there stays as it is, what is new gets the default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.access.holders import PERMISSIONS
from recovery.errors import ValidationFailed
from recovery.operations import commands
from recovery.operations.commands import Invalid
from recovery.states import TenantStatus

MAX_NUMBER = 2**31 - 1
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)


def _label(limit: int) -> Callable[[Any], str]:
    return lambda value: commands.label(value, limit)


def _name(value: Any) -> str:
    """A name that stands in URLs."""
    value = commands.label(value, 64)
    if "/" in value or value in (".", ".."):
        raise Invalid(_("The name stands in URLs: without a slash, and neither “.” nor “..”."))
    return value


def _or_null(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _password(value: Any) -> str:
    return commands.text(value, 4096)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid(_("true or false."))
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_NUMBER:
        raise Invalid(_("A whole number from %(least)d to %(most)d.") % {"least": 1, "most": MAX_NUMBER})
    return value


def _status(value: Any) -> str:
    if value not in TenantStatus.values:
        raise Invalid(_("One of: %(words)s.") % {"words": ", ".join(TenantStatus.values)})
    return str(value)


def _permission(value: Any) -> str:
    if value not in PERMISSIONS:
        raise Invalid(_("There is no such permission. One of: %(words)s.") % {"words": ", ".join(PERMISSIONS)})
    return str(value)


def instant(value: Any) -> datetime:
    """RFC 3339, with an offset; answers UTC. Raises Invalid."""
    if isinstance(value, str) and _INSTANT.match(value):
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(value).astimezone(UTC)
            if moment.year >= 1970:  # the databases differ about what lies long before
                return moment
    raise Invalid(_("A time with its offset, like “2026-12-31T18:00:00Z” (RFC 3339)."))


@dataclass(frozen=True)
class Each:
    """A member that is a list of objects (an entry's class) or of values (a check)."""

    item: Any


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An object of the document: each member is annotated with its check, or with the class of the object there.

    `path`: where it stands, "" for the document itself.
    """

    path: str

    def at(self, member: str) -> str:
        return f"{self.path}.{member}" if self.path else member

    @classmethod
    @cache
    def members(cls) -> dict[str, Any]:
        """Name to what is expected there."""
        hints = get_type_hints(cls, include_extras=True)
        return {name: get_args(hint)[1] for name, hint in hints.items() if get_origin(hint) is Annotated}


_Long = Annotated[str, _label(150)]
_Name = Annotated[str, _name]
_Number = Annotated[int | None, _number]
_Status = Annotated[str | None, _status]
_Until = Annotated[datetime | None, _or_null(instant)]


@dataclass(frozen=True, kw_only=True)
class GroupEntry(Entry):
    name: _Long


@dataclass(frozen=True, kw_only=True)
class UserEntry(Entry):
    """`password`: null leaves the one there is, and a new account has none to sign in with."""

    username: _Long
    password: Annotated[str | None, _or_null(_password)] = None
    superuser: Annotated[bool | None, _flag] = None
    groups: Annotated[tuple[str, ...] | None, Each(_label(150))] = None


@dataclass(frozen=True, kw_only=True)
class ApplicationEntry(Entry):
    name: _Name
    status: _Status = None
    max_open_tasks: _Number = None
    max_open_instances: _Number = None


@dataclass(frozen=True, kw_only=True)
class QueueEntry(Entry):
    name: _Name
    lease_ms: _Number = None
    max_open_tasks: _Number = None
    max_running: _Number = None


@dataclass(frozen=True, kw_only=True)
class Grantee(Entry):
    """Exactly one of the two."""

    user: Annotated[str | None, _label(150)] = None
    group: Annotated[str | None, _label(150)] = None

    @property
    def kind(self) -> str:
        return "group" if self.user is None else "user"

    @property
    def name(self) -> str:
        return self.user or self.group or ""


@dataclass(frozen=True, kw_only=True)
class GrantEntry(Entry):
    to: Annotated[Grantee, Grantee]
    permissions: Annotated[tuple[str, ...], Each(_permission)] = ()
    queues: Annotated[tuple[str, ...], Each(_name)] = ()
    expires_at: _Until = None
    reason: Annotated[str, commands.reason]


@dataclass(frozen=True, kw_only=True)
class CredentialEntry(Entry):
    user: _Long
    label: Annotated[str, _label(128)]
    application: Annotated[str | None, _or_null(_name)] = None
    expires_at: _Until = None


@dataclass(frozen=True, kw_only=True)
class NamespaceEntry(Entry):
    name: _Name
    display_name: Annotated[str | None, _label(128)] = None
    status: _Status = None
    applications: Annotated[tuple[ApplicationEntry, ...], Each(ApplicationEntry)] = ()
    queues: Annotated[tuple[QueueEntry, ...], Each(QueueEntry)] = ()
    grants: Annotated[tuple[GrantEntry, ...] | None, Each(GrantEntry)] = None
    credentials: Annotated[tuple[CredentialEntry, ...] | None, Each(CredentialEntry)] = None


@dataclass(frozen=True, kw_only=True)
class Document(Entry):
    groups: Annotated[tuple[GroupEntry, ...], Each(GroupEntry)] = ()
    users: Annotated[tuple[UserEntry, ...], Each(UserEntry)] = ()
    namespaces: Annotated[tuple[NamespaceEntry, ...], Each(NamespaceEntry)] = ()


Problems = list[tuple[str, str]]


def read(text: bytes) -> Document:
    """Parses and checks a document. Raises ValidationFailed: the path of each wrong member, with its sentences."""
    try:
        value = exact_json.loads(text.decode())
        if problem := exact_json.problem(value):
            raise exact_json.InvalidJson(problem)
    except UnicodeDecodeError as error:
        raise refusal([("", _("This is not UTF-8: %(problem)s.") % {"problem": error})]) from None
    except exact_json.InvalidJson as error:
        raise refusal([("", _("This is not JSON: %(problem)s.") % {"problem": error})]) from None
    problems: Problems = []
    document = _read(Document, value, "", problems)
    if not problems:
        problems += _contradictions(document)
    if problems:
        raise refusal(problems)
    return document


def refusal(problems: Problems) -> ValidationFailed:
    """The error that names every problem under its path."""
    told: dict[str, list[str]] = {}
    for path, sentence in problems:
        told.setdefault(path or _("the document"), []).append(sentence)
    return ValidationFailed(_("The document is not valid; nothing was written."), fields=told)


def _read(expected: Any, value: Any, path: str, problems: Problems) -> Any:
    """One member: `expected` is a check, the class of an object, or a list of either."""
    if isinstance(expected, Each):
        if isinstance(value, list):
            return tuple(_read(expected.item, item, f"{path}[{at}]", problems) for at, item in enumerate(value))
        problems.append((path, _("This has to be a list.")))
    elif isinstance(expected, type):
        if isinstance(value, Mapping):
            return _read_object(expected, value, path, problems)
        problems.append((path, _("This has to be an object.")))
    else:
        try:
            return expected(value)
        except Invalid as error:
            problems.append((path, str(error)))
    return None


def _read_object(kind: Any, value: Mapping[str, Any], path: str, problems: Problems) -> Any:
    where = f"{path}." if path else ""
    members, required = kind.members(), {field.name for field in fields(kind) if field.default is MISSING}
    for name in value:
        if name not in members:
            problems.append((f"{where}{commands.printable(name)}", _("There is no such member; remove it.")))
    for name in members:
        if name in required and name not in value:
            problems.append((f"{where}{name}", _("This member is missing.")))
    given = {name: member for name, member in value.items() if name in members}
    read = {name: _read(members[name], member, f"{where}{name}", problems) for name, member in given.items()}
    return kind(path=path, **read) if not problems else None


def _contradictions(document: Document) -> Iterator[tuple[str, str]]:
    """What is said twice, and grants of nothing or to nobody."""
    yield from _twice(document.groups, "name")
    yield from _twice(document.users, "username")
    yield from _twice(document.namespaces, "name")
    for namespace in document.namespaces:
        yield from _twice(namespace.applications, "name")
        yield from _twice(namespace.queues, "name")
        yield from _twice(namespace.credentials or (), "user", "label")
        for grant in namespace.grants or ():
            if (grant.to.user is None) == (grant.to.group is None):
                yield grant.at("to"), _("Either a user or a group.")
            if not grant.permissions and not grant.queues:
                yield grant.path, _("A grant names at least one permission or queue.")
        yield from _twice([grant.to for grant in namespace.grants or ()], "kind", "name")


def _twice(entries: Iterable[Entry], *identity: str) -> Iterator[tuple[str, str]]:
    """Entries that name what an earlier one has named."""
    seen = set()
    for entry in entries:
        key = tuple(getattr(entry, member) for member in identity)
        if key in seen:
            yield entry.path, _("“%(name)s” is named for the second time.") % {"name": key[-1]}
        seen.add(key)
