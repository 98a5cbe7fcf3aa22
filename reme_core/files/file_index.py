"""The index of a folder: which file holds which memories in which lines. Items of the service's space, one a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, JsonValue

from reme_core.files.folder import Stamp
from reme_core.ports import Clock, GetItems, ItemAddress, PutItem, SearchItems, Store, Target, WriteItems
from reme_core.schema import MemoryType, Scope
from reme_core.steps.costs import SERVICE_SPACE

_FILES, _STATES, _MOST_FILES = "files", "file-folders", 1_000_000
_AT_ONCE = 1000


DialogMark: TypeAlias = tuple[int, int, str]
"""What was taken over of a dialogue: its size in bytes, the time of its last change in nanoseconds, its SHA-256."""

UNREAD: DialogMark = (-1, 0, "")
"""The mark of a dialogue that is to be read whole."""

_Row: TypeAlias = tuple[str, int, int, str, bool]


class Entry(NamedTuple):
    """A memory in a file: its lines, from 0, both inclusive; a mark of what they say; whether it is a passage."""

    memory_id: str
    first: int
    last: int
    mark: str
    is_passage: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFile:
    """A file as it was indexed: its stamp and SHA-256, whom its statements are about, and its memories in order.

    The memories are kept as they are stored: of 10,000 files that are loaded, most are never looked into.
    """

    stamp: Stamp
    sha256: str
    target: Target | None = None
    rows: Sequence[_Row] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The memories, in the order of their lines."""
        return tuple(Entry(*row) for row in self.rows)

    @classmethod
    def read(cls, value: Mapping[str, JsonValue]) -> IndexedFile | None:
        """Read what `value` gave; None where a newer release has written something else: it counts as not indexed."""
        match value:
            case {"stamp": [int(size), int(changed)], "sha256": str(sha256), "target": about, "rows": list(rows)}:
                target = Target(MemoryType(str(about[0])), str(about[1])) if isinstance(about, list) else None
                return cls(stamp=(size, changed), sha256=sha256, target=target, rows=cast("list[_Row]", rows))
            case _:
                return None

    def value(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        target = None if self.target is None else [str(name) for name in self.target]
        rows: list[JsonValue] = [list(row) for row in self.rows]
        return {"stamp": list(self.stamp), "sha256": self.sha256, "target": cast("JsonValue", target), "rows": rows}


class Passed(BaseModel):
    """A place in a list that only grows: a page, and how many of it are done."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    cursor: str | None = None
    count: int = 0

    def after(self, count: int, next_cursor: str | None) -> Passed:
        """Return the place behind a page of so many."""
        return Passed(cursor=self.cursor, count=count) if next_cursor is None else Passed(cursor=next_cursor)


class Following(BaseModel):
    """How far the record of a folder follows the store: messages, blocks, and the newest offload."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    messages: Passed = Passed()
    blocks: Passed = Passed()
    offload: str | None = None


class FolderState(BaseModel):
    """How far the changes of the store were written into files, and how often the index was changed.

    `following`: None where the folder keeps no record of what was said. `dialogs`: those that were taken over, by path.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    sequence: int | None = None
    changes: int = 0
    dialogs: Mapping[str, DialogMark] = {}
    following: Following | None = None


@dataclass(slots=True)
class FileIndex:
    """The index of one folder, held in memory and written through.

    Attributes:
        store: Keeps it.
        clock: Tells the time.
        scope: Whose folder it is; the index goes with the user's erasure.
        folder_id: Which folder.
        files: What is indexed, by path; changed by `save` alone.
        state: See `FolderState`.
    """

    store: Store
    clock: Clock
    scope: Scope
    folder_id: str
    files: dict[str, IndexedFile] = field(default_factory=dict)
    state: FolderState = field(default_factory=FolderState)
    _places: dict[str, str] | None = None
    _loaded: bool = False

    @property
    def key(self) -> str:
        """The folder and its scope as a label of the service's space: a folder's mark can name that of another user."""
        return scope_key(self.scope, self.folder_id)

    async def load(self) -> None:
        """Bring it up to date with what other processes have written."""
        address = ItemAddress(namespace=(_STATES,), key=self.key)
        [item] = await self.store.get_items(SERVICE_SPACE, GetItems(addresses=[address], at=self.clock.now()))
        state = FolderState() if item is None else FolderState.model_validate(item.value)
        if self._loaded and state == self.state:
            return
        search = SearchItems(prefix=(_FILES, self.key), limit=_MOST_FILES, at=self.clock.now())
        items = [] if item is None else await self.store.search_items(SERVICE_SPACE, search)
        read = {item.key: IndexedFile.read(item.value) for item in items}
        self.files = {path: file for path, file in sorted(read.items()) if file is not None}
        self.state, self._loaded, self._places = state, True, None

    async def save(
        self,
        changed: Mapping[str, IndexedFile | None],
        *,
        sequence: int | None = None,
        following: Following | None = None,
        dialogs: Mapping[str, DialogMark] | None = None,
    ) -> None:
        """Write what files hold by now; None: there is no such file any more. Without changes, nothing is written."""
        told = {"sequence": sequence, "following": following, "dialogs": dialogs}
        state = self.state.model_copy(update={name: value for name, value in told.items() if value is not None})
        if not changed and state == self.state:
            return
        state = state.model_copy(update={"changes": state.changes + 1})
        mark = ItemAddress(namespace=(_STATES,), key=self.key)
        writes = [self._write(path, file) for path, file in changed.items()]
        writes.append(
            PutItem(address=mark, value=state.model_dump(mode="json"), owner=self.scope)
        )  # last: others look at it
        for start in range(0, len(writes), _AT_ONCE):
            await self._put(writes[start : start + _AT_ONCE])
        for path, file in changed.items():
            if file is None:
                self.files.pop(path, None)
            else:
                self.files[path] = file
        self.state, self._places = state, None

    async def forget(self) -> None:
        """Remove the whole index; the memories stay. What `rebuild` begins with."""
        await self.save(dict.fromkeys(self.files))
        await self._put([ItemAddress(namespace=(_STATES,), key=self.key)])
        self.state = FolderState()

    @property
    def places(self) -> Mapping[str, str]:
        """In which file a memory stands, by its id; in the first one, where it is in several."""
        if self._places is None:
            self._places = {}
            for path, file in self.files.items():
                for entry in file.entries:
                    self._places.setdefault(entry.memory_id, path)
        return self._places

    def entry(self, memory_id: str) -> Entry | None:
        """Return where a memory stands in its file, None where it is in none."""
        path = self.places.get(memory_id)
        return None if path is None else find_entry(self.files[path].entries, memory_id)

    def _write(self, path: str, file: IndexedFile | None) -> PutItem | ItemAddress:
        address = ItemAddress(namespace=(_FILES, self.key), key=path)
        if file is None:
            return address
        return PutItem(address=address, value=file.value(), owner=self.scope)

    async def _put(self, writes: list[PutItem | ItemAddress]) -> None:
        await self.store.write_items(SERVICE_SPACE, WriteItems(writes=writes, at=self.clock.now()))


def scope_key(scope: Scope, name: str) -> str:
    """Return a name within a scope as one label of the service's space."""
    return hashlib.sha256("\0".join([scope.memory_space, scope.user_id, name]).encode()).hexdigest()[:32]


def find_entry(entries: Iterable[Entry], memory_id: str) -> Entry | None:
    """Return the first entry of a memory."""
    return next((entry for entry in entries if entry.memory_id == memory_id), None)
