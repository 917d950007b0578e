"""The form of a dossier: members with a manifest of their hashes, as a ZIP or inside an HTML file.

A ZIP is wholly determined by its members (order, dates, no compression), so it can be made again and compared byte for
byte. An HTML file carries the JSON members as escaped text and ends with its own SHA-256. Needs no database, no Django.
"""

from __future__ import annotations

import hashlib
import html
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from recovery import exact_json

FORMAT = "weave-dossier/1"
MANIFEST, SEAL = "manifest.json", "manifest.sha256"
LISTS = {"audit.json": "id", "receipts.json": "operation_key", "evidence.json": "ref"}
"""Members whose entries have a hash each in the manifest, and what an entry is called by."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
CHUNK = 64 * 1024


@dataclass(frozen=True)
class Member:
    """One file of a dossier. `open` answers its bytes from the beginning."""

    name: str
    size: int
    sha256: str
    open: Callable[[], IO[bytes]] = field(compare=False)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def text(value: Any) -> str:
    """JSON as a member holds it: canonical, so that one value has one text."""
    return exact_json.canonical(value) + "\n"


def manifest(about: Mapping[str, Any], documents: Mapping[str, Any], members: Iterable[Member]) -> dict[str, Any]:
    """`about`: instance, head of the audit, who made it and when. `documents`: the JSON members by name, as values."""
    return {
        "format": FORMAT,
        **about,
        "members": [{"name": each.name, "size": each.size, "sha256": each.sha256} for each in members],
        "entries": {name: hashed(documents[name], key) for name, key in LISTS.items()},
    }


def hashed(entries: Iterable[Mapping[str, Any]], key: str) -> list[list[str]]:
    """(name, hash) of each entry, in their order."""
    return [[str(entry[key]), exact_json.digest(entry)] for entry in entries]


def write_zip(target: IO[bytes], members: Iterable[Member]) -> None:
    """The one archive that these members make, in their order."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for member in members:
            about = zipfile.ZipInfo(member.name, _EPOCH)
            about.create_system, about.external_attr, about.file_size = 3, 0o600 << 16, member.size
            with member.open() as source, archive.open(about, "w") as place:
                while chunk := source.read(CHUNK):
                    place.write(chunk)


_RECORD = re.compile(r'<pre id="dossier-record">(.*?)</pre>', re.DOTALL)
_LAST_LINE = re.compile(rb"<!-- sha256 ([0-9a-f]{64}) -->\n\Z")


def record(manifest_text: str, members: Mapping[str, str]) -> str:
    """The machine-readable part of an HTML file, escaped."""
    return html.escape(exact_json.dumps({"manifest": manifest_text, "members": dict(members)}))


def seal_html(page: str) -> bytes:
    """The finished file: the page, and a last line with the hash of everything before it."""
    data = page.encode()
    return data + f"<!-- sha256 {digest(data)} -->\n".encode()


def read_html(data: bytes) -> tuple[str, dict[str, str], bool]:
    """The manifest, the members, whether the file is what its last line says. Raises ValueError without a record."""
    last = _LAST_LINE.search(data)
    is_whole = last is not None and digest(data[: last.start()]) == last[1].decode()
    found = _RECORD.findall(data.decode("utf-8", "surrogateescape"))
    if len(found) != 1:
        raise ValueError("no record")
    content = exact_json.loads(html.unescape(found[0]))
    manifest_text, members = content["manifest"], content["members"]
    if not isinstance(manifest_text, str) or not all(isinstance(each, str) for each in members.values()):
        raise ValueError("no record")
    return manifest_text, members, is_whole
