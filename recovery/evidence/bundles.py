"""Attaching, finding and withdrawing bundles."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from recovery import clock, permissions, receipts
from recovery.errors import NotFound, StateConflict, ValidationFailed
from recovery.evidence import store
from recovery.evidence.arrival import Arrived
from recovery.evidence.references import reference, visible
from recovery.ids import new_id
from recovery.locks import Locks, transact
from recovery.models import EvidenceBundle, EvidenceItem, EvidenceWithdrawal, Namespace
from recovery.operations import commands
from recovery.permissions import Actor
from recovery.receipts import Receipt
from recovery.writes import insert

FILE, NOTE, REFERENCE = "FILE", "NOTE", "REFERENCE"
MAX_NOTE = 4000
MAX_REFERENCES = 20
ACTION = "attach_evidence"


def may_attach(actor: Actor, instance_id: str | None) -> None:
    """Asked before a body is read. Raises NotFound, PermissionDenied, and ValidationFailed where a credential for one
    application attaches what is about none of its instances.
    """
    permissions.require(actor, permissions.ATTACH_EVIDENCE)
    permissions.require_active(Namespace.objects.get(pk=actor.namespace_id))
    if instance_id is not None:
        instance = permissions.find_instance(actor, instance_id)
        permissions.require_active(instance.namespace, instance.application)
    elif actor.application_id:
        sentence = _("This credential is for one application: name the instance that the evidence is about.")
        raise ValidationFailed(sentence, fields={"instance_id": [sentence]})


def attach(
    actor: Actor,
    key: str,
    *,
    files: Sequence[Arrived] = (),
    problems: Sequence[str] = (),
    notes: Sequence[str] = (),
    references: Sequence[str] = (),
    instance_id: str | None = None,
) -> Receipt:
    """Keeps the files, then writes the rows; answers `{"ref", "files": [...]}`, the same for the same key (G4).

    `problems`: why files were not taken; then nothing is kept. Raises what `may_attach` raises, ValidationFailed and
    IdempotencyConflict. A file whose rows never came is swept later.
    """
    may_attach(actor, instance_id)
    receipts.check_key(key)
    _require_valid(files, problems, notes, references)
    items = [*_files(files), *_texts(NOTE, notes), *_texts(REFERENCE, references)]
    content = [[item.kind, item.name, item.text, item.sha256] for item in items]
    digest = receipts.command_digest(ACTION, instance_id, {"items": content})

    def work(locks: Locks) -> Receipt:
        now = clock.now()
        # Without the instance: the key is of the namespace, and nothing about the instance changes.
        operation = receipts.claim(
            locks,
            namespace_id=actor.namespace_id,
            key=key,
            action=ACTION,
            digest=digest,
            actor=actor.username,
            instance_id=None,
            now=now,
        )
        bundle = EvidenceBundle(
            namespace_id=actor.namespace_id, instance_id=instance_id, attached_by=actor.username, created_at=now
        )
        insert(bundle, *_numbered(bundle, items, now))
        return receipts.freeze(operation, _answer(bundle, items), 0, now)

    known = _known(actor, key, digest)
    with store.held():
        if known() is None:
            for arrived in files:
                arrived.incoming.keep()
        return transact(work, before=known)


def _known(actor: Actor, key: str, digest: str) -> Callable[[], Receipt | None]:
    return lambda: receipts.find(actor.namespace_id, key, digest)


def _require_valid(
    files: Sequence[Arrived], problems: Sequence[str], notes: Sequence[str], references: Sequence[str]
) -> None:
    fields: dict[str, list[str]] = {"file": list(problems), "note": [], "reference": []}
    if not (files or notes or references or problems):
        fields["file"].append(_("Attach a file, write a note, or say where something is kept."))
    for name, texts, check in (("note", notes, _note), ("reference", references, commands.evidence_ref)):
        for text in texts:
            try:
                check(text)
            except commands.Invalid as error:
                fields[name].append(str(error))
    if len(references) > MAX_REFERENCES or len(notes) > MAX_REFERENCES:
        fields["reference"].append(_("At most %(count)d of them.") % {"count": MAX_REFERENCES})
    found = {name: sentences for name, sentences in fields.items() if sentences}
    if found:
        raise ValidationFailed(_("Nothing was attached. Mend what is marked and send it again."), fields=found)


def _note(text: str) -> str:
    text = commands.text(text, MAX_NOTE)
    if "\0" in text or not text.strip():
        raise commands.Invalid(_("A note holds words, and no NUL character."))
    return text


def _files(files: Sequence[Arrived]) -> Iterator[EvidenceItem]:
    for arrived in files:
        incoming = arrived.incoming
        about = {"size": incoming.size, "sha256": incoming.sha256, "media_type": arrived.media_type}
        yield EvidenceItem(kind=FILE, name=arrived.name, **about)


def _texts(kind: str, texts: Sequence[str]) -> Iterator[EvidenceItem]:
    for text in texts:
        data = text.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        yield EvidenceItem(kind=kind, text=text, size=len(data), sha256=sha256, media_type="text/plain")


def _numbered(bundle: EvidenceBundle, items: Sequence[EvidenceItem], now: datetime) -> Iterator[EvidenceItem]:
    for position, item in enumerate(items, start=1):
        item.pk, item.bundle, item.position, item.created_at = new_id(), bundle, position, now
        yield item


def _answer(bundle: EvidenceBundle, items: Sequence[EvidenceItem]) -> dict[str, Any]:
    return {"ref": reference(bundle), "files": [described(item) for item in items if item.kind == FILE]}


def described(item: EvidenceItem) -> dict[str, Any]:
    """A file as callers see it."""
    return {"name": item.name, "size": item.size, "sha256": item.sha256, "media_type": item.media_type}


def find(actor: Actor, bundle_id: str) -> EvidenceBundle:
    """A bundle with its instance and withdrawal. Raises NotFound, and PermissionDenied without evidence:read."""
    rights = permissions.require_reading(actor)
    related = ("namespace", "instance", "evidencewithdrawal")
    bundle = visible(actor).select_related(*related).filter(pk=bundle_id).first()
    if bundle is None:
        raise NotFound(_("There is nothing here that you may see."))
    permissions.check(rights, permissions.READ_EVIDENCE)
    return bundle


def items_of(bundle: EvidenceBundle) -> list[EvidenceItem]:
    return list(EvidenceItem.objects.filter(bundle=bundle).order_by("position"))


def withdrawal_of(bundle: EvidenceBundle) -> EvidenceWithdrawal | None:
    return getattr(bundle, "evidencewithdrawal", None)


def withdraw(actor: Actor, bundle_id: str, reason: str) -> EvidenceWithdrawal:
    """Marks a bundle as not to be relied on; it stays, and stays readable. Needs evidence:attach.

    Raises NotFound, PermissionDenied, ValidationFailed, and StateConflict where it was withdrawn before.
    """
    bundle = find(actor, bundle_id)
    permissions.require(actor, permissions.ATTACH_EVIDENCE)
    permissions.require_active(bundle.namespace)
    try:
        commands.reason(reason)
    except commands.Invalid as error:
        raise ValidationFailed(_("Nothing was withdrawn."), fields={"reason": [str(error)]}) from None
    row = EvidenceWithdrawal(bundle=bundle, withdrawn_by=actor.username, reason=reason, created_at=clock.now())
    try:
        with transaction.atomic():
            insert(row)
    except IntegrityError:
        raise StateConflict(_("This evidence was withdrawn before; the first reason stands.")) from None
    return row
