"""The six forms without JavaScript: what is typed is never lost, what was seen is fenced, success is the receipt's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.utils import translation

from recovery.models import OperationReceipt, TaskResult, WorkflowAudit
from tests.console.support import CLAIM, Desk, Page, act_url
from tests.operations.stages import NAMES, STAGES, failed_task, open_wait, resolved, unknown_task
from tests.support.faults import facts
from tests.support.recovering import recover
from tests.support.world import Flow, World

Stage = Callable[[World], Flow]

LANGUAGES = [code for code, _name in settings.LANGUAGES]

TYPED = {
    "review-task": {"outcome": "SUCCEEDED", "result": '{"state": "done"}'},
    "resolve-step": {"outcome": "SUCCEEDED", "output": '{"state": "done"}'},
}
STATEMENTS = {
    "review-task": "execution_settled",
    "resolve-step": "execution_settled",
    "continue-poll": "pending_confirmed",
    "rearm-wait": "wait_verified",
    "retry-step": "safe_to_retry",
    "continue": "review_resolved",
}


def url_of(flow: Flow, slug: str, target: str) -> str:
    return act_url(flow, slug, flow.task(target).pk if slug == "review-task" else target)


def claim(slug: str) -> dict[str, str]:
    """Everything that a person enters for one operation."""
    return {**CLAIM, **TYPED.get(slug, {}), STATEMENTS[slug]: "true"}


def opened(desk: Desk, flow: Flow, slug: str, target: str = "") -> tuple[str, Page]:
    url = url_of(flow, slug, target)
    page = desk.get(url)
    assert page.status == 200
    return url, page


@pytest.mark.rule("G8")
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)
def test_every_form_leads_to_its_receipt_in_every_language(
    world: World, desk: Desk, slug: str, target: str, stage: Stage, language: str
) -> None:
    flow = stage(world)
    with translation.override(language):
        desk.client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
        url, page = opened(desk, flow, slug, target)
        answer = desk.send(page, url, **claim(slug))
        assert answer.status == 303, answer.text
        receipt = desk.get(answer.response["Location"])
    assert receipt.status == 200
    assert CLAIM["reason"] in receipt.text
    assert page.fields("operation_key")["operation_key"] in receipt.text
    audit = WorkflowAudit.objects.filter(instance_id=flow.id).latest("sequence")
    assert (audit.actor, audit.reason, audit.evidence_ref) == (
        world.operator.username,
        CLAIM["reason"],
        CLAIM["evidence_ref"],
    )
    assert len(audit.after["seen_digest"]) == 64


@pytest.mark.rule("G13")
@pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)
def test_nothing_is_ticked_or_chosen_for_a_person(
    world: World, desk: Desk, slug: str, target: str, stage: Stage
) -> None:
    _url, page = opened(desk, stage(world), slug, target)
    typed = page.fields("operation_key")
    assert STATEMENTS[slug] not in typed
    assert not any(typed.get(name) for name in ("reason", "evidence", "evidence_ref", "outcome", "result", "output"))


@pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)
def test_opening_and_previewing_write_nothing(world: World, desk: Desk, slug: str, target: str, stage: Stage) -> None:
    flow = stage(world)
    before = facts()
    url, page = opened(desk, flow, slug, target)
    preview = desk.send(page, url, **claim(slug), preview="1")
    assert preview.status == 200
    assert "WorkflowAudit" in preview.text
    assert facts() == before
    kept = preview.fields("operation_key")
    assert kept.items() >= claim(slug).items()
    assert kept["operation_key"] == page.fields("operation_key")["operation_key"]


@pytest.mark.rule("G4")
def test_a_form_that_is_sent_twice_answers_the_same_receipt(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    url, page = opened(desk, flow, "retry-step", "it")
    first, second = (desk.send(page, url, **claim("retry-step")) for _time in range(2))
    assert (first.status, second.status) == (303, 303)
    assert first.response["Location"] == second.response["Location"]
    assert len(flow.activations("it")) == 2


@pytest.mark.rule("G4")
def test_a_spent_key_with_other_words_shows_the_receipt_and_a_way_on(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    url, page = opened(desk, flow, "retry-step", "it")
    desk.send(page, url, **claim("retry-step"))
    again = desk.send(page, url, **claim("retry-step") | {"reason": "Another thought."})
    key = page.fields("operation_key")["operation_key"]
    assert (again.status, "IDEMPOTENCY_CONFLICT" in again.text) == (409, True)
    assert f"/operations/{key}/?namespace=pay" in again.reader.links
    anew = desk.post(url, again.fields("operation_key") | {"read_again": "new_key"}).fields("operation_key")
    assert anew["operation_key"] != key
    assert (anew["reason"], anew.get("safe_to_retry")) == ("Another thought.", None)


@pytest.mark.rule("G3", "G13")
def test_what_is_missing_is_said_at_the_field_and_in_a_summary(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    before = facts()
    url, page = opened(desk, flow, "resolve-step", "it")
    answer = desk.send(page, url, reason="  \n ", evidence_ref="ticket:1", output="{nonsense")
    assert (answer.status, facts()) == (422, before)
    summary = next(given for tag, given in answer.reader.elements if given.get("class") == "errors")
    assert (summary["tabindex"], summary["role"], "autofocus" in summary) == ("-1", "alert", True)
    wrong = [given for _tag, given in answer.reader.elements if given.get("aria-invalid") == "true"]
    assert {given["name"] for given in wrong} == {"outcome", "output", "reason", "execution_settled"}
    fields = [link for link in answer.reader.links if link.startswith("#id_")]
    assert fields == ["#id_outcome", "#id_output", "#id_reason", "#id_execution_settled"]
    kept = answer.fields("operation_key")
    assert (kept["evidence_ref"], kept["output"]) == ("ticket:1", "{nonsense")
    assert kept["operation_key"] == page.fields("operation_key")["operation_key"]


@pytest.mark.rule("G3")
def test_what_only_the_operation_finds_wrong_is_said_at_the_field_too(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    url, page = opened(desk, flow, "retry-step", "it")
    answer = desk.send(page, url, **claim("retry-step") | {"evidence_ref": "two words"})
    assert answer.status == 422
    assert "#id_evidence_ref" in answer.reader.links
    assert answer.fields("operation_key")["reason"] == CLAIM["reason"]


def test_evidence_is_either_chosen_or_entered(world: World, desk: Desk) -> None:
    flow = unknown_task(world)
    recover(flow, "review-task", "it", outcome="FAILED", evidence_ref="ticket:77")
    url, page = opened(desk, flow, "retry-step", "it")
    both = desk.send(page, url, **claim("retry-step"), evidence="ticket:77")
    assert both.status == 422
    chosen = desk.send(page, url, **claim("retry-step") | {"evidence": "ticket:77", "evidence_ref": ""})
    assert chosen.status == 303
    assert flow.audits()[-1].evidence_ref == "ticket:77"


@pytest.mark.rule("G5")
def test_a_conflict_lists_what_is_newer_and_keeps_the_words(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    url, page = opened(desk, flow, "retry-step", "it")
    world.travel(seconds=5)
    flow.pause()
    typed = claim("retry-step") | {"reason": "First line\r\nSecond, with <b>"}
    before = facts()
    conflict = desk.send(page, url, **typed)
    assert (conflict.status, facts()) == (409, before)
    assert "asked by the desk" in conflict.text
    assert "REVISION_CONFLICT" in conflict.text
    again = desk.post(url, conflict.fields("read_again"))
    fields = again.fields("operation_key")
    assert again.status == 200
    assert fields["reason"].split() == typed["reason"].split()
    assert "safe_to_retry" not in fields
    assert fields["expected_revision"] == str(flow.instance.revision)
    assert fields["operation_key"] == page.fields("operation_key")["operation_key"]
    assert "is not valid" not in again.text
    assert desk.post(url, fields | {"safe_to_retry": "true"}).status == 303


@pytest.mark.rule("G15", "RW3")
def test_a_refusal_shows_the_rule_its_words_and_keeps_what_was_typed(world: World, desk: Desk) -> None:
    flow = open_wait(world)
    url, page = opened(desk, flow, "rearm-wait", "it")
    flow.send("it", run=False)
    answer = desk.send(page, url, **claim("rearm-wait"))
    assert answer.status == 409
    assert "SIGNAL_PENDING" in answer.text
    assert answer.fields("operation_key")["reason"] == CLAIM["reason"]


@pytest.mark.rule("G3")
def test_the_end_of_a_line_counts_and_is_kept_as_one_character(world: World, desk: Desk) -> None:
    flow = resolved(world)
    url, page = opened(desk, flow, "continue")
    words = "a" * 511 + "\r\n" + "b" * 512
    assert desk.send(page, url, **claim("continue") | {"reason": words}).status == 303
    assert flow.audits()[-1].reason == words.replace("\r\n", "\n")


@pytest.mark.rule("RT3")
def test_numbers_keep_every_digit(world: World, desk: Desk) -> None:
    flow = unknown_task(world)
    url, page = opened(desk, flow, "review-task", "it")
    typed = claim("review-task") | {"result": '{"amount": 12345678901234567890.10}'}
    assert desk.send(page, url, **typed).status == 303
    result = TaskResult.objects.get(task=flow.task("it"), source="REVIEW")
    assert str(result.payload["amount"]) == "12345678901234567890.10"
    assert "12345678901234567890.10" in desk.get(f"/tasks/{flow.task('it').pk}/").text


@pytest.mark.rule("RS2")
def test_null_is_an_output_and_nothing_is_not(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    url, page = opened(desk, flow, "resolve-step", "it")
    typed = claim("resolve-step") | {"outcome": "FAILED"}
    assert desk.send(page, url, **typed | {"output": " "}).status == 422
    assert desk.send(page, url, **typed | {"output": "null"}).status == 303
    assert flow.step("it").status == "FAILED"


def test_an_operation_without_a_target_lists_its_targets(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    page = desk.get(act_url(flow, "retry-step"))
    assert act_url(flow, "retry-step", "it") in page.reader.links


def test_the_frozen_answer_is_the_json_of_the_receipt(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    receipt = recover(flow, "retry-step", "it")
    page = desk.get(f"/operations/{receipt.data['operation_key']}/?format=json")
    assert page.html == receipt.body
    assert OperationReceipt.objects.filter(operation__instance_id=flow.id).count() >= 1


def test_a_key_without_a_receipt_says_that_nothing_was_committed(world: World, desk: Desk) -> None:
    page = desk.get("/operations/never-sent/")
    assert page.status == 404
    assert "nothing was committed" in page.text
