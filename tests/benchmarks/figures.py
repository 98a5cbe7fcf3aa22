"""Figures beside their bars."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    `bar` is what it may be at most (`at_most`) or must be at least; `baseline` says what the same run measured to
    compare with.
    """

    name: str
    value: float
    unit: str
    bar: float
    at_most: bool
    baseline: str = ""

    @property
    def held(self) -> bool:
        return self.value <= self.bar if self.at_most else self.value >= self.bar

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "held": self.held}


def show(figures: Sequence[Figure]) -> str:
    rows = [("figure", "measured", "bar", "held", "baseline of the same run")]
    for f in figures:
        sign = "<=" if f.at_most else ">="
        held = "yes" if f.held else "NO"
        rows.append((f.name, f"{f.value:,.4g} {f.unit}", f"{sign} {f.bar:,g} {f.unit}", held, f.baseline))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def write(figures: Sequence[Figure], path: Path) -> None:
    path.write_text(json.dumps([f.as_json() for f in figures], indent=2) + "\n")
