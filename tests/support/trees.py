"""Short ways to write a definition's tree. Every field can be overridden by its name in the contract."""

from typing import Any

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

Node = dict[str, Any]


def sequence(*children: Node, key: str = "root") -> Node:
    return {"key": key, "kind": "SEQUENCE", "children": list(children)}


def parallel(*children: Node, key: str = "root") -> Node:
    return {"key": key, "kind": "PARALLEL", "children": list(children)}


def task(key: str, **fields: Any) -> Node:
    """At most 3 attempts, no deadline, failures go to review."""
    return {"key": key, "kind": "TASK", **_WORK, **fields}


def poll(key: str, **fields: Any) -> Node:
    """At most 3 rounds of 3 attempts, a minute apart, within an hour; the answer is under /state."""
    outcomes = {"pointer": "/state", "PENDING": ["processing"], "SUCCEEDED": ["done"], "FAILED": ["rejected"]}
    limits = {"interval_ms": MINUTE, "max_rounds": 3, "timeout_ms": 10 * MINUTE, "total_timeout_ms": HOUR}
    return {"key": key, "kind": "POLL", **_WORK, "outcome_map": outcomes, **limits, **fields}


def signal(key: str, **fields: Any) -> Node:
    """Waits an hour for a receipt of the order."""
    return {"key": key, "kind": "SIGNAL", "signal": receipt(), "total_timeout_ms": HOUR, **fields}


def timer(key: str, **fields: Any) -> Node:
    """Ten minutes."""
    return {"key": key, "kind": "TIMER", "delay_ms": 10 * MINUTE, **fields}


def receipt(**fields: Any) -> Node:
    """The signal contract of `signal`: named receipt, correlated by the order's number, with a number inside."""
    schema = {"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}}
    return {"name": "receipt", "schema": schema, "correlation": {"$from": "/instance/input/order"}, **fields}


_WORK: Node = {"queue": "bank", "handler": "bank.transfer", "handler_version": "1", "max_attempts": 3}
