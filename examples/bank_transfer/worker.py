"""The worker that talks to the bank: three handlers and the SDK's loop. It stops on SIGTERM when its work is done."""

from __future__ import annotations

import json
import logging
import os
import urllib.error
import urllib.request
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from weave_client import Client, Failed, Job, Unknown, Worker

BANK = os.environ["BANK_URL"]

worker = Worker(
    Client(os.environ["WEAVE_URL"], os.environ["WEAVE_TOKEN"]),
    queue="bank",
    name="bank-worker",
    max_tasks=4,
    wait_ms=2000,
)


def ask(path: str, body: Any = None, *, patience: float) -> Any:
    """Asks the bank. Raises Failed where it has surely done nothing, Unknown where it may have acted."""
    content = None if body is None else json.dumps(body, default=str).encode()
    request = urllib.request.Request(f"{BANK}{path}", content, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=patience) as answer:
            return json.loads(answer.read(), parse_float=Decimal)
    except urllib.error.HTTPError as refusal:
        with refusal:
            raise Failed(json.loads(refusal.read())["error"], f"The bank refused with {refusal.code}.") from None
    except OSError as silence:
        raise Unknown("NO_ANSWER", f"The bank gave no answer within {patience} s: {silence}.") from None


@worker.handler("bank.transfer", "1")
def transfer(job: Job) -> Any:
    # The order is the bank's own idempotency key: asked twice, it books once.
    return ask("/transfers", {"order": job.input["order"], "amount": job.input["amount"]}, patience=15)


@worker.handler("bank.enquire", "1")
def enquire(job: Job) -> Any:
    # The bank's advice will name the enquiry that it answers, and so the activation.
    order, tag = quote(job.input["order"]), quote(job.task["owner_activation_id"])
    return ask(f"/transfers/{order}?enquiry={tag}", patience=1)


@worker.handler("mail.send", "1")
def send(job: Job) -> Any:
    return {"sent": True}


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("weave_client").setLevel(logging.INFO)
    worker.run()
