"""Who may do what at every path of the document: (endpoint, person) to the status of the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from recovery import clock, permissions
from recovery.access import credentials
from recovery.api.document import document
from recovery.models import Application, ApplicationQuota, NamespaceUserGrant, QueueUserGrant
from recovery.writes import insert
from tests.api.callers import Answer, Caller, caller
from tests.api.desk import STATEMENTS, desk_of
from tests.support.evidence import TEXT, attach
from tests.support.trees import parallel, sequence, signal, task
from tests.support.world import OPERATOR, World, make_world

DECISION = {"expected_revision": "1", "reason": "why", "evidence_ref": "e:1"}
STEP = {"step_key": "pay", "activation_id": "a", "expected_step_revision": "1"}
CONTROL = {"expected_control_revision": "9", "reason": "why"}


@dataclass(frozen=True)
class Endpoint:
    """`granted`: what is answered to those who may: a success, or a refusal that comes after the question of rights."""

    method: str
    path: str
    granted: int
    body: Any = None


def _endpoints() -> dict[str, Endpoint]:
    """By operation id, for every operation of the document."""
    bodies = {
        "publish_definition": (422, {}),
        "attach_evidence": (415, {}),
        "start_instance": (422, {}),
        "send_signal": (409, {"step_key": "x", "generation": 1, "name": "n", "correlation_key": "c"} | _SOURCE),
        "pause": (409, CONTROL),
        "resume": (409, CONTROL),
        "cancel": (409, CONTROL),
        "cancel_task": (409, {"expected_task_revision": "9", "reason": "why"}),
        "claim_tasks": (200, {"worker": "w", "max_tasks": 1}),
        "heartbeat": (409, {"lease_token": "wrong"}),
        "succeed": (409, {"lease_token": "wrong", "result": None}),
        "fail": (409, {"lease_token": "wrong", "retryable": False} | _ERROR),
        "unknown": (409, {"lease_token": "wrong"} | _ERROR),
        "review_task": (409, DECISION | {"task_id": "t", "expected_task_revision": "1"} | _OUTCOME | {"result": 1}),
        "resolve_step": (409, DECISION | STEP | _OUTCOME | {"output": 1}),
        "continue_poll": (409, DECISION | STEP),
        "rearm_wait": (409, DECISION | STEP),
        "retry_step": (409, DECISION | STEP),
        "continue": (409, DECISION),
    }
    found = {}
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"]
            granted, body = bodies.get(name, (200, None))
            if name.replace("_", "-") in STATEMENTS:
                body = body | {STATEMENTS[name.replace("_", "-")]: True}
            found[name] = Endpoint(method.upper(), path, granted, body)
    return found


_SOURCE = {"source_key": "s", "payload": {}}
_ERROR = {"error_code": "E", "error_message": ""}
_OUTCOME = {"outcome": "SUCCEEDED"}

READERS = {"read_instance", "read_history", "explain_recovery", "list_instances", "list_definitions"} | {
    "read_definition_version"
}
EVIDENCE = {"read_evidence", "read_evidence_file"}
RECOVERY = {slug.replace("-", "_") for slug in STATEMENTS} | {"read_receipt"}
WORKERS = {"claim_tasks", "heartbeat", "succeed", "fail", "unknown"}
SENDERS = {"send_signal", "publish_definition", "start_instance"}


@dataclass
class Place:
    """A world with something at every path. `ids`: what stands in the paths."""

    world: World
    ids: dict[str, str]

    def url(self, endpoint: Endpoint, **ids: str) -> str:
        return endpoint.path.format(**(self.ids | ids))

    def answers(self, by: Caller, **ids: str) -> dict[str, Answer]:
        return {
            name: by.call(each.method, self.url(each, **_for(each, ids)), each.body, **{"Idempotency-Key": "another"})
            for name, each in _endpoints().items()
        }


def _for(endpoint: Endpoint, ids: dict[str, str]) -> dict[str, str]:
    """`name` is a queue's in one path, a definition's in another."""
    kind = "queue" if endpoint.path.startswith("/queues") else "definition"
    return ids | ({"name": ids[kind]} if kind in ids else {})


def furnish(world: World) -> Place:
    desk = desk_of(world)
    run = desk.start(sequence(parallel(task("pay"), signal("receipt"), task("mail", queue="mail"), key="all")))
    lease = desk.claim()
    desk.unknown(lease)
    receipt = run.recover("review-task", "pay")
    return Place(
        world,
        {
            "instance_id": run.id,
            "task_id": lease["task"]["id"],
            "attempt_id": lease["attempt"]["id"],
            "operation_key": receipt["operation_key"],
            "version": "1",
            "evidence_ref": attach(world, TEXT),
            "number": "1",
            "name": run.state["definition"]["name"],
        },
    )


@pytest.fixture(name="place")
def _place(world: World) -> Place:
    return furnish(world)


def expected(*, reads: int, lists: int, **groups: int) -> dict[str, int]:
    """A whole column: what readers' paths answer, and each group of the others."""
    column = {}
    for name, endpoint in _endpoints().items():
        if name in ("list_instances", "list_definitions"):
            column[name] = lists
        elif name == "list_audit" or name in EVIDENCE:
            column[name] = groups["audit"]
        elif name in READERS or name.startswith("list_"):
            column[name] = reads
        elif name in RECOVERY:
            column[name] = groups["recovery"]
        elif name in WORKERS:
            column[name] = groups["work"]
        elif name in SENDERS:
            column[name] = groups["send"]
        else:
            column[name] = groups["control"]
        if column[name] == GRANTED:
            column[name] = endpoint.granted
    return column


GRANTED = -1
"""Stands for what an endpoint answers to those who may."""

COLUMNS = {
    "nobody": expected(reads=401, lists=401, audit=401, recovery=401, work=401, send=401, control=401),
    "outsider": expected(reads=404, lists=404, audit=404, recovery=404, work=403, send=403, control=404),
    "reader": expected(reads=200, lists=200, audit=403, recovery=403, work=403, send=403, control=403),
    "worker": expected(reads=404, lists=404, audit=404, recovery=404, work=GRANTED, send=403, control=404),
    "operator": expected(reads=200, lists=200, audit=200, recovery=GRANTED, work=403, send=GRANTED, control=GRANTED),
    "operator without one queue": expected(
        reads=200, lists=200, audit=200, recovery=403, work=403, send=GRANTED, control=GRANTED
    ),
}
for _same, _as in {
    "superuser without a grant": "outsider",
    "operator whose grants have ended": "outsider",
    "operator whose credential was revoked": "nobody",
    "operator whose credential has expired": "nobody",
    "operator whose account is not active": "nobody",
}.items():
    COLUMNS[_same] = COLUMNS[_as]


def _superuser(world: World) -> Caller:
    actor = world.actor()
    get_user_model().objects.filter(pk=actor.user_id).update(is_superuser=True, is_staff=True)
    return caller(world, actor)


def _ended(world: World) -> Caller:
    actor = world.actor(*OPERATOR, queues=("bank", "mail"))
    for model in (NamespaceUserGrant, QueueUserGrant):
        model.objects.filter(user_id=actor.user_id).update(expires_at=clock.now())
    return caller(world, actor)


def _operator(world: World) -> Any:
    return world.actor(*OPERATOR, queues=("bank", "mail"))


def _revoked(world: World) -> Caller:
    issued = credentials.create(world.operator, _operator(world).username, "to be revoked", reason="test")
    credentials.revoke(world.operator, issued.credential.pk, reason="test")
    return Caller(issued.token)


def _expired(world: World) -> Caller:
    found = caller(world, _operator(world), expires_at=clock.now() + timedelta(seconds=1))
    world.travel(seconds=1, run=False)
    return found


def _inactive(world: World) -> Caller:
    actor = _operator(world)
    found = caller(world, actor)
    get_user_model().objects.filter(pk=actor.user_id).update(is_active=False)
    return found


PEOPLE: dict[str, Callable[[World], Caller]] = {
    "nobody": lambda world: Caller(""),
    "outsider": lambda world: caller(world, world.actor()),
    "reader": lambda world: caller(world, world.actor(permissions.READ)),
    "worker": lambda world: caller(world, world.worker),
    "operator": lambda world: caller(world, world.operator),
    "operator without one queue": lambda world: caller(world, world.actor(*OPERATOR, queues=("bank",))),
    "superuser without a grant": _superuser,
    "operator whose grants have ended": _ended,
    "operator whose credential was revoked": _revoked,
    "operator whose credential has expired": _expired,
    "operator whose account is not active": _inactive,
}


@pytest.mark.rule("G1", "G2")
@pytest.mark.parametrize("person", PEOPLE)
def test_every_path_answers_each_person_as_the_table_says(place: Place, person: str) -> None:
    answers = place.answers(PEOPLE[person](place.world), queue="bank")
    assert {name: answer.status for name, answer in answers.items()} == COLUMNS[person]


@pytest.mark.rule("G1")
def test_what_is_foreign_is_answered_as_what_nobody_has(place: Place) -> None:
    """For somebody with every right, in another namespace: the same bytes, at every path."""
    elsewhere = make_world(place.world.traveller, name="elsewhere")
    everything = elsewhere.actor(*OPERATOR, permissions.WORK, queues=("bank", "mail"))
    foreign = place.world.add_queue("only-here").name
    by = caller(elsewhere, everything)
    unknown = dict.fromkeys(place.ids, "f" * 32) | {"version": "1", "queue": "nowhere", "definition": "nowhere"}
    seen = place.answers(by, queue=foreign)
    unseen = place.answers(by, **unknown)
    with_ids = {name for name, each in _endpoints().items() if "{" in each.path}
    assert {name: seen[name].status for name in with_ids} == dict.fromkeys(with_ids, 404)
    assert {name: seen[name].body for name in with_ids} == {name: unseen[name].body for name in with_ids}


@pytest.mark.rule("G1")
def test_a_credential_for_one_application_does_not_reach_another(place: Place) -> None:
    world = place.world
    application = Application(namespace=world.namespace, name="till", status="ACTIVE", created_at=clock.now())
    insert(application, ApplicationQuota(application=application, max_open_tasks=9, max_open_instances=9))
    limited = caller(world, world.operator, application="till")
    answers = place.answers(limited, queue="bank")
    by_instance = {name for name, each in _endpoints().items() if "instance_id" in each.path or "task_id" in each.path}
    assert {name: answers[name].status for name in by_instance} == dict.fromkeys(by_instance, 404)
    assert answers["read_receipt"].status == 404
    assert limited.get("/instances")["items"] == []


@pytest.mark.rule("G1")
@pytest.mark.parametrize("of", ["namespace", "application"])
def test_where_the_tenant_is_suspended_nothing_is_decided(place: Place, of: str) -> None:
    tenant = getattr(place.world, of)
    type(tenant).objects.filter(pk=tenant.pk).update(status="SUSPENDED")
    answers = place.answers(caller(place.world, place.world.operator), queue="bank")
    acts = (RECOVERY - {"read_receipt"}) | {"pause", "resume", "cancel", "cancel_task", "send_signal", "read_receipt"}
    assert {name: answers[name].code for name in acts} == dict.fromkeys(acts, "PERMISSION_DENIED")
