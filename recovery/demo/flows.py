"""The definitions that the demo publishes: payouts of a supplier, as a payments desk would write them."""

from __future__ import annotations

from typing import Any

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000

Node = dict[str, Any]

INPUT = {
    "type": "object",
    "required": ["order", "amount", "currency", "beneficiary"],
    "properties": {
        "order": {"type": "string"},
        "amount": {"type": "string", "pattern": "^[0-9]+\\.[0-9]{2}$"},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "beneficiary": {"type": "string"},
    },
}
STATES = {
    "pointer": "/state",
    "PENDING": ["accepted", "processing"],
    "SUCCEEDED": ["executed"],
    "FAILED": ["rejected", "returned"],
}
STATED = {"type": "object", "required": ["state"], "properties": {"state": {"type": "string"}}}
ADVICE = {
    "name": "clearing-advice",
    "schema": {"type": "object", "required": ["reference"], "properties": {"reference": {"type": "string"}}},
    "correlation": {"$from": "/instance/input/order"},
}


def work(key: str, queue: str, handler: str, **fields: Any) -> Node:
    return {
        "key": key,
        "kind": "TASK",
        "queue": queue,
        "handler": handler,
        "handler_version": "1",
        "max_attempts": 3,
        "timeout_ms": 2 * HOUR,
        "input": {"$from": "/instance/input"},
        **fields,
    }


def reserve() -> Node:
    return work("reserve-funds", "ledger", "ledger.reserve")


def submit(key: str = "submit-transfer", queue: str = "bank-submit", **fields: Any) -> Node:
    policy = {"concurrency_key": {"$from": "/instance/input/order"}, "backoff_ms": 2 * SECOND}
    return work(key, queue, "bank.submit", **{"policy": policy, **fields})


def query(**fields: Any) -> Node:
    node = work("query-transfer", "bank-query", "bank.query", timeout_ms=90 * MINUTE)
    limits = {"interval_ms": 20 * SECOND, "max_rounds": 3, "total_timeout_ms": 150 * MINUTE}
    return node | {"kind": "POLL", "outcome_map": STATES, "output_contract": STATED} | limits | fields


def advice(**fields: Any) -> Node:
    return {"key": "await-clearing-advice", "kind": "SIGNAL", "signal": ADVICE, "total_timeout_ms": 3 * HOUR} | fields


def notify() -> Node:
    return work("notify-supplier", "mail", "mail.send", max_attempts=5)


def payout(*middle: Node) -> Node:
    return {"key": "payout", "kind": "SEQUENCE", "children": [reserve(), *middle, notify()]}


def beside(*branches: Node) -> Node:
    return {"key": "checks", "kind": "PARALLEL", "children": list(branches)}


FLOWS: dict[str, Node] = {
    "supplier-payout": payout(submit()),
    "supplier-payout-tracked": payout(query()),
    "supplier-payout-two-rounds": payout(query(max_rounds=2, interval_ms=4 * SECOND)),
    "supplier-payout-advised": payout(beside(advice(), submit())),
    "supplier-payout-cooling-off": payout(
        beside({"key": "cooling-off", "kind": "TIMER", "delay_ms": 10 * MINUTE}, submit())
    ),
    "supplier-payout-branch": payout(submit(queue="branch")),
    "supplier-payout-final-advice": payout(query(signal=ADVICE)),
    "supplier-payout-split": payout(
        # Without a concurrency key: the parts of one order go out side by side.
        beside(*(submit(f"transfer-part-{part}", queue="branch", policy={}) for part in ("a", "b", "c")))
    ),
}
"""Definition name -> tree."""


def document(name: str) -> Node:
    return {"name": name, "input_schema": INPUT, "max_duration_ms": 4 * HOUR, "root": FLOWS[name]}
