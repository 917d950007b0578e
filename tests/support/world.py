"""A small world in which the real engine runs: a namespace with people, queues and quotas, and a clock that obeys.

`World` is the outside (people, workers, time), `Flow` one running instance as somebody looking at it sees it: every
attribute reads the database again. Whatever happens here is followed by all runners until they rest; `run=False`
keeps them back, where a test is about what has not been consumed yet.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth import get_user_model

from recovery import clock, permissions
from recovery.engine import (
    cancel_task,
    claim,
    clocks,
    control,
    inbox,
    publish,
    reaper,
    report,
    schedule,
    signals,
    start,
    stop,
)
from recovery.models import (
    Application,
    ApplicationQuota,
    InboxEvent,
    InstanceGate,
    Namespace,
    PollBudget,
    PollRound,
    PollState,
    Queue,
    QueueQuota,
    ResultStream,
    RootContinuation,
    Signal,
    StepActivation,
    StepClock,
    Task,
    TaskAttempt,
    TaskResult,
    WaitState,
    WorkflowAudit,
    WorkflowInstance,
    WorkflowStep,
)
from recovery.permissions import Actor
from recovery.receipts import Receipt, new_key
from recovery.writes import insert
from tests.support.trees import HOUR, Node

MORNING = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""When every world begins."""

OPERATOR = [name for name, _label in Namespace._meta.permissions if name != permissions.WORK]
"""The rights of the operator: all but the worker's."""

_numbers = itertools.count(1)


@dataclass
class World:
    """One namespace "pay" with the application "desk" and the queues "bank" and "mail"."""

    traveller: time_machine.Traveller
    namespace: Namespace
    application: Application
    queues: dict[str, Queue] = field(default_factory=dict)
    operator: Actor = field(init=False)
    worker: Actor = field(init=False)

    # Setting up

    def add_queue(
        self, name: str, *, lease_ms: int = 30_000, max_open_tasks: int = 1000, max_running: int = 50
    ) -> Queue:
        queue = Queue(namespace=self.namespace, name=name, status="OPEN", lease_ms=lease_ms, created_at=clock.now())
        insert(queue, QueueQuota(queue=queue, max_open_tasks=max_open_tasks, max_running=max_running))
        self.queues[name] = queue
        return queue

    def actor(self, *rights: str, queues: tuple[str, ...] = (), application: Application | None = None) -> Actor:
        """A new person with exactly these rights on the namespace, and `queues:use` on these queues."""
        user = get_user_model().objects.create(username=f"person-{next(_numbers)}")
        for right in rights:
            permissions.grant(user, right, self.namespace, by="set-up", reason="test")
        for name in queues:
            permissions.grant(user, permissions.USE_QUEUE, self.queues[name], by="set-up", reason="test")
        limited = application.pk if application else None
        return Actor(user_id=user.pk, username=user.username, namespace_id=self.namespace.pk, application_id=limited)

    # What people do

    def publish(
        self, root: Node, *, name: str = "", input_schema: Any = True, max_duration_ms: int = 24 * HOUR
    ) -> dict[str, Any]:
        """The receipt's content. Without a name the definition gets a new one."""
        document = {
            "name": name or f"flow-{next(_numbers)}",
            "input_schema": input_schema,
            "max_duration_ms": max_duration_ms,
            "root": root,
        }
        return publish.publish(self.operator, new_key(), document).data

    def start(
        self, root: Node | str, *, input: Any = None, business_key: str = "", run: bool = True, **published: Any
    ) -> Flow:
        """Starts an instance of a published definition (its name) or of a tree that is published first."""
        name = root if isinstance(root, str) else self.publish(root, **published)["definition"]
        document = {
            "application": self.application.name,
            "definition": name,
            "business_key": business_key or f"order-{next(_numbers)}",
            "input": {"order": "A-1"} if input is None else input,
        }
        receipt = start.start(self.operator, new_key(), document)
        return self._then(Flow(self, receipt.data["instance_id"]), run)

    # What workers do

    def claim(self, queue: str = "bank") -> Any:
        """The lease of the one task that a worker gets now."""
        leases = self.claim_all(queue, max_tasks=1)
        assert leases, f"nothing to claim on {queue}"
        return leases[0]

    def claim_all(self, queue: str = "bank", *, max_tasks: int = 100, **how: Any) -> list[Any]:
        """All leases that a worker gets now; none where nothing may be claimed."""
        return claim.claim(self.worker, queue, "worker-1", max_tasks, **how)

    def succeed(self, lease: Any, result: Any = None, *, run: bool = True) -> Any:
        answer = {"state": "done"} if result is None else result
        return self._then(report.succeed(self.worker, lease.attempt.pk, lease.attempt.lease_token, answer), run)

    def fail(self, lease: Any, *, error_code: str = "REFUSED", retryable: bool = False, run: bool = True) -> Any:
        token = lease.attempt.lease_token
        said = report.fail(self.worker, lease.attempt.pk, token, error_code, "the bank said no", retryable)
        return self._then(said, run)

    def unknown(self, lease: Any, *, run: bool = True) -> Any:
        token = lease.attempt.lease_token
        return self._then(report.unknown(self.worker, lease.attempt.pk, token, "TIMEOUT", "no answer"), run)

    def lose_lease(self, lease: Any, *, run: bool = True) -> None:
        """The worker falls silent: time passes until its lease has run out, and the reaper comes."""
        lease.attempt.refresh_from_db()
        self.traveller.move_to(max(lease.attempt.lease_expires_at, clock.now()))
        reaper.reap()
        self._then(None, run)

    # Time and the runners

    def travel(self, *, run: bool = True, **delta: float) -> datetime:
        """Time passes (`minutes=3`) and stands still again; answers the new time."""
        self.traveller.shift(timedelta(**delta))
        return self._then(clock.now(), run)

    def travel_to(self, moment: datetime, *, run: bool = True) -> datetime:
        self.traveller.move_to(moment)
        return self._then(clock.now(), run)

    def run(self) -> None:
        """All runners, until none of them finds anything to do."""
        for _round in range(500):
            if not self._run_once():
                return
        raise AssertionError("the runners do not come to rest")

    def _run_once(self) -> int:
        # Not `fire_due`, which goes on to the next clock when one raises.
        due = StepClock.objects.filter(status="ARMED", due_at__lte=clock.now()).order_by("due_at", "pk")
        done = sum(clocks.fire(key, owner) for key, owner in list(due.values_list("pk", "instance_id")))
        done += reaper.reap()
        for key in WorkflowInstance.objects.order_by("pk").values_list("pk", flat=True):
            done += inbox.consume(key) + signals.adjudicate(key) + schedule.advance(key) + stop.stop(key)
        return done

    def _then(self, answer: Any, run: bool) -> Any:
        if run:
            self.run()
        return answer

    # Quotas

    def application_quota(self) -> ApplicationQuota:
        return ApplicationQuota.objects.get(application=self.application)

    def queue_quota(self, name: str = "bank") -> QueueQuota:
        return QueueQuota.objects.get(queue=self.queues[name])

    def stream(self) -> ResultStream:
        return ResultStream.objects.get(namespace=self.namespace)


@dataclass(frozen=True)
class Flow:
    """One instance, read anew with every look."""

    world: World
    id: str

    @property
    def instance(self) -> WorkflowInstance:
        return WorkflowInstance.objects.get(pk=self.id)

    @property
    def status(self) -> str:
        return self.instance.status

    @property
    def gate(self) -> str:
        return InstanceGate.objects.get(instance_id=self.id).state

    def step(self, key: str) -> WorkflowStep:
        return WorkflowStep.objects.get(instance_id=self.id, step_key=key)

    def statuses(self) -> dict[str, str]:
        """Step key to status."""
        return dict(WorkflowStep.objects.filter(instance_id=self.id).values_list("step_key", "status"))

    def activations(self, key: str) -> list[StepActivation]:
        return list(StepActivation.objects.filter(instance_id=self.id, step__step_key=key).order_by("sequence"))

    def activation(self, key: str) -> StepActivation:
        """The current one."""
        return self.activations(key)[-1]

    def tasks(self, key: str) -> list[Task]:
        """Over all activations and rounds, oldest first."""
        rows = Task.objects.filter(activationtask__activation__step__in=[self.step(key).pk])
        return list(rows.order_by("activationtask__activation__sequence", "activationtask__round"))

    def task(self, key: str) -> Task:
        """The last one."""
        return self.tasks(key)[-1]

    def attempts(self, key: str) -> list[TaskAttempt]:
        """Of the step's last task."""
        return list(TaskAttempt.objects.filter(task=self.task(key)).order_by("attempt_no"))

    def results(self, key: str) -> list[TaskResult]:
        """Of the step's last task, by revision."""
        return list(TaskResult.objects.filter(task=self.task(key)).order_by("task_revision"))

    def inbox(self) -> list[InboxEvent]:
        """In the order of the stream."""
        return list(InboxEvent.objects.filter(instance_id=self.id).order_by("result_event__offset"))

    def poll(self, key: str) -> PollState:
        return PollState.objects.get(activation=self.activation(key))

    def budget(self, key: str) -> PollBudget:
        return PollBudget.objects.get(activation=self.activation(key))

    def rounds(self, key: str) -> list[PollRound]:
        """Over all activations, oldest first."""
        rows = PollRound.objects.filter(activation__step_id=self.step(key).pk)
        return list(rows.order_by("activation__sequence", "round"))

    def wait(self, key: str) -> WaitState:
        """Of the current activation."""
        return WaitState.objects.get(activation=self.activation(key))

    def signals(self, key: str) -> list[Signal]:
        return list(Signal.objects.filter(step_id=self.step(key).pk).order_by("accepted_at", "pk"))

    def clocks(self, kind: str, status: str = "ARMED") -> list[StepClock]:
        return list(StepClock.objects.filter(instance_id=self.id, kind=kind, status=status).order_by("due_at"))

    def continuations(self, status: str = "PENDING") -> list[str]:
        """The kinds, in their order."""
        rows = RootContinuation.objects.filter(instance_id=self.id, status=status).order_by("sequence")
        return list(rows.values_list("kind", flat=True))

    def audits(self) -> list[WorkflowAudit]:
        return list(WorkflowAudit.objects.filter(instance_id=self.id).order_by("sequence"))

    # What people and the outside do to it

    def pause(self, *, actor: Actor | None = None, run: bool = True) -> Receipt:
        return self._control(control.pause, actor, run)

    def resume(self, *, actor: Actor | None = None, run: bool = True) -> Receipt:
        return self._control(control.resume, actor, run)

    def cancel(self, *, actor: Actor | None = None, run: bool = True) -> Receipt:
        return self._control(control.cancel, actor, run)

    def _control(self, act: Any, actor: Actor | None, run: bool) -> Receipt:
        revision = str(self.instance.control_revision)
        receipt = act(actor or self.world.operator, new_key(), self.id, revision, "asked by the desk")
        return self.world._then(receipt, run)

    def cancel_task(self, key: str, *, run: bool = True) -> Task:
        """Cancels the step's last task."""
        task = self.task(key)
        actor, revision = self.world.operator, str(task.revision)
        return self.world._then(cancel_task.cancel_task(actor, task.pk, revision, "not needed"), run)

    def send(
        self, key: str, payload: Any = None, *, generation: int | None = None, run: bool = True, **fields: Any
    ) -> Signal:
        """Sends the step a receipt for order A-1, to the current generation; `fields` as in the contract."""
        document: Mapping[str, Any] = {
            "step_key": key,
            "generation": self.activation(key).sequence if generation is None else generation,
            "name": "receipt",
            "correlation_key": "A-1",
            "source_key": f"source-{next(_numbers)}",
            "payload": {"number": 1} if payload is None else payload,
            **fields,
        }
        signal = signals.accept(self.world.operator, self.id, document)
        self.world._then(None, run)
        signal.refresh_from_db()
        return signal


def make_world(
    traveller: time_machine.Traveller,
    *,
    name: str = "pay",
    max_open_tasks: int = 1000,
    max_open_instances: int = 1000,
) -> World:
    """A namespace of its own, with an operator who may do everything and a worker who may claim everywhere."""
    now = clock.now()
    namespace = Namespace(name=name, display_name="Payments", status="ACTIVE", created_at=now)
    application = Application(namespace=namespace, name="desk", status="ACTIVE", created_at=now)
    quota = ApplicationQuota(
        application=application, max_open_tasks=max_open_tasks, max_open_instances=max_open_instances
    )
    insert(namespace, application, quota, ResultStream(namespace=namespace, next_offset=1))
    world = World(traveller, namespace, application)
    for queue in ("bank", "mail"):
        world.add_queue(queue)
    world.operator = world.actor(*OPERATOR, queues=("bank", "mail"))
    world.worker = world.actor(permissions.WORK, queues=("bank", "mail"))
    return world


@pytest.fixture(name="world")
def _world(db: None, caplog: pytest.LogCaptureFixture) -> Iterator[World]:
    """The world of most tests, on the morning of 2 March 2026; time stands still until the test moves it.

    A runner logs what it could not do and goes on with the rest; no test of an engine at work may overlook that.
    """
    with time_machine.travel(MORNING, tick=False) as traveller:
        yield make_world(traveller)
    failed = [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert not failed, failed
