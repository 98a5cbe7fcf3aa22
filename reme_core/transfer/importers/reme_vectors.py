"""ReMe 0.2 and 0.3: libraries, and vector stores that are files (local, Chroma, Qdrant's), profiles, dialogues.

Source: `to_vector_node` and `from_vector_node` of reme-ai 0.2.0.6 (`reme_ai/schema/memory.py`) and 0.3.1.10
(`reme/core/schema/memory_node.py`), and the stores that both write. Elasticsearch, PostgreSQL, Qdrant as a server,
Hologres, OceanBase and Zvec need those themselves: dump such a store there to a library first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from reme_core.errors import InvalidInputError, StoreAccessError
from reme_core.schema import LineProblem, MemoryType
from reme_core.transfer.importers.foreign_data import is_own, time_of
from reme_core.transfer.importers.items import ImportedItem, ImportedMemory, Unreadable
from reme_core.transfer.importers.mem0_stores import chroma_rows, payloads
from reme_core.transfer.importers.session_draft import (
    SessionDraft,
    objects_of,
    other_block,
    read_moment,
    text_block,
    text_of,
)
from reme_core.transfer.json_lines import read_objects
from reme_core.transfer.legacy_library import translate

_MAX_BYTES = 1 << 24
_CHROMA, _QDRANT = "chroma.sqlite3", "collection/*/storage.sqlite"
_DOCUMENT = "chroma:document"
_STORES = ("vector_store", "profile")
_PROFILE = "profile"
_SHARED = ("memory_type", "time_created", "time_modified", "author", "score")
_OF_0_3 = ("memory_target", "message_time", "ref_memory_id")


@dataclass(frozen=True, slots=True)
class _Record:
    """One memory as it is stored there, its collection or workspace, and its place, for people."""

    where: str
    group: str
    fields: dict[str, JsonValue]


@dataclass(slots=True)
class _Dialogue:
    """What is known of a dialogue before it is read: whose memories refer to it, and how many messages it has."""

    users: set[str | None] = field(default_factory=set)
    messages: int = 0


@dataclass(slots=True)
class _Survey:
    """Contents of all files: which have dialogues, which memories, and what can't be read."""

    dialogues: dict[str, _Dialogue] = field(default_factory=lambda: defaultdict(_Dialogue))
    places: dict[bool, dict[Path, None]] = field(default_factory=lambda: {True: {}, False: {}})
    unreadable: list[Unreadable] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReMeVectors:
    """A working folder, a vector store of it, or a library."""

    path: str
    name: str = "reme-0.3"
    _surveys: list[_Survey] = field(default_factory=list, repr=False, compare=False)

    def items(self) -> Iterator[ImportedItem]:
        """Yield the dialogues, then the memories; users are workspaces (0.2), or whom personal memories are about.

        All files are read the first time, and each then for what it holds: a memory has a file of its own in stores
        of a hundred thousand.
        """
        if not self._surveys:
            self._surveys.append(_survey(Path(self.path)))
        [survey] = self._surveys
        yield from survey.unreadable
        for wants_dialogues, told in ((True, _dialogue), (False, _memory)):
            for file in survey.places[wants_dialogues]:
                for record in _records(file):
                    if isinstance(record, _Record) and _is_dialogue(record) == wants_dialogues:
                        yield from told(record, survey.dialogues)


def _survey(root: Path) -> _Survey:
    files, found = _files(root), _Survey()
    if not files:
        msg = f"{str(root)!r} holds no vector store of ReMe 0.2 or 0.3: give its working folder, a store or a library"
        raise InvalidInputError(msg)
    for file in files:
        for record in _records(file):
            if isinstance(record, Unreadable):
                found.unreadable.append(record)
                continue
            found.places[_is_dialogue(record)][file] = None
            if _is_dialogue(record):
                found.dialogues[text_of(record.fields, "memory_id")].messages = len(_messages(record))
            elif ref := text_of(record.fields, "ref_memory_id"):
                found.dialogues[ref].users.add(_user(record))
    return found


def _records(file: Path) -> Iterator[_Record | Unreadable]:
    try:
        yield from _READERS.get(file.suffix, _lines)(file)
    except (StoreAccessError, OSError, ValueError, RecursionError) as exc:
        yield Unreadable(file.name, f"can't be read ({exc})")


def _files(root: Path) -> list[Path]:
    if root.is_file():
        return [root]
    found: list[Path] = []
    for folder in [folder for name in _STORES if (folder := root / name).is_dir()] or [root]:
        databases = [*folder.glob(_CHROMA), *folder.glob(_QDRANT)]
        texts = (file for pattern in ("*.jsonl", "*.json", "*/*.json") for file in folder.glob(pattern))
        found += sorted(databases or (file for file in texts if file != root / _PROFILE / "metadata.json"))
    return [file for file in found if is_own(root, file)]


def _lines(file: Path) -> Iterator[_Record | Unreadable]:
    for number, value in read_objects(file, limit_bytes=_MAX_BYTES):
        where = f"{file.name}, line {number}"
        if isinstance(value, LineProblem):
            yield Unreadable(where, value.reason)
        else:
            yield _record(where, _PROFILE if file.parent.name == _PROFILE else file.stem, value)


def _node(file: Path) -> Iterator[_Record | Unreadable]:
    if file.stat().st_size > _MAX_BYTES:
        yield Unreadable(file.name, f"has more than {_MAX_BYTES} bytes")
        return
    value = json.loads(file.read_bytes())
    for place, one in enumerate(value if isinstance(value, list) else [value], 1):
        if isinstance(one, dict):
            yield _record(f"{file.parent.name}/{file.name}", file.parent.name, one)
        else:
            yield Unreadable(f"{file.name}, value {place}", "is no object")


def _chroma(file: Path) -> Iterator[_Record]:
    for group, key, fields in chroma_rows(file):
        yield _embedded(group, key, fields)


def _qdrant(file: Path) -> Iterator[_Record | Unreadable]:
    for point in payloads(file):
        yield point if isinstance(point, Unreadable) else _record(point.where, file.parent.name, point.fields)


_READERS: Mapping[str, Callable[[Path], Iterator[_Record | Unreadable]]] = {
    ".json": _node,
    ".sqlite3": _chroma,
    ".sqlite": _qdrant,
}


def _embedded(group: str, key: str, metadata: dict[str, JsonValue]) -> _Record:
    content = metadata.pop(_DOCUMENT, "")
    is_older = "metadata" in metadata  # which names the workspace by the collection alone
    node: dict[str, JsonValue] = {"vector_id": key, "content": content, "metadata": metadata}
    return _record(f"collection {group}, {key}", group, {**node, "workspace_id": group} if is_older else node)


def _record(where: str, group: str, value: Mapping[str, JsonValue]) -> _Record:
    """Return a memory from the node of a vector store, or as a library has it."""
    key, metadata = text_of(value, "vector_id", "unique_id"), value.get("metadata")
    if not key or not isinstance(metadata, dict):
        return _Record(where, group, {name: part for name, part in value.items() if name != "vector"})
    told = dict(metadata)
    document = value.get("content")
    content = told.pop("content", None)
    fields: dict[str, JsonValue] = {
        "memory_id": key,
        "when_to_use": "" if content is None else document,
        "content": document if content is None else content,
    }
    if workspace := text_of(value, "workspace_id"):  # of 0.2, which keeps its own metadata as a text
        inner = told.pop("metadata", None)
        try:
            read = json.loads(inner) if isinstance(inner, str) and inner else inner
        except (ValueError, RecursionError):
            read = {"metadata": inner}
        return _Record(where, group, {**told, **fields, "workspace_id": workspace, "metadata": read})
    fields |= {name: told.pop(name) for name in (*_OF_0_3, *_SHARED) if name in told}
    return _Record(where, group, {**fields, "metadata": told})


def _is_dialogue(record: _Record) -> bool:
    return record.fields.get("memory_type") == MemoryType.HISTORY


def _user(record: _Record) -> str | None:
    if workspace := text_of(record.fields, "workspace_id"):
        return workspace
    is_about_one = record.fields.get("memory_type") in (MemoryType.PERSONAL, MemoryType.IDENTITY)
    return (text_of(record.fields, "memory_target") or None) if is_about_one else None


def _messages(record: _Record) -> list[dict[str, JsonValue]]:
    metadata = record.fields.get("metadata")
    told = metadata.get("messages") if isinstance(metadata, dict) else None
    try:
        return objects_of({"messages": json.loads(told) if isinstance(told, str) else told}, "messages")
    except (ValueError, RecursionError):
        return []


def _dialogue(record: _Record, dialogues: Mapping[str, _Dialogue]) -> Iterator[ImportedItem]:
    key = text_of(record.fields, "memory_id")
    users = dialogues[key].users
    draft = SessionDraft(record.where)
    for place, message in enumerate(_messages(record)):
        role, name = text_of(message, "role"), text_of(message, "name")
        content, at = message.get("content"), message.get("time_created")
        blocks = text_block(content if isinstance(content, str) or content is None else json.dumps(content))
        calls = message.get("tool_calls")
        draft.add(str(place), role, blocks + (other_block("tool_calls", calls) if calls else []), at, name=name or None)
    if not draft.messages and not draft.problems:
        # A transcript of all who spoke: trusted as the least of them.
        draft.add("0", "assistant", text_block(record.fields.get("content")), record.fields.get("time_created"))
    yield from draft.items(key, next(iter(users)) if len(users) == 1 else None, "")


def _memory(record: _Record, dialogues: Mapping[str, _Dialogue]) -> Iterator[ImportedItem]:
    """Yield a memory, read as the lines of older libraries are; 0.3 says target, time and dialogue beside that."""
    fields, user = dict(record.fields), _user(record)
    about, at, ref = (text_of(fields, name) for name in ("memory_target", "message_time", "ref_memory_id"))
    fields = {name: value for name, value in fields.items() if name not in _OF_0_3}
    is_older = "workspace_id" in fields or fields.get("memory_type") == "task"
    kind = fields.get("memory_type")
    if kind == MemoryType.TOOL and not is_older:  # there no guideline, of which a tool has one
        fields["memory_type"] = MemoryType.PROCEDURAL
    try:
        made, calls = translate(fields)
        observed_at = read_moment(at)
    except (ValueError, InvalidInputError) as exc:
        yield Unreadable(record.where, str(exc))
        return
    if calls:
        yield Unreadable(record.where, f"{len(calls)} recorded calls stay behind: reme load takes them from a library")
    if made is None:
        return
    content, when = text_of(made, "content"), text_of(made, "when_to_use")
    said = [str(place) for place in range(dialogues[ref].messages)] if ref else []
    yield ImportedMemory(
        source_id=f"{text_of(fields, 'workspace_id') or record.group}/{text_of(made, 'memory_id') or record.where}",
        user=user,
        content=f"{when}: {content}" if record.group.endswith(_PROFILE) and when else content,
        where=record.where,
        memory_type=MemoryType(str(made["memory_type"] if is_older else kind)),
        memory_target=text_of(made, "memory_target") if is_older else "self" if user else about or "self",
        when_to_use=when,
        observed_at=observed_at,
        created_at=time_of(made.get("created_at")),
        updated_at=time_of(made.get("updated_at")),
        said_in=[(ref, said)] if said else [],
        metadata=_with_author(made.get("metadata"), text_of(made, "author")),
        fields={name: made[name] for name in ("importance", "confidence", "freq", "utility") if name in made},
    )


def _with_author(metadata: JsonValue, author: str) -> dict[str, JsonValue]:
    """Return metadata that name who wrote it there: a name in a file says nothing of whom to trust here."""
    told = metadata if isinstance(metadata, dict) else {}
    return {**told, "author": author} if author else told
