"""A worker: claims tasks of a queue, runs handlers, keeps the leases, reports what came of it.

    worker = Worker(client, queue="bank", name="bank-1")

    @worker.handler("bank.transfer", "1")
    def transfer(job: Job) -> object:
        ...                       # what it returns is the result
        raise Failed("REFUSED", "The bank said no.")        # it has no further effect
        raise Unknown("TIMEOUT", "No answer from the bank.")  # nobody knows: a person will review it

    worker.run()                  # until SIGTERM or SIGINT, then what runs is finished

Every other exception is reported as unknown: the handler may have acted before it failed.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from weave_client.client import Client
from weave_client.errors import IncompatibleServer, Refused, WeaveError
from weave_client.shapes import Lease, Report, Row

logger = logging.getLogger("weave_client.worker")

SHORTEST_BEAT, LONGEST_BEAT = 0.2, 10.0
"""Seconds between two heartbeats of a lease; a third of the lease within these bounds."""
_MESSAGE = 1024
"""Characters of an error message that the API takes."""


class Failed(Exception):
    """The execution failed and has no further effect. `retryable`: whether trying again may help."""

    def __init__(self, error_code: str, error_message: str = "", *, retryable: bool = False) -> None:
        super().__init__(error_message or error_code)
        self.error_code, self.error_message, self.retryable = error_code, error_message, retryable


class Unknown(Exception):
    """Nobody knows what the execution did."""

    def __init__(self, error_code: str, error_message: str = "") -> None:
        super().__init__(error_message or error_code)
        self.error_code, self.error_message = error_code, error_message


@dataclass(frozen=True)
class Job:
    """What a handler gets. `lost`: set when the lease is lost; what is reported after that is kept as a fact only."""

    input: Any
    lease: Lease
    lost: threading.Event = field(default_factory=threading.Event)

    @property
    def task(self) -> Row:
        return self.lease.task

    @property
    def business_key(self) -> str | None:
        """Give it to the outside as its idempotency key."""
        key: str | None = self.task["business_key"]
        return key

    @property
    def attempt_no(self) -> int:
        return self.lease.attempt_no


Handler = Callable[[Job], Any]


class Worker:
    """`max_tasks`: how many handlers run at once; no more than that is ever claimed. `wait_ms`: of one long poll, and
    so how long a stop takes at most when nothing runs.
    """

    def __init__(self, client: Client, queue: str, name: str, *, max_tasks: int = 1, wait_ms: int = 5_000) -> None:
        self.client = client
        self.queue = queue
        self.name = name
        self.max_tasks = max_tasks
        self.wait_ms = wait_ms
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._stopping = threading.Event()

    def handler(self, name: str, version: str) -> Callable[[Handler], Handler]:
        """Registers what runs the tasks of this handler. Only tasks of registered handlers are claimed."""

        def register(function: Handler) -> Handler:
            if (name, version) in self._handlers:
                raise ValueError(f"Handler {name} {version} is registered twice.")
            self._handlers[name, version] = function
            return function

        return register

    def stop(self) -> None:
        """Claims nothing more; `run` returns when what runs has been reported."""
        self._stopping.set()

    def run(self, *, signals: bool = True) -> None:
        """Works until `stop`, SIGTERM or SIGINT. `signals`: False outside of the main thread.

        Raises what no repetition mends: a refused credential, a queue that may not be used, an incompatible server.
        """
        before = self._catch_signals() if signals else {}
        running: dict[Future[None], Job] = {}
        try:
            with ThreadPoolExecutor(self.max_tasks, thread_name_prefix="weave-handler") as pool:
                try:
                    while not self._stopping.is_set():
                        running = {future: job for future, job in running.items() if not future.done()}
                        self._claim(pool, running)
                finally:
                    wait(running)  # leases are kept up meanwhile, each by its own thread
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _catch_signals(self) -> dict[signal.Signals, Any]:
        def drain(number: int, frame: object) -> None:
            self.stop()
            signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once

        return {number: signal.signal(number, drain) for number in (signal.SIGTERM, signal.SIGINT)}

    def _claim(self, pool: ThreadPoolExecutor, running: dict[Future[None], Job]) -> None:
        free = self.max_tasks - len(running)
        if not free:
            wait(running, timeout=1.0, return_when="FIRST_COMPLETED")
            return
        asked = time.monotonic()
        try:
            leases = self.client.claim(
                self.queue,
                self.name,
                max_tasks=free,
                # While something runs, a place may become free at any moment.
                wait_ms=min(self.wait_ms, 1_000) if running else self.wait_ms,
                handlers=sorted(self._handlers),
            )
        except WeaveError as error:
            if isinstance(error, IncompatibleServer) or (isinstance(error, Refused) and error.status < 500):
                raise
            logger.warning("claiming from %s: %s", self.queue, error)
            self._stopping.wait(5.0)
            return
        for lease in leases:
            job = Job(lease.input, lease)
            running[pool.submit(self._work, job)] = job
        if not leases and time.monotonic() - asked < 0.1:
            self._stopping.wait(0.5)  # too many wait at the server already, so it answered at once

    def _work(self, job: Job) -> None:
        done = threading.Event()
        beating = threading.Thread(target=self._beat, args=(job, done), daemon=True, name="weave-heartbeat")
        beating.start()
        try:
            report = self._run_handler(job)
        finally:
            done.set()
            beating.join()
        self._tell(job, report)

    def _run_handler(self, job: Job) -> Callable[[], Report]:
        """Runs the handler; answers how to report what came of it."""
        attempt, token = job.lease.attempt_id, job.lease.lease_token
        try:
            result = self._handlers[job.task["handler"], job.task["handler_version"]](job)
        except Failed as failed:
            said = {"error_code": failed.error_code, "error_message": failed.error_message[:_MESSAGE]}
            retryable = failed.retryable
            return lambda: self.client.fail(attempt, token, **said, retryable=retryable)
        except Unknown as unknown:
            return self._unknown(job, unknown.error_code, unknown.error_message)
        except Exception as error:
            logger.exception("handler of attempt %s", attempt)
            return self._unknown(job, "HANDLER_ERROR", f"{type(error).__name__}: {error}")
        return lambda: self.client.succeed(attempt, token, result)

    def _unknown(self, job: Job, error_code: str, error_message: str) -> Callable[[], Report]:
        attempt, token, message = (
            job.lease.attempt_id,
            job.lease.lease_token,
            error_message.replace("\0", "")[:_MESSAGE],
        )
        return lambda: self.client.unknown(attempt, token, error_code=error_code, error_message=message)

    def _tell(self, job: Job, report: Callable[[], Report]) -> None:
        try:
            try:
                said = report()
            except (TypeError, Refused) as refused:
                if isinstance(refused, Refused) and refused.status not in (413, 422):
                    raise
                # It acted, but what it answered cannot be kept: a person has to look.
                logger.error("the result of attempt %s cannot be reported: %s", job.lease.attempt_id, refused)
                said = self._unknown(job, "RESULT_REFUSED", str(refused))()
            if said.late:
                logger.warning("the report of attempt %s came late and is kept as a fact only", job.lease.attempt_id)
        except WeaveError:
            # Its lease will be lost, and a person will look: nothing is claimed to be known.
            logger.exception("attempt %s could not be reported", job.lease.attempt_id)

    def _beat(self, job: Job, done: threading.Event) -> None:
        lease = job.lease
        seconds = LONGEST_BEAT if lease.seconds is None else lease.seconds
        pause = min(max(seconds / 3, SHORTEST_BEAT), LONGEST_BEAT)
        while not done.wait(pause):
            try:
                self.client.heartbeat(lease.attempt_id, lease.lease_token)
            except Refused as refused:
                if refused.status < 500:
                    logger.warning("the lease of attempt %s is lost: %s", lease.attempt_id, refused)
                    job.lost.set()
                    return
            except WeaveError as error:
                logger.warning("heartbeat of attempt %s: %s", lease.attempt_id, error)
