"""The time axis as shapes: pure geometry, horizontal places in percent so that the drawing is fluid and needs no style.

Labels are laid out for the narrowest width that is drawn. A label that does not fit is dropped, marks closer than a
label share one; the table of facts beside the drawing keeps everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from recovery.console import times
from recovery.console.presenters.facts import Fact, Lane

WIDTH = 880
"""Pixels: the narrowest drawing. It scrolls sideways below that."""
LANE = 28
TOP = 40
HALF = LANE // 2

STEPS = [
    timedelta(seconds=seconds)
    for seconds in (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800, 2592000)
]
MOST_TICKS = 9

MARKS = {"failed": "f", "unknown": "u", "succeeded": "s", "decision": "d", "signal": "d"}
"""Facts that are drawn as one of the small marks; their symbol."""


@dataclass(frozen=True)
class Shape:
    """One drawn thing. `tag`: rect, line, text or mark; `x`, `x2` in percent, `y` in pixels, `dx` beside a text."""

    tag: str
    css: str
    x: str
    y: int
    x2: str = ""
    width: str = ""
    height: int = 0
    dx: int = 0
    anchor: str = "start"
    text: str = ""
    title: str = ""


@dataclass(frozen=True)
class Deadline:
    """A moment after which less can be done."""

    at: datetime
    word: Any


@dataclass
class Axis:
    """The drawing. `beyond`: deadlines too far away to be drawn."""

    lanes: Sequence[Lane]
    height: int
    shapes: list[Shape]
    facts: list[tuple[str, Fact]]
    beyond: list[Deadline] = field(default_factory=list)
    start: datetime = field(default_factory=timezone.now)
    end: datetime = field(default_factory=timezone.now)


class _Scale:
    """From a moment to its place."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self.start, self.end = start, end

    def part(self, at: datetime) -> float:
        return min(max((at - self.start) / (self.end - self.start), 0.0), 1.0)

    def percent(self, at: datetime) -> str:
        return f"{self.part(at) * 100:.2f}%"

    def span(self, start: datetime, end: datetime) -> str:
        return f"{max(self.part(end) - self.part(start), 0.0) * 100:.2f}%"

    def pixel(self, at: datetime) -> float:
        return self.part(at) * WIDTH


def axis(
    lanes: Sequence[Lane], start: datetime, now: datetime, deadlines: Sequence[Deadline], *, is_over: bool = False
) -> Axis:
    """Draws the lanes from `start` to a little after now, and to those deadlines that are not too far away.

    `is_over`: `now` is the end of the instance; no deadline runs any more.
    """
    passed = max(now - start, timedelta(seconds=10))
    near = [deadline for deadline in deadlines if start < deadline.at <= now + 2 * passed]
    last = max([now, *(deadline.at for deadline in near)])
    # Room for a mark on either edge.
    scale = _Scale(start - passed * 0.02, last + max(last - start, passed) * 0.06)
    height = TOP + LANE * len(lanes)
    shapes = [*_ticks(scale, height, now), *_lines(len(lanes))]
    shapes += [shape for number, lane in enumerate(lanes) for shape in _lane(scale, lane, TOP + LANE * number)]
    shapes += _deadlines(scale, near, height)
    shapes += _now(scale, now, height, is_over)
    facts = sorted(((lane.name, fact) for lane in lanes for fact in lane.facts), key=lambda pair: pair[1].start)
    beyond = [deadline for deadline in deadlines if deadline.at > now and deadline not in near]
    return Axis(lanes, height + 1, shapes, facts, beyond, scale.start, scale.end)


def _ticks(scale: _Scale, height: int, now: datetime) -> Iterator[Shape]:
    """Round times of the reader's zone; none of their labels under the mark of the present or over an edge."""
    span = scale.end - scale.start
    step = next((step for step in STEPS if span / step <= MOST_TICKS), STEPS[-1])
    local = timezone.localtime(scale.start)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + ((local - midnight) // step + 1) * step
    while at < scale.end:
        place = scale.percent(at)
        yield Shape("line", "tick", place, TOP - 8, x2=place, height=height)
        if 20 < scale.pixel(at) < WIDTH - 20 and abs(scale.pixel(at) - scale.pixel(now)) > 66:
            yield Shape("text", "ticktext", place, TOP - 14, anchor="middle", text=_tick_word(at, step))
        at += step


def _tick_word(at: datetime, step: timedelta) -> str:
    there = timezone.localtime(at)
    if step >= timedelta(days=1):
        return f"{there:%m-%d}"
    return f"{there:%H:%M:%S}" if step < timedelta(minutes=1) else f"{there:%H:%M}"


def _lines(count: int) -> Iterator[Shape]:
    for number in range(count + 1):
        y = TOP + LANE * number
        yield Shape("line", "base", "0", y, x2="100%", height=y)


def _lane(scale: _Scale, lane: Lane, top: int) -> Iterator[Shape]:
    facts = sorted(lane.facts, key=lambda fact: fact.start)
    groups = list(_grouped(scale, facts))
    for number, group in enumerate(groups):
        following = scale.pixel(groups[number + 1][0].start) if number + 1 < len(groups) else WIDTH
        yield from _drawn(scale, group, top, following)


def _grouped(scale: _Scale, facts: Sequence[Fact]) -> Iterator[list[Fact]]:
    """Marks closer than a label share one place; spans stand alone."""
    group: list[Fact] = []
    for fact in facts:
        together = group and fact.kind == group[-1].kind and fact.kind in MARKS
        if together and scale.pixel(fact.start) - scale.pixel(group[-1].start) < 26:
            group.append(fact)
            continue
        if group:
            yield group
        group = [fact]
    if group:
        yield group


def _drawn(scale: _Scale, group: list[Fact], top: int, following: float) -> Iterator[Shape]:
    fact = group[0]
    title = "; ".join(f"{times.words(each.start)} {each.text}" for each in group)
    place, middle = scale.percent(fact.start), top + HALF
    if fact.kind in MARKS:
        yield Shape("mark", f"m-{MARKS[fact.kind]}", place, middle, title=title)
        yield from _label(scale, ", ".join(each.label for each in group), fact.start, top, following, 11, fact.kind)
        return
    end = fact.end or fact.start
    width = scale.span(fact.start, end)
    if fact.kind == "act":
        yield Shape("rect", "act", place, top + 6, width=width, height=16, title=title)
        yield from _label(scale, fact.label, fact.start, top, min(following, scale.pixel(end) + 4), 6)
    elif fact.kind == "closed":
        yield Shape("rect", "closed", place, top + 7, width=width, height=14, title=title)
    elif fact.kind == "run":
        yield Shape("rect", "run", place, top + 10, width=width, height=8, title=title)
        yield from _label(scale, fact.label, end, top, following, 8)
    elif fact.kind == "running":
        yield Shape("rect", "run", place, top + 10, width="3", height=8, title=title)
        yield from _label(scale, fact.label, fact.start, top, following, 8)
    else:
        stop = scale.percent(end)
        yield Shape("line", fact.kind, place, middle, x2=stop, height=middle, title=title)
        if fact.kind == "round":
            yield Shape("line", "round", place, middle - 5, x2=place, height=middle + 5)
            yield Shape("line", "round", stop, middle - 5, x2=stop, height=middle + 5)
        yield from _label(scale, fact.label, end, top, following, 8)


def _label(
    scale: _Scale, text: str, at: datetime, top: int, following: float, dx: int, css: str = ""
) -> Iterator[Shape]:
    """A label to the right of its mark, if there is room before the next one or the edge."""
    room = min(following - 10, WIDTH) - scale.pixel(at) - dx
    wide = sum(12.5 if ord(char) > 0x2E80 else 6.6 for char in text)
    if text and wide <= room:
        yield Shape("text", f"lbl {css}".strip(), scale.percent(at), top + HALF + 4, dx=dx, text=text)


def _deadlines(scale: _Scale, deadlines: Sequence[Deadline], height: int) -> Iterator[Shape]:
    for number, deadline in enumerate(deadlines):
        place = scale.percent(deadline.at)
        late = scale.part(deadline.at) > 0.8
        yield Shape("line", "dead", place, TOP - 8, x2=place, height=height)
        yield Shape(
            "text",
            "deadtext",
            place,
            TOP + HALF + 4 + LANE * (number % 3),
            dx=-6 if late else 6,
            anchor="end" if late else "start",
            text=f"{deadline.word} {times.words(deadline.at)}",
        )


def _now(scale: _Scale, now: datetime, height: int, is_over: bool) -> Iterator[Shape]:
    place = scale.percent(now)
    word = _("end %(time)s") if is_over else _("now %(time)s")
    yield Shape("line", "now", place, 18, x2=place, height=height)
    yield Shape("tag", "now", place, 0, text=word % {"time": f"{timezone.localtime(now):%H:%M:%S}"})
