"""The only source of "now". The served product has no switch for it; tests travel with time-machine."""

from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """The present moment: aware, UTC, microseconds."""
    return datetime.now(UTC)


def milliseconds(count: int) -> timedelta:
    """Every duration of a definition is a whole number of milliseconds."""
    return timedelta(milliseconds=count)
