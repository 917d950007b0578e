"""Bad provisioning files: the wrong member is named by its path, and nothing is written."""

import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.core.management.base import CommandError

from recovery.models import (
    Namespace,
)
from tests.access.conftest import Run
from tests.access.provisioning import CONTRACT, altered, everything

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("groups", {}, "groups: This has to be a list."),
        ("groups__0", "oncall", "groups[0]: This has to be an object."),
        ("groups__0", {}, "groups[0].name: This member is missing."),
        ("groups__0__name", 7, "groups[0].name: This has to be text."),
        ("groups__0__color", "red", "groups[0].color: There is no such member; remove it."),
        ("roles", [], "roles: There is no such member; remove it."),
        ("users__0__password", "", "users[0].password: 1 to 4096 characters."),
        ("users__0__superuser", "yes", "users[0].superuser: true or false."),
        ("users__0__superuser", None, "users[0].superuser: true or false."),
        ("users__0__groups", ["nights"], "users[0].groups[0]: There is no group “nights”."),
        ("namespaces__0__name", "a/b", "namespaces[0].name: The name stands in URLs"),
        ("namespaces__0__status", "ASLEEP", "namespaces[0].status: One of: ACTIVE, SUSPENDED."),
        ("namespaces__0__queues__0__lease_ms", 0, "namespaces[0].queues[0].lease_ms: A whole number from 1"),
        ("namespaces__0__queues__0__lease_ms", 1.5, "namespaces[0].queues[0].lease_ms: A whole number from 1"),
        ("namespaces__0__queues__0__lease_ms", True, "namespaces[0].queues[0].lease_ms: A whole number from 1"),
        ("namespaces__0__queues__0__lease_ms", 2**31, "namespaces[0].queues[0].lease_ms: A whole number from 1"),
        ("namespaces__0__grants__0__to", {}, "namespaces[0].grants[0].to: Either a user or a group."),
        (
            "namespaces__0__grants__0__to",
            {"user": "op", "group": "oncall"},
            "namespaces[0].grants[0].to: Either a user or a group.",
        ),
        (
            "namespaces__0__grants__0__to",
            {"user": "eve"},
            "namespaces[0].grants[0].to.user: There is no account “eve”.",
        ),
        ("namespaces__0__grants__0__to", {"group": "x"}, "namespaces[0].grants[0].to.group: There is no group “x”."),
        (
            "namespaces__0__grants__0__permissions",
            ["workflows:read", "workflows:fly"],
            "namespaces[0].grants[0].permissions[1]: There is no such permission.",
        ),
        (
            "namespaces__0__grants__0__permissions",
            ["queues:use"],
            "namespaces[0].grants[0].permissions[0]: There is no such permission.",
        ),
        (
            "namespaces__0__grants__0__queues",
            ["bank", "gold"],
            "namespaces[0].grants[0].queues[1]: The namespace “pay” has no queue “gold”.",
        ),
        ("namespaces__0__grants__0__expires_at", "tomorrow", "namespaces[0].grants[0].expires_at: A time"),
        ("namespaces__0__grants__0__expires_at", "2027-01-01T00:00:00", "namespaces[0].grants[0].expires_at: A time"),
        ("namespaces__0__grants__0__expires_at", "2027-02-30T00:00:00Z", "namespaces[0].grants[0].expires_at: A time"),
        ("namespaces__0__grants__0__expires_at", "0001-01-01T00:00:00+14:00", "expires_at: A time"),
        ("namespaces__0__grants__0__reason", " ", "namespaces[0].grants[0].reason: White space alone"),
        ("namespaces__0__credentials__0__user", "eve", "namespaces[0].credentials[0].user: There is no account “eve”."),
        (
            "namespaces__0__credentials__0__application",
            "gone",
            "namespaces[0].credentials[0].application: The namespace “pay” has no application “gone”.",
        ),
        ("namespaces__0__credentials__0__label", "x" * 129, "namespaces[0].credentials[0].label: 1 to 128 characters."),
    ],
)
def test_a_wrong_member_is_named_by_its_path_and_nothing_is_written(run: Run, path: str, value: Any, told: str) -> None:
    before = everything()
    ran = run(altered(**{path: value}))
    assert (ran.status, ran.stdout) == (2, "")
    assert told in ran.error
    assert everything() == before


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ("groups", "groups[1]: “oncall” is named for the second time."),
        ("users", "users[1]: “op” is named for the second time."),
        ("namespaces", "namespaces[1]: “pay” is named for the second time."),
    ],
)
def test_a_name_that_stands_twice_is_refused(run: Run, listed: str, told: str) -> None:
    document = altered(**{listed: CONTRACT[listed] * 2})
    assert told in run(document).error


@pytest.mark.parametrize("listed", ["applications", "queues", "grants", "credentials"])
def test_so_is_one_within_a_namespace(run: Run, listed: str) -> None:
    document = altered(**{f"namespaces__0__{listed}": CONTRACT["namespaces"][0][listed] * 2})
    ran = run(document)
    assert ran.status == 2
    assert f"namespaces[0].{listed}[1]" in ran.error


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "This is not JSON"),
        (b"{", "This is not JSON"),
        (b"\xff", "This is not UTF-8"),
        (b"[]", "This has to be an object."),
        (b'{"groups": [], "groups": []}', "an object names a member twice"),
        (b'{"groups": [{"name": "\\ud800"}]}', "a text holds a lone surrogate"),
        (b'{"groups": NaN}', "NaN is not JSON"),
        (b"[" * 100_000, "nested deeper than 64 levels"),
    ],
)
def test_what_is_no_document_is_refused(run: Run, text: bytes, told: str) -> None:
    ran = run(text)
    assert ran.status == 2
    assert told in ran.error


def test_every_problem_is_told_at_once(run: Run) -> None:
    ran = run(altered(users__0__superuser="yes", namespaces__0__status="ASLEEP"))
    assert "users[0].superuser" in ran.error
    assert "namespaces[0].status" in ran.error


def test_a_file_that_is_not_there_is_said_so() -> None:
    with pytest.raises(CommandError, match="The file cannot be read"):
        call_command("provision", "/nowhere/provision.json")


def test_a_minus_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(CONTRACT).encode())))
    call_command("provision", "-", stdout=io.StringIO(), stderr=io.StringIO())
    assert Namespace.objects.filter(name="pay").exists()


def test_a_name_that_the_database_would_merge_with_another_is_refused(run: Run) -> None:
    Group.objects.create(name="oncall")
    merges = Group.objects.filter(name="ONCALL").exists()
    ran = run({"groups": [{"name": "ONCALL"}]})
    assert ran.status == (2 if merges else 0)
    if merges:
        assert "groups[0].name: “ONCALL” differs from another name in case or accents only." in ran.error
