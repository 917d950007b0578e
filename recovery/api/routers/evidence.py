"""Evidence: attaching bundles, reading what is in them, and their files."""

from __future__ import annotations

from typing import Any

from django.http import FileResponse, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router

from recovery import permissions
from recovery.api import bodies
from recovery.api.answers import answer, frozen
from recovery.api.auth import Call
from recovery.api.endpoint import ACTING, endpoint
from recovery.api.params import Id
from recovery.api.problems import UnsupportedMediaType
from recovery.api.schemas.words import BYTES, ref
from recovery.audit import instant
from recovery.errors import NotFound, ValidationFailed
from recovery.evidence import bundles, store
from recovery.evidence.arrival import arriving
from recovery.evidence.references import SCHEME
from recovery.models import EvidenceBundle

router = Router(tags=["Evidence"])

TEXTS = ("note", "reference", "instance_id")
"""The parts of a body beside its files."""


@endpoint(
    router,
    "POST",
    "/evidence",
    {201: ref("EvidenceReceipt")},
    body="EvidenceParts",
    media_type="multipart/form-data",
    key="required",
    codes=(*ACTING, "IDEMPOTENCY_CONFLICT"),
)
def attach_evidence(request: Call) -> HttpResponse:
    """Attach a bundle of files, notes and references.

    Parts: `file`, `note` and `reference` (each may come again) and `instance_id`. `ref` is what a command takes as its
    evidence_ref. Types are found in the content. Needs evidence:attach.
    """
    # Whoever may not attach is refused before anything is read and kept.
    permissions.require(request.auth, permissions.ATTACH_EVIDENCE)
    if request.content_type != "multipart/form-data":
        raise UnsupportedMediaType("Send the parts as Content-Type: multipart/form-data.")
    with arriving(request) as parcel:
        texts = _texts(request)
        receipt = bundles.attach(
            request.auth,
            bodies.key(request),
            files=parcel.files,
            problems=parcel.problems,
            notes=texts["note"],
            references=texts["reference"],
            instance_id=next(iter(texts["instance_id"]), None),
        )
    return frozen(receipt, status=201)


def _texts(request: HttpRequest) -> dict[str, list[str]]:
    """The parts that are no files. Raises ValidationFailed for one that is unknown, and for a second instance."""
    problems = {name: [_("There is no such part; remove it.")] for name in request.POST if name not in TEXTS}
    texts = {name: [text for text in request.POST.getlist(name) if isinstance(text, str)] for name in TEXTS}
    if len(texts["instance_id"]) > 1:
        problems["instance_id"] = [_("Given more than once.")]
    if problems:
        raise ValidationFailed(_("Nothing was attached. Mend what is named and send it again."), fields=problems)
    return texts


@endpoint(router, "GET", "/evidence/{evidence_ref}", "Evidence", codes=ACTING)
def read_evidence(request: Call, evidence_ref: Id) -> HttpResponse:
    """Read what is in a bundle.

    `files` are read at /evidence/{evidence_ref}/files/{number}, numbered from 1. Needs workflows:read and
    evidence:read.
    """
    bundle = _find(request, evidence_ref)
    items = bundles.items_of(bundle)
    withdrawal = bundles.withdrawal_of(bundle)
    shown: dict[str, Any] = {
        "ref": evidence_ref,
        "instance_id": bundle.instance_id,
        "attached_by": bundle.attached_by,
        "created_at": instant(bundle.created_at),
        "files": [bundles.described(item) for item in items if item.kind == bundles.FILE],
        "notes": [item.text for item in items if item.kind == bundles.NOTE],
        "references": [item.text for item in items if item.kind == bundles.REFERENCE],
        "withdrawn": withdrawal and {"reason": withdrawal.reason, "created_at": instant(withdrawal.created_at)},
    }
    return answer(shown)


@endpoint(
    router,
    "GET",
    "/evidence/{evidence_ref}/files/{number}",
    {200: BYTES},
    media_type="application/octet-stream",
    codes=(*ACTING, "STATE_CONFLICT"),
)
def read_evidence_file(request: Call, evidence_ref: Id, number: Id) -> HttpResponse | FileResponse:
    """Read the bytes of a file.

    Its hash is checked first: a file that was damaged is a STATE_CONFLICT. Needs workflows:read and evidence:read.
    """
    bundle = _find(request, evidence_ref)
    files = [item for item in bundles.items_of(bundle) if item.kind == bundles.FILE]
    item = next((item for place, item in enumerate(files, start=1) if str(place) == number), None)
    if item is None:
        raise NotFound(_("There is nothing here that you may see."))
    stored = store.open_checked(item.sha256, item.size)
    response = FileResponse(stored, as_attachment=True, filename=item.name, content_type="application/octet-stream")
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _find(call: Call, evidence_ref: str) -> EvidenceBundle:
    if not evidence_ref.startswith(SCHEME):
        permissions.require_reading(call.auth)
        raise NotFound(_("There is nothing here that you may see."))
    return bundles.find(call.auth, evidence_ref.removeprefix(SCHEME))
