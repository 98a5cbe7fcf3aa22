"""The rows of a partition laid out on a line, session after session, so that what stands nearby is nearby in memory.

Between two sessions lies a gap that no kernel reaches across. The weight of a neighbour falls linearly with its
distance: the triangle kernel of Lv and Zhai 2009, Positional Language Models for Information Retrieval, over messages
in place of words.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from reme_core.retrieval.arrays import BoolArray, FloatArray, IntArray

Number = TypeVar("Number", np.float32, np.float64)

GAP = 4
"""Empty places before each session and after the last: the reach of the widest kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLine:
    """Where n rows stand on a line of `length` places.

    Attributes:
        places: The place of each row, (n,); removed rows share the last place, where nothing is.
        taken: Which places a row stands on, (length,).
        before: The row before each row in its session, (n,); -1 where there is none.
        length: The number of places.
    """

    places: IntArray
    taken: BoolArray
    before: IntArray
    length: int

    @property
    def nbytes(self) -> int:
        """The bytes held."""
        return self.places.nbytes + self.taken.nbytes + self.before.nbytes

    def lay(self, values: FloatArray) -> FloatArray:
        """Put values (n,) of the rows onto their places: (length,), zero elsewhere."""
        out = np.zeros(self.length)
        out[self.places] = values
        out[-1] = 0.0
        return out


def line_of(sessions: IntArray, positions: IntArray, alive: BoolArray) -> SessionLine:
    """Lay out the living rows: by session, position and storage order; session -1 is a session of one."""
    n = len(sessions)
    living = np.flatnonzero(alive)
    order = living[np.lexsort((positions[living], sessions[living]))]
    ordered = sessions[order]
    heads = np.ones(len(order), np.bool_)
    heads[1:] = (ordered[1:] != ordered[:-1]) | (ordered[1:] < 0)
    along = np.arange(len(order)) + GAP * np.cumsum(heads)
    length = (int(along[-1]) if len(order) else 0) + 1 + GAP
    places = np.full(n, length - 1)
    places[order] = along
    taken = np.zeros(length, np.bool_)
    taken[along] = True
    before = np.full(n, -1)
    before[order[1:]] = np.where(heads[1:], -1, order[:-1])
    return SessionLine(places=places, taken=taken, before=before, length=length)


def triangle(values: npt.NDArray[Number], reach: int) -> npt.NDArray[Number]:
    """Add to each value (n,) those within `reach`, at distance d times 1 - d / (reach + 1).

    A box over the values before, then one over those after: together a triangle. Sums are made in the same order
    everywhere, so equal surroundings give equal results. The ends of `values` must be empty over the reach.
    """
    box = values.copy()
    for distance in range(1, reach + 1):
        box[distance:] += values[:-distance]
    out = box.copy()
    for distance in range(1, reach + 1):
        out[:-distance] += box[distance:]
    out /= reach + 1
    return out
