"""Which decision a row of the queue leads to. A signpost made of the page's few facts: whether the act is allowed is
said by the operations' own rules, on the page it leads to. The tests hold both against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from recovery import permissions
from recovery.console.presenters import acts
from recovery.models import WorkflowInstance
from recovery.permissions import Rights
from recovery.states import InboxStatus, ReviewReason, StepKind, TaskStatus

if TYPE_CHECKING:
    from recovery.console.presenters.queue_rows import Trouble


@dataclass(frozen=True)
class Suggestion:
    """`link` is empty where nothing can be done now; `note` says why, or what to know."""

    word: str
    link: str = ""
    note: str = ""
    blocks: str = ""
    """What stands between the instance and its Continue."""


def suggest(
    instance: WorkflowInstance,
    rights: Rights,
    troubles: Sequence[Trouble],
    *,
    unsettled: Mapping[str, int],
    unknown: str,
    now: datetime,
) -> Suggestion:
    """The next decision on an instance in review. `unknown`: the id of a task whose effect is unknown."""
    word, link, note = _next(instance, troubles, unsettled, unknown, now)
    blocks = _blocks(troubles, unsettled, instance, now)
    if link and not rights.may(permissions.RECOVER):
        return Suggestion(word, note=_("you lack workflows:recover here"), blocks=blocks)
    return Suggestion(word, link, note, blocks)


def _next(
    instance: WorkflowInstance,
    troubles: Sequence[Trouble],
    unsettled: Mapping[str, int],
    unknown: str,
    now: datetime,
) -> tuple[str, str, str]:
    if unsettled.get(InboxStatus.QUARANTINED):
        return _("No operation"), "", _("the source is repaired and verified again first")
    if unsettled.get(InboxStatus.PENDING):
        return _("Wait"), "", _("until the inbox has consumed the newest result")
    if unknown:
        return _("Review task"), acts.url(instance.pk, "review-task", unknown), _("verify what really happened")
    for trouble in troubles:
        slug, note = _for_step(trouble, instance, now)
        return _word(slug, trouble), acts.url(instance.pk, slug, trouble.step.step_key), note
    if instance.stop_kind is None and instance.deadline_at <= now:
        return _("Cancel"), "", _("no time is left to continue")
    note = _("the stop goes on") if instance.stop_kind else _("nothing blocks it any more")
    return _("Continue"), acts.url(instance.pk, "continue"), note


def _for_step(trouble: Trouble, instance: WorkflowInstance, now: datetime) -> tuple[str, str]:
    """The operation for one troubled step, and what to know about it."""
    step = trouble.step
    if instance.stop_kind is not None:
        return "resolve-step", _("a stop was requested; nothing runs again")
    if instance.deadline_at <= now:
        return "resolve-step", _("no time is left to run again; then cancel")
    if step.kind in (StepKind.SIGNAL, StepKind.TIMER):
        expired = step.review_reason == ReviewReason.WAIT_EXPIRED
        return ("resolve-step", _("its time is over")) if expired else ("rearm-wait", _("within the old deadline"))
    if not trouble.task_id:
        return "resolve-step", _("it never had a task")
    if trouble.task_status == TaskStatus.SUCCEEDED:
        if step.kind == StepKind.POLL and step.review_reason == ReviewReason.EXECUTION_UNKNOWN:
            return "continue-poll", _("if the verified answer was pending; otherwise resolve it")
        if step.kind == StepKind.POLL and step.review_reason == ReviewReason.OUTCOME_INVALID and trouble.left > 0:
            return "retry-step", ""
        return "resolve-step", ""
    if step.review_reason in (ReviewReason.QUERY_DEADLINE, ReviewReason.OUTCOME_FAILED):
        return "resolve-step", ""
    if trouble.left <= 0:
        return "resolve-step", _("no attempts are left")
    return "retry-step", ""


def _word(slug: str, trouble: Trouble) -> str:
    if slug == "retry-step" and trouble.round:
        return _("Retry round %(number)d") % {"number": trouble.round}
    return {
        "retry-step": _("Retry step"),
        "resolve-step": _("Resolve step"),
        "continue-poll": _("Continue poll"),
        "rearm-wait": _("Rearm wait"),
    }[slug]


def _blocks(
    troubles: Sequence[Trouble], unsettled: Mapping[str, int], instance: WorkflowInstance, now: datetime
) -> str:
    parts = []
    if count := unsettled.get(InboxStatus.QUARANTINED, 0):
        parts.append(ngettext("%(count)d event quarantined", "%(count)d events quarantined", count) % {"count": count})
    if count := unsettled.get(InboxStatus.PENDING, 0):
        parts.append(ngettext("%(count)d event pending", "%(count)d events pending", count) % {"count": count})
    if count := unsettled.get(TaskStatus.NEEDS_REVIEW, 0):
        parts.append(ngettext("%(count)d effect unknown", "%(count)d effects unknown", count) % {"count": count})
    elif troubles:
        parts.append(_("a step is unresolved"))
    if instance.stop_kind is None and instance.deadline_at <= now:
        parts.append(_("no time"))
    return ", ".join(parts) or _("nothing")
