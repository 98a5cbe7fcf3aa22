"""Search in a folder by the ranking of memories; every result names its file and lines."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from pathlib import Path

from reme_core.errors import InvalidInputError, StoreAccessError
from reme_core.files.dialogs import dialog_path, find_lines
from reme_core.files.file_index import FileIndex
from reme_core.files.folder import inside, mapped_errors, open_regular
from reme_core.files.targets import KEPT_TYPES
from reme_core.ports import (
    Embedder,
    MemoryFilter,
    MemorySearch,
    MessageSearch,
    ScoredMemory,
    ScoredMessage,
    Store,
    Vector,
)
from reme_core.recall.shares import share_of_memory
from reme_core.retrieval import message_text
from reme_core.retrieval.embedding import try_question
from reme_core.schema import MemoryType
from reme_core.schema.mapping import MappingModel
from reme_core.text import query_terms

MAX_READ_CHARS = 1 << 16
"""What one reading of a file gives at most; the next one goes on from there."""

_MAX_BYTES = 1 << 26  # of a dialogue or a tool result, of which lines are read
_ANSWERS = 0.5  # see `share_of_memory`
_TYPES = (*KEPT_TYPES, MemoryType.PASSAGE)


class FileHit(MappingModel):
    """A statement, passage or message that was found: its file and lines, from 1, its score, at most 1.0, and its text.

    A message has a `message_id`, the others a `memory_id`; its type is `history`.
    """

    path: str
    start_line: int
    end_line: int
    score: float
    text: str
    memory_id: str | None = None
    memory_type: MemoryType
    message_id: str | None = None

    def __str__(self) -> str:
        """Tell the place, and what stands there."""
        return f"{self.path}:{self.start_line}-{self.end_line} {self.text}"


class FileText(MappingModel):
    """Lines of a file, from 1; `next_line` is where to read on, None at the end."""

    path: str
    start_line: int
    end_line: int
    total_lines: int
    text: str
    next_line: int | None = None


async def search_files(
    store: Store,
    embedder: Embedder | None,
    index: FileIndex,
    root: Path,
    query: str,
    *,
    max_results: int,
    min_score: float,
) -> list[FileHit]:
    """Return the best statements, passages and messages that stand in files, highest score first."""
    await index.load()
    found = None if embedder is None else await try_question(embedder, query)
    vector = None if isinstance(found, str) else found
    search = MemorySearch(
        text=query,
        vector=vector,
        limit=2 * max_results,  # some may be in no file yet
        filter=MemoryFilter(types=_TYPES),
        min_score=min_score,
    )
    memories = await store.search(index.scope, search)
    said = await _said(store, index, root, query, vector, 2 * max_results) if index.state.dialogs else []
    speakers = {item.stored.message.speaker for item, _, _ in said}
    names = {index.scope.user_id, *speakers, *(item.memory.memory_target for item in memories)}
    asked = frozenset(query_terms(query)) - {word for name in names for word in query_terms(name)}
    hits = [
        *(_memory_hit(item, index, _score(item, asked, vector) if said else item.score) for item in memories),
        *(_message_hit(*item) for item in said if item[0].score >= min_score),
    ]
    return sorted((hit for hit in hits if hit is not None), key=lambda hit: -hit.score)[:max_results]


async def _said(
    store: Store, index: FileIndex, root: Path, query: str, vector: Vector | None, limit: int
) -> list[tuple[ScoredMessage, str, int]]:
    """Return the messages that match and stand in dialogues, each with its file and line."""
    search = MessageSearch(text=query, vector=vector, limit=limit, now=index.clock.now())
    found = await store.search_messages(index.scope, search)
    wanted = {item.stored.message.message_id: dialog_path(item.stored.message) for item in found}
    wanted = {message_id: path for message_id, path in wanted.items() if path in index.state.dialogs}
    lines = await asyncio.to_thread(find_lines, root, wanted)
    return [(item, *lines[message_id]) for item in found if (message_id := item.stored.message.message_id) in lines]


def _score(item: ScoredMemory, asked: AbstractSet[str], vector: Vector | None) -> float:
    """Return the score of a memory beside those of messages: above 0.5 if it answers the question."""
    score = share_of_memory(item, asked, vector)
    return score if score >= _ANSWERS else 2 * score


def _memory_hit(item: ScoredMemory, index: FileIndex, score: float) -> FileHit | None:
    memory, entry = item.memory, index.entry(item.memory.memory_id)
    if entry is None:
        return None
    return FileHit(
        path=index.places[memory.memory_id],
        start_line=entry.first + 1,
        end_line=entry.last + 1,
        score=score,
        text=memory.content,
        memory_id=memory.memory_id,
        memory_type=memory.memory_type,
    )


def _message_hit(item: ScoredMessage, path: str, line: int) -> FileHit:
    message = item.stored.message
    return FileHit(
        path=path,
        start_line=line,
        end_line=line,
        score=min(item.score, 1.0),
        text=message_text(message.name or "", message.full_text),
        message_id=message.message_id,
        memory_type=MemoryType.HISTORY,
    )


def read_lines(root: Path, path: str, start_line: int, end_line: int | None) -> FileText:
    """Return lines of a file below a folder, at most 65,536 characters of them.

    Raises:
        InvalidInputError: Lines that the file does not have.
        StoreAccessError: The path leads out of the folder, or the file can't be read as text.
    """
    with mapped_errors(root / path):
        whole = inside(root, path)
        with open_regular(whole) as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            msg = f"{path!r} has more than {_MAX_BYTES:,} bytes: read it with another program"
            raise StoreAccessError(msg)
        lines = data.decode("utf-8", "replace").split("\n")
    total = len(lines) - (not lines[-1])
    last = total if end_line is None else min(end_line, total)
    if not 1 <= start_line <= max(last, 1):
        msg = f"start_line and end_line: {path!r} has {total} lines, and {start_line} to {end_line} are none of them"
        raise InvalidInputError(msg)
    text, end = "", start_line - 1
    for line in lines[start_line - 1 : last]:
        if end >= start_line and len(text) + len(line) > MAX_READ_CHARS:
            break
        text += f"{line[:MAX_READ_CHARS]}\n"
        end += 1
    next_line = end + 1 if end < last else None
    return FileText(path=path, start_line=start_line, end_line=end, total_lines=total, text=text, next_line=next_line)
