"""Sums of what speaks for each row, and the parts that they are made of where these are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reme_core.retrieval.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for n rows, the prior of their lengths apart, and for their m pieces by themselves.

    Attributes:
        rows: (n,) sums of all parts.
        pieces: (m,) sums of the parts that a piece has of its own: its words and its vector.
        echoes: (n,) questions that say no more than the query does.
        cosines: (n,) with the query, NaN where there is none.
        parts: (n,) what each part adds to the sums, by its name; None: nobody asked.
    """

    rows: FloatArray
    pieces: FloatArray
    echoes: BoolArray
    cosines: FloatArray
    parts: dict[str, FloatArray] | None = None

    def add(self, part: str, values: FloatArray) -> None:
        """Add a part (n,) to the sums."""
        self.rows[:] += values
        if self.parts is not None:
            self._part(self.parts, part)[:] += values

    def add_at(self, part: str, slots: IntArray, values: FloatArray | float) -> None:
        """Add a part to the sums of distinct slots."""
        self.rows[slots] += values
        if self.parts is not None:
            self._part(self.parts, part)[slots] += values

    def put(self, part: str, slots: IntArray, values: FloatArray) -> None:
        """Set the sums of slots; the difference is a part."""
        before = self.rows[slots]
        self.rows[slots] = values
        if self.parts is not None:
            self._part(self.parts, part)[slots] += self.rows[slots] - before

    def weaken(self, where: BoolArray, share: float) -> None:
        """Leave a share of the sums, where told, and of all their parts."""
        self.rows[where] *= share
        for values in (self.parts or {}).values():
            values[where] *= share

    def parts_at(self, slots: IntArray) -> list[dict[str, float] | None]:
        """Return the parts of slots that are not zero, None where nobody asked."""
        if self.parts is None:
            return [None] * len(slots)
        return [
            {name: value for name, values in self.parts.items() if (value := float(values[slot]))}
            for slot in slots.tolist()
        ]

    def _part(self, parts: dict[str, FloatArray], name: str) -> FloatArray:
        return parts.setdefault(name, np.zeros(len(self.rows)))
