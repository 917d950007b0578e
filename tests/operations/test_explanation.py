"""The idea: explanation, preview and commit ask one list of rules, so they can never disagree."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from recovery import operations, permissions
from recovery.errors import DomainError, NotFound
from recovery.operations.explain import WHOLE
from recovery.operations.run import plain
from recovery.writes import change
from tests.operations.stages import NAMES, STAGES, Stage, failed_task, unknown_task
from tests.support.faults import facts
from tests.support.recovering import codes, command, preview, send
from tests.support.trees import parallel, sequence, task
from tests.support.world import Flow, World

EVERY_STAGE = pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)


@EVERY_STAGE
def test_what_the_explanation_allows_or_refuses_is_what_a_commit_would(
    world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(world)
    for (operation, on), code in codes(flow).items():
        if operation == "review-task":
            payload = command(flow, operation, "", task=next(t for t in flow.tasks("it") if t.pk == on))
        else:
            payload = command(flow, operation, on)
        tried = operations.preview(world.operator, operation, flow.id, payload)
        failing = [finding.code for finding in tried.findings if finding.holds is False]
        assert (failing[0] if failing else None) == code, (operation, on)
    assert codes(flow)[(slug, flow.task("it").pk if slug == "review-task" else target)] is None


@EVERY_STAGE
def test_a_preview_writes_nothing_and_shows_what_the_commit_then_does(
    world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(world)
    payload, before = command(flow, slug, target), facts()
    shown = operations.preview(world.operator, slug, flow.id, payload)
    assert facts() == before
    assert shown.allowed
    send(flow, slug, payload)
    after = facts()
    for entity, key, field, old, new in shown.changes:
        then, now = _row(before, entity, key), _row(after, entity, key)
        assert plain(then[field]) == old
        # What names a row made by the commit has another id there than in the preview.
        if not field.endswith("_id") and field != "audit_head":
            assert plain(now[field]) == new, (entity, field)
    made = {entity: len(after[entity]) - len(before[entity]) for entity in after}
    for entity in made:
        assert made[entity] == sum(name == entity for name, _fields in shown.created), entity
    changed = {
        (entity, row["id"], field)
        for entity in after
        for row in after[entity]
        if "id" in row and (then := _row(before, entity, row["id"]))
        for field in row
        if row[field] != then[field]
    }
    assert changed == {(entity, key, field) for entity, key, field, _old, _new in shown.changes}


def _row(rows: dict[str, list[dict[str, Any]]], entity: str, key: str) -> dict[str, Any]:
    return next((row for row in rows[entity] if row.get("id") == key), {})


def test_a_preview_that_is_refused_lists_the_rules_and_changes_nothing(world: World) -> None:
    flow = unknown_task(world)
    before = facts()
    shown = preview(flow, "resolve-step", "it")
    assert (shown.allowed, shown.changes, shown.created) == (False, [], [])
    assert "EXECUTION_UNKNOWN" in {finding.code for finding in shown.findings}
    assert facts() == before


def test_a_preview_needs_the_same_rights_and_a_valid_command(world: World) -> None:
    flow = failed_task(world)
    reader = world.actor(permissions.READ)
    for actor, entered, code in (
        (reader, {}, "PERMISSION_DENIED"),
        (world.operator, {"reason": ""}, "VALIDATION_FAILED"),
    ):
        with pytest.raises(DomainError) as caught:
            operations.preview(actor, "resolve-step", flow.id, command(flow, "resolve-step", "it", **entered))
        assert caught.value.code == code


def test_a_missing_right_is_a_finding_for_those_who_may_read_and_nothing_for_others(world: World) -> None:
    flow = failed_task(world)
    assert set(codes(flow, world.actor(permissions.READ)).values()) == {"PERMISSION_DENIED"}
    with pytest.raises(NotFound):
        operations.explain(world.actor(), flow.id)


def test_an_explanation_says_what_depends_on_what_is_entered(world: World) -> None:
    flow = failed_task(world)
    explained = operations.explain(world.operator, flow.id)
    retry = next(option for option in explained.options if option.operation == "retry-step")
    assert retry.allowed
    assert [finding.rule for finding in retry.findings if finding.holds is None] == ["G13"]


def test_an_explanation_locks_and_writes_nothing(world: World, capture_statements: Any) -> None:
    flow = failed_task(world)
    before = facts()
    with capture_statements() as statements:
        operations.explain(world.operator, flow.id)
    assert not [s.sql for s in statements if "FOR UPDATE" in s.sql or s.sql.startswith(("INSERT", "UPDATE", "DELETE"))]
    assert facts() == before


@pytest.mark.parametrize("siblings", [5, 40])
def test_an_explanation_takes_at_most_12_statements(world: World, siblings: int, capture_statements: Any) -> None:
    flow = failed_task(world, *(task(f"sibling-{number}") for number in range(siblings)))
    with capture_statements() as statements:
        operations.explain(world.operator, flow.id)
    asked = [statement for statement in statements if "SAVEPOINT" not in statement.sql]
    assert len(asked) <= 12, "\n".join(statement.sql[:120] for statement in asked)


def test_of_a_large_instance_the_troubled_steps_are_explained_and_the_rest_are_counted(world: World) -> None:
    branches = [task(f"branch-{number:03}") for number in range(WHOLE + 20)]
    flow: Flow = world.start(sequence(parallel(*branches, key="all")))
    for lease in world.claim_all(max_tasks=25):
        world.fail(lease, run=False)
    world.run()
    explained = operations.explain(world.operator, flow.id)
    shown = {option.target["step_key"] for option in explained.options if option.operation == "retry-step"}
    assert len(shown) + explained.hidden == 25
    assert explained.hidden > 0
    cont = next(option for option in explained.options if option.operation == "continue")
    assert cont.code == "STEP_UNRESOLVED"


@pytest.mark.rule("RT1")
@pytest.mark.parametrize("status", ["SUCCEEDED", "RUNNING"])
def test_of_a_large_instance_every_unknown_task_can_be_reviewed_whatever_became_of_its_step(
    world: World, status: str, monkeypatch: pytest.MonkeyPatch, capture_statements: Any
) -> None:
    """A final signal may settle a query while a request runs that then ends unknown."""
    monkeypatch.setattr(import_module("recovery.operations.explain"), "WHOLE", 1)
    flow = unknown_task(world, task("sibling"))
    change(flow.step("it"), status=status)
    with capture_statements() as statements:
        found = codes(flow)
    assert found["review-task", flow.task("it").pk] is None
    assert ("resolve-step", "it") not in found
    assert len([statement for statement in statements if "SAVEPOINT" not in statement.sql]) <= 12


def test_rules_read_nothing_but_their_case(world: World, capture_statements: Any) -> None:
    flow = failed_task(world)
    case = operations.explain(world.operator, flow.id).case
    from recovery.operations.rules import Question

    with capture_statements() as statements:
        for operation in operations.REGISTRY.values():
            for step in case.histories.values():
                operation.decide(Question(case, step))
    assert statements == []


def test_a_state_that_nobody_knows_yet_is_refused_and_not_a_crash(world: World) -> None:
    flow = failed_task(world)
    change(flow.step("it"), review_reason="SOMETHING_NEW")
    assert codes(flow)[("retry-step", "it")] is None
