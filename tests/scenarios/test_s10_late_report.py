"""S10: a worker whose lease was lost reports after a person has decided."""

from __future__ import annotations

import pytest

from recovery.models import TaskResult
from tests.support.recovering import recover
from tests.support.trees import sequence, task
from tests.support.world import World


@pytest.mark.rule("B9", "B4", "RT3", "RY7")
def test_a_late_report_is_kept_once_and_changes_nothing_else(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("notify", queue="mail")))
    lease = world.claim()
    world.lose_lease(lease)
    recover(flow, "review-task", "pay", outcome="FAILED", result={"why": "never arrived"})
    recover(flow, "retry-step", "pay")
    old, new = flow.tasks("pay")
    revision, old_revision = flow.instance.revision, old.revision

    said = world.succeed(lease, {"state": "done"})
    assert said.late
    again = world.succeed(lease, {"state": "done"})
    assert again.late
    late = TaskResult.objects.filter(task=old, source="LATE")
    assert late.count() == 1
    assert [row.disposition for row in flow.inbox()][-1] == "STALE_ACTIVATION"
    assert flow.instance.revision == revision + 1
    kept, untouched = flow.tasks("pay")
    assert (kept.status, kept.revision) == ("FAILED", old_revision + 1)
    assert (untouched.status, untouched.revision) == (new.status, new.revision)
    recover(flow, "continue")
    world.succeed(world.claim())
    world.succeed(world.claim("mail"))
    assert flow.status == "SUCCEEDED"
