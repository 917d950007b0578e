"""Verifies a dossier from the file alone: hashes of members and entries, the audit's chain, and its head.

Without an anchor from outside nobody can tell a dossier that was made anew as a whole: compare the head and the seal
that are reported with those that the system shows, or give the head to the command.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from gettext import NullTranslations, translation
from pathlib import Path
from typing import Any

from recovery import exact_json
from recovery.dossier import bundle
from recovery.dossier.bundle import LISTS, MANIFEST, SEAL, Member


def _catalogue() -> NullTranslations:
    """The product's own, in the language of the shell, whose name for one may differ (zh_CN)."""
    asked = next(
        (os.environ[name] for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), ""
    )
    languages = ["zh_Hans"] if asked.startswith("zh") else []
    return translation("django", Path(__file__).resolve().parents[2] / "locale", languages, fallback=True)


_ = _catalogue().gettext

ENTRY = (
    *("id", "instance_id", "sequence", "operation_id", "execution_audit_id", "actor", "action", "reason"),
    *("evidence_ref", "before", "after", "previous_hash", "created_at"),
)
"""What the hash of an audit entry covers (G10)."""

ORIGIN = "0" * 64


class Unreadable(Exception):
    """The file is no dossier at all; the message says why."""


@dataclass
class Report:
    """What was found. `problems`: each names the member or the entry."""

    head: str = ""
    seal: str = ""
    entries: int = 0
    members: int = 0
    problems: list[str] = field(default_factory=list)


def verify(path: Path, *, head: str = "") -> Report:
    """Checks an HTML file or a ZIP. `head`: the anchored head of the audit, `<count>:<hash>`, where it is known.

    Raises Unreadable, and OSError where the file cannot be read.
    """
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
    report = _zip(path) if is_zip else _html(path)
    if head and head != report.head:
        report.problems.append(_("The head is %(found)s, not %(wanted)s.") % {"found": report.head, "wanted": head})
    return report


def _html(path: Path) -> Report:
    try:
        manifest_text, texts, is_whole = bundle.read_html(path.read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(_("This HTML file holds no dossier: %(error)s.") % {"error": error}) from None
    report = Report(seal=bundle.digest(manifest_text.encode()))
    members = [_of_text(name, content) for name, content in texts.items()]
    _contents(report, manifest_text.encode(), members)
    if not is_whole:
        report.problems.append(_("The page itself was changed: it is not what its last line says."))
    return report


def _of_text(name: str, content: str) -> Member:
    data = content.encode("utf-8", "surrogatepass")
    return Member(name, len(data), bundle.digest(data), partial(io.BytesIO, data))


def _zip(path: Path) -> Report:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            members = [_of_zip(archive, about) for about in archive.infolist()]
            by_name = {member.name: member for member in members}
            if MANIFEST not in by_name:
                raise Unreadable(_("The archive has no %(name)s.") % {"name": MANIFEST})
            manifest = by_name[MANIFEST].open().read()
            report = Report(seal=bundle.digest(manifest))
            if SEAL not in by_name or by_name[SEAL].open().read().decode("ascii", "replace") != _seal_line(manifest):
                report.problems.append(_("%(a)s and %(b)s do not fit: one was changed.") % {"a": MANIFEST, "b": SEAL})
            if len(set(names)) != len(names):
                report.problems.append(_("The archive names a file twice."))
            _contents(report, manifest, [member for member in members if member.name not in (MANIFEST, SEAL)])
            if not report.problems and not _is_determined(path, members):
                report.problems.append(_("The archive holds something beside its files, or was packed anew."))
            return report
    except (
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        OverflowError,
        struct.error,
    ) as error:
        raise Unreadable(_("This is no readable archive: %(error)s.") % {"error": error}) from None


def _seal_line(manifest: bytes) -> str:
    return f"{bundle.digest(manifest)}  {MANIFEST}\n"


def _of_zip(archive: zipfile.ZipFile, about: zipfile.ZipInfo) -> Member:
    """Bounded by the archive itself: members are stored, never compressed."""
    if about.compress_type != zipfile.ZIP_STORED:
        raise Unreadable(_("%(name)s is compressed; a dossier never is.") % {"name": about.filename})
    opened = partial(_without_crc, archive, about)
    with opened() as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Member(about.filename, about.file_size, sha256, opened)


def _without_crc(archive: zipfile.ZipFile, about: zipfile.ZipInfo) -> Any:
    """A member's bytes as they are: a wrong checksum must be told by our hash, by name, not by an exception."""
    opened: Any = archive.open(about)
    opened._expected_crc = None
    return opened


def _is_determined(path: Path, members: list[Member]) -> bool:
    with tempfile.TemporaryFile() as again, path.open("rb") as file:
        bundle.write_zip(again, members)
        again.seek(0)
        return hashlib.file_digest(again, "sha256").digest() == hashlib.file_digest(file, "sha256").digest()


def _contents(report: Report, manifest_data: bytes, members: list[Member]) -> None:
    """Everything that both forms have in common."""
    report.members = len(members)
    try:
        manifest = exact_json.loads(manifest_data)
        wanted = {each["name"]: (int(each["size"]), str(each["sha256"])) for each in manifest["members"]}
        entries, head = dict(manifest["entries"]), str(manifest["audit_head"])
    except (ValueError, KeyError, TypeError) as error:
        report.problems.append(_("%(name)s cannot be read: %(error)s.") % {"name": MANIFEST, "error": error})
        wanted, entries, head = {}, {}, ""
    if manifest_data and wanted and manifest.get("format") != bundle.FORMAT:
        raise Unreadable(
            _("The format is %(found)s, not %(wanted)s.") % {"found": manifest.get("format"), "wanted": bundle.FORMAT}
        )
    report.problems += _members(wanted, members)
    documents: dict[str, Any] = {}
    for member in members:
        if member.name.endswith(".json"):
            try:
                documents[member.name] = exact_json.loads(member.open().read())
            except ValueError as error:
                report.problems.append(_("%(name)s cannot be read: %(error)s.") % {"name": member.name, "error": error})
    for name, key in LISTS.items():
        if name in documents and name in entries:
            report.problems += _entries(name, key, documents[name], entries[name])
    instance = documents.get("instance.json")
    anchored = instance.get("audit_head") if isinstance(instance, dict) else None
    if anchored is not None and head and anchored != head:
        report.problems.append(_("The head in %(name)s was changed.") % {"name": "instance.json"})
    audit = documents.get("audit.json")
    if isinstance(audit, list):
        report.entries, report.head = len(audit), head
        report.problems += _chain(audit, head)
    report.problems = list(dict.fromkeys(report.problems))


def _members(wanted: Mapping[str, tuple[int, str]], members: list[Member]) -> Iterator[str]:
    found = {member.name: member for member in members}
    for name, (size, sha256) in wanted.items():
        if name not in found:
            yield _("%(name)s was cut.") % {"name": name}
        elif (found[name].size, found[name].sha256) != (size, sha256):
            yield _("%(name)s was changed.") % {"name": name}
    for name in found:
        if name not in wanted:
            yield _("%(name)s was added.") % {"name": name}
    if list(found) != list(wanted) and sorted(found) == sorted(wanted):
        yield _("The files are in another order.")


def _entries(member: str, key: str, entries: Any, wanted: Any) -> Iterator[str]:
    """Which entries of a list were changed, added, cut or moved."""
    try:
        found, known = dict(bundle.hashed(entries, key)), dict(wanted)
        order = [str(entry[key]) for entry in entries]
    except (KeyError, TypeError, ValueError):
        yield _("%(name)s is not a list of entries.") % {"name": member}
        return
    for name, sha256 in known.items():
        if name not in found:
            yield _("%(member)s: the entry %(entry)s was cut.") % {"member": member, "entry": name}
        elif found[name] != sha256:
            yield _("%(member)s: the entry %(entry)s was changed.") % {"member": member, "entry": name}
    for name in found:
        if name not in known:
            yield _("%(member)s: the entry %(entry)s was added.") % {"member": member, "entry": name}
    if sorted(order) == sorted(known) and order != list(known):
        yield _("%(member)s: the entries are in another order.") % {"member": member}


def _chain(entries: list[Any], head: str) -> Iterator[str]:
    """Each entry against its own hash and the one before it, and the last one against the head."""
    previous, sequence = ORIGIN, 0
    for entry in entries:
        if not isinstance(entry, dict) or set(entry) != {*ENTRY, "entry_hash"}:
            yield _("Audit: there is an entry without its fields.")
            return
        number = {"number": entry["sequence"]}
        if entry["sequence"] != sequence + 1:
            yield _("Audit: entry %(number)s follows entry %(before)s.") % {**number, "before": sequence}
        if entry["previous_hash"] != previous:
            yield _("Audit: entry %(number)s does not follow from the one before it.") % number
        if exact_json.digest({name: entry[name] for name in ENTRY}) != entry["entry_hash"]:
            yield _("Audit: entry %(number)s is not what its hash says.") % number
        previous, sequence = entry["entry_hash"], sequence + 1
    if head and head != (f"{sequence}:{previous}" if entries else ""):
        yield _("Audit: the head is %(head)s, so the end was cut or changed.") % {"head": head}
