"""`manage.py provision`: what a file says is made so, once, in one transaction."""

import json
from typing import Any

import pytest
import time_machine
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from recovery import permissions
from recovery.access import credentials, grants
from recovery.models import (
    AccessLog,
    ApplicationQuota,
    Credential,
    Namespace,
    QueueQuota,
    ResultStream,
)
from recovery.permissions import ADMINISTER, READ, RECOVER, Actor
from recovery.writes import change
from tests.access.conftest import Run
from tests.access.provisioning import CONTRACT, altered, everything, op

pytestmark = pytest.mark.django_db


def test_the_example_of_the_contract_is_made_so(run: Run) -> None:
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


def test_tokens_alone_are_on_standard_output(run: Run) -> None:
    ran = run(CONTRACT)
    assert ran.stdout.strip() == json.dumps({"credentials": ran.tokens}, separators=(",", ":"))
    assert ran.tokens[0]["token"] not in ran.stderr
    assert "pay: grant workflows:recover oncall" in ran.stderr


def test_every_grant_is_logged_as_the_pages_log_it(run: Run) -> None:
    run(CONTRACT)
    logged = AccessLog.objects.filter(action="grant").order_by("sequence")
    assert [(row.actor, row.subject, row.permission, row.queue and row.queue.name, row.reason) for row in logged] == [
        ("manage.py", "oncall", "workflows:read", None, "on call"),
        ("manage.py", "oncall", "workflows:recover", None, "on call"),
        ("manage.py", "oncall", "queues:use", "bank", "on call"),
    ]
    assert logged[0].after["members"] == ["op"]


def test_a_second_run_changes_nothing_and_prints_no_token(run: Run) -> None:
    run(CONTRACT)
    before = everything()
    ran = run(CONTRACT)
    assert (ran.status, ran.tokens, ran.stderr) == (0, [], "")
    assert everything() == before


def test_check_shows_the_plan_and_writes_nothing(run: Run) -> None:
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
def test_what_differs_is_drift_and_is_changed(run: Run, path: str, value: Any) -> None:
    run(CONTRACT)
    document = altered(**{path: value})
    before = everything()
    assert run(document, "--check").status == 1
    assert everything() == before
    assert run(document).status == 0
    assert run(document, "--check").status == 0
    assert AccessLog.objects.order_by("-sequence")[0].actor == "manage.py"


def test_what_the_file_does_not_say_stays_as_it_is(run: Run) -> None:
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


def test_nothing_is_removed_without_prune(run: Run) -> None:
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


def test_prune_removes_rights_that_the_file_does_not_name_and_logs_it(run: Run) -> None:
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


def test_the_last_administrator_is_not_provisioned_away(run: Run) -> None:
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


def test_a_revoked_credential_is_made_again_and_its_token_is_new(run: Run) -> None:
    (first,) = run(altered(namespaces__0__grants__0__permissions=["access:admin"])).tokens
    credentials.revoke(op(), first["id"], reason="leaked")
    (second,) = run(altered(namespaces__0__grants__0__permissions=["access:admin"])).tokens
    assert first["id"] != second["id"]
    assert credentials.authenticate(second["token"]).username == "op"


def test_a_grant_that_has_ended_stays_as_the_file_says(run: Run) -> None:
    document = altered(namespaces__0__grants__0__expires_at="2026-01-01T00:00:00Z")
    with time_machine.travel("2026-06-01T00:00:00Z"):
        assert run(document).status == 0
        assert run(document, "--check").status == 0
        assert permissions.rights_of(op().user_id, Namespace.objects.get().pk).permissions == set()
