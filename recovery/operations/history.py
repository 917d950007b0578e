"""G11: whether a history fits together. Pure: a case's rows in, sentences out."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.case import ActivationCase, StepCase, TaskCase
from recovery.models import WorkflowInstance
from recovery.states import STATUS_AFTER, ResultSource, StepKind

Problem = tuple[str, str]
"""A sentence, and the id of the row that shows it."""


def problems(step: StepCase, instance: WorkflowInstance) -> list[Problem]:
    """Everything of one leaf's history that contradicts itself or the pinned definition."""
    return [*_sequence(step), *_owners(step, instance), *_chains(step), *_pinned(step), *_results(step)]


def _sequence(step: StepCase) -> Iterator[Problem]:
    for number, activation in enumerate(step.activations, start=1):
        if activation.row.sequence != number:
            yield _("activation %d is missing") % number, step.row.pk
            return
    current = step.current.row.pk if step.current else None
    if step.row.current_activation_id != current:
        yield _("the step does not point to its last activation"), step.row.pk


def _owners(step: StepCase, instance: WorkflowInstance) -> Iterator[Problem]:
    for task_id in step.strays:
        yield _("a task names an activation that does not name it back"), task_id
    for activation in step.activations:
        if activation.row.instance_id != instance.pk:
            yield _("an activation belongs to another instance"), activation.row.pk
        for task in activation.tasks:
            row = task.row
            if row.owner_activation_id != activation.row.pk:
                yield _("an activation names a task that does not name it back"), row.pk
            if (row.namespace_id, row.application_id, row.instance_id) != (
                instance.namespace_id,
                instance.application_id,
                instance.pk,
            ):
                yield _("a task belongs to another namespace, application or instance"), row.pk
            numbers = [attempt.attempt_no for attempt in task.attempts]
            if numbers != list(range(1, row.attempt_count + 1)):
                yield _("attempt rows and attempt count differ"), row.pk
            if row.attempt_count > row.max_attempts:
                yield _("more attempts than allowed"), row.pk


def _chains(step: StepCase) -> Iterator[Problem]:
    """`retry_of` forms one chain for a TASK and one for each round of a POLL."""
    if step.spec.kind == StepKind.POLL:
        yield from _rounds(step)
    for number, tasks in sorted(step.rounds.items()):
        if (number == 0) != (step.spec.kind == StepKind.TASK):
            yield _("a task has a round that its step cannot have"), step.row.pk
        previous: TaskCase | None = None
        left = step.spec.max_attempts
        for task in tasks:
            if task.row.retry_of_id != (previous.row.pk if previous else None):
                yield _("the chain of retries is broken"), task.row.pk
            if task.row.max_attempts != left:
                yield _("the attempts allowed are not what the budget leaves"), task.row.pk
            left -= task.row.attempt_count
            previous = task


def _rounds(step: StepCase) -> Iterator[Problem]:
    last: ActivationCase | None = None
    earlier: set[str] = set()
    for activation in step.activations:
        poll = activation.poll
        if poll is None:
            yield _("a query's activation has no query state"), activation.row.pk
            continue
        rounds = [task.half.round for task in activation.tasks if task.half]
        if rounds != list(range(poll.first_round, poll.used_rounds + 1)):
            yield _("the rounds do not cover first_round to used_rounds"), poll.pk
        expected_first = last.poll.used_rounds if last and last.poll else 1
        if poll.first_round != expected_first:
            yield _("first_round is not the last round of the activation before"), poll.pk
        before = [task for task in step.tasks_of_round(poll.first_round) if task.row.pk in earlier]
        if poll.first_round_attempts_used != sum(task.row.attempt_count for task in before):
            yield _("first_round_attempts_used is not what earlier activations used"), poll.pk
        for task in activation.tasks:
            row = task.round
            place = (activation.row.pk, task.half.round if task.half else None)
            if row is None or (row.activation_id, row.round) != place:
                yield _("a query's task has no round of its own"), task.row.pk
            elif row.deadline_at != step.tasks_of_round(row.round)[0].row.deadline_at:
                yield _("a round's deadline is not that of its first task"), row.pk
        if last and last.poll and poll.deadline_at != last.poll.deadline_at:
            yield _("the query deadline moved"), poll.pk
        earlier |= {task.row.pk for task in activation.tasks}
        last = activation


def _pinned(step: StepCase) -> Iterator[Problem]:
    """Handler, input, keys and deadlines are those of the definition and of the first activation (RY4)."""
    spec = step.spec
    if not step.activations:
        return
    first_activation = step.activations[0].row
    for activation in step.activations:
        given = activation.row
        if not first_activation.input_digest == given.input_digest == exact_json.digest(given.input):
            yield _("an activation's input is not the first one"), given.pk
    first = step.tasks[0].row if step.tasks else None
    for task in step.tasks:
        row = task.row
        if (row.queue_id, row.handler, row.handler_version, row.priority, row.policy) != (
            spec.queue_id,
            spec.handler,
            spec.handler_version,
            spec.priority,
            spec.task_policy,
        ):
            yield _("queue, handler, version, priority or policy are not the pinned ones"), row.pk
        if row.input_digest != first_activation.input_digest or row.input_digest != exact_json.digest(row.input):
            yield _("the input is not the first activation's"), row.pk
        assert first is not None
        if (row.business_key, row.concurrency_key) != (first.business_key, first.concurrency_key):
            yield _("business key or concurrency key changed"), row.pk
        beginning = step.tasks_of_round(task.half.round)[0].row if task.half else first
        if (row.deadline_at, row.latest_start_at) != (beginning.deadline_at, beginning.latest_start_at):
            yield _("a deadline moved"), row.pk


def _results(step: StepCase) -> Iterator[Problem]:
    """Each settled task has an authoritative result of its status; each result its event, of the same content."""
    for task in step.tasks:
        result = task.authoritative
        if task.is_settled and (result is None or STATUS_AFTER.get(result.row.outcome) != task.row.status):
            yield _("a settled task has no result of its status"), task.row.pk
        if not task.is_settled and result is not None:
            yield _("an open task has a result"), task.row.pk
        for each in task.results:
            event = each.event
            own = (task.row.pk, each.row.task_revision, task.row.owner_activation_id)
            if event is None or (event.task_id, event.task_revision, event.activation_id) != own:
                yield _("a result has no event of its own"), each.row.pk
            elif event.payload_digest != exact_json.digest(each.row.payload):
                yield _("an event's digest is not that of its result"), event.pk
            if each.row.source == ResultSource.LATE and each.row.attempt_id is None:
                yield _("a late result names no attempt"), each.row.pk
