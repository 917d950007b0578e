"""Keys, receipts, audits and revisions that do not fit together are named. What is append-only is added to, here."""

from typing import Any

import pytest

from recovery import audit
from recovery.ids import new_id
from recovery.models import (
    AccessLedger,
    AccessLog,
    ExecutionAudit,
    ManagementOperation,
    OperationReceipt,
    Signal,
    StepClock,
    WorkflowAudit,
)
from recovery.verify import CHECKS, Scope
from recovery.writes import insert
from tests.support.rows import MOMENT, nonsense
from tests.support.world import Flow
from tests.verify.breaking import put, remove, said
from tests.verify.conftest import Busy

pytestmark = pytest.mark.django_db


def _operation(flow: Flow, *, key: str = "", **fields: Any) -> ManagementOperation:
    operation = ManagementOperation(
        **{
            "namespace_id": flow.instance.namespace_id,
            "operation_key": key or new_id(),
            "action": "continue",
            "command_digest": "0" * 64,
            "actor": "somebody",
            "instance_id": flow.id,
            "created_at": MOMENT,
        }
        | fields
    )
    insert(operation)
    return operation


def _receipt(operation: ManagementOperation, *, at: int = 3, **said: Any) -> OperationReceipt:
    receipt = OperationReceipt(operation=operation, response=said, instance_revision=at, created_at=MOMENT)
    insert(receipt)
    return receipt


def _append(flow: Flow, **fields: Any) -> WorkflowAudit:
    """An entry as the product appends them, and the head with it."""
    given = {"actor": "somebody", "action": "continue", "reason": "", "before": {}, "after": {}, "now": MOMENT}
    instance = flow.instance
    entry, head = audit.append(instance, **given | fields)
    put(instance, audit_head=head)
    return entry


@pytest.mark.rule("G4")
def test_a_key_without_a_receipt(busy: Busy) -> None:
    operation = _operation(busy.query)
    assert "has no receipt" in said("receipts", operation)


@pytest.mark.rule("G10")
def test_a_derived_key_with_a_receipt(busy: Busy) -> None:
    operation = _operation(busy.query, key=" derived")
    assert CHECKS["receipts"].look(Scope()).violations == ()
    _receipt(operation)
    assert "is derived" in said("receipts", operation)


def test_a_claim_has_a_receipt_and_needs_no_audit(busy: Busy) -> None:
    claim = ManagementOperation.objects.get(action="claim")
    assert OperationReceipt.objects.get(operation=claim).instance_revision == 0
    remove_claim = _operation(busy.query, action="claim", instance_id=None)
    said("receipts", remove_claim)


@pytest.mark.rule("G4")
@pytest.mark.parametrize(
    ("field", "value"), [("operation_key", "another"), ("instance_id", "another"), ("revision", "4")]
)
def test_a_receipt_of_something_else_than_its_operation(busy: Busy, field: str, value: str) -> None:
    receipt = _receipt(_operation(busy.query), **{field: value})
    assert said("receipt_contents", receipt) == f"{field} differ from those of its operation."


def test_a_receipt_without_an_audit(busy: Busy) -> None:
    receipts = [
        _receipt(_operation(busy.query)),
        _receipt(_operation(busy.query), at=0),
        _receipt(_operation(busy.query, instance_id=None)),
    ]
    for receipt in receipts:
        assert "not in the audit" in said("audited_receipts", receipt)
    _receipt(_operation(busy.query, instance_id=None), at=0)
    assert len(CHECKS["audited_receipts"].look(Scope()).violations) == 3


def test_an_audit_of_an_operation_on_another_instance(busy: Busy) -> None:
    entry = _append(busy.query, operation=_operation(busy.done))
    assert "another instance" in said("audited_receipts", entry)


@pytest.mark.rule("G10")
@pytest.mark.parametrize("action", ["review_task", "cancel_task"])
def test_a_decision_about_a_task_that_is_not_audited_there(busy: Busy, action: str) -> None:
    entry = _append(busy.query, action=action)
    said("execution_audits", entry)


@pytest.mark.rule("G10")
@pytest.mark.parametrize("field", [{"actor": "another"}, {"action": "another"}, {"task_id": "foreign"}])
def test_a_decision_that_the_audit_of_the_task_tells_otherwise(busy: Busy, field: dict[str, str]) -> None:
    if "task_id" in field:
        field = {"task_id": busy.done.task("pay").pk}
    words: dict[str, Any] = {"task_id": busy.query.task("query").pk, "actor": "somebody", "action": "cancel_task"}
    execution = ExecutionAudit(
        **words | field, from_status="QUEUED", to_status="CANCELLED", task_revision=2, detail={}, created_at=MOMENT
    )
    insert(execution)
    said("execution_audits", _append(busy.query, action="cancel_task", execution_audit=execution))


@pytest.mark.rule("G10")
def test_an_entry_behind_the_head(busy: Busy) -> None:
    """Somebody appended past the product."""
    head = busy.query.instance.audit_head
    entry = _append(busy.query)
    put(busy.query.instance, audit_head=head)
    assert entry.entry_hash in said("audit_heads", busy.query.instance)


@pytest.mark.rule("G10")
@pytest.mark.parametrize("head", ["", "1:" + "0" * 64, "99:" + "0" * 64, "nonsense"])
def test_a_head_that_names_no_such_end(busy: Busy, head: str) -> None:
    put(busy.query.instance, audit_head=head)
    said("audit_heads", busy.query.instance)


@pytest.mark.rule("G10")
@pytest.mark.parametrize("broken", [{"previous_hash": "0" * 64}, {"entry_hash": "0" * 64}, {"sequence": 99}])
def test_an_entry_that_is_no_link_of_the_chain(busy: Busy, broken: dict[str, Any]) -> None:
    sequence, last = audit.head_of(busy.query.instance)
    entry = WorkflowAudit(
        instance_id=busy.query.id,
        sequence=sequence + 1,
        actor="somebody",
        action="continue",
        before={},
        after={},
        previous_hash=last,
        created_at=MOMENT,
    )
    for name, value in broken.items():
        setattr(entry, name, value)
    entry.entry_hash = broken.get("entry_hash") or audit.entry_hash(entry)
    insert(entry)
    said("audit_chains", entry)


@pytest.mark.rule("G9")
@pytest.mark.parametrize("name", ["revision", "control_revision"])
@pytest.mark.parametrize("after", ["7", "9", "6"])
def test_an_act_that_raised_a_revision_by_another_number(busy: Busy, name: str, after: str) -> None:
    entry = _append(busy.done, before={name: "7"}, after={name: after})
    assert f"raised {name} from 7 to {after}" in said("act_revisions", entry)


@pytest.mark.rule("G9")
def test_an_act_that_goes_back_behind_an_earlier_one(busy: Busy) -> None:
    entry = _append(busy.waiting, before={"control_revision": "1"}, after={"control_revision": "2"})
    assert "after an entry that left it at" in said("act_revisions", entry)


@pytest.mark.rule("G9")
@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("field", ["revision", "control_revision"])
def test_a_revision_that_does_not_count_the_facts(busy: Busy, field: str, by: int) -> None:
    for flow in (busy.done, busy.waiting, busy.query, busy.unconsumed):
        instance = flow.instance
        put(instance, **{field: getattr(instance, field) + by})
        assert f"is {getattr(instance, field) + by}, but the" in said("revisions", flow.instance)


@pytest.mark.rule("G9")
def test_a_fact_that_the_revision_does_not_count(busy: Busy) -> None:
    _append(busy.done, operation=_operation(busy.done))
    said("revisions", busy.done.instance)
    remove(Signal.objects.filter(instance_id=busy.waiting.id)[0])
    said("revisions", busy.waiting.instance)
    put(StepClock.objects.filter(instance_id=busy.retried.id)[0], status="FIRED")
    said("revisions", busy.retried.instance)
    put(busy.unconsumed.inbox()[-1], status="PROCESSED")
    said("revisions", busy.unconsumed.instance)


def _log(*numbers: int) -> list[AccessLog]:
    entries = [nonsense(AccessLog, sequence=number) for number in numbers]
    insert(*entries)
    return entries


def test_a_log_of_access_with_a_hole(busy: Busy) -> None:
    _first, third = _log(1, 3)
    insert(ledger := AccessLedger(entries=3))
    assert said("access_log", third) == "Entry 2 is missing before it."
    _log(2)
    assert CHECKS["access_log"].look(Scope()).violations == ()
    put(ledger, entries=2)
    assert CHECKS["access_log"].look(Scope("a namespace")).violations == ()


@pytest.mark.parametrize("counted", [0, 2, 4])
def test_a_log_of_access_that_was_cut_or_added_to(busy: Busy, counted: int) -> None:
    _log(1, 2, 3)
    insert(AccessLedger(entries=counted))
    (violation,) = CHECKS["access_log"].look(Scope()).violations
    assert violation.sentence == f"It counts {counted} entries, but the last one is number 3."


def test_a_log_of_access_without_its_ledger(busy: Busy) -> None:
    _log(1)
    assert len(CHECKS["access_log"].look(Scope()).violations) == 1
