"""Results, their events, and the inbox that received them."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Exists, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from recovery.models import InboxEvent, ResultEvent, ResultStream, Task, TaskResult
from recovery.states import InboxStatus, ResultOutcome, ResultSource, TaskStatus
from recovery.verify.base import Scope, Violation, check, found

SETTLES = {
    TaskStatus.SUCCEEDED: ResultOutcome.SUCCEEDED,
    TaskStatus.FAILED: ResultOutcome.FAILED,
    TaskStatus.CANCELLED: ResultOutcome.CANCELLED,
    TaskStatus.NEEDS_REVIEW: ResultOutcome.UNKNOWN,
}
"""The outcome of the authoritative result of a task in each settled status."""

FIRST_OFFSET = 1


@check(
    gettext_lazy("A settled task has a result of its present revision, and an authoritative one that says its status.")
)
def settled_tasks(scope: Scope) -> Iterator[Violation]:
    results = TaskResult.objects.filter(task=OuterRef("pk"))
    settled = scope.rows(Task).filter(status__in=list(SETTLES))
    present = Exists(results.filter(task_revision=OuterRef("revision")))
    yield from found(settled.filter(~present), _("The task is settled, but its present revision has no result."))
    authoritative = results.exclude(source=ResultSource.LATE).order_by("-task_revision").values("outcome")[:1]
    said = Q(pk=None)
    for status, outcome in SETTLES.items():
        said |= Q(status=status, said=outcome)
    wrong = settled.annotate(said=Coalesce(Subquery(authoritative), Value("-"))).exclude(said)
    sentence = _("The task is %(status)s, but its authoritative result says %(said)s.")
    yield from found(wrong, lambda task: sentence % {"status": task.status, "said": task.said})
    open_tasks = scope.rows(Task).exclude(status__in=list(SETTLES))
    told = Exists(results.exclude(source=ResultSource.LATE))
    yield from found(open_tasks.filter(told), _("The task is open, but has a result."))


@check(gettext_lazy("A result has its event: of the same task and revision, and of the activation that owns the task."))
def result_events(scope: Scope) -> Iterator[Violation]:
    event = ResultEvent.objects.filter(
        result=OuterRef("pk"),
        task=OuterRef("task"),
        task_revision=OuterRef("task_revision"),
        activation=OuterRef("task__owner_activation"),
        stream__namespace=OuterRef("task__namespace"),
    )
    yield from found(scope.rows(TaskResult).filter(~Exists(event)), _("The result has no event of its own."))


@check(gettext_lazy("An event has its inbox row: of the same task, revision, activation and instance."))
def inbox_rows(scope: Scope) -> Iterator[Violation]:
    row = InboxEvent.objects.filter(
        result_event=OuterRef("pk"),
        task=OuterRef("task"),
        task_revision=OuterRef("task_revision"),
        activation=OuterRef("activation"),
        instance=OuterRef("activation__instance"),
    )
    yield from found(scope.rows(ResultEvent).filter(~Exists(row)), _("No inbox row received the event."))


@check(gettext_lazy("What was consumed says what became of it, and nothing else does."))
def dispositions(scope: Scope) -> Iterator[Violation]:
    inbox = scope.rows(InboxEvent)
    pending = Q(status=InboxStatus.PENDING)
    yield from found(inbox.filter(pending).exclude(disposition=""), _("The event is pending, but has a disposition."))
    yield from found(inbox.exclude(pending).filter(disposition=""), _("The event was consumed without a disposition."))
    processed = inbox.filter(status=InboxStatus.PROCESSED, processed_at=None)
    yield from found(processed, _("The event was processed, but nobody knows when."))


@check(gettext_lazy("The events of an instance are consumed in the order of the stream."))
def consumed_in_order(scope: Scope) -> Iterator[Violation]:
    later = InboxEvent.objects.filter(
        instance=OuterRef("instance"),
        status=InboxStatus.PROCESSED,
        result_event__offset__gt=OuterRef("result_event__offset"),
    )
    unsettled = scope.rows(InboxEvent).exclude(status=InboxStatus.PROCESSED)
    yield from found(unsettled.filter(Exists(later)), _("A later event of the instance was consumed before it."))


@check(gettext_lazy("A stream's offsets run from the first to the last without a hole."))
def offsets(scope: Scope) -> Iterator[Violation]:
    before = ResultEvent.objects.filter(stream=OuterRef("stream"), offset=OuterRef("offset") - 1)
    after_a_hole = scope.rows(ResultEvent).exclude(offset=FIRST_OFFSET).filter(~Exists(before))
    yield from found(
        after_a_hole, lambda event: _("There is no offset %(offset)d before it.") % {"offset": event.offset - 1}
    )
    events = ResultEvent.objects.filter(stream=OuterRef("pk"))
    last = Coalesce(Subquery(events.order_by("-offset").values("offset")[:1]), FIRST_OFFSET - 1)
    streams = scope.rows(ResultStream).annotate(last=last).exclude(next_offset=F("last") + 1)
    sentence = _("Its next offset is %(next)d, but the last one that was used is %(last)d.")
    yield from found(streams, lambda row: sentence % {"next": row.next_offset, "last": row.last})
