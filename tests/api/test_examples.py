"""The examples of the document are exchanges that were really had: here they are had again.

After a change that is meant, `RECORD_EXAMPLES=1` writes them anew.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
import time_machine
from django.contrib.auth import get_user_model

from recovery import exact_json
from recovery.access import credentials
from recovery.api.document import document
from recovery.api.examples import FILE, Example
from recovery.api.schemas.problems import CODES
from tests.api.callers import Answer, Caller
from tests.api.desk import PENDING, Run, desk_of
from tests.api.test_evidence import Parts, attach
from tests.support.trees import HOUR, MINUTE, parallel, poll, receipt, sequence, signal, task
from tests.support.world import MORNING, World, make_world

TOKEN = "3f0e" * 16
"""Stands for every lease token: the real ones hang on the server's secret."""


class Story:
    """Has the exchanges and writes them down. Ids count, so that they are the same with every telling."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.examples: list[Example] = []
        self.desk = desk_of(world)
        self.people = {"olivia": self._sign_in(world.operator, "olivia"), "robot": self._sign_in(world.worker, "robot")}
        self.desk.operator, self.desk.worker = self.people["olivia"], self.people["robot"]
        self.tokens: dict[str, str] = {}

    def _sign_in(self, actor: Any, name: str) -> Caller:
        get_user_model().objects.filter(pk=actor.user_id).update(username=name)
        return Caller(credentials.create(self.world.operator, name, f"desk of {name}", reason="test").token)

    def tell(
        self,
        who: str,
        operation_id: str,
        name: str,
        body: Any = None,
        /,
        *,
        key: str = "",
        query: Any = None,
        **ids: str,
    ) -> Answer:
        """One exchange by operation id; `ids`: what stands in the path."""
        path, method = next(
            (path, method)
            for path, methods in document()["paths"].items()
            for method, operation in methods.items()
            if operation["operationId"] == operation_id
        )
        headers = {"Idempotency-Key": key} if key else {}
        by = self.people.get(who, Caller(""))
        answer = by.call(method.upper(), path.format(**ids), body, query=query, **headers)
        said = self._plain(answer.data)
        given = {**ids, **(query or {}), **headers}
        self.examples.append(Example(operation_id, name, given, self._plain(body), answer.status, said))
        self.world.run()
        return answer

    def tell_file(self, who: str, operation_id: str, name: str, **ids: str) -> None:
        """An exchange whose answer is the bytes of a text."""
        path = next(path for path, methods in document()["paths"].items() if _is(methods, operation_id))
        answer = self.people[who].call("GET", path.format(**ids))
        self.examples.append(Example(operation_id, name, ids, None, answer.status, answer.body.decode()))

    def tell_parts(self, who: str, operation_id: str, name: str, parts: Parts, *, key: str) -> Answer:
        """An exchange whose body is no JSON: its parts are shown instead."""
        answer = attach(self.people[who], parts, key=key)
        shown: dict[str, Any] = {}
        for part, content in parts:
            text = content if isinstance(content, str) else content[1].decode()
            shown[part] = text if part == "instance_id" else [*shown.get(part, []), text]
        self.examples.append(Example(operation_id, name, {"Idempotency-Key": key}, shown, answer.status, answer.data))
        return answer

    def _plain(self, data: Any) -> Any:
        if isinstance(data, dict):
            return {name: TOKEN if name == "lease_token" else self._plain(member) for name, member in data.items()}
        return [self._plain(each) for each in data] if isinstance(data, list) else data


def _is(methods: Any, operation_id: str) -> bool:
    return any(operation["operationId"] == operation_id for operation in methods.values())


DEFINITION = {
    "name": "transfer",
    "input_schema": {"type": "object", "required": ["order", "amount"]},
    "max_duration_ms": 24 * HOUR,
    "root": sequence(
        task(
            "pay",
            input={"order": {"$from": "/instance/input/order"}, "amount": {"$from": "/instance/input/amount"}},
            output_contract={"type": "object", "required": ["state"]},
            policy={"retryable_errors": ["BANK_BUSY"], "backoff_ms": 5000, "business_key": "transfer"},
        ),
        parallel(
            poll("confirm", signal=receipt(), interval_ms=MINUTE, max_rounds=3, total_timeout_ms=HOUR),
            signal("receipt", total_timeout_ms=4 * HOUR),
            key="both",
        ),
    ),
}
START = {
    "application": "desk",
    "definition": "transfer",
    "business_key": "order-4711",
    "input": {"order": "A-1", "amount": 129.5},
}
START = exact_json.loads(exact_json.dumps(START))
ERROR = {"error_code": "TIMEOUT", "error_message": "no answer within 30 s"}


def test_every_example_of_the_document_is_what_the_api_answers(story: Story) -> None:
    run = _publishing_and_starting(story)
    _a_task_of_unknown_effect(story, run)
    _a_query_that_goes_on(story, run)
    _reading(story, run)
    _evidence(story, run)
    _control(story)
    told = exact_json.loads(exact_json.dumps([asdict(example) for example in story.examples]))
    if os.environ.get("RECORD_EXAMPLES"):
        lines = ",\n".join(exact_json.dumps(each) for each in told)
        FILE.write_text(f"[\n{lines}\n]\n")
    assert told == exact_json.loads(FILE.read_text()), "if the change is meant: RECORD_EXAMPLES=1"


def _publishing_and_starting(story: Story) -> Run:
    story.tell("olivia", "publish_definition", "a new version", DEFINITION, key="publish-1")
    story.tell("olivia", "publish_definition", "the same content", DEFINITION, key="publish-2")
    wrong = DEFINITION | {"max_duration_ms": 0}
    story.tell("olivia", "publish_definition", "a field that is wrong", wrong, key="publish-3")
    story.tell("olivia", "list_definitions", "all", query={"limit": 10})
    story.tell("olivia", "read_definition_version", "the first version", name="transfer", version="1")
    story.tell("nobody", "list_definitions", "without a credential")
    story.tell("robot", "list_definitions", "without workflows:read")
    started = story.tell("olivia", "start_instance", "the newest version", START, key="order-4711")
    story.tell("olivia", "start_instance", "the business key is taken", START, key="order-4711-again")
    return Run(story.desk, started["instance_id"])


def _a_task_of_unknown_effect(story: Story, run: Run) -> None:
    claim = {"worker": "robot-1", "max_tasks": 1, "wait_ms": 0, "handlers": [{"name": "bank.transfer", "version": "1"}]}
    lease = story.tell("robot", "claim_tasks", "one task", claim, key="claim-1", name="bank")["tasks"][0]
    story.tell("robot", "claim_tasks", "nothing to do", {"worker": "robot-1", "max_tasks": 5}, name="bank")
    token = {"lease_token": lease["attempt"]["lease_token"]}
    attempt = {"attempt_id": lease["attempt"]["id"]}
    story.world.travel(seconds=10)
    story.tell("robot", "heartbeat", "the lease goes on", token, **attempt)
    story.tell("robot", "heartbeat", "another attempt's token", {"lease_token": "0" * 64}, **attempt)
    story.tell("robot", "unknown", "no answer came", token | ERROR, **attempt)
    story.world.travel(minutes=5)
    here = {"instance_id": run.id}
    story.tell("olivia", "list_instances", "what waits for a person", query={"status": "NEEDS_REVIEW", "limit": 1})
    story.tell("olivia", "list_instances", "a filter that is wrong", query={"status": "REVIEW"})
    story.tell("olivia", "read_instance", "in review", **here)
    story.tell("olivia", "read_instance", "not there", instance_id="0" * 32)
    story.tell("olivia", "explain_recovery", "what may be decided", **here)
    decision = run.command("review-task", "pay", result={"state": "booked", "reference": "FT26333"})
    story.tell("olivia", "review_task", "a preview", decision, query={"dry_run": "true"}, **here)
    story.tell("robot", "review_task", "by somebody who may not see it", decision, key="review-pay", **here)
    story.tell("olivia", "review_task", "the money has moved", decision, key="review-pay", **here)
    story.tell("olivia", "resolve_step", "of a revision that is past", _stale(run), key="resolve-pay", **here)
    resolved = run.command("resolve-step", "pay", output={"state": "booked", "reference": "FT26333"})
    story.tell("olivia", "resolve_step", "concluded as succeeded", resolved, key="resolve-pay", **here)
    story.tell("olivia", "continue", "the review is over", run.command("continue"), key="go-on-1", **here)
    story.tell("olivia", "read_receipt", "what the key has done", operation_key="go-on-1")
    late = token | {"result": {"state": "booked"}}
    story.tell("robot", "succeed", "too late", late, **attempt)


def _stale(run: Run) -> dict[str, Any]:
    return run.command("resolve-step", "pay", expected_revision="1")


def _a_query_that_goes_on(story: Story, run: Run) -> None:
    here, claim = {"instance_id": run.id}, {"worker": "robot-1", "max_tasks": 1}
    lease = story.people["robot"].post("/queues/bank/claim", claim, key=None)["tasks"][0]
    token = {"lease_token": lease["attempt"]["lease_token"]}
    story.tell("robot", "unknown", "during a query", token | ERROR, attempt_id=lease["attempt"]["id"])
    story.world.travel(minutes=1)
    rearm = run.command("rearm-wait", "receipt")
    story.tell("olivia", "rearm_wait", "a new generation", rearm, key="rearm-receipt", **here)
    run.recover("review-task", "confirm", result=PENDING)
    story.tell(
        "olivia", "continue_poll", "asked again later", run.command("continue-poll", "confirm"), key="wait-on", **here
    )
    run.recover("continue")
    story.world.travel(minutes=1)
    lease = story.people["robot"].post("/queues/bank/claim", claim, key=None)["tasks"][0]
    token = {"lease_token": lease["attempt"]["lease_token"]}
    failed = token | {"error_code": "REFUSED", "error_message": "the bank said no", "retryable": False}
    story.tell("robot", "fail", "for good", failed, attempt_id=lease["attempt"]["id"])
    story.tell(
        "olivia", "retry_step", "the same round again", run.command("retry-step", "confirm"), key="retry-1", **here
    )
    story.tell("olivia", "continue", "with the new attempt", run.command("continue"), key="go-on-2", **here)
    lease = story.people["robot"].post("/queues/bank/claim", claim, key=None)["tasks"][0]
    story.tell(
        "robot",
        "succeed",
        "in time",
        {"lease_token": lease["attempt"]["lease_token"], "result": {"state": "done", "reference": "FT26333"}},
        attempt_id=lease["attempt"]["id"],
    )
    sent = {
        "step_key": "receipt",
        "generation": 2,
        "name": "receipt",
        "correlation_key": "A-1",
        "source_key": "mailbox-77",
        "payload": {"number": 1},
    }
    story.tell("olivia", "send_signal", "for the current generation", sent, **here)
    story.tell("olivia", "send_signal", "other content", sent | {"payload": {"number": 2}}, **here)


def _reading(story: Story, run: Run) -> None:
    here = {"instance_id": run.id}
    story.tell("olivia", "read_history", "the first rows", query={"limit": 1}, **here)
    for operation_id in sorted(_history_lists()):
        story.tell("olivia", operation_id, "the first rows", query={"limit": 2}, **here)
    page = story.tell("olivia", "list_audit", "the first entries", query={"limit": 2}, **here)
    story.tell("olivia", "list_audit", "the next ones", query={"limit": 2, "cursor": page["next_cursor"]}, **here)


def _history_lists() -> set[str]:
    return {methods["get"]["operationId"] for path, methods in document()["paths"].items() if "/history/" in path}


def _evidence(story: Story, run: Run) -> None:
    parts: Parts = [
        ("file", ("portal.txt", b"FT26333 booked 09:04 UTC\n")),
        ("note", "Copied from the bank's portal."),
        ("reference", "bank-portal:FT26333"),
        ("instance_id", run.id),
    ]
    made = story.tell_parts("olivia", "attach_evidence", "a file and a note", parts, key="evidence-1")
    bundle = {"evidence_ref": made["ref"]}
    story.tell("olivia", "read_evidence", "what is in the bundle", **bundle)
    story.tell_file("olivia", "read_evidence_file", "the first file", number="1", **bundle)


def _control(story: Story) -> None:
    started = story.people["olivia"].post("/instances", START | {"business_key": "order-4712"}, key="order-4712")
    story.world.run()
    run = Run(story.desk, started["instance_id"])
    here = {"instance_id": run.id}
    asked = {"expected_control_revision": "1", "reason": "The bank is closed today."}
    story.tell("olivia", "pause", "until it is resumed", asked, key="pause-4712", **here)
    story.tell("olivia", "pause", "of a revision that is past", asked, key="pause-4712-again", **here)
    asked = {"expected_control_revision": "2", "reason": "The bank is open again."}
    story.tell("olivia", "resume", "on with the work", asked, key="resume-4712", **here)
    waiting = run.task("pay")
    command = {"expected_task_revision": waiting["revision"], "reason": "Paid by another way."}
    story.tell("olivia", "cancel_task", "before it starts", command, task_id=waiting["id"])
    asked = {"expected_control_revision": "3", "reason": "The customer has cancelled."}
    story.tell("olivia", "cancel", "the intent is recorded", asked, key="cancel-4712", **here)


@pytest.fixture(name="story")
def _story(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    numbers = itertools.count(1)
    monkeypatch.setattr("recovery.ids.secrets.token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
    with time_machine.travel(MORNING, tick=False) as traveller:
        yield Story(make_world(traveller))


def test_every_operation_has_an_example_of_its_success() -> None:
    recorded = [Example(**each) for each in exact_json.loads(FILE.read_text())]
    operations = {each["operationId"] for methods in document()["paths"].values() for each in methods.values()}
    assert {each.operation for each in recorded if each.status < 300} == operations
    names = [(each.operation, each.name) for each in recorded]
    assert len(names) == len(set(names))


def test_the_document_shows_every_recorded_example_where_it_belongs() -> None:
    operations = {each["operationId"]: each for methods in document()["paths"].values() for each in methods.values()}
    for each in exact_json.loads(FILE.read_text()):
        operation = operations[each["operation"]]
        content = next(iter(operation["responses"][str(each["status"])]["content"].values()))
        assert content["examples"][each["name"]] == {"value": each["answer"]}
        if each["body"] is not None:
            body = next(iter(operation["requestBody"]["content"].values()))
            assert body["examples"][each["name"]] == {"value": each["body"]}
        given = {
            parameter["name"]: parameter["examples"][each["name"]]["value"]
            for parameter in operation["parameters"]
            if each["name"] in parameter.get("examples", {})
        }
        assert given == each["given"]


def test_the_codes_of_the_examples_are_codes() -> None:
    answers = [each["answer"] for each in exact_json.loads(FILE.read_text()) if each["status"] >= 400]
    assert {answer["code"] for answer in answers} <= set(CODES)
