"""The one formatter of times: the reader's zone, its offset, UTC behind it; and how durations are said."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from recovery import clock


@lru_cache(maxsize=1)
def zone_names() -> tuple[str, ...]:
    """The names a reader may choose from, UTC first."""
    names = sorted(name for name in zoneinfo.available_timezones() if "/" in name and not name.startswith("Etc/"))
    return ("UTC", *names)


def zone(name: str) -> zoneinfo.ZoneInfo:
    """The zone of that name, UTC for a name that does not exist."""
    return zoneinfo.ZoneInfo(name if name in zone_names() else "UTC")


def offset(moment: datetime) -> str:
    """How far the reader's zone is from UTC at that moment: `+08:00`, or `UTC` where it is not."""
    text = timezone.localtime(moment).strftime("%z")
    return "UTC" if text == "+0000" and timezone.get_current_timezone_name() == "UTC" else f"{text[:3]}:{text[3:]}"


def utc(moment: datetime) -> str:
    """The whole fact, for titles, receipts and paper."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def words(moment: datetime, *, dated: bool = False) -> str:
    """The time of day; with its date when that is not today's, or when asked for."""
    there = timezone.localtime(moment)
    if dated:
        return date_format(there, pgettext("format of a date and time", "j M Y, H:i:s"))
    if there.date() != timezone.localtime(clock.now()).date():
        return date_format(there, pgettext("format of a day and time", "j M, H:i:s"))
    return there.strftime("%H:%M:%S")


def element(moment: datetime | None, style: str = "") -> SafeString:
    """A `<time>`. Styles: "" (the heading says the offset), "zone" (with the offset), "full" (date and offset)."""
    if moment is None:
        return SafeString("")
    tail = format_html('<span class="tz">{}</span>', offset(moment)) if style else ""
    return format_html(
        '<time datetime="{}" title="{}">{}{}</time>',
        moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        utc(moment),
        words(moment, dated=style == "full"),
        tail,
    )


def counted(span: timedelta) -> str:
    """Time on a clock: `38:24`, `1:12:09`, from two days on `3 d 4 h`."""
    seconds = int(abs(span).total_seconds())
    if seconds >= 2 * 86400:
        return _("%(days)d d %(hours)d h") % {"days": seconds // 86400, "hours": seconds % 86400 // 3600}
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


def lasted(span: timedelta) -> str:
    """A duration in words, two units at most: `2 s`, `30 min`, `1 h 02 min`, `3 d 4 h`."""
    seconds = abs(span).total_seconds()
    if seconds < 1:
        return _("%(count)d ms") % {"count": round(seconds * 1000)}
    if seconds < 120:
        return _("%(count)d s") % {"count": seconds}
    if seconds < 3600:
        return _("%(count)d min") % {"count": seconds // 60}
    hours, minutes = divmod(int(seconds) // 60, 60)
    if hours >= 48:
        return _("%(days)d d %(hours)d h") % {"days": hours // 24, "hours": hours % 24}
    if not minutes:
        return _("%(count)d h") % {"count": hours}
    return _("%(hours)d h %(minutes)02d min") % {"hours": hours, "minutes": minutes}


def left(until: datetime, now: datetime) -> str:
    """What a deadline leaves: `38:24`, or `12:41 ago`."""
    if until <= now:
        return _("%(time)s ago") % {"time": counted(now - until)}
    return counted(until - now)


NEAR = timedelta(hours=1)
"""A deadline this close is drawn red."""
