"""Search in a folder by the ranking of memories; every result names its file and lines."""

from __future__ import annotations

from pathlib import Path

from reme_core.errors import InvalidInputError, StoreAccessError
from reme_core.files.file_index import FileIndex
from reme_core.files.folder import inside, mapped_errors
from reme_core.files.targets import KEPT_TYPES
from reme_core.ports import Embedder, MemoryFilter, MemorySearch, Store
from reme_core.retrieval.embedding import try_question
from reme_core.schema import MemoryType
from reme_core.schema.mapping import MappingModel

MAX_READ_CHARS = 1 << 16
"""What one reading of a file gives at most; the next one goes on from there."""

_MAX_BYTES = 1 << 26  # of a dialogue or a tool result, of which lines are read
_TYPES = (*KEPT_TYPES, MemoryType.PASSAGE)


class FileHit(MappingModel):
    """A statement or passage that was found: its file and lines, from 1, its score, at most 1.0, and what it says."""

    path: str
    start_line: int
    end_line: int
    score: float
    text: str
    memory_id: str
    memory_type: MemoryType

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
    store: Store, embedder: Embedder | None, index: FileIndex, query: str, *, max_results: int, min_score: float
) -> list[FileHit]:
    """Return the best statements and passages that stand in files, highest score first."""
    await index.load()
    vector = None if embedder is None else await try_question(embedder, query)
    search = MemorySearch(
        text=query,
        vector=None if isinstance(vector, str) else vector,
        limit=2 * max_results,  # some may be in no file yet
        filter=MemoryFilter(types=_TYPES),
        min_score=min_score,
    )
    hits = []
    for found in await store.search(index.scope, search):
        memory, entry = found.memory, index.entry(found.memory.memory_id)
        if entry is not None:
            hits.append(
                FileHit(
                    path=index.places[memory.memory_id],
                    start_line=entry.first + 1,
                    end_line=entry.last + 1,
                    score=found.score,
                    text=memory.content,
                    memory_id=memory.memory_id,
                    memory_type=memory.memory_type,
                )
            )
    return hits[:max_results]


def read_lines(root: Path, path: str, start_line: int, end_line: int | None) -> FileText:
    """Return lines of a file below a folder, at most 65,536 characters of them.

    Raises:
        InvalidInputError: Lines that the file does not have.
        StoreAccessError: The path leads out of the folder, or the file can't be read as text.
    """
    with mapped_errors(root / path):
        whole = inside(root, path)
        if whole.stat().st_size > _MAX_BYTES:
            msg = f"{path!r} has more than {_MAX_BYTES:,} bytes: read it with another program"
            raise StoreAccessError(msg)
        lines = whole.read_bytes().decode("utf-8", "replace").split("\n")
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
