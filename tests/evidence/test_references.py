"""A decision may name this system's own evidence, if it is there to be seen; and it stays what it was."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from recovery import clock, permissions
from recovery.errors import NotFound, PermissionDenied, StateConflict, ValidationFailed
from recovery.evidence import bundles, references, store
from recovery.models import Application, EvidenceBundle, EvidenceItem, WorkflowAudit
from recovery.operations.commands import evidence_ref
from recovery.receipts import new_key
from recovery.writes import insert
from tests.operations.stages import failed_task
from tests.support.evidence import PNG, TEXT, arrived, attach, stored
from tests.support.recovering import command, preview, recover, refused, send
from tests.support.world import World, make_world


def bundle(world: World, ref: str) -> EvidenceBundle:
    return bundles.find(world.operator, ref.partition(":")[2])


@pytest.mark.rule("G3")
def test_a_decision_names_attached_evidence_and_the_bundle_knows_where_it_was_used(world: World) -> None:
    flow = failed_task(world)
    ref = attach(world, TEXT, instance_id=flow.id)
    assert evidence_ref(ref) == ref
    assert preview(flow, "retry-step", "it", evidence_ref=ref).allowed
    recover(flow, "retry-step", "it", evidence_ref=ref)
    used = references.uses(bundle(world, ref))
    assert [(audit.action, audit.instance_id) for audit in used] == [("retry_step", flow.id)]


@pytest.mark.rule("G3")
@pytest.mark.parametrize("slug", ["retry-step", "resolve-step"])
def test_a_reference_that_leads_nowhere_is_refused_at_its_field(world: World, slug: str) -> None:
    error = refused(failed_task(world), "VALIDATION_FAILED", slug, "it", evidence_ref="evidence:nothing")
    assert list(error.fields) == ["evidence_ref"]


@pytest.mark.rule("G3")
def test_evidence_of_another_namespace_is_refused_like_what_is_not_there(
    world: World, time_machine: time_machine.TimeMachineFixture
) -> None:
    flow = failed_task(world)
    other = make_world(world.traveller, name="other")
    foreign = refused(flow, "VALIDATION_FAILED", "retry-step", "it", evidence_ref=attach(other, TEXT))
    missing = refused(flow, "VALIDATION_FAILED", "retry-step", "it", evidence_ref="evidence:nothing")
    assert str(foreign) == str(missing)


@pytest.mark.rule("G3")
def test_who_may_not_read_evidence_may_not_name_it(world: World) -> None:
    flow = failed_task(world)
    actor = world.actor(permissions.READ, permissions.RECOVER, queues=("bank", "mail"))
    ref = attach(world, TEXT)
    error = refused(flow, "VALIDATION_FAILED", "retry-step", "it", evidence_ref=ref, actor=actor)
    assert list(error.fields) == ["evidence_ref"]


@pytest.mark.rule("G3", "G4")
def test_withdrawn_evidence_is_refused_from_then_on_and_the_receipt_that_named_it_stays(world: World) -> None:
    flow = failed_task(world)
    ref, key = attach(world, TEXT), new_key()
    payload = command(flow, "retry-step", "it", evidence_ref=ref)
    first = send(flow, "retry-step", payload, key=key)
    bundles.withdraw(world.operator, ref.partition(":")[2], "It shows another payment.")
    again = send(flow, "retry-step", payload, key=key)
    assert (again.replayed, again.body) == (True, first.body)
    error = refused(flow, "VALIDATION_FAILED", "continue", evidence_ref=ref)
    assert "another payment" in str(error)
    with pytest.raises(ValidationFailed):
        preview(flow, "continue", evidence_ref=ref)


def test_withdrawing_deletes_nothing_and_happens_once(world: World, evidence_dir: Path) -> None:
    ref = attach(world, TEXT)
    before = stored(evidence_dir)
    bundles.withdraw(world.operator, ref.partition(":")[2], "Another payment.")
    with pytest.raises(StateConflict):
        bundles.withdraw(world.operator, ref.partition(":")[2], "Once more.")
    assert stored(evidence_dir) == before
    withdrawal = bundles.withdrawal_of(bundle(world, ref))
    assert withdrawal is not None
    assert withdrawal.reason == "Another payment."


@pytest.mark.rule("G4")
def test_one_key_attaches_once_and_not_something_else(world: World, evidence_dir: Path) -> None:
    key = new_key()
    first = bundles.attach(world.operator, key, files=[arrived("a.txt", TEXT)])
    again = bundles.attach(world.operator, key, files=[arrived("a.txt", TEXT)])
    assert (again.replayed, again.body) == (True, first.body)
    assert EvidenceBundle.objects.count() == 1
    with pytest.raises(Exception, match="used for another command"):
        bundles.attach(world.operator, key, files=[arrived("a.txt", PNG)])


@pytest.mark.rule("G1")
def test_a_credential_for_one_application_sees_only_evidence_about_its_instances(world: World) -> None:
    flow = failed_task(world)
    about, free = attach(world, TEXT, instance_id=flow.id), attach(world, TEXT)
    own = world.actor(permissions.READ, permissions.READ_EVIDENCE, application=world.application)
    desk = Application(namespace=world.namespace, name="till", status="ACTIVE", created_at=clock.now())
    insert(desk)
    other = world.actor(permissions.READ, permissions.READ_EVIDENCE, application=desk)
    assert bundles.find(own, about.partition(":")[2])
    for actor, ref in ((own, free), (other, about), (other, free)):
        with pytest.raises(NotFound):
            bundles.find(actor, ref.partition(":")[2])


@pytest.mark.parametrize("texts", [{"references": ["two words"]}, {"notes": ["a\0b"]}, {"notes": ["x" * 4001]}, {}])
def test_what_is_not_evidence_is_refused_and_leaves_nothing(world: World, texts: Any, evidence_dir: Path) -> None:
    with pytest.raises(ValidationFailed):
        bundles.attach(world.operator, new_key(), **texts)
    assert EvidenceBundle.objects.count() == 0


def test_attaching_takes_its_right(world: World) -> None:
    with pytest.raises(PermissionDenied):
        attach(world, TEXT, actor=world.actor(permissions.READ, permissions.READ_EVIDENCE))


def test_notes_and_references_have_hashes_too(world: World) -> None:
    ref = attach(world, notes=("Seen at noon.",), references=("bank-portal:FT1",))
    items = bundles.items_of(bundle(world, ref))
    assert [(item.position, item.kind, item.text) for item in items] == [
        (1, "NOTE", "Seen at noon."),
        (2, "REFERENCE", "bank-portal:FT1"),
    ]
    assert all(len(item.sha256) == 64 for item in items)


# The folder


def test_the_same_content_is_stored_once_and_mends_a_damaged_file(world: World, evidence_dir: Path) -> None:
    attach(world, TEXT)
    (name,) = stored(evidence_dir)
    (evidence_dir / name).chmod(0o600)
    (evidence_dir / name).write_bytes(b"x" + TEXT[1:])
    item = EvidenceItem.objects.get()
    with pytest.raises(store.Damaged):
        store.open_checked(item.sha256, item.size)
    attach(world, TEXT)
    assert stored(evidence_dir) == [name]
    with store.open_checked(item.sha256, item.size) as file:
        assert file.read() == TEXT


def test_a_missing_file_is_said_to_be_missing(world: World, evidence_dir: Path) -> None:
    attach(world, TEXT)
    item = EvidenceItem.objects.get()
    (evidence_dir / stored(evidence_dir)[0]).unlink()
    with pytest.raises(store.Damaged, match="is missing"):
        store.open_checked(item.sha256, item.size)


def test_the_sweep_takes_only_old_files_that_no_row_names(world: World, evidence_dir: Path) -> None:
    attach(world, TEXT)
    kept = stored(evidence_dir)
    orphan, half = arrived("orphan", PNG), arrived("half", b"half of it")
    orphan.incoming.keep()
    old = clock.now().timestamp() - 7200
    names = [evidence_dir / name for name in stored(evidence_dir)]
    for path in names:
        os.utime(path, (old, old))
    fresh = arrived("fresh", b"on its way")
    fresh.incoming.discard()
    assert store.sweep(clock.now() - timedelta(hours=1)) == 2
    assert stored(evidence_dir) == kept
    assert not half.incoming.path.exists()


def test_a_refusal_by_the_database_leaves_only_a_file_for_the_sweep(
    world: World, evidence_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*rows: Any) -> None:
        raise RuntimeError("the database is gone")

    monkeypatch.setattr(bundles, "insert", fail)
    with pytest.raises(RuntimeError):
        attach(world, TEXT)
    assert EvidenceItem.objects.count() == EvidenceBundle.objects.count() == WorkflowAudit.objects.count() == 0
    assert len(stored(evidence_dir)) == 1
