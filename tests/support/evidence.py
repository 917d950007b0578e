"""Attaching evidence in tests: a folder of its own, and what people attach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recovery.evidence import bundles
from recovery.evidence.arrival import Arrived
from recovery.evidence.store import Incoming
from recovery.receipts import new_key
from tests.support.world import World

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8ffff3f0005fe02fea7356f9b0000000049454e44ae426082"
)
TEXT = b"The portal shows no payment <b>FT26333</b>.\n"


@pytest.fixture(name="evidence_dir")
def _evidence_dir(settings: Any, tmp_path: Path) -> Path:
    settings.EVIDENCE_DIR = tmp_path / "evidence"
    return settings.EVIDENCE_DIR


def arrived(name: str, content: bytes) -> Arrived:
    incoming = Incoming()
    incoming.write(content)
    incoming.finish()
    return Arrived(name, incoming)


def attach(world: World, *contents: bytes, notes: tuple[str, ...] = (), actor: Any = None, **more: Any) -> str:
    """Attaches files as the operator; answers the reference."""
    files = [arrived(f"file-{number}", content) for number, content in enumerate(contents)]
    receipt = bundles.attach(actor or world.operator, new_key(), files=files, notes=notes, **more)
    ref: str = receipt.data["ref"]
    return ref


def stored(folder: Path) -> list[str]:
    """The files in the evidence folder, those on their way too."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob("*/*"))
