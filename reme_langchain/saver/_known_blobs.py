"""Blobs that were read before, and the counter by which it is told whether they are still so."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from reme_core import SqlConnection
from reme_langchain.saver._value_codec import Typed

_MOST_BYTES = 1 << 24  # that they take


class KnownBlobs:
    """Blobs that were read lately, as they were before they were deflated.

    On a server, a blob has a number that no other one ever gets. In a file, the number of one that was removed may be
    given again, so that what is known is so up to the next removal.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._gate = threading.Lock()
        self._held: OrderedDict[int, Typed] = OrderedDict()
        self._size = 0
        self._removals = 0

    def find(self, ids: Iterable[int], removals: int) -> dict[int, Typed]:
        """Return those that are known.

        Args:
            ids: Of the blobs.
            removals: The counter of a file, as the snapshot has it that asks; it only grows.
        """
        with self._gate:
            if removals > self._removals:
                self._held.clear()
                self._size, self._removals = 0, removals
            held = self._held if removals == self._removals else {}  # an older snapshot has what others don't
            return {id_: held[id_] for id_ in ids if id_ in held}

    def add(self, blobs: Mapping[int, Typed], removals: int) -> None:
        """Remember blobs, and forget the oldest."""
        with self._gate:
            for id_, blob in blobs.items() if removals == self._removals else ():
                if id_ not in self._held:
                    self._held[id_] = blob
                    self._size += _weight(blob)
            while self._size > _MOST_BYTES:
                self._size -= _weight(self._held.popitem(last=False)[1])


def _weight(blob: Typed) -> int:
    return len(blob[1]) + 200  # bytes; about what an entry takes


def removals_of(connection: SqlConnection) -> int:
    """Return the counter of a file that every transaction raises which removes something, of whatever process."""
    (removals,) = connection.execute("SELECT value FROM langgraph_meta WHERE name = 'removals'").fetchone()
    return int(removals)
