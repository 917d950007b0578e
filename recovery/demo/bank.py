"""The bank and what stands around it, as in-process handlers. It fails in the ways that banks do.

What it does is decided by the order and by how often it was called for a step; it counts its calls in files, because
the process that makes a call may not live to the end of it.
"""

from __future__ import annotations

import os
import re
import signal
from typing import Any

from django.conf import settings

from recovery.engine.handlers import Context, Failed, Unknown, handler

SCRIPTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("S1", "submit-transfer"): ("die",),
    ("S2", "submit-transfer"): ("refuse",),
    ("S3", "query-transfer"): ("certificate", "processing", "certificate"),
    ("S4", "query-transfer"): ("die",),
    ("S5", "query-transfer"): ("processing", "processing"),
    ("S6", "submit-transfer"): ("refuse",),
    ("S7", "submit-transfer"): ("no answer",),
    ("S11", "query-transfer"): ("certificate",),
}
"""(scenario, step) -> what the calls do, one after the other; after the last one all goes well."""


def _scripted(context: Context) -> str:
    """What this call does. The business key is the order and the step; the order ends in the scenario."""
    order, _, step = context.business_key.rpartition(":")
    scenario = re.sub(r"-[0-9]+$", "", order).rpartition("-")[2]
    folder = settings.VAR_DIR / "bank"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / re.sub(r"[^\w.-]", "_", context.business_key)).open("ab") as calls:
        calls.write(b".")
        calls.flush()
        number = calls.tell()
    script = SCRIPTS.get((scenario, step), ())
    return script[number - 1] if number <= len(script) else "well"


def _act(context: Context, answer: Any) -> Any:
    match _scripted(context):
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)  # the machine is gone, and nobody knows what the bank has seen
        case "no answer":
            raise Unknown("GATEWAY_TIMEOUT", "The bank's gateway gave no answer within 30 s.")
        case "refuse":
            raise Failed("ACCOUNT_BLOCKED", "The bank refused: the beneficiary's account is blocked for review.")
        case "certificate":
            raise Failed("CERTIFICATE_EXPIRED", "The enquiry was refused: our client certificate has expired.")
        case "processing":
            return {"state": "processing"}
    return answer


@handler("ledger.reserve", "1")
def reserve(context: Context) -> Any:
    return _act(context, {"reserved": context.input["amount"]})


@handler("bank.submit", "1")
def submit(context: Context) -> Any:
    return _act(context, {"accepted": True, "reference": f"FT-{context.business_key}"})


@handler("bank.query", "1")
def query(context: Context) -> Any:
    return _act(context, {"state": "executed", "reference": f"FT-{context.business_key}"})


@handler("mail.send", "1")
def send(context: Context) -> Any:
    return _act(context, {"sent": True})
