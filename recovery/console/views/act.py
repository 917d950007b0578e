"""The six operations as forms. A refusal is rendered by the middleware through what the view leaves for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from recovery import clock, operations
from recovery.console import find
from recovery.console.decision_forms import DecisionForm
from recovery.console.find import Found
from recovery.console.middleware import SeeOther, page
from recovery.console.presenters.action import ActionPage, action_page, preview_page, targets
from recovery.console.presenters.conflict import newer_facts
from recovery.console.reader import Request
from recovery.errors import DomainError, NotFound, ValidationFailed
from recovery.operations.base import Operation


@dataclass
class Act:
    """One request about one operation on one target: the form, and the ways it can be answered."""

    request: Request
    found: Found
    shown: ActionPage
    form: DecisionForm

    def render(self, template: str = "console/act.html", status: int = 200, **more: Any) -> HttpResponse:
        context = {
            "section": "instances",
            "namespace": self.found.instance.namespace,
            "instance": self.shown.case.instance,
            "now": self.shown.case.now,
            "page": self.shown,
            "form": self.form,
            **more,
        }
        return page(self.request, template, context, status=status)

    def refused(self, error: DomainError) -> HttpResponse:
        """The form again with everything typed, or what is newer than the form."""
        if error.code == "REVISION_CONFLICT":
            facts = newer_facts(self.shown.case, self.form.data.get("seen_at", ""))
            return self.render("console/conflict.html", error.status, error=error, facts=facts)
        for field, sentences in error.fields.items():
            if field in self.form.fields and field not in self.form.errors:
                self.form.add_error(field, sentences)
        return self.render(status=error.status, error=error)

    def command(self) -> dict[str, Any]:
        """Raises ValidationFailed with a sentence for each field that cannot be sent."""
        if not self.form.is_valid():
            raise ValidationFailed(_("Nothing was changed. Mend what is marked and send it again."), rule="G3")
        return self.form.payload(self.shown.target)


@require_http_methods(["GET", "POST"])
def act(request: Request, instance_id: str, operation: str, target: str = "") -> HttpResponse:
    """GET opens the form; POST decides, previews, or reads again what a conflict found newer."""
    found = find.instance(request, instance_id)
    kind = _operation(operation)
    aim = _target(request, kind, target)
    if aim is None:
        return _choose(request, found, kind)
    work = _act(request, found, kind, aim)
    request.refused = work.refused
    if request.method == "GET" or "read_again" in request.POST:
        return work.render()
    return _preview(work) if "preview" in request.POST else _decide(work)


def _decide(work: Act) -> HttpResponse:
    command, form = work.command(), work.form
    receipt = operations.execute(
        work.found.actor,
        work.shown.operation.slug,
        work.found.instance.pk,
        form.cleaned_data["operation_key"],
        command,
        seen_digest=form.cleaned_data["seen_digest"] or None,
    )
    url = reverse("console:receipt", args=[receipt.data["operation_key"]])
    return SeeOther(f"{url}?{urlencode({'namespace': work.found.instance.namespace.name})}")


def _preview(work: Act) -> HttpResponse:
    command = work.command()
    preview = operations.preview(work.found.actor, work.shown.operation.slug, work.found.instance.pk, command)
    shown = preview_page(preview, clock.now())
    response = work.render(preview=shown)
    response["HX-Reswap"] = "innerHTML show:#preview:top"
    return response


def _act(request: Request, found: Found, kind: Operation, aim: dict[str, str]) -> Act:
    shown = action_page(found, kind, aim)
    if "read_again" in request.POST:
        form = DecisionForm(None, kind, kept=shown.kept, initial=_reread(request.POST, shown))
    else:
        form = DecisionForm(request.POST or None, kind, kept=shown.kept, initial=shown.seen())
    return Act(request, found, shown, form)


def _reread(data: QueryDict, shown: ActionPage) -> dict[str, str]:
    """What was typed, on what is true now: the words and the key stay, the statement has to be made again."""
    kept = {name: str(value) for name, value in data.items() if name != shown.operation.statement}
    is_spent = data["read_again"] == "new_key"
    return kept | shown.seen() | ({} if is_spent else {"operation_key": data.get("operation_key", "")})


def _operation(slug: str) -> Operation:
    if slug not in operations.REGISTRY:
        raise NotFound(_("There is no such operation."))
    return operations.REGISTRY[slug]


def _target(request: Request, kind: Operation, target: str) -> dict[str, str] | None:
    """What the URL names, in its path or its query; None where a target is needed and none is named."""
    name = {"step": "step_key", "task": "task_id", "instance": ""}[kind.target]
    value = target or request.GET.get(name, "")
    return {} if not name else {name: value} if value else None


def _choose(request: Request, found: Found, kind: Operation) -> HttpResponse:
    case, answers = targets(found, kind)
    context = {"section": "instances", "namespace": found.instance.namespace, "instance": case.instance}
    return page(request, "console/choose.html", context | {"operation": kind, "answers": answers})
