"""Guessing passwords is slow: after ten failures in a quarter of an hour nobody is asked for a while.

Counted by user name and address together, so that nobody can lock somebody else out from another address.
"""

from __future__ import annotations

import hashlib
import unicodedata
from datetime import datetime, timedelta

from recovery import clock
from recovery.models import SignInFailure

FAILURES = 10
WINDOW = timedelta(minutes=15)


def blocked_until(username: str, address: str) -> datetime | None:
    """When this name may be tried again from this address; None: now."""
    recent = SignInFailure.objects.filter(who=_who(username, address), failed_at__gt=clock.now() - WINDOW)
    times = list(recent.order_by("-failed_at").values_list("failed_at", flat=True)[:FAILURES])
    return times[-1] + WINDOW if len(times) == FAILURES else None


def failed(username: str, address: str) -> None:
    """Counts one failure, and forgets those of anybody that count no more."""
    now = clock.now()
    SignInFailure.objects.filter(failed_at__lte=now - WINDOW).delete()
    SignInFailure.objects.create(who=_who(username, address), failed_at=now)


def succeeded(username: str, address: str) -> None:
    """Whoever knows the password has not been guessing."""
    SignInFailure.objects.filter(who=_who(username, address)).delete()


def _who(username: str, address: str) -> str:
    # As the form reads a name; its other spellings lead to the same account and must not count apart.
    name = unicodedata.normalize("NFKC", username).strip().casefold()
    return hashlib.sha256(f"{address}\n{name}".encode("utf-8", "replace")).hexdigest()
