"""The worker's loop against a server that grants, loses answers, and takes leases away."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.sdk.rude_server import LOST, Asked, Reply, RudeServer, problem
from weave_client import Client, Failed, Job, Unknown, Worker, errors

PATIENCE = 20.0
REPORTED = Reply(data={"late": False, "task_status": "SUCCEEDED"})
NOTHING = Reply(data={"tasks": []})


def lease(number: int, seconds: float = 30, handler: str = "bank.transfer") -> dict[str, Any]:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + seconds))
    task = {"id": f"t{number}", "handler": handler, "handler_version": "1", "business_key": f"order-{number}"}
    granted = {"attempt_no": 1, "lease_token": f"token-{number}", "lease_expires_at": f"{moment}.000000Z"}
    return {"task": task, "attempt": {"id": f"a{number}", **granted}, "input": {"amount": 1}}


def granted(*leases: dict[str, Any]) -> Reply:
    return Reply(data={"tasks": list(leases)})


def empty(asked: Asked) -> Reply:
    time.sleep(0.02)  # a short long poll
    return NOTHING


class Shift:
    """A worker that runs in a thread until it has reported."""

    def __init__(self, server: RudeServer, client: Client, **options: Any) -> None:
        self.server = server
        self.worker = Worker(client, "bank", "w", wait_ms=0, **options)
        self.failure: BaseException | None = None

    def handle(self, function: Callable[[Job], Any]) -> None:
        self.worker.handler("bank.transfer", "1")(function)

    def until(self, *reports: str) -> list[Asked]:
        """Runs until these paths have been asked for; answers the requests."""
        thread = threading.Thread(target=self._run)
        thread.start()
        end = time.monotonic() + PATIENCE
        while not all(path in self.server.paths() for path in reports):
            assert time.monotonic() < end, self.server.paths()
            assert self.failure is None
            time.sleep(0.01)
        self.worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        return [each for each in self.server.asked if each.path in reports]

    def _run(self) -> None:
        try:
            self.worker.run(signals=False)
        except BaseException as failure:
            self.failure = failure


@pytest.fixture(name="shift")
def _shift(server: RudeServer, client: Client) -> Shift:
    server.on("POST", "/queues/bank/claim", granted(lease(1)), empty)
    for number in (1, 2, 3):
        for verb in ("succeed", "fail", "unknown"):
            server.on("POST", f"/attempts/a{number}/{verb}", REPORTED)
    return Shift(server, client)


def body(asked: Asked) -> Any:
    return json.loads(asked.body, parse_float=Decimal)


def test_what_a_handler_returns_is_the_result_and_its_numbers_stay_exact(shift: Shift) -> None:
    shift.handle(lambda job: {"paid": Decimal("1250.10"), "key": job.business_key, "attempt": job.attempt_no})
    (report,) = shift.until("/attempts/a1/succeed")
    result = {"paid": Decimal("1250.10"), "key": "order-1", "attempt": 1}
    assert body(report) == {"lease_token": "token-1", "result": result}
    claimed = body(next(each for each in shift.server.asked if each.path.endswith("/claim")))
    assert claimed["handlers"] == [{"name": "bank.transfer", "version": "1"}]


def test_failed_and_unknown_are_reported_as_such(shift: Shift) -> None:
    def refuse(job: Job) -> Any:
        raise Failed("REFUSED", "no", retryable=True)

    shift.handle(refuse)
    (report,) = shift.until("/attempts/a1/fail")
    told = {"error_code": "REFUSED", "error_message": "no", "retryable": True}
    assert body(report) == {"lease_token": "token-1", **told}


@pytest.mark.parametrize("error", [Unknown("TIMEOUT", "no answer"), RuntimeError("a bug after the money moved")])
def test_any_other_end_of_a_handler_is_unknown_and_never_a_failure(shift: Shift, error: Exception) -> None:
    def break_down(job: Job) -> Any:
        raise error

    shift.handle(break_down)
    (report,) = shift.until("/attempts/a1/unknown")
    assert str(error) in body(report)["error_message"]


@pytest.mark.parametrize("result", [0.1, object()])
def test_a_result_that_cannot_be_kept_is_unknown(shift: Shift, result: Any) -> None:
    shift.handle(lambda job: result)
    (report,) = shift.until("/attempts/a1/unknown")
    assert body(report)["error_code"] == "RESULT_REFUSED"


def test_a_report_whose_answer_is_lost_is_sent_again(shift: Shift) -> None:
    shift.server.on("POST", "/attempts/a1/succeed", LOST, problem("BUSY", 503), REPORTED)
    shift.handle(lambda job: {"state": "done"})
    reports = shift.until("/attempts/a1/succeed")
    assert len(reports) == 3
    assert len({report.body for report in reports}) == 1


def test_a_claim_whose_answer_is_lost_is_repeated_with_its_key(shift: Shift) -> None:
    shift.server.on("POST", "/queues/bank/claim", LOST, granted(lease(1)), empty)
    shift.handle(lambda job: {})
    shift.until("/attempts/a1/succeed")
    claims = [each.key for each in shift.server.asked if each.path.endswith("/claim")]
    assert claims[0] == claims[1]
    assert claims[0] not in claims[2:]


def test_the_lease_is_kept_while_a_handler_runs_and_its_loss_is_told(shift: Shift) -> None:
    alive = Reply(data={"lease_expires_at": "2026-03-02T09:00:30.000000Z"})
    shift.server.on("POST", "/queues/bank/claim", granted(lease(1, seconds=1)), empty)
    shift.server.on("POST", "/attempts/a1/heartbeat", alive, LOST, alive, problem("STATE_CONFLICT"))
    shift.server.on("POST", "/attempts/a1/succeed", Reply(202, {"late": True, "task_status": "NEEDS_REVIEW"}))
    lost: list[bool] = []

    def hold(job: Job) -> Any:
        lost.append(job.lost.wait(PATIENCE))
        return {"state": "done"}

    shift.handle(hold)
    shift.until("/attempts/a1/succeed")
    assert lost == [True]
    assert len([path for path in shift.server.paths() if path.endswith("/heartbeat")]) == 4


def test_no_more_is_claimed_than_there_are_free_places(server: RudeServer, client: Client, shift: Shift) -> None:
    shift = Shift(server, client, max_tasks=3)
    server.on("POST", "/queues/bank/claim", granted(lease(1), lease(2)), granted(lease(3)), empty)
    together = threading.Barrier(3)
    shift.handle(lambda job: {"n": together.wait(PATIENCE)})
    shift.until(*(f"/attempts/a{number}/succeed" for number in (1, 2, 3)))
    claims = [body(each)["max_tasks"] for each in server.asked if each.path.endswith("/claim")]
    assert claims[:2] == [3, 1]


def test_sigterm_lets_what_runs_finish_and_claims_nothing_more(shift: Shift) -> None:
    before = signal.getsignal(signal.SIGTERM)
    at_the_signal: list[int] = []

    def claims() -> int:
        return len([path for path in shift.server.paths() if path.endswith("/claim")])

    def terminated(job: Job) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        assert shift.worker._stopping.wait(PATIENCE)
        at_the_signal.append(claims())
        return {"state": "done"}

    shift.handle(terminated)
    shift.worker.run()
    assert "/attempts/a1/succeed" in shift.server.paths()
    assert claims() <= at_the_signal[0] + 1  # one may have been on its way
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_worker_without_rights_ends_and_says_so(server: RudeServer, client: Client) -> None:
    server.on("POST", "/queues/bank/claim", problem("PERMISSION_DENIED", 403))
    worker = Worker(client, "bank", "w")
    worker.handler("bank.transfer", "1")(lambda job: {})
    with pytest.raises(errors.PermissionDenied):
        worker.run()


def test_a_worker_of_another_version_ends_instead_of_asking_for_ever(server: RudeServer, client: Client) -> None:
    server.version = "2"
    with pytest.raises(errors.IncompatibleServer):
        Worker(client, "bank", "w").run()


def test_a_handler_is_registered_once() -> None:
    worker = Worker(None, "bank", "w")
    register = worker.handler("bank.transfer", "1")
    register(lambda job: {})
    with pytest.raises(ValueError, match="twice"):
        register(lambda job: {})
