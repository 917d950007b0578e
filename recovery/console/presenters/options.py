"""What may be done: the one next thing, the answer of each operation, and what blocks Continue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.urls import reverse
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from recovery.case import Case
from recovery.console import times
from recovery.console.presenters import acts
from recovery.operations import REGISTRY, Explanation, Option
from recovery.operations.findings import Finding
from recovery.states import InstanceStatus, StepStatus


@dataclass(frozen=True)
class Link:
    href: str
    word: str


@dataclass(frozen=True)
class Line:
    """A finding as a page shows it: times in the reader's zone, and links to the rows that show it."""

    rule: str
    holds: bool | None
    code: str
    found: SafeString
    next: SafeString
    links: tuple[Link, ...] = ()


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def timed(sentence: Any) -> SafeString:
    """A sentence of the rules, escaped, with its times in the reader's zone."""

    def local(match: re.Match[str]) -> str:
        moment = datetime.strptime(match[0], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
        return times.element(moment, "zone")

    return mark_safe(_INSTANT.sub(local, conditional_escape(str(sentence))))  # noqa: S308 - escaped before


def lines(findings: Iterable[Finding], case: Case | None = None) -> list[Line]:
    """Findings that fail first, then those that depend on what is entered, then those that hold."""
    order = {False: 0, None: 1, True: 2}
    return [
        Line(f.rule, f.holds, f.code, timed(f.found), timed(f.next), _links(f, case) if case else ())
        for f in sorted(findings, key=lambda finding: order[finding.holds])
    ]


def _links(finding: Finding, case: Case) -> tuple[Link, ...]:
    """Where the rows of a finding are shown; at most three."""
    tasks = {task.row.pk: task.row for step in case.histories.values() for task in step.tasks}
    steps = {row.pk: row for row in case.steps.values()}
    found: dict[str, Link] = {}
    for row in finding.rows:
        if row in steps:
            key = steps[row].step_key
            found[row] = Link(reverse("console:step", args=[case.instance.pk, key]), _("step"))
        elif row in tasks:
            found[row] = Link(reverse("console:task", args=[row]), _("task"))
    return tuple(list(found.values())[:3])


@dataclass(frozen=True)
class Answer:
    """The server's answer on one operation and target. `because`: the first failing finding, or what it asks for."""

    option: Option
    name: str
    target: str
    link: str
    because: Line | None

    @property
    def is_allowed(self) -> bool:
        return self.option.allowed


def answers(explanation: Explanation) -> list[Answer]:
    """The six operations, each on every target that is shown; those without any target say so."""
    case = explanation.case
    found = []
    for option in explanation.options:
        decisive = [f for f in option.findings if f.holds is False] or [f for f in option.findings if f.holds is None]
        step = acts.step_of(case, option.target)
        found.append(
            Answer(
                option=option,
                name=REGISTRY[option.operation].name,
                target=step.row.step_key if step else "",
                link=acts.url(case.instance.pk, option.operation, option.target),
                because=lines(decisive[:1], case)[0] if decisive else None,
            )
        )
    return sorted(found, key=lambda answer: not answer.is_allowed)


def missing(explanation: Explanation) -> list[str]:
    """Names of the operations that have nothing to act on in this instance."""
    asked = {option.operation for option in explanation.options}
    return [operation.name for slug, operation in REGISTRY.items() if slug not in asked]


@dataclass(frozen=True)
class NextThing:
    """The one thing to do. `link` is empty where nothing can be done; `other`: a second way on the same target."""

    title: str
    lead: Any
    link: str = ""
    button: str = ""
    other: Link | None = None


ORDER = ("review-task", "retry-step", "continue-poll", "rearm-wait", "resolve-step")
TROUBLED = (StepStatus.NEEDS_REVIEW, StepStatus.FAILED, StepStatus.CANCELLED)


def next_thing(explanation: Explanation) -> NextThing | None:
    """What to do next by the rules' own answers; None for an instance that waits for nobody."""
    case = explanation.case
    if case.instance.status != InstanceStatus.NEEDS_REVIEW:
        return None
    allowed = [option for option in explanation.options if option.allowed]
    if done := next((option for option in allowed if option.operation == "continue"), None):
        return _thing(done, case, _after_continue(case))
    useful = [option for option in allowed if _helps(option, case)]
    useful.sort(key=lambda option: ORDER.index(option.operation))
    if useful:
        first = useful[0]
        second = next((option for option in useful[1:] if option.target == first.target), None)
        return _thing(first, case, acts.WORDS[first.operation].lead, _second(second, case) if second else None)
    return _nothing(explanation.options)


def next_of_step(explanation: Explanation) -> NextThing | None:
    """The next act on the one step that was asked about; None where it waits for no decision."""
    case = explanation.case
    options = [option for option in explanation.options if option.target]
    useful = sorted((o for o in options if o.allowed and _helps(o, case)), key=lambda o: ORDER.index(o.operation))
    if useful:
        return _thing(useful[0], case, acts.WORDS[useful[0].operation].lead)
    if case.instance.status == InstanceStatus.NEEDS_REVIEW and any(_helps(option, case) for option in options):
        return _nothing(options)
    return None


def _helps(option: Option, case: Case) -> bool:
    """A wait that still waits may be rearmed, but nobody has to."""
    step = acts.step_of(case, option.target)
    return option.operation == "review-task" or (step is not None and step.row.status in TROUBLED)


def _second(option: Option, case: Case) -> Link:
    word = _("or %(operation)s") % {"operation": REGISTRY[option.operation].name}
    return Link(acts.url(case.instance.pk, option.operation, option.target), word)


def _thing(option: Option, case: Case, lead: Any, other: Link | None = None) -> NextThing:
    return NextThing(
        title=acts.title(option.operation, case, option.target),
        lead=lead,
        link=acts.url(case.instance.pk, option.operation, option.target),
        button=_("Open %(operation)s") % {"operation": REGISTRY[option.operation].name},
        other=other,
    )


def _after_continue(case: Case) -> str:
    if case.instance.stop_kind is not None:
        return _("Nothing blocks it any more. The stop that was requested goes on; the gate stays closed.")
    if case.instance.paused:
        return _("Nothing blocks it any more. The instance is paused: the gate stays closed until Resume.")
    return _("Nothing blocks it any more. The gate opens and work goes on.")


def _nothing(options: Sequence[Option]) -> NextThing:
    """Nothing is allowed: the first refusal says why, and what has to happen before."""
    refusal = next((f for option in options for f in option.findings if f.holds is False), None)
    if refusal is None:
        return NextThing(_("Nothing can be decided now"), "")
    return NextThing(_("Nothing can be decided now"), timed(f"{refusal.found} {refusal.next}"))
