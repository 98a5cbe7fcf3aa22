"""Disk of a recorded process: what it held after a power cut, at any point of the record.

A file holds for certain what was written before its last flush. What came after may be there, or in part, in any
order: a write is kept, dropped, or torn between two sectors; a file that was cut to a length, or removed, may still be
as it was.
A flush of a file also makes its name durable, as does one of the folder.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECTOR = 512
_HEAD = struct.Struct("<cc6xqq")
# How the shim calls a file, and the end of its name.
_ENDINGS = {"d": "", "w": "-wal", "j": "-journal", "u": "-used"}


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the shim: what was done to which file, as shim.c tells."""

    kind: str
    file: str
    offset: int
    data: bytes


def read_changes(log: Path) -> list[Change]:
    """Return what the shim has recorded, in order."""

    def read() -> Iterator[Change]:
        raw, at = log.read_bytes(), 0
        while at + _HEAD.size <= len(raw):
            kind, file, offset, length = _HEAD.unpack_from(raw, at)
            at += _HEAD.size
            yield Change(kind.decode(), file.decode(), offset, raw[at : at + length])
            at += length

    return list(read())


class RecordedDisk:
    """The files of one database as the changes go on."""

    def __init__(self) -> None:
        self._settled: dict[str, bytes | None] = dict.fromkeys(_ENDINGS)
        self._pending: dict[str, list[Change]] = {file: [] for file in _ENDINGS}
        self.said = b""

    def take(self, change: Change) -> None:
        """Go on by one change."""
        if change.file == "s":
            self.said += change.data
        elif change.kind != "f":
            self._pending[change.file].append(change)
        elif change.file == "f":  # names alone
            for file, pending in self._pending.items():
                removed = [place for place, each in enumerate(pending) if each.kind == "u"]
                if removed:
                    self._settle(file, removed[-1] + 1)
        else:
            self._settle(change.file, len(self._pending[change.file]))

    def lines(self) -> list[bytes]:
        """Return what the process had said."""
        return self.said.splitlines()

    def cut_power(self, path: Path, chance: random.Random) -> None:
        """Write the files as they may be found after a power cut now."""
        kept_of_all = chance.choice([0.0, 0.2, 0.5, 0.9, 1.0])
        for file, ending in _ENDINGS.items():
            content = self._settled[file]
            for change in self._pending[file]:
                if chance.random() < kept_of_all:
                    content = _applied(content, _torn(change, chance) if chance.random() < 0.3 else [change])
                elif change.kind == "u":
                    break  # what came after went into a file that has no name
            if content is not None:
                path.with_name(path.name + ending).write_bytes(content)

    def _settle(self, file: str, count: int) -> None:
        self._settled[file] = _applied(self._settled[file], self._pending[file][:count])
        del self._pending[file][:count]


def _applied(content: bytes | None, changes: list[Change]) -> bytes | None:
    """Return what a file holds after changes; None: there is no file."""
    buffer = None if content is None else bytearray(content)
    for change in changes:
        if change.kind == "u":
            buffer = None
            continue
        buffer = bytearray() if buffer is None else buffer
        end = change.offset + len(change.data)
        if change.kind == "t":
            del buffer[change.offset :]
        if len(buffer) < end:
            buffer += bytes(end - len(buffer))
        buffer[change.offset : end] = change.data
    return None if buffer is None else bytes(buffer)


def _torn(change: Change, chance: random.Random) -> list[Change]:
    """Return some sectors of a write; other changes are done or not."""
    if change.kind != "w":
        return [change]
    parts, at, end = [], change.offset, change.offset + len(change.data)
    while at < end:
        following = min(end, (at // SECTOR + 1) * SECTOR)
        data = change.data[at - change.offset : following - change.offset]
        if chance.random() < 0.5:
            parts.append(Change("w", change.file, at, data))
        at = following
    return parts
