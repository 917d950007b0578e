"""One instance as its operator and its worker see it over HTTP: what is read, decided and reported goes that way.

`after` runs once each thing was done: in a test of one process it is the engine's runners, against a served product it
waits until they have had their turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recovery.receipts import new_key
from tests.api.callers import Answer, Caller, caller
from tests.support.trees import HOUR, Node
from tests.support.world import World

_numbers = itertools.count(1)

STATEMENTS = {
    "review-task": "execution_settled",
    "resolve-step": "execution_settled",
    "continue-poll": "pending_confirmed",
    "rearm-wait": "wait_verified",
    "retry-step": "safe_to_retry",
    "continue": "review_resolved",
}
PENDING = {"state": "processing"}


@dataclass
class Desk:
    """The people of one namespace, and the outside."""

    operator: Caller
    worker: Caller
    after: Callable[[], object] = field(default=lambda: None)

    def publish(self, root: Node, *, max_duration_ms: int = 24 * HOUR, input_schema: Any = True) -> str:
        """The definition's name."""
        name = f"flow-{new_key()}"
        document = {"name": name, "input_schema": input_schema, "max_duration_ms": max_duration_ms, "root": root}
        assert self.operator.post("/definitions", document).status == 201
        return name

    def start(self, root: Node, *, input: Any = None, run: bool = True, **published: Any) -> Run:
        body = {
            "application": "desk",
            "definition": self.publish(root, **published),
            "business_key": f"order-{new_key()}",
            "input": {"order": "A-1"} if input is None else input,
        }
        answer = self.operator.post("/instances", body)
        assert answer.status == 201, answer.body
        return self.then(Run(self, answer["instance_id"]), run)

    def claim_all(self, queue: str = "bank", *, max_tasks: int = 100, **more: Any) -> list[dict[str, Any]]:
        body = {"worker": "worker-1", "max_tasks": max_tasks, **more}
        return self.worker.post(f"/queues/{queue}/claim", body, key=None)["tasks"]

    def claim(self, queue: str = "bank") -> dict[str, Any]:
        """The one task that a worker gets now."""
        leases = self.claim_all(queue, max_tasks=1)
        assert leases, f"nothing to claim on {queue}"
        return leases[0]

    def report(self, lease: dict[str, Any], verb: str, run: bool = True, **said: Any) -> Answer:
        attempt = lease["attempt"]
        body = {"lease_token": attempt["lease_token"], **said}
        return self.then(self.worker.post(f"/attempts/{attempt['id']}/{verb}", body, key=None), run)

    def succeed(self, lease: dict[str, Any], result: Any = None) -> Answer:
        return self.report(lease, "succeed", result={"state": "done"} if result is None else result)

    def fail(self, lease: dict[str, Any]) -> Answer:
        said = {"error_code": "REFUSED", "error_message": "the bank said no", "retryable": False}
        return self.report(lease, "fail", **said)

    def unknown(self, lease: dict[str, Any]) -> Answer:
        return self.report(lease, "unknown", error_code="TIMEOUT", error_message="no answer")

    def then(self, answer: Any, run: bool = True) -> Any:
        if run:
            self.after()
        return answer


@dataclass(frozen=True)
class Run:
    """One instance; every look asks again."""

    desk: Desk
    id: str

    @property
    def path(self) -> str:
        return f"/instances/{self.id}"

    @property
    def state(self) -> Any:
        answer = self.desk.operator.get(self.path)
        assert answer.status == 200, answer.body
        return answer.data

    @property
    def status(self) -> str:
        return self.state["status"]

    @property
    def gate(self) -> str:
        return self.state["gate"]["state"]

    def step(self, key: str) -> Any:
        return next(step for step in self.state["steps"] if step["step_key"] == key)

    def history(self, name: str) -> list[Any]:
        return self.desk.operator.all_pages(f"{self.path}/history/{name}")

    def activations(self, key: str) -> list[Any]:
        step_id = self.step(key)["id"]
        rows = [row for row in self.history("activations") if row["step_id"] == step_id]
        return sorted(rows, key=lambda row: row["sequence"])

    def of_step(self, name: str, key: str) -> list[Any]:
        """The rows of a history list that belong to a step, by the sequence of their activation."""
        order = {row["id"]: row["sequence"] for row in self.activations(key)}
        column = "owner_activation_id" if name == "tasks" else "activation_id"
        rows = [row for row in self.history(name) if row[column] in order]
        return sorted(rows, key=lambda row: order[row[column]])

    def tasks(self, key: str) -> list[Any]:
        return self.of_step("tasks", key)

    def task(self, key: str) -> Any:
        return self.tasks(key)[-1]

    def results(self, key: str) -> list[Any]:
        """Of the step's last task, by revision."""
        task_id = self.task(key)["id"]
        rows = [row for row in self.history("results") if row["task_id"] == task_id]
        return sorted(rows, key=lambda row: int(row["task_revision"]))

    def dispositions(self) -> list[str]:
        """Of the inbox, in the order of the stream."""
        place = {row["id"]: row["offset"] for row in self.history("events")}
        rows = sorted(self.history("inbox"), key=lambda row: place[row["result_event_id"]])
        return [row["disposition"] for row in rows]

    def command(self, slug: str, target: str = "", **entered: Any) -> dict[str, Any]:
        """A command as an operator fills it in who has just read the instance."""
        body = {
            "expected_revision": self.state["revision"],
            "reason": "The bank portal was read.",
            "evidence_ref": "bank-portal:FT26333",
            STATEMENTS[slug]: True,
        }
        if slug == "review-task":
            task = entered.pop("task", None) or self.task(target)
            body |= {"task_id": task["id"], "expected_task_revision": task["revision"]}
            body |= {"outcome": "SUCCEEDED", "result": {"state": "done"}}
        elif slug != "continue":
            step = self.step(target)
            body |= {"step_key": target, "expected_step_revision": step["revision"]}
            body["activation_id"] = step["current_activation_id"]
        if slug == "resolve-step":
            body |= {"outcome": "SUCCEEDED", "output": {"state": "done"}}
        return body | entered

    def recover(self, slug: str, target: str = "", *, run: bool = True, **entered: Any) -> Answer:
        answer = self.desk.operator.post(f"{self.path}/recovery/{slug}", self.command(slug, target, **entered))
        assert answer.status == 200, answer.body
        return self.desk.then(answer, run)

    def refused(self, code: str, slug: str, target: str = "", **entered: Any) -> Answer:
        """Asserts the refusal, that the dry run says the same, and that nothing has changed."""
        before, command = self.state, self.command(slug, target, **entered)
        path = f"{self.path}/recovery/{slug}"
        tried = self.desk.operator.post(path, command, key=None, dry_run="true")
        assert (tried["allowed"], tried["changes"], tried["created"]) == (False, [], [])
        answer = self.desk.operator.post(path, command)
        assert (answer.status, answer.code) == (409, code), answer.body
        assert answer["findings"] == [found for found in tried["findings"] if found["holds"] is False]
        assert self.state == before
        return answer

    def control(self, verb: str) -> Answer:
        body = {"expected_control_revision": self.state["control_revision"], "reason": "asked by the desk"}
        answer = self.desk.operator.post(f"{self.path}/{verb}", body)
        assert answer.status == 200, answer.body
        return self.desk.then(answer)

    def cancel_task(self, key: str) -> Answer:
        task = self.task(key)
        body = {"expected_task_revision": task["revision"], "reason": "not needed"}
        answer = self.desk.operator.post(f"/tasks/{task['id']}/cancel", body)
        assert (answer.status, answer["status"]) == (200, "CANCELLED"), answer.body
        return self.desk.then(answer)

    def send(self, key: str, generation: int, *, run: bool = True, **fields: Any) -> Any:
        """Sends a receipt; answers its row as it is after the runners had their turn."""
        body = {
            "step_key": key,
            "generation": generation,
            "name": "receipt",
            "correlation_key": "A-1",
            "source_key": f"source-{next(_numbers)}",
            "payload": {"number": 1},
            **fields,
        }
        answer = self.desk.operator.post(f"{self.path}/signals", body, key=None)
        assert answer.status == 202, answer.body
        self.desk.then(None, run)
        return next(row for row in self.history("signals") if row["id"] == answer["id"])


def desk_of(world: World) -> Desk:
    """The desk of a world in this process; the runners follow everything that is done."""
    return Desk(caller(world, world.operator), caller(world, world.worker), world.run)
