"""The story: five transfers go wrong, and an operator brings each to an end. Everything is said through the SDK.

It walks S1 to S4 and S11 against a running server that was provisioned with provision.json:

    WEAVE_URL=... WEAVE_TOKEN=... WEAVE_WORKER_TOKEN=... python examples/bank_transfer/story.py

Exit status: 0 everything came out as told, 1 something did not. `run.py` does all of it with one command.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import weave_client
from flows import ADVICE, DEFINITIONS
from weave_client import (
    Client,
    Command,
    Continue,
    ContinuePoll,
    Receipt,
    ResolveStep,
    RetryStep,
    ReviewTask,
    Row,
    audit,
    new_key,
    of_instance,
    of_step,
    of_task,
)
from weave_client.errors import (
    BudgetExhausted,
    Conflict,
    InboxUnsettled,
    OutcomeNotAccepted,
    RevisionConflict,
    RoundAlreadyPending,
    WeaveError,
)

HERE = Path(__file__).resolve().parent
PATIENCE = 90.0
"""Seconds for anything that the engine does by itself; it takes one or two."""
PROCESSING, DONE = {"state": "processing"}, {"state": "done"}


class Wrong(Exception):
    """Something came out otherwise than the story says."""


def check(holds: bool, sentence: str) -> None:
    if not holds:
        raise Wrong(sentence)


def until(what: str, look: Callable[[], Any]) -> Any:
    """What `look` answers as soon as it is true. Raises Wrong when that takes too long."""
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > end:
            raise Wrong(f"Waited {PATIENCE:.0f} s in vain: {what}.")
        time.sleep(0.1)
    return found


class Bank:
    """The bank's process, and the desk where its advices arrive."""

    def __init__(self) -> None:
        self.advices: queue.Queue[dict[str, Any]] = queue.Queue()
        advices = self.advices

        class Desk(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                advices.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.desk = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
        threading.Thread(target=self.desk.serve_forever, daemon=True).start()
        callback = f"http://127.0.0.1:{self.desk.server_port}/"
        command = [sys.executable, str(HERE / "bank.py"), callback]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        check(bool(self.url), "The bank did not open.")

    def booked(self, order: str) -> list[Any]:
        with urllib.request.urlopen(f"{self.url}/ledger", timeout=10) as answer:
            return [booking for booking in json.loads(answer.read())["bookings"] if booking["order"] == order]

    def send_advices(self) -> None:
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/advices", b"{}"), timeout=30):
            pass

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate()
        self.desk.shutdown()
        self.desk.server_close()


class Crew:
    """The worker's process. It may be killed, and another one started."""

    def __init__(self, url: str, token: str, bank: Bank) -> None:
        path = os.pathsep.join(
            [str(Path(weave_client.__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
        )
        self._env = os.environ | {"WEAVE_URL": url, "WEAVE_TOKEN": token, "BANK_URL": bank.url, "PYTHONPATH": path}
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, str(HERE / "worker.py")], env=self._env)

    def kill_and_replace(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def close(self) -> int:
        """Lets it finish what it has; its exit status."""
        self.process.terminate()
        try:
            return self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Transfer:
    """One instance, as its operator sees it. Every look asks again."""

    def __init__(self, client: Client, scenario: str) -> None:
        self.client = client
        self.order = f"{scenario}-{new_key()[:8]}"
        definition = DEFINITIONS[scenario]
        client.publish(definition)
        given = {"order": self.order, "amount": Decimal("1250.10")}
        self.id = str(client.start("desk", definition["name"], self.order, given)["instance_id"])

    @property
    def state(self) -> Row:
        return self.client.instance(self.id)

    def step(self, key: str) -> Row:
        return next(step for step in self.state["steps"] if step["step_key"] == key)

    def rows(self, name: str) -> list[Row]:
        return list(self.client.history_of(self.id, name))

    def tasks(self, key: str) -> list[Row]:
        """The tasks of a step, the oldest first."""
        step_id = self.step(key)["id"]
        owners = {row["id"] for row in self.rows("activations") if row["step_id"] == step_id}
        return [row for row in self.rows("tasks") if row["owner_activation_id"] in owners]

    def await_status(self, status: str) -> Row:
        def look() -> Row | None:
            state = self.state
            return state if state["status"] == status else None

        found: Row = until(f"{self.order} to be {status}", look)
        return found

    def decide(self, make: Callable[[Row], Command]) -> Receipt:
        """Commits what is made of the newest state; what the engine records meanwhile is read, and it is made again."""

        def attempt() -> Receipt | None:
            try:
                return self.client.recover(self.id, make(self.state))
            except (InboxUnsettled, RevisionConflict):
                return None

        receipt: Receipt = until(f"the inbox of {self.order} to be settled", attempt)
        return receipt

    def refused(self, error: type[Conflict], make: Callable[[Row], Command]) -> None:
        """Checks that the server refuses, and why."""
        try:
            self.decide(make)
        except error:
            return
        except Conflict as other:
            raise Wrong(f"{self.order}: refused with {other.code} instead of {error.code}.") from other
        raise Wrong(f"{self.order}: not refused with {error.code}.")

    def review(self, key: str, result: Any) -> Receipt:
        return self.decide(
            lambda state: ReviewTask(
                **of_task(state, self.tasks(key)[-1]),
                **self.said(),
                execution_settled=True,
                outcome="SUCCEEDED",
                result=result,
            )
        )

    def resolution(self, state: Row, key: str, output: Any, outcome: Any = "SUCCEEDED") -> Command:
        return ResolveStep(**of_step(state, key), **self.said(), execution_settled=True, outcome=outcome, output=output)

    def retrial(self, state: Row, key: str) -> Command:
        return RetryStep(**of_step(state, key), **self.said(), safe_to_retry=True)

    def go_on(self) -> Receipt:
        return self.decide(lambda state: Continue(**of_instance(state), **self.said(), review_resolved=True))

    def said(self) -> dict[str, str]:
        return {"reason": "The bank's ledger was read.", "evidence_ref": f"bank-ledger:{self.order}"}

    def check_audit(self) -> int:
        """Hashes the audit entries again; how many there are."""
        state = self.state
        entries = list(self.client.audit(self.id))
        problems = audit.verify(state, entries)
        check(not problems, " ".join(problems))
        return len(entries)


Say = Callable[[str], None]


def s1(client: Client, bank: Bank, crew: Crew, say: Say) -> Transfer:
    say("S1  The money moves, and the worker dies before it hears of it.")
    run = Transfer(client, "S1")
    until("the bank to book", lambda: bank.booked(run.order))
    crew.kill_and_replace()
    say("    The bank has booked the transfer. The worker was killed while it waited for the answer.")
    state = run.await_status("NEEDS_REVIEW")
    check(state["gate"]["state"] == "CLOSED", "S1: the gate is open during a review.")
    reference = bank.booked(run.order)[0]["reference"]
    say(f"    Its lease ran out: effect unknown, review. The ledger lists the transfer once, {reference}.")
    answer = {"state": "booked", "reference": reference}
    run.review("transfer", answer)
    stale = state
    try:
        client.recover(run.id, run.resolution(stale, "transfer", answer))
        raise Wrong("S1: a decision on old facts was accepted.")
    except RevisionConflict as conflict:
        say(
            "    ReviewTask: it succeeded. Deciding on old facts is refused; "
            f"the revision is {conflict.current['revision']} now."
        )
    run.decide(lambda state: run.resolution(state, "transfer", answer))
    run.go_on()
    run.await_status("SUCCEEDED")
    attempts = [row["status"] for row in run.rows("attempts")]
    check(attempts == ["UNKNOWN", "SUCCEEDED"], f"S1: the attempts are {attempts}.")
    dispositions = {row["disposition"] for row in run.rows("inbox")}
    check("STEP_ALREADY_SETTLED" in dispositions, f"S1: the inbox says {dispositions}.")
    check(len(bank.booked(run.order)) == 1, "S1: the money moved twice.")
    say("    ResolveStep, Continue: the customer was notified, the instance succeeded. The money moved once,")
    say("    and the attempt still says that it was unknown.")
    return run


def s2(client: Client, bank: Bank, crew: Crew, say: Say) -> Transfer:
    say("S2  The bank refuses, again and again.")
    run = Transfer(client, "S2")
    for left in (2, 1):
        run.await_status("NEEDS_REVIEW")
        run.decide(lambda state: run.retrial(state, "transfer"))
        first, task = run.tasks("transfer")[0], run.tasks("transfer")[-1]
        check(task["max_attempts"] == left, f"S2: {task['max_attempts']} attempts instead of {left}.")
        check(task["deadline_at"] == first["deadline_at"], "S2: a retry got more time.")
        check(task["status"] == "QUEUED", "S2: a retry ran before Continue.")
        say(f"    Refused: the account is blocked. RetryStep, with {left} of 3 attempts left; Continue.")
        run.go_on()
    run.await_status("NEEDS_REVIEW")
    run.refused(BudgetExhausted, lambda state: run.retrial(state, "transfer"))
    say("    Refused a third time. A fourth try is refused by Weave: no attempts are left.")
    run.decide(lambda state: run.resolution(state, "transfer", {"state": "refused"}, "FAILED"))
    run.go_on()
    run.await_status("FAILED")
    check(not bank.booked(run.order), "S2: money moved.")
    say("    ResolveStep says failed, Continue: the instance failed in order, and no money moved.")
    return run


def s3(client: Client, bank: Bank, crew: Crew, say: Say) -> Transfer:
    say("S3  Three rounds of an enquiry, with three attempts each; twice the certificate has expired.")
    run = Transfer(client, "S3")
    for number in (1, 2):
        run.await_status("NEEDS_REVIEW")
        run.decide(lambda state: run.retrial(state, "enquiry"))
        say(f"    Round {number} failed. RetryStep asks in the same round again, with 2 attempts; Continue.")
        run.go_on()
    run.await_status("SUCCEEDED")
    tasks = run.tasks("enquiry")
    allowed = [task["max_attempts"] for task in tasks]
    check(allowed == [3, 2, 3, 2], f"S3: attempts allowed {allowed}.")
    for first, retry in ((tasks[0], tasks[1]), (tasks[2], tasks[3])):
        check(retry["retry_of_id"] == first["id"], "S3: a retry does not name what it repeats.")
        check(retry["deadline_at"] == first["deadline_at"], "S3: a retry got more time.")
    check(tasks[2]["retry_of_id"] is None, "S3: a new round is no retry.")
    order = {row["id"]: row["sequence"] for row in run.rows("activations")}
    states = sorted(run.rows("poll_states"), key=lambda row: order[row["activation_id"]])
    carried = [(row["first_round"], row["first_round_attempts_used"]) for row in states]
    check(carried == [(1, 0), (1, 1), (2, 1)], f"S3: carried over {carried}.")
    say("    The rounds allowed 3, 2, 3 and 2 attempts: what was used stayed used. The bank says done.")
    return run


def s4(client: Client, bank: Bank, crew: Crew, say: Say) -> Transfer:
    say("S4  An enquiry times out; by telephone the bank says: still processing.")
    run = Transfer(client, "S4")
    state = run.await_status("NEEDS_REVIEW")
    check(state["review_reason"] == "EXECUTION_UNKNOWN", f"S4: in review for {state['review_reason']}.")
    run.review("enquiry", PROCESSING)
    run.refused(OutcomeNotAccepted, lambda state: run.resolution(state, "enquiry", PROCESSING))
    run.refused(RoundAlreadyPending, lambda state: run.retrial(state, "enquiry"))
    say("    ReviewTask: it answered processing. That is no end, so ResolveStep is refused, and so is RetryStep.")
    receipt = run.decide(lambda state: ContinuePoll(**of_step(state, "enquiry"), **run.said(), pending_confirmed=True))
    say(f"    ContinuePoll: the next round at {receipt['effects']['poll']['next_poll_at']}; Continue.")
    run.go_on()
    run.await_status("SUCCEEDED")
    rounds = [row["outcome"] for row in run.rows("rounds")]
    check(rounds == ["UNKNOWN", "SUCCEEDED"], f"S4: the rounds are {rounds}.")
    say("    The clock opened round 2, and the bank said done.")
    return run


def s11(client: Client, bank: Bank, crew: Crew, say: Say) -> Transfer:
    say("S11 The bank's advice comes late, twice, and for an enquiry that was given up.")
    run = Transfer(client, "S11")
    run.await_status("NEEDS_REVIEW")
    run.decide(lambda state: run.retrial(state, "enquiry"))
    bank.send_advices()
    sent = [_forward(run, _next_advice(run, bank)) for _time in range(2)]
    check(sent[0]["id"] == sent[1]["id"], "S11: an advice that came twice was kept twice.")
    say("    RetryStep made generation 2. Now the advice for generation 1 arrives, two times: kept once,")
    check(_adjudicated(run, sent[0]) == "STALE_ACTIVATION", "S11: an advice for an old generation was used.")
    again = run.client.signal(run.id, **_advice(run, sent[0], generation=2))
    check(_adjudicated(run, again) == "MATCHED", "S11: the advice did not settle the enquiry.")
    say("    and rejected, for its activation is history. Sent for generation 2 it settles the enquiry.")
    check(run.step("enquiry")["output"] == {"number": 1}, "S11: the step's output is not the advice.")
    run.go_on()
    run.await_status("SUCCEEDED")
    say("    Continue: notified, succeeded, and the bank was not asked again.")
    return run


def _next_advice(run: Transfer, bank: Bank) -> dict[str, Any]:
    """The bank advises the other transfers too; the desk has settled those without it."""
    while True:
        try:
            advice = bank.advices.get(timeout=PATIENCE)
        except queue.Empty:
            raise Wrong(f"The bank sent no advice of {run.order}.") from None
        if advice["order"] == run.order:
            return advice


def _forward(run: Transfer, advice: dict[str, Any]) -> Row:
    """Sends an advice to the generation whose enquiry it names."""
    generation = next(row["sequence"] for row in run.rows("activations") if row["id"] == advice["enquiry"])
    check(generation == 1, "S11: the advice names another enquiry.")
    fields = {"source_key": advice["advice"], "payload": {"number": advice["number"]}}
    return run.client.signal(run.id, **_advice(run, fields, generation=generation))


def _advice(run: Transfer, fields: Row, *, generation: int) -> dict[str, Any]:
    name, order = str(ADVICE["name"]), run.order
    kept = {"source_key": fields["source_key"], "payload": fields["payload"]}
    return {"step_key": "enquiry", "generation": generation, "name": name, "correlation_key": order, **kept}


def _adjudicated(run: Transfer, signal: Row) -> str:
    """The disposition of a signal, once it has one."""

    def look() -> str | None:
        row = next(row for row in run.rows("signals") if row["id"] == signal["id"])
        return row["disposition"] if row["status"] != "PENDING" else None

    return str(until("a signal to be adjudicated", look))


SCENARIOS = (s1, s2, s3, s4, s11)


@contextmanager
def _around(url: str, worker_token: str) -> Iterator[tuple[Bank, Crew]]:
    bank = Bank()
    try:
        crew = Crew(url, worker_token, bank)
        try:
            yield bank, crew
        finally:
            status = crew.close()
        check(status == 0, f"The worker ended with {status} instead of finishing its work.")
    finally:
        bank.close()


def tell(url: str, operator_token: str, worker_token: str, say: Say = print) -> None:
    """Walks the scenarios. `url`: of the server; the tokens as `manage.py provision` printed them.

    Raises Wrong, and what the SDK raises.
    """
    with _around(url, worker_token) as (bank, crew), Client(url, operator_token) as client:
        for scenario in SCENARIOS:
            run = scenario(client, bank, crew, say)
            say(f"    {run.check_audit()} audit entries; hashed again here, the chain is whole.")
            say("")


def main() -> int:
    try:
        tell(os.environ["WEAVE_URL"], os.environ["WEAVE_TOKEN"], os.environ["WEAVE_WORKER_TOKEN"])
    except (Wrong, WeaveError) as failure:
        print(f"It came out otherwise: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
