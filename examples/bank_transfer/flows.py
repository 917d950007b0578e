"""The definitions of the example. Durations are seconds, so that the story is short."""

from __future__ import annotations

from typing import Any

SECOND, MINUTE = 1_000, 60_000

ADVICE = {
    "name": "advice",
    "schema": {"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}},
    "correlation": {"$from": "/instance/input/order"},
}


def _work(key: str, kind: str, handler: str, **fields: Any) -> dict[str, Any]:
    node = {"key": key, "kind": kind, "queue": "bank", "handler": handler, "handler_version": "1", "max_attempts": 3}
    return node | {"timeout_ms": 2 * MINUTE, "input": {"$from": "/instance/input"}} | fields


def _transfer() -> dict[str, Any]:
    return _work("transfer", "TASK", "bank.transfer")


def _enquiry(**fields: Any) -> dict[str, Any]:
    outcomes = {"pointer": "/state", "PENDING": ["processing"], "SUCCEEDED": ["done"], "FAILED": ["rejected"]}
    limits = {"interval_ms": SECOND, "max_rounds": 3, "total_timeout_ms": 5 * MINUTE}
    return _work("enquiry", "POLL", "bank.enquire", outcome_map=outcomes, **limits) | fields


def _definition(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
    notify = _work("notify", "TASK", "mail.send")
    return {
        "name": name,
        "input_schema": {"type": "object", "required": ["order", "amount"]},
        "max_duration_ms": 10 * MINUTE,
        "root": {"key": "root", "kind": "SEQUENCE", "children": [*steps, notify]},
    }


DEFINITIONS = {
    "S1": _definition("transfer", _transfer()),
    "S2": _definition("transfer", _transfer()),
    "S3": _definition("enquiry", _enquiry()),
    "S4": _definition("enquiry-once", _enquiry(max_attempts=1)),
    "S11": _definition("enquiry-with-advice", _enquiry(signal=ADVICE)),
}
"""Scenario -> definition."""
