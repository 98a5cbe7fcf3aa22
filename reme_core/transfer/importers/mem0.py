"""Memories of mem0, with what they said before: its vector stores in files, its history, and what `get_all` told.

Forms: those of mem0ai 2.2.1 and the libraries of its stores; a store in a server is read by way of `get_all`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from urllib.parse import unquote

from reme_core.schema import MemoryType
from reme_core.transfer.importers.foreign_data import foreign_database, has_table, text_of, time_of
from reme_core.transfer.importers.items import ImportedItem, ImportedMemory, Unreadable
from reme_core.transfer.importers.mem0_stores import Payload, find_files, is_history, nothing_of_mem0, payloads
from reme_core.transfer.importers.session_draft import SessionDraft, text_block

# Kept in fields of their own, or made of the text.
_NOT_METADATA = frozenset(
    {"data", "memory", "id", "hash", "text_lemmatized", "created_at", "updated_at", "user_id", "metadata", "score"}
)
_ENTITY = "linked_memory_ids"


@dataclass(frozen=True, slots=True)
class Mem0Source:
    """The memories, and the last messages, that an open-source mem0 keeps in files.

    Attributes:
        place: A folder of its vector store and `history.db`, one of the files, or a `.json` of what `get_all` told.
    """

    place: str
    name: str = "mem0"

    def items(self) -> Iterator[ImportedItem]:
        """Yield the memories, what these said before, and the messages; see `ImportSource.items`."""
        files = find_files(Path(self.place))
        users: dict[str, str | None] = {}
        stores = 0
        for file in files:
            stores += not is_history(file)
            for payload in payloads(file):
                if isinstance(payload, Unreadable):
                    yield payload
                elif _ENTITY not in payload.fields:
                    users[payload.source_id] = text_of(payload.fields.get("user_id"))
                    yield _memory(payload)
        for file in filter(is_history, files):
            yield from _history(file, users, has_store=stores > 0)


def _memory(payload: Payload) -> ImportedMemory | Unreadable:
    fields = payload.fields
    content, user = text_of(fields.get("data")), fields.get("user_id")
    if content is None:
        return Unreadable(payload.where, "has no text")
    if user is not None and text_of(user) is None:
        return Unreadable(payload.where, "has a user that is no name")
    is_procedure = fields.get("memory_type") == "procedural_memory"
    return ImportedMemory(
        source_id=payload.source_id,
        user=text_of(user),
        content=content,
        where=payload.where,
        memory_type=MemoryType.PROCEDURAL if is_procedure else MemoryType.PERSONAL,
        memory_target=text_of(fields.get("agent_id")) or "default" if is_procedure else "self",
        created_at=time_of(fields.get("created_at")),
        updated_at=time_of(fields.get("updated_at")),
        metadata={key: value for key, value in fields.items() if key not in _NOT_METADATA and value is not None},
    )


# The row that SQLite takes the other columns from is the one with the maximum.
# Source: https://www.sqlite.org/lang_select.html#bare_columns_in_an_aggregate_query
_LAST = """SELECT memory_id, new_memory, created_at, updated_at, event, is_deleted, max(rowid) FROM history
    GROUP BY memory_id"""
_UPDATES = """SELECT id, memory_id, old_memory, created_at, updated_at FROM history
    WHERE event = 'UPDATE' ORDER BY memory_id, rowid"""
_MESSAGES = "SELECT session_scope, id, role, content, name, created_at FROM messages ORDER BY session_scope, rowid"


def _history(file: Path, users: dict[str, str | None], *, has_store: bool) -> Iterator[ImportedItem]:
    """Yield what memories that are there said before, and the messages; without a store the memories as well."""
    with foreign_database(file) as connection:
        if not has_store and not has_table(connection, "history"):
            raise nothing_of_mem0(file)
        if has_table(connection, "history"):
            if not has_store:
                for source_id, content, created_at, updated_at, event, is_deleted, _ in connection.execute(_LAST):
                    if event != "DELETE" and not is_deleted:
                        told = {"data": content, "created_at": created_at, "updated_at": updated_at}
                        users[source_id] = None
                        yield _memory(Payload(f"{file.name}, memory {source_id}", str(source_id), told))
            since: dict[str, object] = {}
            for source_id, memory_id, content, created_at, updated_at in connection.execute(_UPDATES):
                if memory_id in users and text_of(content):
                    yield ImportedMemory(
                        source_id=f"history {source_id}",
                        user=users[memory_id],
                        content=content,
                        where=f"{file.name}, event {source_id}",
                        created_at=time_of(since.get(memory_id, created_at)),
                        valid_to=time_of(updated_at),
                        superseded_by=str(memory_id),
                    )
                since = {memory_id: updated_at}
        if has_table(connection, "messages"):
            for scope, rows in groupby(connection.execute(_MESSAGES), key=itemgetter(0)):
                yield from _session(str(scope), file.name, rows)


def _session(scope: str, file: str, rows: Iterator[tuple[object, ...]]) -> Iterator[ImportedItem]:
    """Yield the last messages of one scope of mem0, of which it keeps ten, and those that can't be read."""
    named = dict(part.split("=", 1) for part in scope.split("&") if "=" in part)
    draft = SessionDraft(file)
    for _, source_id, *told in rows:
        role, content, name, at = (text_of(one) for one in told)
        draft.add(str(source_id), role or "", text_block(content), at, name=name)
    yield from draft.items(scope, unquote(named["user_id"]) if "user_id" in named else None, "")
