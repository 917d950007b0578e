"""Handlers for tests, as a project would write them. The input says what one does: `{"do": "answer", ...}`."""

import os
import threading
from pathlib import Path
from typing import Any

from recovery.engine.handlers import Context, Failed, Unknown, handler

QUEUE, NAME, VERSION = "bank", "bank.transfer", "1"

running = threading.Event()
"""A handler that waits has begun."""
go_on = threading.Event()
"""It may end."""


@handler(NAME, VERSION)
def transfer(context: Context) -> Any:
    order = context.input
    match order.get("do", "answer"):
        case "answer":
            return order.get("answer", {"state": "done"})
        case "describe":
            return {"task": context.task_id, "attempt": context.attempt_no, "key": context.business_key, "rate": 0.1}
        case "fail":
            raise Failed("REFUSED", order.get("message", "the bank said no"), retryable=order.get("retryable", False))
        case "doubt":
            raise Unknown("TIMEOUT", "no answer")
        case "raise":
            raise LookupError(order.get("message", "a fault of the code"))
        case "answer nonsense":
            return object()
        case "answer not a number":
            return float("nan")
        case "fail without a code":
            raise Failed("")
        case "wait":
            running.set()
            go_on.wait(timeout=60)
            return {"until": context.heartbeat().isoformat()}
        case "count in a file and hang":
            with Path(order["file"]).open("a") as file:
                file.write(f"{os.getpid()}\n")
            threading.Event().wait()
            return None
        case "count in a file":
            with Path(order["file"]).open("a") as file:
                file.write(f"{context.task_id}\n")
            return {"state": "done"}
        case unheard:
            raise AssertionError(unheard)
