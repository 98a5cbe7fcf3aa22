"""Map of whom and what memories are about, and how these are related: names one below the other, joined by arcs."""

from __future__ import annotations

import asyncio
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import NamedTuple, TypeAlias

from reme_core.facade.reme import ReMe
from reme_core.ports import Target
from reme_core.recall.relations import KnownRelations, read_relations
from reme_core.schema import Memory, Scope

# Of a person's memories the best-connected forty names fill three screens of a telephone.
_NAMES = 40
_ARCS = 120
_ROW = 36
_DOTS = 390
"""Where the names end and the arcs begin, in units of the picture's width of 1,000."""
_FURTHEST = 400
_NAME_CHARS = 20
_ARC_CHARS = 22
_CHAR = 8
"""The width of a character."""
_LINE = 15

_Pair: TypeAlias = tuple[str, str]


class Told(NamedTuple):
    """A relation between two names as the map calls them, and the memory that tells it."""

    subject: str
    relation: str
    object: str
    memory: Memory


class MapName(NamedTuple):
    """A name with its place: its dot grows with its memories."""

    y: float
    radius: float
    text: str
    label: str
    link: str


class Arc(NamedTuple):
    """What joins two names: `text` stands at its bend, where there is room, at `x` and `y`."""

    path: str
    width: float
    label: str
    link: str
    text: str
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NameMap:
    """The best-connected names of a user.

    Attributes:
        height: Of the picture.
        names: From top to bottom.
        arcs: What joins them.
        told: Every relation, those that were said last first.
        counts: Of memories, by target, those with most first.
        left_out: How many names are not in the picture.
    """

    height: int
    names: Sequence[MapName]
    arcs: Sequence[Arc]
    told: Sequence[Told]
    counts: Sequence[tuple[Target, int]]
    left_out: int


async def read_map(memory: ReMe, scope: Scope, as_of: datetime | None, link: Callable[..., str]) -> NameMap:
    """Read the map of a user: the relations are those that hold at a time; `link` makes addresses."""
    counts = await memory.store.count_targets(scope)
    known = await read_relations(memory.store, scope, as_of=as_of)
    return await asyncio.to_thread(_drawn, counts, known, link)  # takes a second for 10,000 memories


def _drawn(counts: Mapping[Target, int], known: KnownRelations, link: Callable[..., str]) -> NameMap:
    called = cache(known.called)
    about: Counter[str] = Counter()
    targets: dict[str, str] = {}
    for target, count in counts.items():
        about[called(target.memory_target)] += count
        targets.setdefault(called(target.memory_target), target.memory_target)
    told = [
        Told(called(item.subject), item.relation, called(item.object), tells)
        for tells in sorted(known.memories.values(), key=lambda item: item.observed_at, reverse=True)
        for item in tells.relations
    ]
    joined: defaultdict[_Pair, list[Told]] = defaultdict(list)
    for item in told:
        if item.subject != item.object:
            joined[min(item.subject, item.object), max(item.subject, item.object)].append(item)
    degrees = Counter(name for pair in joined for name in pair)
    every = sorted({*about, *degrees}, key=lambda name: (-degrees[name], -about[name], name))
    beside: defaultdict[str, list[str]] = defaultdict(list)
    for one, other in joined:
        beside[one].append(other)
        beside[other].append(one)
    places = _places(_chosen(every, beside), beside)

    def address(name: str) -> str:
        """Return where the memories of a name are listed: those about it, or else those that have its words."""
        return link("memories", target=targets[name]) if name in targets else link("memories", keyword=name)

    return NameMap(
        height=_ROW * (len(places) + 1),
        names=[_name(name, y, about[name], degrees[name], address(name)) for name, y in places.items()],
        arcs=_arcs(joined, places, link),
        told=told,
        counts=sorted(counts.items(), key=lambda item: (-item[1], *item[0])),
        left_out=len(every) - len(places),
    )


def _chosen(every: Sequence[str], beside: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the first name, then each time the first of those that are joined with most of the names before."""
    left, joined, chosen = dict.fromkeys(every), Counter[str](), list[str]()
    while left and len(chosen) < _NAMES:
        name = max(left, key=joined.__getitem__)
        del left[name]
        chosen.append(name)
        joined.update(beside.get(name, ()))
    return chosen


def _places(names: Sequence[str], beside: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Place names from top to bottom, each below one that it is joined with: short arcs cross less."""
    order: dict[str, None] = {}
    for name in names:
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one not in order:
                order[one] = None
                waiting += sorted(set(names).intersection(beside.get(one, ())), key=names.index, reverse=True)
    return {name: _ROW * (row + 1.0) for row, name in enumerate(order)}


def _name(name: str, y: float, about: int, relations: int, link: str) -> MapName:
    radius = min(4 + about**0.5 * 1.5, _ROW / 2 - 2)
    label = f"{name}: memories {about}, related names {relations}"
    return MapName(y, round(radius, 1), _cut(name, _NAME_CHARS), label, link)


def _arcs(joined: Mapping[_Pair, Sequence[Told]], places: Mapping[str, float], link: Callable[..., str]) -> list[Arc]:
    """Return the arcs between names that have a place, short ones first: their texts find room near the names."""
    pairs = [pair for pair in joined if pair[0] in places and pair[1] in places]
    pairs.sort(key=lambda pair: abs(places[pair[0]] - places[pair[1]]))
    taken: list[tuple[float, float, float]] = []
    arcs: list[Arc] = []
    for pair in pairs[:_ARCS]:
        told, (top, bottom) = joined[pair], sorted((places[pair[0]], places[pair[1]]))
        bend = round(30 + (_FURTHEST - 30) * (bottom - top) / (_ROW * len(places)), 1)
        x, y = _DOTS + bend + 6, (top + bottom) / 2 + 4
        more = f" +{len(told) - 1}" if len(told) > 1 else ""
        text = f"{'↓' if places[told[0].subject] == top else '↑'} {_cut(told[0].relation, _ARC_CHARS)}{more}"
        end = x + _CHAR * _columns(text)
        if any(abs(y - line) < _LINE and x < far and near < end for near, far, line in taken):
            text = ""
        else:
            taken.append((x, end, y))
        label = "; ".join(f"{item.subject} {item.relation} {item.object}" for item in told[:5])
        path = f"M{_DOTS} {top}A{bend} {(bottom - top) / 2} 0 0 1 {_DOTS} {bottom}"
        address = link("memory", id=told[0].memory.memory_id)
        arcs.append(Arc(path, min(1.5 + len(told) / 2, 5), label, address, text, x, y))
    return arcs


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _cut(text: str, most: int) -> str:
    """Cut a text to a width; a character of Chinese is two wide."""
    text = " ".join(text.split())
    if _columns(text) <= most:
        return text
    while _columns(text) >= most:
        text = text[: max(len(text) * most // _columns(text) - 1, 0)]
    return f"{text}…"
