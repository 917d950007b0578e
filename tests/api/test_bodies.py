"""What is sent is read strictly, and kept exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from recovery import exact_json
from tests.api.callers import Answer
from tests.api.desk import Desk, Run
from tests.support.trees import sequence, task

EXACT = (
    '{"big":12345678901234567890123,"small":1E-400,"tenth":0.1,"long":0.1000000000000000055511151231257827,'
    '"zero":-0,"list":[1.10,100000000000000000001]}'
)


def started(desk: Desk, raw_input: str = "{}") -> Run:
    name = desk.publish(sequence(task("pay", input={"$from": "/instance/input"})))
    body = f'{{"application":"desk","definition":"{name}","business_key":"k","input":{raw_input}}}'
    answer = desk.operator.call("POST", "/instances", raw=body.encode(), **{"Idempotency-Key": "k"})
    assert answer.status == 201, answer.body
    desk.after()
    return Run(desk, answer["instance_id"])


def test_numbers_keep_their_exact_value_from_input_to_result(desk: Desk) -> None:
    run = started(desk, EXACT)
    lease = desk.claim()
    for kept in (run.state["input"], lease["input"], run.activations("pay")[0]["input"], run.task("pay")["input"]):
        assert exact_json.digest(kept) == exact_json.digest(exact_json.loads(EXACT))
    assert lease["input"]["long"] == Decimal("0.1000000000000000055511151231257827")
    token = lease["attempt"]["lease_token"]
    body = f'{{"lease_token":"{token}","result":{EXACT}}}'.encode()
    desk.worker.call("POST", f"/attempts/{lease['attempt']['id']}/succeed", raw=body)
    desk.after()
    for kept in (run.results("pay")[-1]["payload"], run.step("pay")["output"], run.state["output"]):
        assert exact_json.digest(kept) == exact_json.digest(exact_json.loads(EXACT))


UNREADABLE = {
    b"": 422,
    b"{": 422,
    b"{} {}": 422,
    b'{"a": NaN}': 422,
    b'{"a": Infinity}': 422,
    b'{"a": -Infinity}': 422,
    b'{"a": 1, "a": 1}': 422,
    b'{"a": {"b": 1, "b": 2}}': 422,
    b'{"a": "\xff"}': 422,
    b'{"a": "\\ud800"}': 422,
    b"{'a': 1}": 422,
    b'{"a": 01}': 422,
    b'{"a": 1,}': 422,
    b'{"a": ' + b"9" * 1001 + b"}": 422,
    b'{"a": 1e99999}': 422,
    b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}": 422,
    b"[" * 100_000: 422,
    "{}".encode("utf-16"): 422,
    b"[]": 422,
    b"null": 422,
    b'"text"': 422,
    b"1": 422,
    b'{"a": "' + b"x" * 1024 * 1024 + b'"}': 413,
}


def test_a_body_that_is_no_json_object_is_refused_at_every_path_that_takes_one(desk: Desk) -> None:
    run = started(desk)
    lease = desk.claim()
    paths = {
        f"{run.path}/recovery/continue": desk.operator,
        f"{run.path}/pause": desk.operator,
        f"{run.path}/signals": desk.operator,
        f"/tasks/{lease['task']['id']}/cancel": desk.operator,
        "/definitions": desk.operator,
        "/instances": desk.operator,
        "/queues/bank/claim": desk.worker,
        f"/attempts/{lease['attempt']['id']}/succeed": desk.worker,
    }
    for body, status in UNREADABLE.items():
        for path, by in paths.items():
            answer = by.call("POST", path, raw=body, **{"Idempotency-Key": "some"})
            assert (answer.status, answer.code) == (status, "VALIDATION_FAILED"), (path, body[:40], answer.body)


def test_a_body_at_the_limit_of_depth_and_size_is_read(desk: Desk) -> None:
    deep = "[" * 62 + "]" * 62
    assert started(desk, deep).state["input"] == exact_json.loads(deep)


@pytest.mark.rule("G2", "G3", "G15")
def test_who_may_act_is_asked_before_what_was_said_is_read(desk: Desk) -> None:
    run = started(desk)
    for path in ("/recovery/continue", "/pause", "/cancel"):
        for body in (b"{", b'{"a":1,"a":2}', b"x" * 1024 * 1024 * 2):
            assert desk.worker.call("POST", f"{run.path}{path}", raw=body).code == "NOT_FOUND"


def test_an_unknown_member_is_refused_by_its_name_wherever_it_stands(desk: Desk) -> None:
    run = started(desk)
    lease = desk.claim()
    sent: list[tuple[Any, str, dict[str, Any]]] = [
        (desk.operator, f"{run.path}/recovery/continue", run.command("continue")),
        (desk.operator, f"{run.path}/pause", {"expected_control_revision": "1", "reason": "why"}),
        (desk.operator, "/instances", {"application": "desk", "definition": "x", "business_key": "k2", "input": 1}),
        (desk.worker, "/queues/bank/claim", {"worker": "w", "max_tasks": 1}),
        (desk.worker, f"/attempts/{lease['attempt']['id']}/heartbeat", {"lease_token": "x"}),
        (desk.worker, f"/attempts/{lease['attempt']['id']}/succeed", {"lease_token": "x", "result": 1}),
    ]
    for by, path, body in sent:
        answer = by.post(path, body | {"namespace": "other"})
        assert (answer.status, list(answer["errors"])) == (422, ["namespace"]), path


@pytest.mark.rule("G3", "G13")
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("expected_revision", 1),
        ("expected_revision", "01"),
        ("expected_revision", str(2**63)),
        ("expected_revision", "+1"),
        ("reason", ""),
        ("reason", " \n"),
        ("reason", "a\0"),
        ("reason", "a" * 1025),
        ("evidence_ref", "a b"),
        ("evidence_ref", "a" * 513),
        ("review_resolved", 1),
        ("review_resolved", "true"),
        ("review_resolved", False),
        ("review_resolved", None),
    ],
)
def test_a_field_that_is_wrong_is_told_by_its_name(desk: Desk, field: str, wrong: Any) -> None:
    run = started(desk)
    command = run.command("continue")
    for query in ({}, {"dry_run": "true"}):
        answer = desk.operator.post(f"{run.path}/recovery/continue", command | {field: wrong}, **query)
        assert (answer.status, answer.code, list(answer["errors"])) == (422, "VALIDATION_FAILED", [field])
        del command[field]
        answer = desk.operator.post(f"{run.path}/recovery/continue", command, **query)
        assert (answer.status, list(answer["errors"])) == (422, [field])
        command = run.command("continue")


def test_typed_numbers_have_64_bits_at_most(desk: Desk) -> None:
    run = started(desk)
    huge = 10**30
    for by, path, body, field in (
        (desk.worker, "/queues/bank/claim", {"worker": "w", "max_tasks": huge}, "max_tasks"),
        (desk.worker, "/queues/bank/claim", {"worker": "w", "max_tasks": 1, "wait_ms": huge}, "wait_ms"),
        (desk.operator, f"{run.path}/signals", _signal(huge), "generation"),
        (desk.operator, f"{run.path}/signals", _signal(Decimal("1.5")), "generation"),
        (desk.operator, "/instances", _start(huge), "version"),
    ):
        answer = by.post(path, body)
        assert (answer.status, list(answer["errors"])) == (422, [field])


def test_1_0_is_the_integer_1_as_it_is_for_a_schema(desk: Desk) -> None:
    claim = b'{"worker":"w","max_tasks":1.0,"wait_ms":0e3}'
    assert desk.worker.call("POST", "/queues/bank/claim", raw=claim).status == 200


def _signal(generation: Any) -> dict[str, Any]:
    return {
        "step_key": "pay",
        "generation": generation,
        "name": "n",
        "correlation_key": "c",
        "source_key": "s",
        "payload": 1,
    }


def _start(version: Any) -> dict[str, Any]:
    return {"application": "desk", "definition": "d", "version": version, "business_key": "b", "input": 1}


@pytest.mark.parametrize(
    "body",
    [
        {"wait_ms": 20_001},
        {"wait_ms": -1},
        {"wait_ms": True},
        {"max_tasks": 0},
        {"max_tasks": 101},
        {"handlers": []},
        {"handlers": [["bank.transfer", "1"]]},
        {"handlers": [{"name": "bank.transfer"}]},
        {"handlers": [{"name": "bank.transfer", "version": "1", "more": 1}]},
        {"handlers": [{"name": 1, "version": "1"}]},
        {"worker": ""},
    ],
)
def test_a_claim_that_is_wrong_claims_nothing(desk: Desk, body: dict[str, Any]) -> None:
    run = started(desk)
    answer: Answer = desk.worker.post("/queues/bank/claim", {"worker": "w", "max_tasks": 1} | body, key=None)
    assert (answer.status, list(answer["errors"])) == (422, list(body))
    assert run.history("attempts") == []
