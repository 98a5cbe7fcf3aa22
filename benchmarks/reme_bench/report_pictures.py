"""Pictures of the report as numbers: means and intervals in lanes on one axis, which the template draws as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reme_core.serve.inspect.pictures import WIDTH, Tick

_EDGE = 24
_LANE = 74
_BELOW = 52
# Shares are drawn from 0 to 1 at steps of a quarter; differences from and to the same distance.
_TICKS = 5


class MeasuredMean(NamedTuple):
    """A mean with its interval, and whose it is."""

    name: str
    mean: float
    low: float
    high: float
    n: int


class Lane(NamedTuple):
    """What was measured, its middle height, and the places of its mean and its interval."""

    measured: MeasuredMean
    y: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalPicture:
    """Lanes from top to bottom on an axis; `zero` is the place of 0 where values lie on both sides of it."""

    height: int
    lanes: Sequence[Lane]
    ticks: Sequence[Tick]
    zero: float | None


def interval_picture(rows: Sequence[MeasuredMean], *, share: bool = True, around_zero: bool = False) -> IntervalPicture:
    """Place means on an axis: of shares from 0 to 1, of other values as far as they reach, of differences around 0."""
    both = around_zero or any(row.low < 0 for row in rows)
    most = max((abs(value) for row in rows for value in row[1:4]), default=0.0) or 1.0
    end = 1.0 if share and not both else most
    begin = -end if both else 0.0

    def place(value: float) -> float:
        part = (min(max(value, begin), end) - begin) / (end - begin)
        return round(_EDGE + part * (WIDTH - 2 * _EDGE), 1)

    steps = [begin + (end - begin) * number / (_TICKS - 1) for number in range(_TICKS)]
    return IntervalPicture(
        height=_LANE * len(rows) + _BELOW,
        lanes=[
            Lane(row, _LANE * (number + 0.75), place(row.mean), place(row.low), place(row.high))
            for number, row in enumerate(rows)
        ],
        ticks=[Tick(place(step), shown(step, share=share)) for step in steps],
        zero=place(0.0) if both else None,
    )


def shown(value: float, *, share: bool = True) -> str:
    """Return a figure for readers: a share in percent to one decimal, anything else as a number."""
    return f"{100 * value:.1f}" if share else f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2f}"
