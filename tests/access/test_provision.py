"""`manage.py provision`: what a file says is made so, once, in one transaction."""

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.core.management.base import CommandError

from recovery import permissions
from recovery.access import credentials, grants
from recovery.models import (
    AccessLog,
    Application,
    ApplicationQuota,
    Credential,
    Namespace,
    Queue,
    QueueQuota,
    ResultStream,
)
from recovery.permissions import ADMINISTER, READ, RECOVER, Actor
from recovery.writes import change

CONTRACT: dict[str, Any] = {
    "groups": [{"name": "oncall"}],
    "users": [{"username": "op", "password": None, "superuser": False, "groups": ["oncall"]}],
    "namespaces": [
        {
            "name": "pay",
            "display_name": "Payments",
            "status": "ACTIVE",
            "applications": [{"name": "desk", "status": "ACTIVE", "max_open_tasks": 1000, "max_open_instances": 1000}],
            "queues": [{"name": "bank", "lease_ms": 30000, "max_open_tasks": 1000, "max_running": 50}],
            "grants": [
                {
                    "to": {"group": "oncall"},
                    "permissions": ["workflows:read", "workflows:recover"],
                    "queues": ["bank"],
                    "expires_at": None,
                    "reason": "on call",
                }
            ],
            "credentials": [{"user": "op", "label": "desk robot", "application": None, "expires_at": None}],
        }
    ],
}
"""The contract's own example."""

pytestmark = pytest.mark.django_db


class Ran:
    """What a run printed, and how it ended."""

    def __init__(self, folder: Path, document: Any, *options: str) -> None:
        file = folder / "provision.json"
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        file.write_bytes(text)
        stdout, stderr = io.StringIO(), io.StringIO()
        self.status, self.error = 0, ""
        try:
            call_command("provision", str(file), *options, stdout=stdout, stderr=stderr)
        except CommandError as error:
            self.status, self.error = error.returncode, str(error)
        self.stdout, self.stderr = stdout.getvalue(), stderr.getvalue()

    @property
    def tokens(self) -> list[dict[str, str]]:
        return list(json.loads(self.stdout)["credentials"])


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Any:
    return lambda document, *options: Ran(tmp_path, document, *options)


def altered(**changes: Any) -> dict[str, Any]:
    """The contract's example with members replaced, by their path: `namespaces_0_status="SUSPENDED"`."""
    document = copy.deepcopy(CONTRACT)
    for path, value in changes.items():
        *steps, last = path.split("__")
        place: Any = document
        for step in steps:
            place = place[int(step) if step.isdigit() else step]
        place[int(last) if last.isdigit() else last] = value
    return document


def op() -> Actor:
    return permissions.actor_of(get_user_model().objects.get(username="op"), Namespace.objects.get(name="pay").pk)


def everything() -> list[Any]:
    """Every row that provisioning may write, but for the time of its own log."""
    models: tuple[Any, ...] = (Namespace, Application, ApplicationQuota, Queue, QueueQuota, ResultStream, Credential)
    models += (Group, get_user_model(), get_user_model().groups.through, AccessLog)
    rows = [list(model._default_manager.order_by("pk").values()) for model in models]
    return [*rows, [permissions.grants(row.pk) for row in Namespace.objects.order_by("pk")]]


def test_the_example_of_the_contract_is_made_so(run: Any) -> None:
    ran = run(CONTRACT)
    assert ran.status == 0
    (printed,) = ran.tokens
    assert {name: printed[name] for name in ("namespace", "user", "label")} == {
        "namespace": "pay",
        "user": "op",
        "label": "desk robot",
    }
    assert set(printed) == {"namespace", "user", "label", "id", "token"}
    assert credentials.authenticate(printed["token"]).credential_id == printed["id"]
    namespace = Namespace.objects.get(name="pay")
    assert (namespace.display_name, namespace.status) == ("Payments", "ACTIVE")
    application = ApplicationQuota.objects.get(application__name="desk", application__namespace=namespace)
    assert (application.max_open_tasks, application.max_open_instances, application.open_tasks) == (1000, 1000, 0)
    queue = QueueQuota.objects.select_related("queue").get(queue__name="bank", queue__namespace=namespace)
    assert (queue.max_open_tasks, queue.max_running, queue.queue.lease_ms) == (1000, 50, 30000)
    assert ResultStream.objects.get(namespace=namespace).next_offset == 1
    rights = permissions.rights_of(op().user_id, namespace.pk)
    assert rights.permissions == {READ, RECOVER}
    assert rights.queues == {queue.queue_id}
    user = get_user_model().objects.get(username="op")
    assert (user.is_superuser, user.has_usable_password()) == (False, False)


def test_tokens_alone_are_on_standard_output(run: Any) -> None:
    ran = run(CONTRACT)
    assert ran.stdout.strip() == json.dumps({"credentials": ran.tokens}, separators=(",", ":"))
    assert ran.tokens[0]["token"] not in ran.stderr
    assert "pay: grant workflows:recover oncall" in ran.stderr


def test_every_grant_is_logged_as_the_pages_log_it(run: Any) -> None:
    run(CONTRACT)
    logged = AccessLog.objects.filter(action="grant").order_by("sequence")
    assert [(row.actor, row.subject, row.permission, row.queue and row.queue.name, row.reason) for row in logged] == [
        ("manage.py", "oncall", "workflows:read", None, "on call"),
        ("manage.py", "oncall", "workflows:recover", None, "on call"),
        ("manage.py", "oncall", "queues:use", "bank", "on call"),
    ]
    assert logged[0].after["members"] == ["op"]


def test_a_second_run_changes_nothing_and_prints_no_token(run: Any) -> None:
    run(CONTRACT)
    before = everything()
    ran = run(CONTRACT)
    assert (ran.status, ran.tokens, ran.stderr) == (0, [], "")
    assert everything() == before


def test_check_shows_the_plan_and_writes_nothing(run: Any) -> None:
    before = everything()
    ran = run(CONTRACT, "--check")
    assert (ran.status, ran.stdout) == (1, "")
    assert "create_namespace" in ran.stderr
    assert everything() == before
    run(CONTRACT)
    assert run(CONTRACT, "--check").status == 0


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("users__0__superuser", True),
        ("users__0__password", "correct horse"),
        ("namespaces__0__display_name", "Payments 2"),
        ("namespaces__0__status", "SUSPENDED"),
        ("namespaces__0__applications__0__status", "SUSPENDED"),
        ("namespaces__0__applications__0__max_open_tasks", 7),
        ("namespaces__0__applications__0__max_open_instances", 7),
        ("namespaces__0__queues__0__lease_ms", 7),
        ("namespaces__0__queues__0__max_open_tasks", 7),
        ("namespaces__0__queues__0__max_running", 7),
        ("namespaces__0__grants__0__expires_at", "2027-01-01T00:00:00.123456+08:00"),
        ("namespaces__0__grants__0__reason", "on call, CHG-9"),
        ("namespaces__0__grants__0__permissions", ["workflows:read", "workflows:recover", "audit:read"]),
        ("namespaces__0__credentials__0__application", "desk"),
        ("namespaces__0__credentials__0__expires_at", "2027-01-01T00:00:00Z"),
    ],
)
def test_what_differs_is_drift_and_is_changed(run: Any, path: str, value: Any) -> None:
    run(CONTRACT)
    document = altered(**{path: value})
    before = everything()
    assert run(document, "--check").status == 1
    assert everything() == before
    assert run(document).status == 0
    assert run(document, "--check").status == 0
    assert AccessLog.objects.order_by("-sequence")[0].actor == "manage.py"


def test_what_the_file_does_not_say_stays_as_it_is(run: Any) -> None:
    run(CONTRACT)
    application, queue = ApplicationQuota.objects.get(), QueueQuota.objects.get()
    change(application, max_open_tasks=3)
    change(queue, max_running=3)
    user = get_user_model().objects.get(username="op")
    user.set_password("own choice")
    user.save()
    document = {
        "users": [{"username": "op"}],
        "namespaces": [{"name": "pay", "applications": [{"name": "desk"}], "queues": [{"name": "bank"}]}],
    }
    before = everything()
    for options in ((), ("--prune",)):
        assert run(document, *options).stderr == ""
    assert everything() == before


# Pruning


def extra_rights() -> tuple[Actor, Actor]:
    """A person and a permission beyond the file, besides a credential and a membership."""
    namespace = Namespace.objects.get(name="pay")
    eve = get_user_model().objects.create(username="eve")
    eve.groups.add(Group.objects.get(name="oncall"))
    get_user_model().objects.get(username="op").groups.add(Group.objects.create(name="leads"))
    admin = permissions.actor_of(get_user_model().objects.create(username="ada"), namespace.pk)
    permissions.grant(Group.objects.get(name="oncall"), ADMINISTER, namespace, by="set-up", reason="test")
    acting = permissions.actor_of(eve, namespace.pk)
    grants.grant(acting, "group", "oncall", names=["audit:read"], reason="by hand")
    grants.grant(acting, "user", "ada", names=[READ], queues=["bank"], reason="by hand")
    credentials.create(acting, "ada", "laptop", reason="by hand")
    return acting, admin


def test_nothing_is_removed_without_prune(run: Any) -> None:
    run(CONTRACT)
    extra_rights()
    before = everything()
    ran = run(CONTRACT)
    assert (ran.status, everything()) == (0, before)
    assert sorted(line for line in ran.stderr.splitlines() if line) == [
        "kept, --prune removes it: ada has the credential “laptop” for pay",
        "kept, --prune removes it: ada holds queues:use on bank",
        "kept, --prune removes it: ada holds workflows:read on pay",
        "kept, --prune removes it: eve belongs to oncall",
        "kept, --prune removes it: oncall holds access:admin on pay",
        "kept, --prune removes it: oncall holds audit:read on pay",
        "kept, --prune removes it: op belongs to leads",
    ]
    assert run(CONTRACT, "--check").status == 0
    assert run(CONTRACT, "--check", "--prune").status == 2, "the last administrator would go"


def test_prune_removes_rights_that_the_file_does_not_name_and_logs_it(run: Any) -> None:
    run(CONTRACT)
    extra_rights()
    document = altered(namespaces__0__grants__0__permissions=["workflows:read", "workflows:recover", "access:admin"])
    document["namespaces"][0]["grants"][0]["queues"] = []
    assert run(document, "--prune").status == 0
    held = {(grant.holder, grant.permission) for grant in permissions.grants(Namespace.objects.get().pk)}
    assert held == {("oncall", READ), ("oncall", RECOVER), ("oncall", ADMINISTER)}
    assert list(get_user_model().objects.filter(groups__name="oncall").values_list("username", flat=True)) == ["op"]
    assert not get_user_model().objects.filter(groups__name="leads").exists()
    assert list(Credential.objects.filter(revoked_at=None).values_list("label", flat=True)) == ["desk robot"]
    removed = AccessLog.objects.filter(reason="not in the provisioned document").values_list("action", flat=True)
    assert sorted(removed) == [
        "leave_group",
        "leave_group",
        "revoke",
        "revoke",
        "revoke",
        "revoke",
        "revoke_credential",
    ]
    assert run(document, "--prune", "--check").status == 0


def test_the_last_administrator_is_not_provisioned_away(run: Any) -> None:
    document = altered(namespaces__0__grants__0__permissions=["access:admin"])
    run(document)
    before = everything()
    for changed, options in (
        (altered(namespaces__0__grants__0__permissions=["workflows:read"]), ["--prune"]),
        (
            altered(
                namespaces__0__grants__0__permissions=["access:admin"],
                namespaces__0__grants__0__expires_at="2099-01-01T00:00:00Z",
            ),
            [],
        ),
    ):
        ran = run(changed, *options)
        assert ran.status == 2
        assert "Nobody could administer access to pay" in ran.error
        assert everything() == before


# Credentials


def test_a_revoked_credential_is_made_again_and_its_token_is_new(run: Any) -> None:
    (first,) = run(altered(namespaces__0__grants__0__permissions=["access:admin"])).tokens
    credentials.revoke(op(), first["id"], reason="leaked")
    (second,) = run(altered(namespaces__0__grants__0__permissions=["access:admin"])).tokens
    assert first["id"] != second["id"]
    assert credentials.authenticate(second["token"]).username == "op"


def test_a_grant_that_has_ended_stays_as_the_file_says(run: Any) -> None:
    document = altered(namespaces__0__grants__0__expires_at="2026-01-01T00:00:00Z")
    with time_machine.travel("2026-06-01T00:00:00Z"):
        assert run(document).status == 0
        assert run(document, "--check").status == 0
        assert permissions.rights_of(op().user_id, Namespace.objects.get().pk).permissions == set()


# Bad files


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
def test_a_wrong_member_is_named_by_its_path_and_nothing_is_written(run: Any, path: str, value: Any, told: str) -> None:
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
def test_a_name_that_stands_twice_is_refused(run: Any, listed: str, told: str) -> None:
    document = altered(**{listed: CONTRACT[listed] * 2})
    assert told in run(document).error


@pytest.mark.parametrize("listed", ["applications", "queues", "grants", "credentials"])
def test_so_is_one_within_a_namespace(run: Any, listed: str) -> None:
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
def test_what_is_no_document_is_refused(run: Any, text: bytes, told: str) -> None:
    ran = run(text)
    assert ran.status == 2
    assert told in ran.error


def test_every_problem_is_told_at_once(run: Any) -> None:
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


def test_a_name_that_the_database_would_merge_with_another_is_refused(run: Any) -> None:
    Group.objects.create(name="oncall")
    merges = Group.objects.filter(name="ONCALL").exists()
    ran = run({"groups": [{"name": "ONCALL"}]})
    assert ran.status == (2 if merges else 0)
    if merges:
        assert "groups[0].name: “ONCALL” differs from another name in case or accents only." in ran.error


# The first credential


def test_the_command_for_the_first_credential_prints_its_token_once(run: Any) -> None:
    run(altered(namespaces__0__credentials=[]))
    stdout = io.StringIO()
    call_command(
        "credential",
        "pay",
        "op",
        "first",
        application="desk",
        expires="2099-01-01T00:00:00Z",
        reason="set-up",
        stdout=stdout,
    )
    (printed,) = json.loads(stdout.getvalue())["credentials"]
    assert credentials.authenticate(printed["token"]).username == "op"
    entry = AccessLog.objects.order_by("-sequence")[0]
    assert (entry.actor, entry.action, entry.subject, entry.reason) == (
        "manage.py",
        "create_credential",
        "op",
        "set-up",
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"namespace": "gone"}, "no namespace “gone”"),
        ({"user": "eve"}, "no account of this name"),
        ({"application": "gone"}, "no such application"),
        ({"expires": "tomorrow"}, "--expires"),
        ({"expires": "2020-01-01T00:00:00Z"}, "This time has passed"),
        ({"reason": " "}, "White space alone"),
    ],
)
def test_the_command_for_the_first_credential_says_what_is_wrong(
    run: Any, arguments: dict[str, str], told: str
) -> None:
    run(CONTRACT)
    given = {"namespace": "pay", "user": "op", "label": "first", "reason": "set-up", **arguments}
    named = [given.pop(name) for name in ("namespace", "user", "label")]
    with pytest.raises(CommandError, match=told):
        call_command("credential", *named, **given)
    assert Credential.objects.count() == 1
