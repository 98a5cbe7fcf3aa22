"""Pictures as numbers: places on a time axis, and stacked parts of a bar; templates draw them as SVG.

Each mark has a shape of its own and a text, so that a picture is read without colours, and aloud.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

WIDTH = 1000
"""Of every picture, in units of its own; it is drawn as wide as there is room."""
_EDGE = 14
NAMES = 150
"""For the names of lanes, at the left."""
_LANE = 60
_TOP = 8
_TICKS = 5
# Nearer ones would cover each other.
_CLOSE = 14.0
_BESIDE = (0, -11, 11)

Shape: TypeAlias = Literal["circle", "square", "triangle", "diamond", "cross"]


class Mark(NamedTuple):
    """A mark on a time axis: where it leads, how it is drawn, and what it says."""

    at: datetime
    shape: Shape
    label: str
    link: str
    hollow: bool = False


class PlacedMark(NamedTuple):
    """A mark with its place."""

    x: float
    y: float
    mark: Mark


class Tick(NamedTuple):
    """A time on the axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A time axis with lanes.

    Attributes:
        height: Of the picture.
        lanes: Names with the places of their lines.
        marks: What lies on them.
        ticks: Times along the axis.
        line: The place of the time that is asked about; None: there is none.
    """

    height: int
    lanes: Sequence[tuple[str, float]]
    marks: Sequence[PlacedMark]
    ticks: Sequence[Tick]
    line: float | None


def timeline(lanes: Mapping[str, Sequence[Mark]], begin: datetime, end: datetime, asked: datetime | None) -> Timeline:
    """Place marks on a time axis; what lies outside of it stands at its edge."""
    span = max((end - begin).total_seconds(), 1.0)

    def place(moment: datetime) -> float:
        share = (moment - begin).total_seconds() / span
        return round(NAMES + _EDGE + min(max(share, 0.0), 1.0) * (WIDTH - NAMES - 2 * _EDGE), 1)

    def placed(marks: Sequence[Mark], y: float) -> Iterator[PlacedMark]:
        """Place the marks of a lane; those that would cover each other stand beside its line in turn."""
        last, turn = -_CLOSE, 0
        for mark in sorted(marks, key=lambda mark: mark.at):
            turn = (turn + 1) % len(_BESIDE) if place(mark.at) - last < _CLOSE else 0
            last = place(mark.at)
            yield PlacedMark(last, y + _BESIDE[turn], mark)

    names = [(name, _TOP + _LANE * (number + 0.75)) for number, name in enumerate(lanes)]
    ticks = [begin + timedelta(seconds=span * number / (_TICKS - 1)) for number in range(_TICKS)]
    form = "%Y-%m-%d" if span > 3 * 86_400 else "%d %b %H:%M"
    return Timeline(
        height=_TOP + _LANE * len(lanes) + 28,
        lanes=names,
        marks=[mark for name, y in names for mark in placed(lanes[name], y)],
        ticks=[Tick(place(moment), moment.astimezone(UTC).strftime(form)) for moment in ticks],
        line=None if asked is None else place(asked),
    )


class Part(NamedTuple):
    """A part of a stacked bar: its name, its value, its place and width, and which pattern it has."""

    name: str
    value: float
    x: float
    width: float
    pattern: int


_PATTERNS = 10
"""The kinds of fill that the style has: each a colour and a shade of its own."""


def stacked(parts: Mapping[str, float], most: float, names: Sequence[str]) -> list[Part]:
    """Return the parts of a score side by side, those that take away behind the others; `most` is the widest score."""
    scale, x, placed = WIDTH / (most or 1.0), 0.0, []
    for name, value in sorted(parts.items(), key=lambda part: (part[1] < 0, names.index(part[0]))):
        width = abs(value) * scale
        placed.append(Part(name, value, round(x, 1), round(width, 1), names.index(name) % _PATTERNS))
        x += width
    return placed
