"""Which row stands before and after which in its session."""

import numpy as np

from reme_core.retrieval.arrays import BoolArray, GrowingArray, IntArray


class Neighbours:
    """Links from each row to the row before and after it in its session; -1 where there is none."""

    def __init__(self) -> None:
        """Start without rows."""
        self._before = GrowingArray(np.empty(0, np.int64))
        self._after = GrowingArray(np.empty(0, np.int64))
        self._last: dict[int, int] = {}

    @property
    def before(self) -> IntArray:
        """The row before each row: (n,)."""
        return self._before.view

    @property
    def after(self) -> IntArray:
        """The row after each row: (n,)."""
        return self._after.view

    @property
    def nbytes(self) -> int:
        """The bytes held."""
        return self._before.nbytes + self._after.nbytes

    def extend(self, sessions: IntArray, positions: IntArray, alive: BoolArray) -> None:
        """Link the rows that came since the last call; the columns are those of all rows."""
        first = len(self._before)
        none = np.full(len(sessions) - first, -1)
        self._before.extend(none)
        self._after.extend(none)
        rows = np.flatnonzero(sessions[first:] >= 0) + first
        rows = rows[np.lexsort((positions[rows], sessions[rows]))]
        heads = np.flatnonzero(np.diff(sessions[rows], prepend=-1))
        previous = [self._last.get(session, -1) for session in sessions[rows[heads]].tolist()]
        befores = np.array(previous, np.int64)
        known = np.flatnonzero(befores >= 0)
        if bool((positions[befores[known]] > positions[rows[heads[known]]]).any()):
            # A row that belongs in the midst of its session: rare, so everything is linked anew.
            self._before.view.fill(-1)
            self._after.view.fill(-1)
            rows = np.flatnonzero((sessions >= 0) & alive)
            rows = rows[np.lexsort((positions[rows], sessions[rows]))]
            heads = np.flatnonzero(np.diff(sessions[rows], prepend=-1))
            befores = np.full(len(heads), -1)
        self._join(rows, heads, befores)
        ends = rows[np.append(heads[1:], len(rows)) - 1] if len(rows) else rows
        self._last.update(zip(sessions[ends].tolist(), ends.tolist(), strict=True))

    def remove(self, rows: IntArray, sessions: IntArray) -> None:
        """Take rows out of their sessions; what stood round them become neighbours."""
        before, after = self._before.view, self._after.view
        for row in rows.tolist():
            left, right = int(before[row]), int(after[row])
            if left >= 0:
                after[left] = right
            if right >= 0:
                before[right] = left
            before[row] = after[row] = -1
            session = int(sessions[row])
            if self._last.get(session) == row:
                if left >= 0:
                    self._last[session] = left
                else:
                    del self._last[session]

    def renumber(self, mapping: IntArray) -> None:
        """Give row i the number `mapping[i]`; rows mapped to -1 must have been removed."""
        keep = mapping >= 0
        padded = np.append(mapping, -1)
        self._before = GrowingArray(padded[self._before.view[keep]])
        self._after = GrowingArray(padded[self._after.view[keep]])
        self._last = {session: int(mapping[row]) for session, row in self._last.items()}

    def _join(self, rows: IntArray, heads: IntArray, befores: IntArray) -> None:
        inner = np.ones(len(rows), np.bool_)
        inner[heads] = False
        inside = np.flatnonzero(inner)
        self._before.view[rows[inside]] = rows[inside - 1]
        self._after.view[rows[inside - 1]] = rows[inside]
        known = np.flatnonzero(befores >= 0)
        self._before.view[rows[heads[known]]] = befores[known]
        self._after.view[befores[known]] = rows[heads[known]]
