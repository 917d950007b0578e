"""Who owns what, and how often it was tried: what a decision relies on (G11), over every instance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, Subquery, Sum
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from recovery import definitions
from recovery.case import load_histories
from recovery.models import (
    ActivationTask,
    PollState,
    StepActivation,
    Task,
    TaskAttempt,
    WorkflowInstance,
    WorkflowStep,
)
from recovery.models.catalogue import entities, own_tables
from recovery.models.fields import OneRef, Ref
from recovery.operations import history
from recovery.operations.rearm_wait import MAX_ACTIVATIONS
from recovery.states import KNOWN, LEAVES, StepKind
from recovery.verify.base import Scope, Violation, check, counted, differ, found, pinned, walk


@check(gettext_lazy("Every reference leads to a row."))
def references(scope: Scope) -> Iterator[Violation]:
    """No foreign key of the database makes sure of it. The console's own tables are looked at with everything only."""
    for model in [*entities(), *(own_tables() if scope.namespace_id is None else [])]:
        for field in model._meta.local_fields:
            if isinstance(field, Ref | OneRef):
                to: Any = field.related_model
                target = to._default_manager.filter(pk=OuterRef(field.attname))
                lost = scope.rows(model).exclude(**{field.attname: None}).filter(~Exists(target))
                yield from found(lost, _("%(field)s leads nowhere.") % {"field": field.name})


@check(gettext_lazy("A task and its activation name each other, in one namespace, application and instance."))
def owners(scope: Scope) -> Iterator[Violation]:
    half = ActivationTask.objects.filter(task=OuterRef("pk"), activation=OuterRef("owner_activation"))
    tasks = scope.rows(Task)
    yield from found(tasks.filter(~Exists(half)), _("The activation that it names does not name it back."))
    foreign = scope.rows(ActivationTask).exclude(task__owner_activation=F("activation"))
    yield from found(foreign, _("The task that it names is owned by another activation."))
    elsewhere = (
        ~Q(owner_activation__instance=F("instance"))
        | ~Q(instance__namespace=F("namespace"))
        | ~Q(instance__application=F("application"))
    )
    yield from found(tasks.filter(elsewhere), _("The task and its activation are not of one instance."))
    unpinned = tasks.exclude(instance__definition_version__definitionqueue__queue=F("queue"))
    yield from found(unpinned, _("The task waits in a queue that its definition does not name."))


@check(gettext_lazy("A step's activations are numbered from 1 without a hole, and the last one is the current."))
def activations(scope: Scope) -> Iterator[Violation]:
    rows = StepActivation.objects.filter(step=OuterRef("pk"))
    last = rows.order_by("-sequence")
    steps = scope.rows(WorkflowStep).annotate(
        number=counted(rows, "step"), last=Subquery(last.values("sequence")[:1]), latest=Subquery(last.values("pk")[:1])
    )
    holes = steps.exclude(number=0).exclude(number=F("last"))
    sentence = _("%(number)d activations are there, the last one is number %(last)d.")
    yield from found(holes, lambda step: sentence % {"number": step.number, "last": step.last})
    yield from found(steps.filter(differ("current_activation", "latest")), _("It does not name its last activation."))
    strangers = scope.rows(StepActivation).exclude(step__instance=F("instance"))
    yield from found(strangers, _("The activation and its step are of different instances."))


@check(gettext_lazy("A settled task has at most one successor: in the next activation of the same step."))
def successors(scope: Scope) -> Iterator[Violation]:
    followed = Task.objects.filter(retry_of=OuterRef("pk"))
    tasks = scope.rows(Task).annotate(successors=counted(followed, "retry_of"))
    yield from found(
        tasks.filter(successors__gt=1), lambda task: _("It has %(number)d successors.") % {"number": task.successors}
    )
    retries = scope.rows(Task).exclude(retry_of=None)
    elsewhere = retries.exclude(
        owner_activation__step=F("retry_of__owner_activation__step"),
        owner_activation__sequence=F("retry_of__owner_activation__sequence") + 1,
    )
    yield from found(elsewhere, _("It does not follow its predecessor in the next activation of the step."))
    early = retries.exclude(retry_of__status__in=KNOWN)
    yield from found(early, _("It follows a task that is not known."))


@check(gettext_lazy("Attempts are numbered from 1, are as many as the task counts, and never more than it may have."))
def attempts(scope: Scope) -> Iterator[Violation]:
    rows = TaskAttempt.objects.filter(task=OuterRef("pk"))
    last = Subquery(rows.order_by("-attempt_no").values("attempt_no")[:1])
    tasks = scope.rows(Task).annotate(number=counted(rows, "task"), last=last)
    wrong = tasks.exclude(number=F("attempt_count")) | tasks.exclude(number=0).exclude(number=F("last"))
    sentence = _("It counts %(count)d attempts; %(number)d are there, the last one is number %(last)d.")
    yield from found(
        wrong, lambda task: sentence % {"count": task.attempt_count, "number": task.number, "last": task.last or 0}
    )
    over = scope.rows(Task).filter(attempt_count__gt=F("max_attempts"))
    sentence_over = _("%(count)d attempts of %(max)d that are allowed.")
    yield from found(over, lambda task: sentence_over % {"count": task.attempt_count, "max": task.max_attempts})


@check(
    gettext_lazy("Over all activations, attempts, tasks, rounds and activations stay within what the definition pins.")
)
def budgets(scope: Scope) -> Iterator[Violation]:
    """RY2, RY3, B3, RW2."""
    rounds = ActivationTask.objects.filter(activation__step=OuterRef("pk")).order_by().values("round")
    used = rounds.annotate(used=Sum("task__attempt_count")).order_by("-used").values("used")[:1]
    made = rounds.annotate(made=Count("pk")).order_by("-made").values("made")[:1]
    steps = scope.rows(WorkflowStep).filter(kind__in=(StepKind.TASK, StepKind.POLL))
    steps = steps.annotate(pinned=pinned("max_attempts"), used=Subquery(used), made=Subquery(made))
    sentence = _("Up to %(made)d tasks and %(used)d attempts in one round; %(pinned)d are pinned.")
    yield from found(
        steps.filter(Q(used__gt=F("pinned")) | Q(made__gt=F("pinned"))),
        lambda step: sentence % {"made": step.made, "used": step.used, "pinned": step.pinned},
    )
    queries = scope.rows(PollState).annotate(pinned=pinned("max_rounds", "activation__step__"))
    sentence_rounds = _("%(used)d rounds of %(pinned)d that are pinned.")
    yield from found(
        queries.filter(used_rounds__gt=F("pinned")),
        lambda poll: sentence_rounds % {"used": poll.used_rounds, "pinned": poll.pinned},
    )
    rearmed = scope.rows(StepActivation).filter(
        sequence__gt=MAX_ACTIVATIONS, step__kind__in=(StepKind.SIGNAL, StepKind.TIMER)
    )
    yield from found(rearmed, _("More activations than a wait may have."))


@check(gettext_lazy("The whole history of every step passes what a decision checks before it relies on it."), deep=True)
def histories(scope: Scope) -> Iterator[Violation]:
    """G11, by the very rules of the operations and the stop runner."""
    for instance in walk(scope.rows(WorkflowInstance)):
        definition = definitions.load(instance.definition_version_id)
        steps = [
            step
            for step in WorkflowStep.objects.filter(instance=instance, kind__in=LEAVES)
            if step.step_key in definition.steps
        ]
        for case in load_histories(steps, definition).values():
            for sentence, row_id in history.problems(case, instance):
                yield Violation(f"WorkflowStep {case.row.step_key}", row_id, sentence)
