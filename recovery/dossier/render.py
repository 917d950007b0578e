"""A dossier as one HTML file that needs nothing else, and as a ZIP."""

from __future__ import annotations

import base64
import hashlib
import io
import tempfile
from functools import lru_cache, partial
from typing import IO, Any

from django.template.loader import get_template
from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.dossier import bundle
from recovery.dossier.bundle import MANIFEST, SEAL, Member
from recovery.dossier.gather import Dossier

IN_MEMORY = 8 * 1024 * 1024


def as_html(dossier: Dossier) -> bytes:
    """For reading, with the JSON members inside. Holds no script and asks for nothing."""
    members = dossier.members()
    manifest_text = bundle.text(bundle.manifest(dossier.about, dossier.documents, members))
    texts = {name: bundle.text(value) for name, value in dossier.documents.items()}
    context = {
        "about": dossier.about,
        "instance": dossier.documents["instance.json"],
        "history": dossier.documents["history.json"],
        "entries": [_decision(entry) for entry in dossier.documents["audit.json"]],
        "receipts": dossier.documents["receipts.json"],
        "evidence": dossier.documents["evidence.json"],
        "record": bundle.record(manifest_text, texts),
        "seal": bundle.digest(manifest_text.encode()),
        "policy": policy(),
    }
    return bundle.seal_html(get_template("dossier/dossier.html").render(context))


def write_zip(dossier: Dossier, target: IO[bytes]) -> None:
    """JSON, the page, the evidence files, the manifest and its seal, in this order."""
    page = as_html(dossier)
    members = [*dossier.members(), _member("dossier.html", page), *dossier.files]
    data = bundle.text(bundle.manifest(dossier.about, dossier.documents, members)).encode()
    seal = f"{bundle.digest(data)}  {MANIFEST}\n".encode()
    bundle.write_zip(target, [*members, _member(MANIFEST, data), _member(SEAL, seal)])


def as_zip(dossier: Dossier) -> IO[bytes]:
    """The archive, at its beginning; on disk when it is large."""
    target: Any = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - the response closes it
    write_zip(dossier, target)
    target.seek(0)
    return target


@lru_cache(maxsize=1)
def policy() -> str:
    """What a browser may do with the page: its own styles, by their hash, and nothing else."""
    page = get_template("dossier/_styles.html").render({})
    style = page.partition("<style>")[2].partition("</style>")[0]
    sha256 = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{sha256}'; base-uri 'none'; form-action 'none'"


def _member(name: str, data: bytes) -> Member:
    return Member(name, len(data), bundle.digest(data), partial(io.BytesIO, data))


def _decision(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with what it changed, as (name, before, after)."""
    before, after = entry["before"], entry["after"]
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    changed = [(name, _shown(before.get(name)), _shown(after.get(name))) for name in names]
    return {**entry, "changed": changed}


def _shown(value: Any) -> str:
    if value is None:
        return _("none")
    return value if isinstance(value, str) else exact_json.dumps(value)
