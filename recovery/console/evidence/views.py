"""Evidence: listing, attaching, reading, withdrawing."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import FileResponse, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_safe

from recovery import clock, permissions, receipts
from recovery.console import find
from recovery.console.evidence import shown
from recovery.console.evidence.forms import AttachForm, BundleFilter, WithdrawForm
from recovery.console.middleware import SeeOther, page
from recovery.console.reader import Request
from recovery.errors import DomainError, NotFound
from recovery.evidence import bundles
from recovery.evidence.arrival import Parcel, arriving
from recovery.evidence.references import uses
from recovery.models import EvidenceBundle, Namespace, WorkflowInstance
from recovery.permissions import Actor

USES = 50
"""Decisions that a bundle's page lists."""


@require_safe
def listed(request: Request) -> HttpResponse:
    """All bundles that the reader may see, newest first."""
    form = BundleFilter(request.GET, request.reader.names)
    context: dict[str, Any] = {"section": "evidence", "form": form, "now": clock.now()}
    if not form.is_valid():
        return page(request, "evidence/list.html", context, status=422)
    lines, following = shown.listed(request.reader, form.cleaned_data)
    return page(request, "evidence/list.html", context | {"lines": lines, "following": following})


# Whoever may not attach is refused before the body is read; the token in it is checked once it has been.
@csrf_exempt
@require_http_methods(["GET", "POST"])
def attach(request: Request) -> HttpResponse:
    """GET opens the form; POST keeps what arrived, and leads to the bundle."""
    instance, namespace = _place(request)
    actor = request.reader.actor(namespace.pk)
    bundles.may_attach(actor, instance.pk if instance else None)
    context = {"section": "evidence", "namespace": namespace, "instance": instance, "limits": _limits()}
    if request.method == "GET":
        form = AttachForm(None, initial={"operation_key": receipts.new_key()})
        return page(request, "evidence/new.html", context | {"form": form})

    typed = QueryDict(mutable=True)

    def refused(error: DomainError) -> HttpResponse:
        # Of a body that was not read, or not to its end, nothing is known, its key neither.
        typed.setdefault("operation_key", receipts.new_key())
        form = AttachForm(typed)
        form.tell(error)
        return page(request, "evidence/new.html", context | {"form": form, "error": error}, status=error.status)

    request.refused = refused
    with arriving(request) as parcel:
        typed.update(request.POST)
        return _keep(request, actor, parcel, instance)


@csrf_protect
def _keep(request: Request, actor: Actor, parcel: Parcel, instance: WorkflowInstance | None) -> HttpResponse:
    form = AttachForm(request.POST)
    receipt = bundles.attach(
        actor,
        request.POST.get("operation_key", ""),
        files=parcel.files,
        problems=parcel.problems,
        notes=form.notes,
        references=form.references,
        instance_id=instance.pk if instance else None,
    )
    if not request.reader.rights(actor.namespace_id).may(permissions.READ_EVIDENCE):
        return page(request, "evidence/attached.html", {"section": "evidence", "answer": receipt.data})
    bundle_id = receipt.data["ref"].partition(":")[2]
    return SeeOther(f"{reverse('console:evidence-bundle', args=[bundle_id])}?attached=1")


def _place(request: Request) -> tuple[WorkflowInstance | None, Namespace]:
    """What the URL names: the instance that the evidence is about, or a namespace. Raises NotFound."""
    if instance_id := request.GET.get("instance"):
        instance = find.instance(request, instance_id).instance
        return instance, instance.namespace
    rows = Namespace.objects.filter(pk__in=request.reader.namespaces).order_by("name")
    if name := request.GET.get("namespace"):
        rows = rows.filter(name=name)
    namespace = rows.first()
    if namespace is None:
        raise NotFound(_("There is nothing here that you may see."))
    return None, namespace


def _limits() -> dict[str, int]:
    return {"files": settings.EVIDENCE_MAX_FILES, "bytes": settings.EVIDENCE_MAX_FILE_BYTES}


@require_safe
def bundle(request: Request, bundle_id: str) -> HttpResponse:
    """One bundle: what is in it, whether it stands, and where it was used."""
    row, _actor = _bundle(request, bundle_id)
    return page(request, "evidence/bundle.html", _context(request, row))


@require_http_methods(["GET", "POST"])
def withdraw(request: Request, bundle_id: str) -> HttpResponse:
    """Marks it as not to be relied on. It stays, and so does what was decided with it."""
    row, actor = _bundle(request, bundle_id)
    permissions.check(request.reader.rights(row.namespace_id), permissions.ATTACH_EVIDENCE)
    form = WithdrawForm(request.POST or None)
    context = _context(request, row) | {"form": form}

    def refused(error: DomainError) -> HttpResponse:
        form.tell(error)
        return page(request, "evidence/withdraw.html", context | {"error": error}, status=error.status)

    request.refused = refused
    if request.method == "GET":
        return page(request, "evidence/withdraw.html", context)
    bundles.withdraw(actor, bundle_id, form.sent()["reason"])
    return SeeOther(reverse("console:evidence-bundle", args=[bundle_id]))


@require_safe
def file(request: Request, bundle_id: str, position: int) -> FileResponse:
    """The bytes of one file, their hash checked, as an attachment that runs nowhere."""
    row, _actor = _bundle(request, bundle_id)
    item = next((each for each in bundles.items_of(row) if each.position == position), None)
    if item is None or item.kind != bundles.FILE:
        raise NotFound(_("There is nothing here that you may see."))
    return shown.download(item)


def _bundle(request: Request, bundle_id: str) -> tuple[EvidenceBundle, Actor]:
    """Raises NotFound, alike for what is not there and what may not be seen, and PermissionDenied."""
    row = EvidenceBundle.objects.filter(pk=bundle_id, namespace_id__in=request.reader.namespaces).first()
    if row is None:
        raise NotFound(_("There is no such evidence, or you may not see it."))
    actor = request.reader.actor(row.namespace_id)
    return bundles.find(actor, bundle_id), actor


def _context(request: Request, row: EvidenceBundle) -> dict[str, Any]:
    items = bundles.items_of(row)
    return {
        "section": "evidence",
        "namespace": row.namespace,
        "line": shown.line(row, items),
        "items": [shown.shown(item) for item in items],
        "withdrawal": bundles.withdrawal_of(row),
        "uses": list(uses(row)[:USES]),
        "may_withdraw": request.reader.rights(row.namespace_id).may(permissions.ATTACH_EVIDENCE),
        "now": clock.now(),
    }
