"""A bounded round through what is due, in which what fails hides nothing behind it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

logger = logging.getLogger(__name__)

LOOKAHEAD = 10
"""So many times the limit are looked at: of them, all but the limit may fail or be somebody else's meanwhile."""


def settle(what: str, rows: QuerySet[Any], one: Callable[[Any], bool], limit: int) -> int:
    """Calls `one` with each row in their order until it has settled `limit` of them; answers how many.

    One that raises is logged as `what` and left to the next round.
    """
    settled = 0
    for row in list(rows[: limit * LOOKAHEAD]):
        if settled == limit:
            break
        try:
            settled += one(row)
        except Exception:
            logger.exception("The %s %s could not be settled; the next sweep tries again.", what, row)
    return settled
