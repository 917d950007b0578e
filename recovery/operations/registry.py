"""The six, by the word that stands in URLs."""

from recovery.operations import (
    continue_instance,
    continue_poll,
    rearm_wait,
    resolve_step,
    retry_step,
    review_task,
)
from recovery.operations.base import Operation

REGISTRY: dict[str, Operation] = {
    module.OPERATION.slug: module.OPERATION
    for module in (review_task, resolve_step, continue_poll, rearm_wait, retry_step, continue_instance)
}
