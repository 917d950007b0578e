"""Results become events in the namespace's stream; the stream row is the last lock of any transaction (G7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from recovery import exact_json, prompts
from recovery.ids import new_id
from recovery.locks import Locks
from recovery.models import InboxEvent, ResultEvent, ResultStream, Task, TaskAttempt, TaskResult
from recovery.states import InboxStatus
from recovery.writes import change, insert


@dataclass(frozen=True)
class Settled:
    """A task revision that has just been settled: the task as changed, and what its result says."""

    task: Task
    outcome: str
    source: str
    payload: Any
    attempt: TaskAttempt | None = None
    digest: str = ""
    """Of the payload, where it was made before the first lock (G7)."""


def publish(locks: Locks, settled: Sequence[Settled], now: datetime) -> list[ResultEvent]:
    """Writes result, inbox row and event of each settled revision, in that order; the stream is locked last.

    All tasks must be of one namespace. The inbox row is inserted before the stream lock and names the event that
    is written after it. Events are dated `now`; offsets come from the locked stream row, so they are never skipped
    and never seen out of order.
    """
    if not settled:
        return []
    results = [
        TaskResult(
            task=item.task,
            task_revision=item.task.revision,
            attempt=item.attempt,
            source=item.source,
            outcome=item.outcome,
            payload=item.payload,
            recorded_at=now,
        )
        for item in settled
    ]
    inbox = [
        InboxEvent(
            instance_id=item.task.instance_id,
            activation_id=item.task.owner_activation_id,
            task=item.task,
            task_revision=item.task.revision,
            result_event_id=new_id(),
            status=InboxStatus.PENDING,
            received_at=now,
        )
        for item in settled
    ]
    digests = [
        item.digest or exact_json.digest(item.payload) for item in settled
    ]  # not under the lock that everybody waits for
    insert(*results)
    insert(*inbox)
    for row in inbox:
        prompts.instance(row.instance_id)
    stream = locks.row(ResultStream, _stream_of(settled[0].task.namespace_id))
    events = [
        ResultEvent(
            id=row.result_event_id,
            stream=stream,
            offset=stream.next_offset + number,
            task=item.task,
            task_revision=item.task.revision,
            result=result,
            activation_id=item.task.owner_activation_id,
            payload_digest=digest,
            occurred_at=now,
        )
        for number, (item, result, row, digest) in enumerate(zip(settled, results, inbox, digests, strict=True))
    ]
    insert(*events)
    change(stream, next_offset=stream.next_offset + len(events))
    return events


@lru_cache(maxsize=1024)
def _stream_of(namespace_id: str) -> str:
    """The key of a namespace's stream: it never changes, and the lock that everybody waits for is taken at once."""
    return str(ResultStream.objects.values_list("pk", flat=True).get(namespace_id=namespace_id))
