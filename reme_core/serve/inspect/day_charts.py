"""Charts of what comes in by day, as numbers that templates draw as SVG: growth, and what models cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from reme_core.errors import ConfigurationError
from reme_core.facade.reme import ReMe
from reme_core.schema import Cost, Scope
from reme_core.serve.inspect.pictures import NAMES, WIDTH, Tick
from reme_core.stores.sql.bookkeeping import count_days

_COLUMNS = 92
_UNITS = (1, 7, 30, 365, 36_500)
_LANE = 110
_HIGH = 76
_TICKS = 4
_WIDEST = 40.0
_EDGE = 14


class Column(NamedTuple):
    """A day in a lane: its place on the ground line, its size, and what it counts."""

    x: float
    base: float
    width: float
    height: float
    day: str
    number: int


class Lane(NamedTuple):
    """What is counted: its name, where its ground line lies, the most of a day, and its days."""

    name: str
    base: float
    most: int
    columns: Sequence[Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayChart:
    """Lanes above each other, each with a scale of its own, from the first day that has something to the last.

    Attributes:
        title: What it shows, in a sentence.
        height: Of the picture.
        lanes: From top to bottom.
        ticks: Days along the axis.
        rows: Each column's first day, the last first, with the number of each lane.
    """

    title: str
    height: int
    lanes: Sequence[Lane]
    ticks: Sequence[Tick]
    rows: Sequence[tuple[date, Sequence[int]]]


def day_chart(counted: Mapping[str, Mapping[date, int]]) -> DayChart | None:
    """Return a column for each day, or for several where there are many days; None where no day has something."""
    days = sorted({day for counts in counted.values() for day, count in counts.items() if count})
    if not days:
        return None
    first, last = days[0], days[-1]
    unit = next(unit for unit in _UNITS if (last - first).days < _COLUMNS * unit)
    sums: dict[str, Counter[date]] = {name: Counter() for name in counted}
    for name, counts in counted.items():
        for day, count in counts.items():
            sums[name][day - (day - first) % timedelta(days=unit)] += count
    step = (WIDTH - NAMES - _EDGE) / ((last - first).days // unit + 1)

    def middle(day: date) -> float:
        return round(NAMES + ((day - first).days // unit + 0.5) * step, 1)

    begun = sorted({day for counts in sums.values() for day in counts}, reverse=True)
    places = [(day, middle(day)) for day in begun]
    ticks = sorted({first + (last - first) * number // (_TICKS - 1) for number in range(_TICKS)})
    totals = ", ".join(f"{counts.total():,} {name}" for name, counts in sums.items())
    return DayChart(
        title=f"{totals}, from {first} to {last}, each column {'a day' if unit == 1 else f'{unit} days'}",
        height=_LANE * len(sums) + 30,
        lanes=[
            _lane(name, counts, _LANE * (row + 1), places, min(step * 0.8, _WIDEST))
            for row, (name, counts) in enumerate(sums.items())
        ],
        ticks=[Tick(middle(day), str(day)) for day in ticks],
        rows=[(day, [counts[day] for counts in sums.values()]) for day in begun],
    )


def _lane(
    name: str, counts: Mapping[date, int], base: float, places: Sequence[tuple[date, float]], width: float
) -> Lane:
    most = max(counts.values(), default=0)
    columns = [
        Column(
            round(x - width / 2, 1), base, round(width, 1), round(max(count / most * _HIGH, 1.0), 1), str(day), count
        )
        for day, x in places
        if (count := counts.get(day, 0))
    ]
    return Lane(name, base, most, columns)


async def growth(memory: ReMe, scope: Scope) -> DayChart | None:
    """Return messages, and memories of every state, by the day on which they were said; None where nothing is known."""
    try:
        database = memory.database
    except ConfigurationError:  # a store of somebody else, which counts no days
        return None
    messages, memories = await database.read(lambda c: count_days(c, scope), within=scope)
    return day_chart({"messages": messages, "memories": memories})


def cost_chart(costs: Sequence[Cost]) -> DayChart | None:
    """Return what models were asked and answered by day; None where they were not asked."""
    asked: Counter[date] = Counter()
    answered: Counter[date] = Counter()
    for cost in costs:
        asked[cost.day] += cost.prompt_tokens
        answered[cost.day] += cost.completion_tokens
    return day_chart({"tokens asked": asked, "tokens answered": answered})
