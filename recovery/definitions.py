"""Published definitions as immutable values, kept in memory: a version never changes once it is published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from recovery.models import DefinitionVersion, StepDefinition
from recovery.states import LEAVES


@dataclass(frozen=True)
class Spec:
    """One pinned step. Fields as in StepDefinition; `children` are the keys of its children in order."""

    key: str
    kind: str
    parent: str | None
    children: tuple[str, ...]
    queue_id: str | None
    handler: str
    handler_version: str
    max_attempts: int
    policy: Mapping[str, Any]
    input_template: Any
    output_contract: Any
    outcome_map: Mapping[str, Any] | None
    interval_ms: int
    max_rounds: int
    timeout_ms: int | None
    total_timeout_ms: int | None
    delay_ms: int
    signal: Mapping[str, Any] | None

    @property
    def is_leaf(self) -> bool:
        return self.kind in LEAVES

    @property
    def priority(self) -> int:
        return int(self.policy.get("priority", 0))

    @property
    def task_policy(self) -> dict[str, Any]:
        """The part of the policy that is pinned on each task: which errors are retried, and after how long."""
        return {name: self.policy[name] for name in ("retryable_errors", "backoff_ms") if name in self.policy}

    @property
    def fails_workflow(self) -> bool:
        """`on_failure: FAIL` (B3)."""
        return self.policy.get("on_failure", "REVIEW") == "FAIL"


@dataclass(frozen=True)
class Definition:
    """One version. `steps` in tree order (parents first); `quota_ids`: its queues' QueueQuota keys, ascending (G7)."""

    version_id: str
    definition_id: str
    namespace_id: str
    name: str
    version: int
    max_duration_ms: int
    input_schema: Any
    graph_digest: str
    root: str
    steps: Mapping[str, Spec]
    queue_ids: tuple[str, ...]
    quota_ids: tuple[str, ...]

    def leaves(self) -> Iterator[Spec]:
        return (spec for spec in self.steps.values() if spec.is_leaf)


@lru_cache(maxsize=512)
def load(version_id: str) -> Definition:
    """The version with that id, from memory or in two statements. Raises DefinitionVersion.DoesNotExist."""
    version = DefinitionVersion.objects.select_related("definition").get(pk=version_id)
    steps_of = StepDefinition.objects.filter(definition_version_id=version_id).select_related("queue__queuequota")
    rows = list(steps_of.order_by("position", "step_key"))
    # The same queues as the version's DefinitionQueue rows: publishing writes both, `manage.py verify` compares them.
    quotas = sorted({(row.queue.queuequota.pk, row.queue.pk) for row in rows if row.queue})
    children: dict[str | None, list[StepDefinition]] = {}
    for row in rows:
        children.setdefault(row.parent_key, []).append(row)
    steps: dict[str, Spec] = {}
    stack = list(children.get(None, []))
    root = stack[0].step_key
    while stack:
        row = stack.pop(0)
        below = children.get(row.step_key, [])
        steps[row.step_key] = _spec(row, tuple(child.step_key for child in below))
        stack = below + stack
    return Definition(
        version_id=version.pk,
        definition_id=version.definition_id,
        namespace_id=version.definition.namespace_id,
        name=version.definition.name,
        version=version.version,
        max_duration_ms=version.max_duration_ms,
        input_schema=version.input_schema,
        graph_digest=version.graph_digest,
        root=root,
        steps=steps,
        queue_ids=tuple(sorted(queue_id for _quota, queue_id in quotas)),
        quota_ids=tuple(quota for quota, _queue in quotas),
    )


def _spec(row: StepDefinition, children: tuple[str, ...]) -> Spec:
    return Spec(
        key=row.step_key,
        kind=row.kind,
        parent=row.parent_key,
        children=children,
        queue_id=row.queue_id,
        handler=row.handler,
        handler_version=row.handler_version,
        max_attempts=row.max_attempts or 0,
        policy=row.policy or {},
        input_template=row.input_template,
        output_contract=row.output_contract,
        outcome_map=row.outcome_map,
        interval_ms=row.interval_ms or 0,
        max_rounds=row.max_rounds or 0,
        timeout_ms=row.timeout_ms,
        total_timeout_ms=row.total_timeout_ms,
        delay_ms=row.delay_ms or 0,
        signal=row.signal_contract,
    )
