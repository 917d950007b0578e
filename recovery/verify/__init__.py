"""The invariants of the whole system, checked over stored rows alone.

Each check is small and has a name; it answers the rows that break it. Nothing is written, and nothing is locked.
"""

from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from recovery.verify import (  # noqa: F401 - they register their checks
    counters,
    deadlines,
    decisions,
    evidence,
    gates,
    history,
    stream,
)
from recovery.verify.base import CHECKS, MOST, Check, Result, Scope, Violation

__all__ = ["CHECKS", "MOST", "NOT_SEEN", "Check", "Result", "Scope", "Violation", "verify"]

NOT_SEEN = (
    _("That a repeated key was answered with the same bytes: only that its receipt is there and fits its operation."),
    _("That a refusal wrote nothing: only that no key was claimed without a receipt."),
    _("Whether a gate was closed when an attempt began is judged by times; machines' clocks may differ by a second."),
    _("A chain that somebody who may write to every table has cut, hashed and anchored anew."),
)
"""What nobody can see in the rows afterwards."""


def verify(scope: Scope = Scope(), *, deep: bool = False) -> Iterator[Result]:  # noqa: B008 - immutable
    """Looks at everything in the scope, one check after the other. `deep`: also with those that take long."""
    for check in CHECKS.values():
        if deep or not check.deep:
            yield check.look(scope)
