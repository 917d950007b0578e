"""How a call is delivered, without sending anything: what to send, how long to pause, when to give up.

`deliver` is a generator. It yields `Send` and gets an `Answer` or a `Lost` back; it yields `Pause` and gets nothing.
Both clients run the same generator, one with blocking calls and one with awaited ones.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from weave_client import calls
from weave_client.calls import MAJOR, ROOT, Answer, Call
from weave_client.errors import AnswerLost, Busy, IncompatibleServer, Refused, UnexpectedAnswer, Unreachable, refusal

T = TypeVar("T")

PROXY_STATUSES = frozenset({502, 503, 504})
"""What a proxy says of a server that it cannot reach or that did not answer; a Weave server says it with a code."""


@dataclass(frozen=True)
class Send:
    """`path`: from the server's address on. `seconds`: on top of the client's own patience."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    seconds: float


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Lost:
    """No answer. `was_sent`: the server may have got the request. `why`: in words."""

    was_sent: bool
    why: str


@dataclass(frozen=True)
class Retries:
    """`attempts`: how often a call is sent at most. The pauses between double from `first` up to `longest` seconds,
    each taken between half and whole at random, so that many callers do not come back at once; a Retry-After counts as
    the least. `budget`: seconds that the pauses of one call may take together.
    """

    attempts: int = 6
    first: float = 0.2
    longest: float = 5.0
    budget: float = 60.0

    def pause(self, number: int, least: float = 0.0) -> float:
        """Seconds before attempt `number` + 1, the first being 1."""
        # No secret is made of this.
        drawn: float = min(self.longest, self.first * 2 ** (number - 1)) * random.uniform(0.5, 1.0)  # noqa: S311
        return max(drawn, least)


Delivery = Generator[Send | Pause, Any, T]


def handshake(retries: Retries) -> Delivery[None]:
    """Asks the server for its version, before the first call. Raises IncompatibleServer, Unreachable."""
    # The root has no resource; its refusal names the version like every answer, and is small.
    asked: Call[None] = Call("GET", "/", lambda answer: None, is_repeatable=True)
    spent = 0.0
    for number in range(1, retries.attempts + 1):
        answer = yield _send(asked)
        if isinstance(answer, Answer) and not _is_of_a_proxy(answer):
            return _check_version(answer)
        if (seconds := retries.pause(number)) + spent > retries.budget or number == retries.attempts:
            break
        spent += seconds
        yield Pause(seconds)
    why = answer.why if isinstance(answer, Lost) else f"a proxy answered {answer.status}"
    raise Unreachable(f"The server cannot be reached: {why}.")


def deliver(call: Call[T], retries: Retries) -> Delivery[T]:
    """Sends a call until its answer is known; answers what it means.

    Repeated is only what does nothing twice: reading, keyed calls with their key, reports with their lease token,
    signals with their source key, and whatever was certainly not sent. When the answer of a call with a receipt is
    lost, the receipt is asked for first. Raises Refused, Unreachable, AnswerLost, IncompatibleServer, UnexpectedAnswer.
    """
    spent = 0.0
    # Whether some attempt so far may have had its effect: then being unreachable now says nothing about it.
    in_doubt = False
    for number in range(1, retries.attempts + 1):
        answer = yield _send(call)
        least = 0.0
        failure: Exception
        if isinstance(answer, Answer) and not _is_of_a_proxy(answer):
            failed = _refusal(answer)
            if failed is None:
                return _read(call, answer)
            if not isinstance(failed, Busy) or not call.is_repeatable:
                raise failed
            failure, least = failed, failed.retry_after or 0.0
        elif isinstance(answer, Lost) and not answer.was_sent:
            failure = (
                _lost(call, answer.why) if in_doubt else Unreachable(f"The server cannot be reached: {answer.why}.")
            )
        else:
            why = answer.why if isinstance(answer, Lost) else f"a proxy answered {answer.status}"
            in_doubt, failure = True, _lost(call, why)
            if not call.is_repeatable:
                raise failure
            if call.has_receipt:
                found = yield from _committed(call)
                if found is not None:
                    return found
        seconds = retries.pause(number, least)
        if number == retries.attempts or spent + seconds > retries.budget:
            raise failure
        spent += seconds
        yield Pause(seconds)
    raise AssertionError("at least one attempt is made")


def _committed(call: Call[T]) -> Delivery[T | None]:
    """What a call with a lost answer has committed, None where that is not known.

    A key that the caller chose may have served another command: then the call itself is repeated, and the server either
    answers the receipt again or says IDEMPOTENCY_CONFLICT.
    """
    assert call.key is not None
    if not call.is_own_key:
        return None
    answer = yield _send(calls.receipt(call.key))
    if not isinstance(answer, Answer) or answer.status != 200:
        return None
    _check_version(answer)
    return _read(call, answer)


def _send(call: Call[Any]) -> Send:
    return Send(call.method, ROOT + call.path, call.headers, call.body, call.seconds)


def _is_of_a_proxy(answer: Answer) -> bool:
    return answer.status in PROXY_STATUSES and "weave-api-version" not in answer.headers


def _check_version(answer: Answer) -> None:
    version = answer.headers.get("weave-api-version")
    if version is None:
        raise IncompatibleServer(
            f"Nothing at this address serves version {MAJOR} of the Weave API (the answer, {answer.status}, names no "
            "Weave-Api-Version). Check the address."
        )
    if version.partition(".")[0] != MAJOR:
        raise IncompatibleServer(
            f"The server speaks version {version} of the API, this client version {MAJOR}. "
            f"Install a weave-client of major version {version.partition('.')[0]}."
        )


def _lost(call: Call[Any], why: str) -> AnswerLost:
    told = f" Send it again with the key {call.key}, or read its receipt." if call.has_receipt else ""
    return AnswerLost(
        f"No answer to {call.method} {call.path}: {why}. Whether it had an effect is unknown.{told}", key=call.key
    )


def _refusal(answer: Answer) -> Refused | None:
    """Raises IncompatibleServer, UnexpectedAnswer."""
    _check_version(answer)
    if answer.status < 300:
        return None
    try:
        problem = answer.data
        assert isinstance(problem, dict)
    except (ValueError, AssertionError):
        raise UnexpectedAnswer(f"The server answered {answer.status} without a problem document.") from None
    return refusal(problem, answer.status, _seconds(answer.headers.get("retry-after")))


def _read(call: Call[T], answer: Answer) -> T:
    try:
        return call.read(answer)
    except (ValueError, LookupError, TypeError) as error:
        raise UnexpectedAnswer(f"The answer to {call.method} {call.path} cannot be read: {error!r}.") from error


def _seconds(text: str | None) -> float | None:
    try:
        return min(float(text), 60.0) if text else None
    except ValueError:
        return None
