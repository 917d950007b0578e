"""What the machine drives: one instance in a small world, with everything that can be done to it as a method.

Every act answers the code of its refusal, or None. Any exception that is no refusal is a fault that was found.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from recovery import clock, operations
from recovery.engine import clocks, inbox, reaper, report, schedule, signals, stop
from recovery.errors import DomainError
from recovery.models import ApplicationQuota, InstanceGate, StepClock, Task, TaskAttempt, WorkflowStep
from recovery.states import LEAVES, TERMINAL, InstanceStatus, StepKind, StepStatus, TaskStatus
from tests.support.recovering import command, send
from tests.support.trees import MINUTE, SECOND, Node, parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import Flow, World

RETRIED = {"retryable_errors": ["TIMEOUT"], "backoff_ms": 5 * SECOND}
KEYED = {"concurrency_key": {"$from": "/instance/input/order"}}

TREES: dict[str, Node] = {
    "all kinds side by side": parallel(
        sequence(task("pay", max_attempts=2, policy=RETRIED), task("book", timeout_ms=5 * MINUTE), key="money"),
        poll("ask", max_attempts=2, max_rounds=2, signal=receipt(), total_timeout_ms=20 * MINUTE),
        signal("wait", total_timeout_ms=30 * MINUTE),
        timer("rest", delay_ms=2 * MINUTE),
    ),
    "failures end it": parallel(
        task("pay", policy=RETRIED | KEYED | {"on_failure": "FAIL"}),
        poll("ask", max_rounds=1, policy=KEYED | {"on_failure": "FAIL"}),
        task("book", policy={"latest_start_ms": 3 * MINUTE} | KEYED),
    ),
    "one after the other": sequence(
        poll("ask", max_rounds=3, max_attempts=1, interval_ms=30 * SECOND, policy=RETRIED),
        signal("wait"),
        parallel(task("pay", input={"$from": "/steps/ask/output/state"}), timer("rest"), key="last"),
    ),
    "an input that is not there": parallel(
        task("pay", policy={"business_key": {"$from": "/instance/input/nothing"}}),
        poll("ask", signal=receipt(correlation={"$from": "/instance/input/nothing"})),
        sequence(task("book"), signal("wait", input={"$from": "/steps/book/output/nothing"}), key="then"),
    ),
}
ANSWERS: dict[str, Any] = {
    "done": {"state": "done"},
    "processing": {"state": "processing"},
    "rejected": {"state": "rejected"},
}
ANSWERS |= {"outside": {"state": "?"}, "nothing": None}
BY_KIND = {
    StepKind.TASK: ("retry-step", "resolve-step"),
    StepKind.POLL: ("continue-poll", "retry-step", "resolve-step"),
    StepKind.SIGNAL: ("rearm-wait", "resolve-step"),
    StepKind.TIMER: ("rearm-wait", "resolve-step"),
}
ENTERED = frozenset({"OUTCOME_NOT_ACCEPTED", "DELAY_NOT_ELAPSED"})
"""Refusals that depend on what is entered: no explanation knows them before."""


class Subject:
    def __init__(self, world: World, tree: Node, room: int) -> None:
        self.world = world
        ApplicationQuota.objects.filter(application=world.application).update(max_open_tasks=room)
        self.flow: Flow = world.start(tree, max_duration_ms=60 * MINUTE, run=False)
        self.leases: list[Any] = []
        self.granted_behind_a_gate: list[str] = []

    # Facts

    @property
    def gate(self) -> InstanceGate:
        return InstanceGate.objects.get(instance_id=self.flow.id)

    def leaves(self) -> list[WorkflowStep]:
        return list(WorkflowStep.objects.filter(instance_id=self.flow.id, kind__in=LEAVES).order_by("step_key"))

    # Workers

    def claim(self, count: int) -> None:
        for lease in self.world.claim_all(max_tasks=count):
            self.leases.append(lease)
            if self.gate.state != "OPEN":
                self.granted_behind_a_gate.append(lease.attempt.pk)

    def running(self) -> int | None:
        """The number of the first lease whose attempt runs."""
        keys = set(TaskAttempt.objects.filter(status="RUNNING").values_list("pk", flat=True))
        return next((number for number, lease in enumerate(self.leases) if lease.attempt.pk in keys), None)

    def report(self, number: int, verb: str, answer: str, retryable: bool) -> str | None:
        """Of any lease that was ever granted: what has ended makes it late."""
        if not self.leases:
            return None
        lease = self.leases[number % len(self.leases)]
        who = (self.world.worker, lease.attempt.pk, lease.attempt.lease_token)
        acts: dict[str, Callable[[], Any]] = {
            "succeed": lambda: report.succeed(*who, ANSWERS[answer]),
            "fail": lambda: report.fail(*who, "TIMEOUT" if retryable else "REFUSED", "the bank said no", retryable),
            "unknown": lambda: report.unknown(*who, "TIMEOUT", "no answer"),
            "heartbeat": lambda: report.heartbeat(*who),
            "nothing": lambda: None,
        }
        return refusal(acts[verb])

    # Time and the runners

    def travel(self, seconds: int) -> None:
        self.world.traveller.shift(timedelta(seconds=seconds))

    def travel_to_next_clock(self) -> None:
        """To the very microsecond at which the next clock, or lease, is due."""
        due = StepClock.objects.filter(status="ARMED", due_at__gt=clock.now()).order_by("due_at").first()
        lease = TaskAttempt.objects.filter(status="RUNNING", lease_expires_at__gt=clock.now())
        moments = [due.due_at] if due else []
        moments += lease.order_by("lease_expires_at").values_list("lease_expires_at", flat=True)[:1]
        if moments:
            self.world.traveller.move_to(min(moments))

    def run(self, runner: str) -> None:
        """One runner, or all of them until they rest."""
        runners: dict[str, Callable[[], Any]] = {
            "consume": lambda: inbox.consume(self.flow.id),
            "adjudicate": lambda: signals.adjudicate(self.flow.id),
            "advance": lambda: schedule.advance(self.flow.id),
            "stop": lambda: stop.stop(self.flow.id),
            "clocks": self._fire_all,
            "reap": reaper.reap,
            "all": self.world.run,
        }
        runners[runner]()

    def fire_one(self, number: int) -> None:
        """Any due clock, not the first one: runners compete."""
        due = list(StepClock.objects.filter(status="ARMED", due_at__lte=clock.now()).order_by("pk"))
        if due:
            row = due[number % len(due)]
            clocks.fire(row.pk, row.instance_id)

    def _fire_all(self) -> None:
        for row in StepClock.objects.filter(status="ARMED", due_at__lte=clock.now()).order_by("due_at", "pk"):
            clocks.fire(row.pk, row.instance_id)

    # Signals, control

    def send(self, key: str, back: int, is_right: bool, is_valid: bool, source: str) -> str | None:
        steps = {row.step_key: row for row in self.leaves()}
        if key not in steps or steps[key].current_activation_id is None:
            return None
        generation = max(1, self.flow.activation(key).sequence - back)
        fields = {"correlation_key": "A-1" if is_right else "B-2", "source_key": source, "generation": generation}
        return refusal(lambda: self.flow.send(key, {"number": 1 if is_valid else "one"}, run=False, **fields))

    def control(self, act: str) -> str | None:
        return refusal(lambda: getattr(self.flow, act)(run=False))

    def cancel_task(self, number: int) -> str | None:
        keys = list(Task.objects.filter(status="QUEUED").values_list("owner_activation__step__step_key", flat=True))
        return refusal(lambda: self.flow.cancel_task(keys[number % len(keys)], run=False)) if keys else None

    # Recovery: what was decided and the code of its refusal, or None where there is nothing to decide about

    def decide_anything(self, number: int, outcome: str, answer: str, choice: int) -> tuple[str, str | None] | None:
        """One of the six on one of the targets, whether it is allowed or not."""
        steps = [step for step in self.leaves() if step.current_activation_id]
        if choice == 0 or not steps:
            return "continue", self.decide("continue", "")
        if choice == 1:
            tasks = list(Task.objects.order_by("pk"))
            if not tasks:
                return None
            return "review-task", self.decide("review-task", tasks[number % len(tasks)].pk, outcome, answer)
        step = steps[number % len(steps)]
        slugs = BY_KIND[StepKind(step.kind)]
        slug = slugs[choice % len(slugs)]
        return f"{slug} {step.step_key}", self.decide(slug, step.step_key, outcome, answer)

    def decide_what_is_allowed(
        self, number: int, outcome: str, answer: str, without: tuple[str, ...] = ()
    ) -> tuple[str, str | None] | None:
        """What the explanation offers: deep histories are made of acts that are done."""
        explained = operations.explain(self.world.operator, self.flow.id)
        offered = [option for option in explained.options if option.allowed and option.operation not in without]
        if not offered:
            return None
        option = offered[number % len(offered)]
        target = option.target.get("step_key") or option.target.get("task_id") or ""
        return f"{option.operation} {target}", self.decide(option.operation, target, outcome, answer)

    def decide(self, slug: str, target: str, outcome: str = "FAILED", answer: str = "nothing") -> str | None:
        """Commits; explanation, preview and commit have to agree. `target`: a step key, a task id, or nothing."""
        said = {
            (option.operation, option.target.get("step_key") or option.target.get("task_id") or ""): option.code
            for option in operations.explain(self.world.operator, self.flow.id).options
        }
        entered: dict[str, Any] = {}
        if slug == "review-task":
            result = ANSWERS[answer] or {"state": "done"}
            entered = {"task": Task.objects.get(pk=target), "outcome": outcome, "result": result}
        if slug == "resolve-step":
            entered = {"outcome": outcome, "output": self.output_for(self.flow.step(target), answer)}
        payload = command(self.flow, slug, "" if slug == "review-task" else target, **entered)
        shown = operations.preview(self.world.operator, slug, self.flow.id, payload)
        code = refusal(lambda: send(self.flow, slug, payload))
        assert shown.allowed == (code is None), (slug, target, shown.findings, code)
        if (slug, target) in said and code not in ENTERED:
            assert said[slug, target] == code, (slug, target, said[slug, target], code)
        return code

    def output_for(self, step: WorkflowStep, answer: str) -> Any:
        if step.kind == StepKind.SIGNAL:
            return {"number": 1}
        return None if step.kind == StepKind.TIMER else ANSWERS[answer]

    # The way out

    def bring_to_an_end(self) -> None:
        """A patient operator, workers who answer and time: whatever happened, every instance comes to its end."""
        for turn in range(60):
            self.world.run()
            status = self.flow.status
            if status in TERMINAL:
                return
            if status == InstanceStatus.NEEDS_REVIEW:
                self._end_review(turn)
                continue
            if self.flow.instance.paused:
                self.flow.resume()
            self.claim(10)
            for number in range(len(self.leases)):
                self.report(number, "succeed", "done", retryable=False)
            for row in self.leaves():
                if row.kind in (StepKind.SIGNAL, StepKind.POLL):
                    self.send(row.step_key, 0, True, True, f"end-{turn}")
            self.world.run()
            self.travel_to_next_clock()
        raise AssertionError(f"no end: {self.flow.status} {self.flow.statuses()}")

    def _end_review(self, turn: int) -> None:
        """ReviewTask, ResolveStep, Continue; and where time is over, cancel."""
        for row in TaskAttempt.objects.filter(status="RUNNING").order_by("pk"):
            number = next(n for n, lease in enumerate(self.leases) if lease.attempt.pk == row.pk)
            self.report(number, "succeed", "done", retryable=False)
        self.world.run()
        for key in Task.objects.filter(status=TaskStatus.NEEDS_REVIEW).values_list("pk", flat=True):
            assert self.decide("review-task", key) is None
            self.world.run()
        self.world.run()
        stuck = (StepStatus.NEEDS_REVIEW, StepStatus.FAILED, StepStatus.CANCELLED)
        for step in self.leaves():
            if step.status in stuck and not self._is_concluded(step):
                code = self.decide("resolve-step", step.step_key)
                if code == "EXECUTION_UNSETTLED":  # an unstarted request of a query whose time is over
                    assert self.flow.instance.stop_kind or self.control("cancel") is None
                    return
                assert code is None, (step.step_key, code)
        if (code := self.decide("continue", "")) == "DEADLINE_PASSED":
            assert self.control("cancel") is None
        else:
            assert code is None, code

    def _is_concluded(self, step: WorkflowStep) -> bool:
        return step.current_activation is not None and step.current_activation.concluded_by_id is not None


def refusal(act: Callable[[], Any]) -> str | None:
    """The code with which an act was refused, None where it was done."""
    try:
        act()
    except DomainError as error:
        return error.code
    return None
