"""The six operations over HTTP: keys, frozen receipts, previews, and what a refusal tells."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.models import ManagementOperation, OperationReceipt, WorkflowAudit
from tests.api.callers import encoded
from tests.api.desk import STATEMENTS, Desk, Run
from tests.support.faults import facts
from tests.support.trees import parallel, poll, sequence, signal, task
from tests.support.world import World


@pytest.fixture(name="run")
def _run(desk: Desk) -> Run:
    """A step whose effect is unknown, and a failed one beside it."""
    run = desk.start(sequence(parallel(task("pay"), task("ship", queue="mail"), key="both")))
    pay, ship = desk.claim(), desk.claim("mail")
    desk.unknown(pay)
    desk.fail(ship)
    return run


@pytest.mark.rule("G4")
def test_the_same_key_answers_the_same_bytes_and_says_so_also_later(desk: Desk, run: Run) -> None:
    path, command = f"{run.path}/recovery/review-task", run.command("review-task", "pay")
    first = desk.operator.post(path, command, key="k/1")
    assert not first.is_replay
    desk.after()
    run.recover("resolve-step", "pay")
    again = desk.operator.post(path, dict(reversed(command.items())), key="k/1")
    assert (again.status, again.is_replay, again.body) == (200, True, first.body)
    assert desk.operator.get("/operations/k%2F1").body == first.body
    assert OperationReceipt.objects.filter(operation__operation_key="k/1").count() == 1


@pytest.mark.rule("G4")
def test_the_same_key_with_another_command_is_a_conflict(desk: Desk, run: Run) -> None:
    command = run.command("review-task", "pay")
    desk.operator.post(f"{run.path}/recovery/review-task", command, key="k")
    for path, body in (
        (f"{run.path}/recovery/review-task", command | {"reason": "Another."}),
        (f"{run.path}/recovery/continue", run.command("continue")),
        (f"{run.path}/pause", {"expected_control_revision": "1", "reason": "why"}),
        ("/instances", {"application": "desk", "definition": "d", "business_key": "k", "input": 1}),
    ):
        assert desk.operator.post(path, body, key="k").code == "IDEMPOTENCY_CONFLICT", path


@pytest.mark.rule("G3", "G4")
@pytest.mark.parametrize("key", ["a/b", "/", "//x/", "%2F", "..", "a?b=c#d", "~!@$&'()*+,;=:[]{}|\\^`\"<>", "x" * 128])
def test_a_key_of_any_visible_ascii_reads_its_receipt(desk: Desk, run: Run, key: str) -> None:
    first = desk.operator.post(f"{run.path}/recovery/retry-step", run.command("retry-step", "ship"), key=key)
    assert (first.status, first["operation_key"]) == (200, key)
    answer = desk.operator.get(f"/operations/{encoded(key).replace('.', '%2E')}")
    assert (answer.status, answer.body) == (200, first.body)


@pytest.mark.rule("G3")
@pytest.mark.parametrize("key", [None, " ", "a b", "é", "x" * 129, "\t"])
def test_without_a_valid_key_nothing_is_decided(desk: Desk, run: Run, key: str | None) -> None:
    command = run.command("retry-step", "ship")
    answer = desk.operator.post(f"{run.path}/recovery/retry-step", command, key=key)
    assert (answer.status, list(answer["errors"])) == (422, ["operation_key"])
    assert run.command("retry-step", "ship") == command


@pytest.mark.rule("G4")
def test_a_refusal_leaves_no_trace_and_the_key_free(desk: Desk, run: Run) -> None:
    before = facts()
    answer = desk.operator.post(f"{run.path}/recovery/continue", run.command("continue"), key="k")
    assert (answer.status, answer.code, answer["rule"]) == (409, "EXECUTION_UNKNOWN", "CO1")
    assert facts() == before
    assert desk.operator.get("/operations/k").code == "NOT_FOUND"
    assert (
        desk.operator.post(f"{run.path}/recovery/review-task", run.command("review-task", "pay"), key="k").status == 200
    )


@pytest.mark.rule("G15")
def test_a_refusal_names_every_rule_that_fails_and_what_is_now(desk: Desk, run: Run) -> None:
    stale = run.command("resolve-step", "pay", expected_revision="1", expected_step_revision="1")
    answer = desk.operator.post(f"{run.path}/recovery/resolve-step", stale)
    assert (answer.status, answer.code, answer["rule"]) == (409, "REVISION_CONFLICT", "G5")
    state, step = run.state, run.step("pay")
    assert answer["current"] == {
        "revision": state["revision"],
        "control_revision": state["control_revision"],
        "step_revision": step["revision"],
        "activation_id": step["current_activation_id"],
    }
    assert [found["rule"] for found in answer["findings"]] == ["G5", "G5", "RS1"]
    assert answer["type"] == "/api/v1/docs#REVISION_CONFLICT"


@pytest.mark.rule("G4", "G9")
@pytest.mark.parametrize(("slug", "target"), [("review-task", "pay"), ("resolve-step", "ship"), ("retry-step", "ship")])
def test_a_preview_shows_what_the_act_then_does_and_changes_nothing(
    desk: Desk, run: Run, slug: str, target: str
) -> None:
    command = run.command(slug, target)
    before = facts()
    path = f"{run.path}/recovery/{slug}"
    tried = desk.operator.post(path, command, key=None, dry_run="true")
    assert (tried.status, tried["allowed"]) == (200, True)
    assert facts() == before
    changes = {
        (each["entity"], each["id"], each["field"]): (each["before"], each["after"]) for each in tried["changes"]
    }
    revision = int(run.state["revision"])
    assert changes["WorkflowInstance", run.id, "revision"] == (str(revision), str(revision + 1))
    receipt = desk.operator.post(path, command)
    assert receipt["revision"] == str(revision + 1)
    made = {each["entity"] for each in tried["created"]}
    assert {"ManagementOperation", "WorkflowAudit", "OperationReceipt"} <= made
    assert ("Task" in made) == (slug == "retry-step")
    assert ("TaskResult" in made) == (slug == "review-task")


def test_a_preview_needs_no_key_and_ignores_one(desk: Desk, run: Run) -> None:
    command = run.command("retry-step", "ship")
    path = f"{run.path}/recovery/retry-step"
    receipt = desk.operator.post(path, command, key="k")
    for key in (None, "k", "another"):
        tried = desk.operator.post(path, command, key=key, dry_run="true")
        assert (tried.status, tried["allowed"], tried.is_replay) == (200, False, False)
    assert desk.operator.post(path, command, key="k", dry_run="false").body == receipt.body


@pytest.mark.parametrize("wrong", ["", "1", "True", "TRUE", "yes", "0", "null", "true "])
def test_dry_run_is_exactly_true_or_false(desk: Desk, run: Run, wrong: str) -> None:
    audits = WorkflowAudit.objects.count()
    answer = desk.operator.post(
        f"{run.path}/recovery/retry-step", run.command("retry-step", "ship"), key="k", dry_run=wrong
    )
    assert (answer.status, list(answer["errors"])) == (422, ["dry_run"])
    assert WorkflowAudit.objects.count() == audits


@pytest.mark.rule("G1")
def test_the_operator_and_the_namespace_come_from_the_credential_alone(world: World, desk: Desk, run: Run) -> None:
    command = run.command("retry-step", "ship")
    for extra in ({"actor": "somebody"}, {"namespace": "other"}, {"instance_id": run.id}):
        answer = desk.operator.post(f"{run.path}/recovery/retry-step", command | extra)
        assert (answer.status, list(answer["errors"])) == (422, list(extra))
    receipt = desk.operator.post(f"{run.path}/recovery/retry-step", command)
    assert receipt["actor"] == world.operator.username


def test_an_unknown_and_a_foreign_target_are_refused_alike(world: World, desk: Desk, run: Run) -> None:
    other = desk.start(sequence(task("pay")))
    desk.unknown(desk.claim())
    for task_id in ("0" * 32, other.task("pay")["id"]):
        answer = desk.operator.post(
            f"{run.path}/recovery/review-task", run.command("review-task", "pay", task_id=task_id)
        )
        assert (answer.code, answer["rule"]) == ("STATE_CONFLICT", "RT1")


def failing(answer: Any) -> set[str]:
    return {found["rule"] for found in answer["findings"] if found["holds"] is False}


def test_the_explanation_agrees_with_what_each_operation_then_answers(desk: Desk) -> None:
    leaves = parallel(task("pay"), poll("query"), signal("receipt"), key="all")
    run = desk.start(sequence(leaves, task("notify", queue="mail")))
    first, second = desk.claim_all(max_tasks=2)
    desk.unknown(first)
    desk.fail(second)
    explained = desk.operator.get(f"{run.path}/recovery")
    assert explained["revision"] == run.state["revision"]
    assert {option["operation"] for option in explained["operations"]} == set(STATEMENTS)
    for option in explained["operations"]:
        target = option["target"].get("step_key", "")
        entered: dict[str, Any] = {}
        if "task_id" in option["target"]:
            entered["task"] = next(row for row in run.history("tasks") if row["id"] == option["target"]["task_id"])
        command = run.command(option["operation"], target, **entered)
        tried = desk.operator.post(f"{run.path}/recovery/{option['operation']}", command, key=None, dry_run="true")
        open_ = {found["rule"] for found in option["findings"] if found["holds"] == "depends"}
        assert failing(tried) - open_ == failing(option) - open_, option
        assert option["allowed"] == (option["code"] is None) == (not failing(option))


def test_the_explanation_of_one_step_or_task_is_about_that_one(desk: Desk, run: Run) -> None:
    options = desk.operator.get(f"{run.path}/recovery", step_key="ship")["operations"]
    assert {option["target"].get("step_key") for option in options} == {"ship", None}
    task_id = run.task("pay")["id"]
    options = desk.operator.get(f"{run.path}/recovery", task_id=task_id)["operations"]
    assert {"task_id": task_id} in [option["target"] for option in options]


def test_every_kind_of_keyed_call_answers_its_receipt_again(desk: Desk) -> None:
    document = {"name": "d", "input_schema": True, "max_duration_ms": 1000, "root": sequence(task("pay"))}
    start = {"application": "desk", "definition": "d", "business_key": "k", "input": {"order": 1}}
    control = {"expected_control_revision": "1", "reason": "why"}
    published = desk.operator.post("/definitions", document, key="publish")
    started = desk.operator.post("/instances", start, key="start")
    path = f"/instances/{started['instance_id']}"
    paused = desk.operator.post(f"{path}/pause", control, key="pause")
    for answer, key, call in (
        (published, "publish", ("/definitions", document)),
        (started, "start", ("/instances", start)),
        (paused, "pause", (f"{path}/pause", control)),
    ):
        again = desk.operator.post(*call, key=key)
        assert (again.status, again.is_replay, again.body) == (answer.status, True, answer.body)
        assert desk.operator.get(f"/operations/{key}").body == answer.body
    assert started["id"] == paused["id"] == started["instance_id"]
    assert (started["paused"], paused["paused"], paused["gate"]["state"]) == (False, True, "CLOSED")


def test_a_claims_key_and_a_derived_key_of_the_platform_have_no_receipt_to_read(desk: Desk, run: Run) -> None:
    desk.operator.post(f"{run.path}/recovery/review-task", run.command("review-task", "pay"), key="k")
    derived = ManagementOperation.objects.get(action="review_execution").operation_key
    desk.start(sequence(task("pay")))
    desk.worker.post("/queues/bank/claim", {"worker": "w", "max_tasks": 1}, key="claim")
    for key in (derived, "claim"):
        assert desk.operator.get(f"/operations/{encoded(key)}").code == "NOT_FOUND"


def test_a_business_key_that_is_taken_is_a_conflict_that_names_who_has_it(desk: Desk) -> None:
    name = desk.publish(sequence(task("pay")))
    body = {"application": "desk", "definition": name, "business_key": "k", "input": {"order": 1}}
    first = desk.operator.post("/instances", body)
    second = desk.operator.post("/instances", body)
    assert (second.code, second["current"]) == ("STATE_CONFLICT", {"instance_id": first["instance_id"]})
