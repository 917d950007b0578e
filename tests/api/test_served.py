"""The served product in processes of its own, reached over a real network connection by plain HTTP."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from recovery import permissions
from recovery.receipts import new_key
from tests.api.callers import Answer, Caller
from tests.api.desk import PENDING, Desk, Run
from tests.support.stack import ROOT, environment, running_stack
from tests.support.trees import SECOND, poll, sequence, task
from tests.support.workers import until
from tests.support.world import OPERATOR

CALLERS = 64
OPERATORS = "oncall"


@dataclass
class Connected(Caller):
    """A caller with a connection of its own for each call."""

    address: str = ""

    def send(self, method: str, url: str, content: bytes, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=60)
        try:
            connection.request(method, url, body=content or None, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()


@dataclass
class ServedDesk(Desk):
    """`after` waits until the runners of the product have nothing left to do for any instance."""

    runs: list[Run] = field(default_factory=list)

    def start(self, root: Any, **more: Any) -> Run:
        run = super().start(root, **more, run=False)
        self.runs.append(run)
        self.settle()
        return run

    def settle(self) -> None:
        until(lambda: not any(self._owes(run) for run in self.runs))

    def _owes(self, run: Run) -> bool:
        lists = {"inbox": "PENDING", "continuations": "PENDING", "signals": "PENDING"}
        return any(row["status"] == status for name, status in lists.items() for row in run.history(name))


@dataclass(frozen=True)
class Served:
    desk: ServedDesk
    provision: Callable[..., Any]


def document(rights: list[str]) -> dict[str, Any]:
    """One namespace; the queues' leases are short, so that losing one takes no time."""
    queues = [{"name": name, "lease_ms": 1500, "max_open_tasks": 100, "max_running": 50} for name in ("bank", "mail")]
    names = [queue["name"] for queue in queues]
    return {
        "groups": [{"name": OPERATORS}],
        "users": [{"username": "olivia", "groups": [OPERATORS]}, {"username": "robot", "groups": []}],
        "namespaces": [
            {
                "name": "pay",
                "display_name": "Payments",
                "applications": [{"name": "desk", "max_open_tasks": 100, "max_open_instances": 100}],
                "queues": queues,
                "grants": [
                    {"to": {"group": OPERATORS}, "permissions": rights, "queues": names, "reason": "on call"},
                    {"to": {"user": "robot"}, "permissions": ["tasks:work"], "queues": names, "reason": "works"},
                ],
                "credentials": [{"user": "olivia", "label": "desk"}, {"user": "robot", "label": "worker"}],
            }
        ],
    }


@pytest.fixture(name="served")
def _served(tmp_path: Path, stack_database: str) -> Iterator[Served]:
    env = {"DATABASE_URL": stack_database}

    def provision(rights: list[str], *options: str) -> Any:
        ran = subprocess.run(
            [sys.executable, "manage.py", "provision", "-", *options],
            cwd=ROOT,
            env=environment(tmp_path, **env),
            input=json.dumps(document(rights)),
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(ran.stdout)["credentials"] if ran.stdout else []

    with running_stack(tmp_path, env=env) as (_process, address):
        tokens = {each["user"]: each["token"] for each in provision(OPERATOR)}
        people = {name: Connected(token, address=address) for name, token in tokens.items()}
        desk = ServedDesk(people["olivia"], people["robot"])
        desk.after = desk.settle
        yield Served(desk, provision)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.rule("RT3", "RS1", "CO2", "CP4", "B2")
def test_s1_and_s4_are_walked_through_a_served_product(served: Served) -> None:
    desk = served.desk
    run = desk.start(sequence(task("pay", max_attempts=3), task("notify", queue="mail")))
    (lease,) = desk.claim_all(wait_ms=20_000)
    until(lambda: run.status == "NEEDS_REVIEW")
    run.recover("review-task", "pay")
    run.recover("resolve-step", "pay")
    run.recover("continue")
    assert desk.succeed(lease)["late"] is True
    (notify,) = desk.claim_all("mail", wait_ms=20_000)
    desk.succeed(notify)
    assert run.status == "SUCCEEDED"
    assert run.dispositions() == ["REVIEW_RAISED", "STEP_ALREADY_SETTLED", "STEP_ALREADY_SETTLED", "ADVANCED"]

    limits = {"interval_ms": 2 * SECOND, "timeout_ms": 60 * SECOND, "total_timeout_ms": 120 * SECOND}
    run = desk.start(sequence(poll("query", **limits)))
    desk.unknown(desk.claim())
    run.recover("review-task", "query", result=PENDING)
    run.refused("ROUND_ALREADY_PENDING", "retry-step", "query")
    run.recover("continue-poll", "query")
    confirmed = moment(run.results("query")[-1]["recorded_at"])
    planned = moment(run.history("poll_states")[0]["next_poll_at"])
    assert planned == confirmed + timedelta(seconds=2)
    run.recover("continue")
    (lease,) = desk.claim_all(wait_ms=20_000)
    assert moment(lease["task"]["created_at"]) >= planned
    desk.succeed(lease)
    assert run.status == "SUCCEEDED"


@pytest.mark.rule("G2", "G4", "G5")
def test_s13_many_callers_at_once(served: Served) -> None:
    desk = served.desk
    run = desk.start(sequence(task("pay"), task("notify", queue="mail")))
    desk.fail(desk.claim())
    path, command = f"{run.path}/recovery/resolve-step", run.command("resolve-step", "pay")

    answers = together(desk.operator, path, [(command, "the-key")] * CALLERS)
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert sum(not answer.is_replay for answer in answers) == 1
    audit = desk.operator.all_pages(f"{run.path}/audit")
    assert [entry["action"] for entry in audit].count("resolve_step") == 1

    path, command = f"{run.path}/recovery/continue", run.command("continue")
    answers = together(desk.operator, path, [(command, new_key()) for _caller in range(CALLERS)])
    assert Counter(answer.code for answer in answers) == {"": 1, "REVISION_CONFLICT": CALLERS - 1}

    again = desk.start(sequence(task("pay")))
    desk.fail(desk.claim())
    path, command = f"{again.path}/recovery/retry-step", again.command("retry-step", "pay")
    answers = together(desk.operator, path, [(command, "one"), (command | {"reason": "Another."}, "one")])
    assert Counter(answer.code for answer in answers) == {"": 1, "IDEMPOTENCY_CONFLICT": 1}

    served.provision([right for right in OPERATOR if right != permissions.RECOVER], "--prune")
    refused = desk.operator.post(f"{run.path}/recovery/resolve-step", command, key="the-key")
    assert refused.code == "PERMISSION_DENIED"
    assert desk.operator.get("/operations/the-key").code == "PERMISSION_DENIED"


def together(by: Caller, path: str, calls: list[tuple[Any, str]]) -> list[Answer]:
    """All calls at once; one that the database was too busy for is repeated with its key, as its answer says."""

    def call(command: Any, key: str) -> Answer:
        while (answer := by.post(path, command, key=key)).status == 503:
            assert answer.headers["Retry-After"]
        return answer

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda given: call(*given), calls))
