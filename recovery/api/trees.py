"""A published version as the tree that was published; members that were left out stay left out."""

from __future__ import annotations

from typing import Any

from recovery.definitions import Definition, Spec
from recovery.models import Queue
from recovery.states import StepKind

_NEEDED = {
    StepKind.TASK: ("handler", "handler_version", "max_attempts"),
    StepKind.POLL: ("handler", "handler_version", "max_attempts", "outcome_map", "interval_ms", "max_rounds"),
    StepKind.SIGNAL: ("signal",),
    StepKind.TIMER: ("delay_ms",),
}


def tree(definition: Definition) -> dict[str, Any]:
    """The root node. Publishing what is read here answers this very version, unless defaults were spelled out."""
    queues = dict(Queue.objects.filter(pk__in=definition.queue_ids).values_list("pk", "name"))
    nodes: dict[str, dict[str, Any]] = {}
    for key, spec in reversed(list(definition.steps.items())):  # children before their parents
        nodes[key] = _node(spec, queues) | (
            {"children": [nodes[child] for child in spec.children]} if spec.children else {}
        )
    return nodes[definition.root]


def _node(spec: Spec, queues: dict[str, str]) -> dict[str, Any]:
    node: dict[str, Any] = {"key": spec.key, "kind": spec.kind}
    if spec.queue_id is not None:
        node["queue"] = queues[spec.queue_id]
    node |= {name: getattr(spec, name) for name in _NEEDED.get(StepKind(spec.kind), ())}
    if spec.policy:
        node["policy"] = spec.policy
    if spec.is_leaf and spec.input_template != {}:
        node["input"] = spec.input_template
    if spec.kind in (StepKind.TASK, StepKind.POLL) and spec.output_contract is not True:
        node["output_contract"] = spec.output_contract
    if spec.kind == StepKind.POLL and spec.signal is not None:
        node["signal"] = spec.signal
    return node | {
        name: value
        for name, value in (("timeout_ms", spec.timeout_ms), ("total_timeout_ms", spec.total_timeout_ms))
        if value is not None
    }
