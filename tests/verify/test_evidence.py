"""Evidence that somebody changed where it is stored."""

from pathlib import Path

import pytest

from recovery.models import EvidenceItem
from recovery.verify import CHECKS, Scope
from tests.support.evidence import TEXT, attach, stored
from tests.support.world import World
from tests.verify.breaking import put, said
from tests.verify.test_tampering import without_guards

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(name="item")
def _item(world: World, evidence_dir: Path) -> EvidenceItem:
    attach(world, TEXT, notes=("Seen at noon.",))
    assert CHECKS["evidence_content"].look(Scope()).violations == ()
    return EvidenceItem.objects.get(position=1)


def test_a_file_with_one_byte_changed_cut_or_added(item: EvidenceItem, evidence_dir: Path) -> None:
    path = evidence_dir / stored(evidence_dir)[0]
    path.chmod(0o600)
    for content in (b"t" + TEXT[1:], TEXT[:-1], TEXT + b"\n"):
        path.write_bytes(content)
        assert "was changed" in said("evidence_content", item)


def test_a_file_that_is_gone(world: World, item: EvidenceItem, evidence_dir: Path) -> None:
    (evidence_dir / stored(evidence_dir)[0]).unlink()
    assert "is missing" in said("evidence_content", item, namespace_id=world.namespace.pk)
    assert CHECKS["evidence_content"].look(Scope("another")).violations == ()


def test_a_note_that_was_changed(item: EvidenceItem) -> None:
    note = EvidenceItem.objects.get(position=2)
    with without_guards():
        put(note, text="Seen at one.")
    assert "not what its hash says" in said("evidence_content", note)
