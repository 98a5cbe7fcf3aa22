"""Payloads of the vector stores of mem0 that lie in files (local Qdrant, Chroma, FAISS), and of what `get_all` told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.transfer.importers.foreign_data import foreign_database, has_table, is_own, read_json, read_whole
from reme_core.transfer.importers.inert_pickle import Inert, as_json, read_inert
from reme_core.transfer.importers.items import Unreadable

_MOST_PARTS = 1 << 22
_ID_CHARS = 80

_HISTORY = "history.db"
_WANTED = (
    "wanted the folder of a local Qdrant, Chroma or FAISS store, history.db, or a .json file of what get_all() answers"
)


@dataclass(frozen=True, slots=True)
class Payload:
    """What a store keeps beside one vector: its place, its id and its fields."""

    where: str
    source_id: str
    fields: Mapping[str, JsonValue]


def find_files(place: Path) -> list[Path]:
    """Return the files of a folder that are read, links left out; of a file itself.

    Raises:
        InvalidInputError: There is nothing that mem0 writes.
    """
    if place.is_file():
        return [place]
    # As qdrant-client, chromadb and mem0 lay them out, with the folder given, or the one above it.
    patterns = [_HISTORY, "collection/*/storage.sqlite", "chroma.sqlite3", "*.faiss"]
    found = sorted(path for depth in ("", "*/") for pattern in patterns for path in place.glob(depth + pattern))
    files = [path for path in found if is_own(place, path) and not _is_mark(path)]
    if not files:
        raise nothing_of_mem0(place)
    return files


def nothing_of_mem0(place: Path) -> InvalidInputError:
    """Return the error about a folder or a file that mem0 hasn't written."""
    return InvalidInputError(f"{str(place)!r} has nothing of mem0: {_WANTED}")


def _is_mark(path: Path) -> bool:
    """Tell whether it is what mem0 keeps beside its history to count its users."""
    return path.parent.name == "mem0migrations"


def payloads(file: Path) -> Iterator[Payload | Unreadable]:
    """Yield what a file of a vector store holds; nothing for a history.

    Raises:
        StoreAccessError: It is damaged.
        InvalidInputError: It is of no form that is read.
    """
    if file.name == "storage.sqlite":
        yield from _qdrant(file)
    elif file.name == "chroma.sqlite3":
        for _, source_id, fields in chroma_rows(file):
            yield Payload(f"chroma, {source_id}", source_id, fields)
    elif file.suffix == ".faiss":
        yield from _faiss(file)
    elif file.suffix == ".json":
        yield from _listed(file)
    elif not is_history(file):
        msg = f"{str(file)!r} is no file of mem0 that is read: {_WANTED}"
        raise InvalidInputError(msg)


def is_history(file: Path) -> bool:
    """Tell whether a file is mem0's history, which may have another name."""
    return file.suffix == ".db"


def _qdrant(file: Path) -> Iterator[Payload | Unreadable]:
    with foreign_database(file) as connection:
        if not has_table(connection, "points"):
            return
        for row, point in connection.execute("SELECT rowid, point FROM points ORDER BY id"):
            where = f"{file.parent.name}, point {row}"
            try:
                held = read_inert(point if isinstance(point, bytes) else b"")
                yield _point(where, held)
            except ValueError as exc:
                yield Unreadable(where, str(exc))


def _point(where: str, held: object) -> Payload:
    state = held.state if isinstance(held, Inert) else None
    fields = state.get("__dict__") if isinstance(state, dict) else None
    payload = as_json(fields.get("payload")) if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(payload, dict):
        msg = "is no point with a payload"
        raise ValueError(msg)  # noqa: TRY004  # of the data, as all that is wrong with a pickle
    return Payload(where, str(fields.get("id"))[:_ID_CHARS], payload)


_CHROMA = """SELECT embeddings.id, collections.name, embedding_id, key,
        coalesce(string_value, int_value, float_value, bool_value)
    FROM embeddings JOIN embedding_metadata ON embedding_metadata.id = embeddings.id
    JOIN segments ON segments.id = embeddings.segment_id JOIN collections ON collections.id = segments.collection
    ORDER BY collections.name, embeddings.id, key"""


def chroma_rows(file: Path) -> Iterator[tuple[str, str, dict[str, JsonValue]]]:
    """Yield collection, id and metadata of what a Chroma database holds (StoreAccessError: it is damaged)."""
    tables = ("embeddings", "embedding_metadata", "segments", "collections")
    with foreign_database(file) as connection:
        if not all(has_table(connection, name) for name in tables):
            return
        # Two collections may have the same id, each with a memory of another user.
        for (_, group, source_id), fields in groupby(connection.execute(_CHROMA), key=itemgetter(0, 1, 2)):
            yield str(group), str(source_id), {str(key): value for *_, key, value in fields}


def _faiss(file: Path) -> Iterator[Payload | Unreadable]:
    texts, older = file.with_suffix(".json"), file.with_suffix(".pkl")
    source = texts if texts.is_file() else older
    data = read_whole(source)
    try:
        held = read_json(data) if source == texts else as_json(read_inert(data), most=_MOST_PARTS)
    except ValueError as exc:
        yield Unreadable(source.name, str(exc))
        return
    told = held.get("docstore") if isinstance(held, dict) else held[0] if isinstance(held, list) and held else None
    for source_id, fields in told.items() if isinstance(told, dict) else ():
        where = f"{source.name}, {source_id[:_ID_CHARS]}"
        yield Payload(where, source_id, fields) if isinstance(fields, dict) else Unreadable(where, "is no payload")


def _listed(file: Path) -> Iterator[Payload | Unreadable]:
    """Yield what `get_all` told, of whichever store: a list, or one under `results`."""
    data = read_whole(file)
    try:
        told = read_json(data)
    except ValueError as exc:
        msg = f"{str(file)!r} {exc}: {_WANTED}"
        raise InvalidInputError(msg) from None
    rows = told.get("results") if isinstance(told, dict) else told
    if not isinstance(rows, list):
        msg = f"{str(file)!r} has no list of memories: {_WANTED}"
        raise InvalidInputError(msg)
    for place, row in enumerate(rows, 1):
        where, source_id = f"{file.name}, item {place}", row.get("id") if isinstance(row, dict) else None
        if isinstance(row, dict) and isinstance(source_id, str):
            more = row.get("metadata")
            own: dict[str, JsonValue] = {"user_id": None, "data": row.get("memory"), **row}  # before what was noted
            yield Payload(where, source_id, {**(more if isinstance(more, dict) else {}), **own})
        else:
            yield Unreadable(where, "is no memory with an id")
