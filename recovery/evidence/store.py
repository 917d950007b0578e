"""The evidence folder: each file under its SHA-256, written once, checked on every read.

A file is written to a temporary name, synced and renamed before any row names it. What no row names is harmless and
goes with the next sweep; nothing else ever deletes here.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.utils.translation import gettext as _

from recovery.errors import StateConflict
from recovery.ids import new_id
from recovery.models import EvidenceItem

CHUNK = 64 * 1024


class Damaged(StateConflict):
    """A stored file is not what its hash says."""


class Incoming:
    """A file on its way in: hashed while it is written, gone unless it is kept."""

    def __init__(self) -> None:
        self.path = _folder("incoming") / new_id()
        self.size = 0
        self._hash = hashlib.sha256()
        self._file = self.path.open("xb")

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._hash.update(chunk)
        self.size += len(chunk)

    def finish(self) -> None:
        """Everything has arrived and is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)

    def keep(self) -> None:
        """Moves it to its place. The same content may be there already: then it is written anew, which mends it."""
        place = _place(self.sha256)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.chmod(self.path, 0o440)
        os.replace(self.path, place)
        for folder in (place.parent, place.parent.parent):
            _sync(folder)


@contextmanager
def held(*, alone: bool = False) -> Iterator[None]:
    """Keeps a sweep away until the rows that name a new file are committed. The sweep itself holds it `alone`."""
    with (_folder() / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def open_checked(sha256: str, size: int) -> BinaryIO:
    """The file, at its beginning, after all of it was read and hashed. Raises Damaged when it is not intact."""
    try:
        file = _place(sha256).open("rb")
    except OSError:
        raise _damaged(sha256, _("is missing")) from None
    if os.fstat(file.fileno()).st_size != size or hashlib.file_digest(file, "sha256").hexdigest() != sha256:
        file.close()
        raise _damaged(sha256, _("was changed"))
    file.seek(0)
    return file


def sweep(older_than: datetime) -> int:
    """Deletes what was left on its way and what no row names, where it is older; answers how many files."""
    swept = 0
    with held(alone=True):
        for path in _folder().glob("??*/*"):
            is_old = path.stat().st_mtime < older_than.timestamp()
            is_named = path.parent.name != "incoming" and EvidenceItem.objects.filter(sha256=path.name).exists()
            if is_old and not is_named:
                path.unlink()
                swept += 1
    return swept


def _damaged(sha256: str, found: str) -> Damaged:
    sentence = _("The stored file %(name)s… %(found)s. It is not handed out; restore it from a backup.")
    return Damaged(sentence % {"name": sha256[:12], "found": found})


def _folder(name: str = "") -> Path:
    folder = Path(settings.EVIDENCE_DIR) / name
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    return folder


def _place(sha256: str) -> Path:
    return Path(settings.EVIDENCE_DIR) / sha256[:2] / sha256


def _sync(folder: Path) -> None:
    """A rename is on the disk once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
