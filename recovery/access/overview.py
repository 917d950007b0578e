"""Who holds what in a namespace, and through what: read for pages, never for a decision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.auth import get_user_model

from recovery import permissions
from recovery.permissions import Grant


@dataclass(frozen=True)
class Way:
    """One grant that reaches a person. `through`: the group's name, "" where it is direct."""

    grant: Grant
    through: str


@dataclass(frozen=True)
class Person:
    """An account that a grant reaches."""

    key: int
    name: str
    is_active: bool
    is_superuser: bool


Held = dict[tuple[str, str], list[Way]]
"""Permission and id of the target, to every grant of it that reaches one person, direct ones first."""


@dataclass(frozen=True)
class Overview:
    """`grants`: all of the namespace, ended ones too; `members`: group id to the people in it."""

    grants: list[Grant]
    people: dict[int, Person]
    members: dict[int, list[Person]]

    @cached_property
    def groups(self) -> dict[int, str]:
        """The groups that hold something, by id, in the order of their names."""
        return {grant.holder_id: grant.holder for grant in self.grants if grant.kind == "group"}

    @cached_property
    def by_person(self) -> dict[int, Held]:
        """What reaches each person."""
        reached: dict[int, Held] = defaultdict(dict)
        for grant in self.grants:
            if grant.kind == "user":
                holders, through = [grant.holder_id], ""
            else:
                holders, through = [person.key for person in self.members.get(grant.holder_id, ())], grant.holder
            for user_id in holders:
                what = (grant.permission, grant.target_id)
                reached[user_id].setdefault(what, []).append(Way(grant, through))
        for held in reached.values():
            for ways in held.values():
                ways.sort(key=lambda way: way.through)
        return reached

    def of_group(self, group_id: int) -> list[Grant]:
        return [grant for grant in self.grants if grant.kind == "group" and grant.holder_id == group_id]


def load(namespace_id: str) -> Overview:
    """Everything about one namespace, in three statements."""
    grants = permissions.grants(namespace_id)
    members: dict[int, list[Person]] = defaultdict(list)
    people: dict[int, Person] = {}
    groups = {grant.holder_id for grant in grants if grant.kind == "group"}
    for group_id, *row in _people({"groups__in": groups}, "groups"):
        people[row[0]] = person = Person(*row)
        members[group_id].append(person)
    direct = {grant.holder_id for grant in grants if grant.kind == "user"} - set(people)
    people |= {row[0]: Person(*row) for row in _people({"pk__in": direct})}
    return Overview(grants, dict(sorted(people.items(), key=lambda item: item[1].name)), members)


def of_person(namespace_id: str, person: Any) -> Held:
    """What reaches one person, in two statements."""
    groups = dict(person.groups.values_list("pk", "name"))
    one = Person(person.pk, person.get_username(), person.is_active, person.is_superuser)
    overview = Overview(permissions.grants(namespace_id), {one.key: one}, {key: [one] for key in groups})
    return overview.by_person.get(person.pk, {})


def _people(which: dict[str, Any], *first: str) -> Iterable[Any]:
    rows = get_user_model()._default_manager.filter(**which).order_by("username")
    return rows.values_list(*first, "pk", "username", "is_active", "is_superuser")
