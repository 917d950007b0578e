"""In-process handlers: functions of ours that run tasks, under the same protocol as any worker outside.

A module that `WEAVE_HANDLERS` names registers them:

    @handler("bank.transfer", "1")
    def transfer(context: Context) -> Any: ...

What a handler returns is the result (any JSON). It raises Failed when it knows that nothing more will happen outside,
Unknown when it does not know. Any other exception is UNKNOWN too: nobody knows what the code had done by then. A
handler that is killed reports nothing and loses its lease (B2).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import Error, InterfaceError, OperationalError, connection
from django.db.models import Exists, OuterRef

from recovery import clock, exact_json, permissions, prompts
from recovery.engine import report
from recovery.engine.claim import Lease, claim
from recovery.engine.report import Report
from recovery.errors import Busy, DomainError, PermissionDenied
from recovery.models import Queue, Task
from recovery.operations.commands import label
from recovery.permissions import Actor
from recovery.states import QueueStatus, TaskStatus, TenantStatus

logger = logging.getLogger(__name__)

SHIFT = timedelta(seconds=5)
"""How long one message keeps a worker at a queue that never gets empty: a worker that shall end must not begin more."""
PAUSES = (1, 2, 4, 8, 16)
"""Seconds between the tries of a report while the database is away."""


class Unknown(Exception):
    """Nobody knows what the execution did or will still do (B2). `code`: 1 to 64 characters."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(code, message)
        self.code, self.message = label(code, 64), message


class Failed(Exception):
    """The execution failed and has no further effect. `retryable` counts where the definition names no codes (B1)."""

    def __init__(self, code: str, message: str = "", *, retryable: bool = False) -> None:
        super().__init__(code, message)
        self.code, self.message, self.retryable = label(code, 64), message, retryable


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a handler knows of its task. `business_key` names the piece of work outside; a retry has the same one."""

    input: Any
    task_id: str
    attempt_no: int
    business_key: str
    _extend: Callable[[], datetime]

    def heartbeat(self) -> datetime:
        """Extends the lease now; answers until when it holds. Raises StateConflict when the lease was lost.

        Leases are extended anyhow while a handler runs; this is for one that wants to know before it goes on.
        """
        return self._extend()


Handler = Callable[[Context], Any]

_registry: dict[tuple[str, str], Handler] = {}


def handler(name: str, version: str) -> Callable[[Handler], Handler]:
    """Registers a function for the tasks of one handler and version. Raises ValueError where another has the name."""

    def register(function: Handler) -> Handler:
        if _registry.setdefault((name, version), function) is not function:
            raise ValueError(f"Two functions are registered as the handler {name} {version}.")
        return function

    return register


def registered() -> dict[tuple[str, str], Handler]:
    """All handlers of the modules in `WEAVE_HANDLERS`."""
    for module in settings.WEAVE_HANDLERS:
        import_module(module)
    return _registry


def work(queue_id: str) -> int:
    """Claims and runs tasks of a queue until none is left or the shift is over; answers how many.

    One at a time: a worker that is killed leaves one unknown effect behind, and no tasks that it had only claimed.
    """
    queue = Queue.objects.filter(pk=queue_id).first()
    user = account()
    if queue is None or user is None:
        return 0
    actor = permissions.actor_of(user, queue.namespace_id)
    name = f"{socket.gethostname()[:100]}:{os.getpid()}"
    began, done = clock.now(), 0
    while clock.now() - began < SHIFT:
        try:
            leases = claim(actor, queue.name, name, handlers=list(registered()))
        except PermissionDenied as refusal:
            _complain(f"The account {user} cannot work at the queue {queue.name}: {refusal}")
            return done
        if not leases:
            return done
        run(actor, leases[0])
        done += 1
    prompts.queue(queue_id)
    return done


def account() -> Any:
    """The user that in-process workers act as, by `WEAVE_WORKER_USER`. Without one: None, and a line in the log."""
    if not registered():
        return None
    user = get_user_model().objects.filter(username=settings.WEAVE_WORKER_USER, is_active=True).first()
    if user is None:
        _complain(
            f"There are handlers, but no account to run them: WEAVE_WORKER_USER is {settings.WEAVE_WORKER_USER!r}. "
            "It has to name an active user with tasks:work on the namespaces and queues:use on the queues."
        )
    return user


def waiting_queues() -> list[str]:
    """The queues at which the account of the workers may work and where a task waits, for the sweep."""
    user = account()
    if user is None:
        return []
    rights = [held for held in permissions.all_rights(user.pk).values() if held.may(permissions.WORK)]
    tasks = Task.objects.filter(queue_id=OuterRef("pk"), status=TaskStatus.QUEUED, held=False)
    queues = Queue.objects.filter(
        Exists(tasks.filter(available_at__lte=clock.now())),
        pk__in={queue_id for held in rights for queue_id in held.queues},
        namespace_id__in=[held.namespace_id for held in rights],
        namespace__status=TenantStatus.ACTIVE,
        status=QueueStatus.OPEN,
    )
    return list(queues.values_list("pk", flat=True))


@cache
def _complain(sentence: str) -> None:
    """Says it once in each process: it would be true again every second."""
    logger.error(sentence)


def run(actor: Actor, lease: Lease) -> Report:
    """Runs the handler of a leased task, extends the lease meanwhile, and reports what came of it."""
    task, attempt = lease.task, lease.attempt
    credentials = actor, attempt.pk, attempt.lease_token
    context = Context(
        input=lease.input,
        task_id=task.pk,
        attempt_no=attempt.attempt_no,
        business_key=task.business_key,
        _extend=lambda: report.heartbeat(*credentials),
    )
    with _heartbeats(credentials, lease):
        say = _answer(registered()[task.handler, task.handler_version], context)
    return _insist(lambda: say(*credentials))


def _answer(function: Handler, context: Context) -> Callable[[Actor, str, str], Report]:
    """Calls the handler; answers the report that is due."""
    try:
        # Through the text and back: what was computed as a double keeps the digits that it shows.
        result = exact_json.parse(exact_json.utf8(function(context)))
    except Failed as failure:
        message, retryable = _kept(failure.message), failure.retryable
        return partial(report.fail, error_code=failure.code, error_message=message, retryable=retryable)
    except Unknown as doubt:
        return partial(report.unknown, error_code=doubt.code, error_message=_kept(doubt.message))
    except Exception as error:
        logger.exception("The handler of task %s raised.", context.task_id)
        message = _kept(f"{type(error).__name__}: {error}")
        return partial(report.unknown, error_code="EXCEPTION", error_message=message)
    return partial(report.succeed, result=result)


def _kept(message: str) -> str:
    """A handler's own words, such that they can be kept."""
    return message.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")[:1024]


def _insist(say: Callable[[], Report]) -> Report:
    """Reports again while the database is away: what is known now would be unknown for ever."""
    for pause in PAUSES:
        try:
            return say()
        except (Busy, OperationalError, InterfaceError):
            time.sleep(pause)
            connection.close_if_unusable_or_obsolete()  # a handler may outlive its connection
    return say()


@contextmanager
def _heartbeats(credentials: tuple[Actor, str, str], lease: Lease) -> Iterator[None]:
    """Extends the lease from a thread of its own, three times in its length, until the block or the task's time ends.

    Beyond the task's deadline nobody vouches for a handler: it loses its lease, and a person finds out.
    """
    over = threading.Event()
    attempt, deadline = lease.attempt, lease.task.deadline_at
    every = (attempt.lease_expires_at - attempt.started_at).total_seconds() / 3

    def beat() -> None:
        try:
            while not over.wait(every) and (deadline is None or clock.now() < deadline):
                try:
                    report.heartbeat(*credentials)
                except DomainError as refusal:
                    logger.warning("The lease of attempt %s was not extended: %s", attempt.pk, refusal)
                except Error:
                    connection.close_if_unusable_or_obsolete()
        finally:
            connection.close()

    thread = threading.Thread(target=beat, name=f"lease {attempt.pk}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
