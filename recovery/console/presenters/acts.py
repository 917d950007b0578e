"""The six operations in words: what a page calls them, what they ask of a person, and where they are decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from recovery.case import Case, StepCase
from recovery.operations import REGISTRY
from recovery.operations.base import Operation
from recovery.states import StepKind


@dataclass(frozen=True)
class Words:
    """`lead`: what it does, in one sentence. `stated`: what the operator states, with a hint; `asks`: for evidence."""

    lead: Any
    stated: Any
    hint: Any
    asks: Any


WORDS = {
    "review-task": Words(
        gettext_lazy("You say what the execution really did; the attempt stays recorded as unknown."),
        gettext_lazy("Every external execution of this task has ended and will have no further effect."),
        gettext_lazy("A lost lease or an unknown answer proves nothing of the kind."),
        gettext_lazy("What shows what the execution did"),
    ),
    "resolve-step": Words(
        gettext_lazy("You conclude the step by facts. Nothing runs again."),
        gettext_lazy("Every external execution of this step has ended and will have no further effect."),
        gettext_lazy("The server checks its own records besides."),
        gettext_lazy("What shows how the step really ended"),
    ),
    "continue-poll": Words(
        gettext_lazy("The answered round stands; the next one asks again after the fixed interval."),
        gettext_lazy("The outside still works on it: the verified answer is pending."),
        gettext_lazy("The server proves the pending answer from its own records."),
        gettext_lazy("What shows that it is still pending"),
    ),
    "rearm-wait": Words(
        gettext_lazy("A new generation waits, with the same key and within the old deadline."),
        gettext_lazy("The wait was verified: its signal has not arrived, or its time still runs."),
        gettext_lazy("Signals that were sent to the old generation stay rejected."),
        gettext_lazy("What shows that waiting again is right"),
    ),
    "continue": Words(
        gettext_lazy("The review ends: work goes on, or the stop that was requested does."),
        gettext_lazy("The review is resolved: nothing about this instance is left to be found out."),
        gettext_lazy("The server checks tasks, steps and sources once more."),
        gettext_lazy("What shows that everything is settled"),
    ),
    "retry-step": Words(
        gettext_lazy("It runs again on what is left of the same budget and time, and only after Continue."),
        gettext_lazy("It is safe to run this again."),
        gettext_lazy("A business key does not make the outside idempotent."),
        gettext_lazy("What shows that running it again is safe"),
    ),
}


def title(slug: str, case: Case, target: Mapping[str, str]) -> str:
    """What the act is called on its target."""
    step = step_of(case, target)
    name = step.row.step_key if step else target.get("step_key", target.get("task_id", ""))
    if slug == "continue":
        return _("Continue %(instance)s") % {"instance": case.instance.business_key}
    if slug == "retry-step" and step and step.spec.kind == StepKind.POLL and step.current and step.current.poll:
        return _("Retry round %(number)d of %(step)s") % {"number": step.current.poll.used_rounds, "step": name}
    sentence = {
        "retry-step": _("Retry %(step)s"),
        "resolve-step": _("Resolve %(step)s"),
        "continue-poll": _("Continue the poll %(step)s"),
        "rearm-wait": _("Rearm the wait %(step)s"),
        "review-task": _("Review the task of %(step)s"),
    }[slug]
    return sentence % {"step": name}


def step_of(case: Case, target: Mapping[str, str]) -> StepCase | None:
    """The step that an act is about, directly or through its task."""
    if key := target.get("step_key"):
        return case.histories.get(key)
    if task_id := target.get("task_id"):
        return next((s for s in case.histories.values() if any(t.row.pk == task_id for t in s.tasks)), None)
    return None


def url(instance_id: str, slug: str, target: Mapping[str, str] | str = "") -> Any:
    """The page of one operation, on one target or still without."""
    value = target if isinstance(target, str) else next(iter(target.values()), "")
    if not value:
        return reverse("console:act", args=[instance_id, slug])
    return reverse("console:act-on", args=[instance_id, slug, value])


def name(action: str) -> str:
    """An operation by its slug or its audit action; anything else as it is."""
    found: Operation | None = REGISTRY.get(action.replace("_", "-"))
    return found.name if found else action
