"""Bundles as the pages draw them, and files as they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import FileResponse
from django.utils.translation import gettext as _

from recovery.console.reader import Reader
from recovery.console.words import Mark
from recovery.evidence import bundles, kinds, store
from recovery.evidence.references import reference
from recovery.models import EvidenceBundle, EvidenceItem, Namespace
from recovery.permissions import READ_EVIDENCE

PAGE = 50
TEXT_CAP = 16 * 1024
"""Bytes of a text that a page shows; the rest is behind the download."""


@dataclass(frozen=True)
class Shown:
    """An item. `text`: of a readable file, as far as it is shown; `problem`: why it is not."""

    row: EvidenceItem
    is_image: bool = False
    text: str = ""
    is_cut: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Line:
    """A bundle with its items, and whether it may be relied on."""

    row: EvidenceBundle
    items: list[EvidenceItem]
    mark: Mark

    @property
    def ref(self) -> str:
        return reference(self.row)


def line(row: EvidenceBundle, items: list[EvidenceItem]) -> Line:
    withdrawn = bundles.withdrawal_of(row) is not None
    return Line(row, items, Mark("cancelled", _("withdrawn")) if withdrawn else Mark("ok", _("stands")))


def listed(reader: Reader, filters: dict[str, Any]) -> tuple[list[Line], str]:
    """The next page, newest first, and the id that the one after it begins below; "" where there is none."""
    readable = [key for key in reader.namespaces if reader.rights(key).may(READ_EVIDENCE)]
    rows = EvidenceBundle.objects.filter(namespace_id__in=readable)
    if name := filters["namespace"]:
        rows = rows.filter(namespace_id__in=Namespace.objects.filter(name=name).values("pk"))
    if instance := filters["instance"]:
        rows = rows.filter(instance_id=instance)
    if after := filters["after"]:
        rows = rows.filter(pk__lt=after)
    found = list(rows.select_related("namespace", "instance", "evidencewithdrawal").order_by("-pk")[: PAGE + 1])
    items: dict[str, list[EvidenceItem]] = {}
    for item in EvidenceItem.objects.filter(bundle__in=found[:PAGE]).order_by("bundle_id", "position"):
        items.setdefault(item.bundle_id, []).append(item)
    lines = [line(row, items.get(row.pk, [])) for row in found[:PAGE]]
    return lines, found[PAGE - 1].pk if len(found) > PAGE else ""


def shown(item: EvidenceItem) -> Shown:
    """What a page shows of an item; the content is read and its hash checked on the way."""
    if item.kind != bundles.FILE:
        return Shown(item, text=item.text)
    if item.media_type in kinds.IMAGES:
        return Shown(item, is_image=True)
    if not kinds.is_text(item.media_type):
        return Shown(item)
    try:
        with store.open_checked(item.sha256, item.size) as file:
            head = file.read(TEXT_CAP)
    except store.Damaged as error:
        return Shown(item, problem=str(error))
    return Shown(item, text=head.decode("utf-8", "replace"), is_cut=item.size > TEXT_CAP)


def download(item: EvidenceItem) -> FileResponse:
    """The file as an attachment that no browser runs. Raises StateConflict when it is not intact."""
    file = store.open_checked(item.sha256, item.size)
    # Only what a page draws has a type of its own; nothing else is anything but bytes to a browser.
    kind = item.media_type if item.media_type in kinds.IMAGES else kinds.UNKNOWN
    response = FileResponse(file, as_attachment=True, filename=item.name, content_type=kind)
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["X-Content-Type-Options"] = "nosniff"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    return response
