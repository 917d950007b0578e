"""The schema of a definition document, with the limits of the code that checks it."""

from __future__ import annotations

from recovery.api.schemas.words import ANY, Schema, label, listed, name, ref, shape, text, whole
from recovery.engine.document import MAX_ATTEMPTS, MAX_KEY, MAX_MS, MAX_ROUNDS, MAX_STEPS
from recovery.states import StepKind

_MS = whole(1, MAX_MS, description="Milliseconds.")
_CONTRACT: Schema = {
    "type": ["object", "boolean"],
    "description": "A JSON Schema (2020-12) that refers to nothing outside of itself.",
}
_POINTER = text(1024, description="A JSON Pointer (RFC 6901).", pattern="^(/([^~]|~[01])*)?$")
_TEMPLATE: Schema = {
    "description": 'JSON in which {"$from": pointer} is replaced at activation, where pointer is '
    '"/instance/input/..." or "/steps/<key>/output/..." of a step that comes earlier.',
}
_KEY_TEMPLATE: Schema = {
    "anyOf": [label(MAX_KEY), shape({"$from": _POINTER}, closed=True)],
    "description": "A text, or where to find it.",
}
_POLICY = shape(
    {
        "on_failure": {"type": "string", "enum": ["REVIEW", "FAIL"], "default": "REVIEW"},
        "retryable_errors": listed(label(64), maxItems=100, description="Without it, what the worker says."),
        "backoff_ms": whole(0, MAX_MS, default=0),
        "priority": whole(-(2**31), 2**31 - 1, default=0, description="The larger, the earlier."),
        "business_key": _KEY_TEMPLATE,
        "concurrency_key": _KEY_TEMPLATE,
        "latest_start_ms": _MS,
    },
    optional=(
        "on_failure",
        "retryable_errors",
        "backoff_ms",
        "priority",
        "business_key",
        "concurrency_key",
        "latest_start_ms",
    ),
    closed=True,
)
_OUTCOME_MAP = shape(
    {
        "pointer": _POINTER,
        "PENDING": listed(ANY, maxItems=MAX_STEPS),
        "SUCCEEDED": listed(ANY, minItems=1, maxItems=MAX_STEPS),
        "FAILED": listed(ANY, maxItems=MAX_STEPS),
    },
    optional=("PENDING", "FAILED"),
    closed=True,
    description="Which answers mean what; no answer has two meanings.",
)
_SIGNAL = shape(
    {"name": label(128), "schema": _CONTRACT, "correlation": _KEY_TEMPLATE},
    closed=True,
)
_WORK: dict[str, Schema] = {
    "queue": label(64),
    "handler": label(128),
    "handler_version": label(32),
    "max_attempts": whole(1, MAX_ATTEMPTS, description="Of a task; of a POLL, in each round."),
}
_COMMON: dict[str, Schema] = {
    "policy": _POLICY,
    "input": _TEMPLATE,
    "output_contract": _CONTRACT,
    "timeout_ms": _MS,
}
# No maxItems: the limit is the whole tree's, and what tries every limit would build trees of such lists.
_CHILDREN = {"children": listed(ref("Node"), minItems=1, description=f"At most {MAX_STEPS} steps in the tree.")}


def _node(kind: StepKind, required: dict[str, Schema], optional: dict[str, Schema]) -> Schema:
    head = {"key": name(), "kind": {"const": kind.value}}
    return shape({**head, **required, **optional}, optional=tuple(optional), closed=True)


COMPONENTS: dict[str, Schema] = {
    "Node": {
        "oneOf": [
            _node(StepKind.SEQUENCE, _CHILDREN, {}),
            _node(StepKind.PARALLEL, _CHILDREN, {}),
            _node(StepKind.TASK, _WORK, _COMMON),
            _node(
                StepKind.POLL,
                {
                    **_WORK,
                    "outcome_map": _OUTCOME_MAP,
                    "interval_ms": _MS,
                    "max_rounds": whole(1, MAX_ROUNDS),
                    "total_timeout_ms": _MS,
                },
                {**_COMMON, "signal": _SIGNAL},
            ),
            _node(StepKind.SIGNAL, {"signal": _SIGNAL}, {"input": _TEMPLATE, "total_timeout_ms": _MS}),
            _node(StepKind.TIMER, {"delay_ms": _MS}, {"input": _TEMPLATE}),
        ],
        "description": f"One step. Keys are unique in the tree, which has at most {MAX_STEPS} steps.",
    },
    "Definition": shape(
        {"name": label(128), "input_schema": _CONTRACT, "max_duration_ms": _MS, "root": ref("Node")}, closed=True
    ),
}
