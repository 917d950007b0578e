"""S1, S2, S8, S9, S10 and S12 through HTTP alone."""

from __future__ import annotations

import pytest

from tests.api.desk import Desk
from tests.support.trees import HOUR, MINUTE, parallel, sequence, task
from tests.support.world import World


@pytest.mark.rule("RT3", "RS1", "CO2", "B2", "B4", "G5", "G6")
def test_s1_an_unknown_task_is_verified_resolved_and_the_workflow_finishes(world: World, desk: Desk) -> None:
    run = desk.start(sequence(task("pay", max_attempts=3), task("notify", queue="mail")))
    desk.claim()
    world.travel(seconds=30)
    assert (run.status, run.gate, run.step("pay")["status"]) == ("NEEDS_REVIEW", "CLOSED", "NEEDS_REVIEW")
    revision = int(run.task("pay")["revision"])
    run.recover("review-task", "pay", run=False)
    assert int(run.task("pay")["revision"]) == revision + 1
    assert [row["source"] for row in run.results("pay")] == ["REAPER", "REVIEW"]
    run.refused("INBOX_UNSETTLED", "resolve-step", "pay")
    stale = run.state["revision"]
    world.run()
    refused = run.refused("REVISION_CONFLICT", "resolve-step", "pay", expected_revision=stale)
    assert refused["current"]["revision"] == run.state["revision"]
    run.recover("resolve-step", "pay")
    run.recover("continue")
    assert (run.status, run.gate) == ("RUNNING", "OPEN")
    desk.succeed(desk.claim("mail"))
    assert run.status == "SUCCEEDED"
    assert [row["status"] for row in run.history("attempts")] == ["UNKNOWN", "SUCCEEDED"]
    assert run.dispositions() == ["REVIEW_RAISED", "STEP_ALREADY_SETTLED", "ADVANCED"]


@pytest.mark.rule("RY2", "RY4", "RY7", "RY8")
def test_s2_each_retry_goes_on_with_the_attempts_that_are_left(world: World, desk: Desk) -> None:
    policy = {"concurrency_key": "account-7"}
    run = desk.start(sequence(task("pay", timeout_ms=HOUR, policy=policy), task("notify", queue="mail")))
    desk.fail(desk.claim())
    first = run.task("pay")
    for number, left in ((2, 2), (3, 1)):
        world.travel(minutes=5)
        run.recover("retry-step", "pay")
        retry = run.task("pay")
        assert (run.step("pay")["current_activation"]["sequence"], retry["max_attempts"]) == (number, left)
        assert retry["retry_of_id"] == run.tasks("pay")[-2]["id"]
        for kept in ("deadline_at", "input_digest", "business_key", "concurrency_key", "policy", "priority"):
            assert retry[kept] == first[kept], kept
        assert desk.claim_all() == []
        run.recover("continue")
        desk.fail(desk.claim())
    run.refused("BUDGET_EXHAUSTED", "retry-step", "pay")


@pytest.mark.rule("RY2", "B11")
def test_s2_tasks_that_never_started_cannot_make_activations_without_end(desk: Desk) -> None:
    run = desk.start(sequence(task("pay")))
    desk.fail(desk.claim())
    for _activation in (2, 3):
        run.recover("retry-step", "pay")
        run.cancel_task("pay")
    run.refused("ACTIVATION_LIMIT", "retry-step", "pay")


@pytest.mark.rule("G12", "RY9")
@pytest.mark.parametrize(
    ("fields", "minutes", "rule"),
    [
        ({}, 120, "G12"),
        ({"timeout_ms": 30 * MINUTE}, 30, "RY9"),
        ({"policy": {"latest_start_ms": 20 * MINUTE}}, 20, "RY9"),
    ],
)
def test_s2_no_retry_past_a_deadline(
    world: World, desk: Desk, fields: dict[str, object], minutes: int, rule: str
) -> None:
    run = desk.start(sequence(task("pay", **fields)), max_duration_ms=2 * HOUR)
    desk.fail(desk.claim())
    world.travel(minutes=minutes)
    assert run.refused("DEADLINE_PASSED", "retry-step", "pay")["rule"] == rule


@pytest.mark.rule("CO3", "G12", "B6")
def test_s8_a_stop_that_was_requested_wins(desk: Desk) -> None:
    run = desk.start(sequence(task("pay"), task("notify", queue="mail")))
    lease = desk.claim()
    assert run.control("cancel")["stop_kind"] == "CANCEL"
    desk.unknown(lease)
    assert (run.status, run.state["stop_kind"]) == ("NEEDS_REVIEW", "CANCEL")
    run.refused("STOP_REQUESTED", "retry-step", "pay")
    run.recover("review-task", "pay")
    run.recover("resolve-step", "pay")
    receipt = run.recover("continue", run=False)
    assert (receipt["status"], receipt["gate"]["state"]) == ("CANCELLING", "CLOSED")
    desk.after()
    assert (run.status, run.gate, run.step("notify")["status"]) == ("CANCELLED", "CLOSED", "CANCELLED")
    assert desk.claim_all("mail") == []


@pytest.mark.rule("CO2", "G16")
def test_s9_a_paused_workflow_still_waits_for_resume_after_continue(desk: Desk) -> None:
    run = desk.start(sequence(task("pay"), task("notify", queue="mail")))
    lease = desk.claim()
    run.control("pause")
    desk.fail(lease)
    run.recover("retry-step", "pay")
    run.recover("continue")
    assert (run.status, run.state["paused"], run.gate) == ("RUNNING", True, "CLOSED")
    assert desk.claim_all() == []
    run.control("resume")
    desk.succeed(desk.claim())
    assert run.step("pay")["status"] == "SUCCEEDED"


@pytest.mark.rule("B9", "B4")
def test_s10_a_late_report_is_kept_once_and_answered_202(world: World, desk: Desk) -> None:
    run = desk.start(sequence(task("pay"), task("notify", queue="mail")))
    lease = desk.claim()
    world.travel(seconds=30)
    run.recover("review-task", "pay", outcome="FAILED", result={"why": "never arrived"})
    run.recover("retry-step", "pay")
    revision = int(run.state["revision"])
    authoritative, new = run.tasks("pay")
    for _time in range(2):
        said = desk.succeed(lease)
        assert (said.status, said["late"]) == (202, True)
    assert int(run.state["revision"]) == revision + 1
    assert run.dispositions()[-1] == "STALE_ACTIVATION"
    assert [row["source"] for row in run.history("results")].count("LATE") == 1
    kept, untouched = run.tasks("pay")
    assert (kept["status"], untouched) == ("FAILED", new)
    assert int(kept["revision"]) == int(authoritative["revision"]) + 1


@pytest.mark.rule("CO1", "G14")
def test_s12_a_running_sibling_finishes_and_continue_names_the_unresolved(desk: Desk) -> None:
    branches = [task(key) for key in ("a", "b", "c")]
    run = desk.start(sequence(parallel(*branches, key="all"), task("notify", queue="mail")))
    owner = {run.task(key)["id"]: key for key in ("a", "b", "c")}
    leases = {owner[lease["task"]["id"]]: lease for lease in desk.claim_all()}
    desk.fail(leases["a"])
    desk.fail(leases["b"])
    assert run.status == "NEEDS_REVIEW"
    desk.succeed(leases["c"])
    assert (run.step("c")["status"], run.status) == ("SUCCEEDED", "NEEDS_REVIEW")
    refused = run.refused("STEP_UNRESOLVED", "continue")
    assert "a (FAILED)" in refused["detail"]
    assert "b (FAILED)" in refused["detail"]
    rows = next(found["rows"] for found in refused["findings"])
    assert set(rows) == {run.step("a")["id"], run.step("b")["id"]}


@pytest.mark.rule("CO1", "B6")
def test_s12_siblings_that_the_stop_cancelled_do_not_block_continue(desk: Desk) -> None:
    run = desk.start(sequence(parallel(task("a"), task("b"), task("c"), key="all")))
    lease = desk.claim()
    run.control("cancel")
    desk.unknown(lease)
    unknown = next(key for key in ("a", "b", "c") if run.step(key)["status"] == "NEEDS_REVIEW")
    run.recover("review-task", unknown)
    run.refused("STEP_UNRESOLVED", "continue")
    run.recover("resolve-step", unknown)
    run.recover("continue")
    assert run.status == "CANCELLED"
