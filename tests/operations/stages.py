"""For each of the six operations, an instance that is ready for it, made by the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.recovering import recover
from tests.support.trees import parallel, poll, receipt, sequence, signal, task
from tests.support.world import Flow, World

PENDING = {"state": "processing"}


def unknown_task(world: World, *siblings: Any) -> Flow:
    flow = world.start(sequence(parallel(task("it"), *siblings, key="all"), task("notify", queue="mail")))
    world.unknown(_lease_of(world, flow))
    return flow


def failed_task(world: World, *siblings: Any) -> Flow:
    flow = world.start(sequence(parallel(task("it"), *siblings, key="all"), task("notify", queue="mail")))
    world.fail(_lease_of(world, flow))
    return flow


def failed_query(world: World, *siblings: Any) -> Flow:
    """With a final signal: the retry that writes most."""
    query = poll("it", signal=receipt())
    flow = world.start(sequence(parallel(query, *siblings, key="all"), task("notify", queue="mail")))
    world.fail(_lease_of(world, flow))
    return flow


def pending_query(world: World, *siblings: Any) -> Flow:
    query = poll("it", signal=receipt())
    flow = world.start(sequence(parallel(query, *siblings, key="all"), task("notify", queue="mail")))
    world.unknown(_lease_of(world, flow))
    recover(flow, "review-task", "it", result=PENDING)
    return flow


def open_wait(world: World, *siblings: Any) -> Flow:
    both = parallel(signal("it"), task("trouble"), *siblings, key="all")
    flow = world.start(sequence(both, task("notify", queue="mail")))
    world.fail(_lease_of(world, flow, "trouble"))
    return flow


def resolved(world: World, *siblings: Any) -> Flow:
    flow = failed_task(world, *siblings)
    recover(flow, "resolve-step", "it")
    return flow


def _lease_of(world: World, flow: Flow, key: str = "it") -> Any:
    """Claims everything and answers the lease of one step's task; the siblings go on running."""
    wanted = flow.task(key).pk
    return next(lease for lease in world.claim_all() if lease.task.pk == wanted)


Stage = Callable[..., Flow]

STAGES: list[tuple[str, str, Stage]] = [
    ("review-task", "it", unknown_task),
    ("resolve-step", "it", failed_task),
    ("continue-poll", "it", pending_query),
    ("rearm-wait", "it", open_wait),
    ("retry-step", "it", failed_task),
    ("retry-step", "it", failed_query),
    ("continue", "", resolved),
]
"""(operation, target, how to get there). The operation is allowed there with the command that `recovering` fills in."""

NAMES = [f"{slug}-{stage.__name__}" for slug, _target, stage in STAGES]
