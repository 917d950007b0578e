"""Marks and values as every page draws them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import simplejson
from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from recovery import exact_json
from recovery.case import TaskCase
from recovery.console import times, words
from recovery.console.presenters import options

register = template.Library()

JSON_CAP = 4096
"""Characters of a JSON value that a page shows; the rest is behind a link."""

HTMX = exact_json.dumps(
    {
        "includeIndicatorStyles": False,
        "allowEval": False,
        "historyCacheSize": 0,
        "historyRestoreAsHxRequest": False,
        "responseHandling": [
            {"code": "204", "swap": False},
            {"code": "[23]..", "swap": True},
            # A refusal is a page as well: a person who was denied something sees which right is missing.
            {"code": "(403|404|409|422|503)", "swap": True, "error": False},
            {"code": "[45]..", "swap": False, "error": True},
        ],
    }
)


@register.simple_tag
def htmx_config() -> SafeString:
    """What lets htmx work under a policy without eval and without inline styles."""
    return format_html('<meta name="htmx-config" content="{}">', HTMX)


@register.simple_tag
def moment(value: datetime | None, style: str = "") -> SafeString:
    return times.element(value, style)


@register.simple_tag
def moment_text(value: datetime) -> str:
    """A time where no element can stand: in titles of pages and drawings."""
    return f"{times.words(value, dated=True)} {times.offset(value)}"


@register.filter
def left(until: datetime, now: datetime) -> str:
    return times.left(until, now)


@register.filter
def seconds_left(until: datetime, now: datetime) -> int:
    return int((until - now).total_seconds())


@register.filter
def is_near(until: datetime, now: datetime) -> bool:
    return until - now < times.NEAR


@register.filter
def since(start: datetime, now: datetime) -> str:
    return times.lasted(now - start)


@register.filter
def lasted(span: timedelta | None) -> str:
    return "" if span is None else times.lasted(span)


@register.filter
def milliseconds(count: int | None) -> str:
    return "" if count is None else times.lasted(timedelta(milliseconds=count))


@register.filter
def utc(value: datetime) -> str:
    return times.utc(value)


@register.simple_tag
def icon(name: str, css: str = "ic") -> SafeString:
    return format_html('<svg class="{}" aria-hidden="true"><use href="#i-{}"/></svg>', css, name)


@register.simple_tag
def mark(drawn: words.Mark) -> SafeString:
    """Shape and word of a status."""
    return format_html('<span class="st {}">{}<span>{}</span></span>', drawn.css, icon(drawn.icon), drawn.word)


@register.simple_tag
def status(kind: str, value: str) -> SafeString:
    return mark(words.mark(kind, value))


@register.simple_tag
def state_word(kind: str, value: str) -> Any:
    return words.label(kind, value)


PIPS = {"FAILED": "f", "UNKNOWN": "u", "SUCCEEDED": "s", "RUNNING": "l", "CANCELLED": "x"}

MANY_PIPS = 12
"""A budget larger than this is only said in words."""


@register.simple_tag
def pips(attempts: list[str], allowed: int) -> SafeString:
    """A budget: one square for each attempt, by its status, and one for each that is left."""
    if max(allowed, len(attempts)) > MANY_PIPS:
        return SafeString("")
    squares = [PIPS.get(status, "l") for status in attempts] + ["l"] * (allowed - len(attempts))
    drawn = format_html_join(
        "", '<svg class="{}" aria-hidden="true"><use href="#p-{}"/></svg>', ((square, square) for square in squares)
    )
    label = ngettext("%(used)d of %(allowed)d attempt used", "%(used)d of %(allowed)d attempts used", allowed) % {
        "used": len(attempts),
        "allowed": allowed,
    }
    return format_html('<span class="pips" role="img" aria-label="{}">{}</span>', label, drawn)


@register.simple_tag
def task_pips(task: TaskCase) -> SafeString:
    return pips([attempt.status for attempt in task.attempts], task.row.max_attempts)


@register.inclusion_tag("console/_cover.html")
def cover(rounds: Sequence[tuple[int, bool]]) -> dict[str, Any]:
    """Which business rounds an activation covers, one box each."""
    boxes = [(26 * place + 0.5, 26 * place + 12.5, number, inside) for place, (number, inside) in enumerate(rounds)]
    covered = ", ".join(str(number) for number, inside in rounds if inside)
    return {"boxes": boxes, "width": 26 * len(boxes), "covered": covered}


@register.filter
def attempts_left(count: int) -> str:
    if count <= 0:
        return _("none left")
    return ngettext("%(count)d attempt left", "%(count)d attempts left", count) % {"count": count}


@register.simple_tag
def short(identifier: str | None) -> SafeString:
    """The end of an identifier, with the whole behind it. Never on a receipt or in a form field."""
    if not identifier:
        return SafeString("")
    shown = f"…{identifier[-6:]}" if len(identifier) > 12 else identifier
    return format_html('<code class="id nowrap" title="{}">{}</code>', identifier, shown)


@register.simple_tag
def digest(value: str) -> SafeString:
    return format_html('<code class="id nowrap" title="sha256 {}">{}…{}</code>', value, value[:6], value[-4:])


@register.filter
def timed(sentence: Any) -> SafeString:
    """A sentence of the domain with its times in the reader's zone."""
    return options.timed(sentence)


_IDENTIFIER = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(r"(?:\d+:)?([0-9a-f]{64})")


@register.simple_tag
def brief(value: Any) -> SafeString | str:
    """A stored value in a table of rows: identifiers and digests cut, with the whole behind them."""
    if isinstance(value, str) and _IDENTIFIER.fullmatch(value):
        return short(value)
    if isinstance(value, str) and (found := _DIGEST.fullmatch(value)):
        return digest(found[1])
    return options.timed(shown(value))


@register.filter
def shown(value: Any) -> str:
    """One stored value in a row of a preview or an audit: text as it is, JSON in short."""
    if value is None:
        return _("none")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, datetime):
        return f"{times.words(value)} {times.offset(value)}"
    text = value if isinstance(value, str) else exact_json.dumps(value) if _is_json(value) else str(value)
    return text if len(text) <= 120 else f"{text[:119]}…"


def _is_json(value: Any) -> bool:
    return isinstance(value, dict | list)


@register.inclusion_tag("console/_json.html")
def json_value(value: Any, link: str = "") -> dict[str, Any]:
    """A JSON value, every number as exact as it is stored; cut to JSON_CAP with its digest and a link to the whole."""
    text = simplejson.dumps(value, use_decimal=True, indent=2, ensure_ascii=False)
    return {
        "text": text[:JSON_CAP],
        "is_cut": len(text) > JSON_CAP,
        "size": len(exact_json.dumps(value)),
        "cap": JSON_CAP,
        "digest": exact_json.digest(value),
        "link": link,
    }


@register.simple_tag(takes_context=True)
def page_query(context: template.Context, **changes: Any) -> str:
    """The present query string with some parameters changed; None or "" takes one away."""
    query = context["request"].GET.copy()
    for name, value in changes.items():
        if value in (None, ""):
            query.pop(name, None)
        else:
            query[name] = str(value)
    return f"?{query.urlencode()}"
