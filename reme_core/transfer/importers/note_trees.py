"""Trees of notes that other memories keep: basic-memory's, and those of ReMe 0.4 with its dialogues.

What a page says is read as `reme files import` reads it (`reme_core.transfer.trees`); nothing in the tree is changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from reme_core.errors import InvalidInputError, StoreAccessError
from reme_core.schema import LineProblem
from reme_core.text import normalise_content
from reme_core.transfer.importers.foreign_data import is_own
from reme_core.transfer.importers.items import ImportedItem, ImportedMemory, ImportedSession, Unreadable
from reme_core.transfer.importers.session_draft import (
    Blocks,
    SessionDraft,
    file_block,
    object_of,
    objects_of,
    other_block,
    read_moment,
    text_block,
    text_of,
)
from reme_core.transfer.json_lines import read_objects
from reme_core.transfer.trees.import_tree import read_statements, read_tree
from reme_core.transfer.trees.statement import TreeKind, TreePage, TreeStatement

_LINE_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class BasicMemoryNotes:
    """The folder of a project of basic-memory; its database is an index of it, and isn't read."""

    path: str
    name: str = "basic-memory"

    def items(self) -> Iterator[ImportedItem]:
        """Yield the observations, relations and paragraphs; they name no user."""
        yield from _statements(Path(self.path), TreeKind.BASIC_MEMORY, {})


@dataclass(frozen=True, slots=True)
class ReMeNotes:
    """The workspace of ReMe 0.4: `session/dialog`, `daily` and `digest`; what it makes of them is left."""

    path: str
    name: str = "reme-0.4"

    def items(self) -> Iterator[ImportedItem]:
        """Yield the dialogues, then what the notes say; a workspace is of one user, and doesn't name it."""
        root = Path(self.path)
        if not any((root / name).is_dir() for name in ("daily", "digest", "session")):
            msg = f"{str(root)!r} is no workspace of ReMe 0.4: that has daily, digest or session in it"
            raise InvalidInputError(msg)
        said: dict[str, list[str]] = {}
        for file in sorted((root / "session").glob("*/*.jsonl")):
            if file.parent.name != "dialog" or not is_own(root, file):
                yield Unreadable(f"session/{file.parent.name}/{file.name}", "is a copy of what another agent keeps")
                continue
            for item in _dialogue(file):
                if isinstance(item, ImportedSession):
                    said[item.source_id] = [message.message_id for message in item.messages]
                yield item
        if any((root / "resource").glob("*")):
            yield Unreadable("resource/", "is raw material: put it into a folder of files, which reme files reads")
        yield from _statements(root, TreeKind.REME, said)


def _statements(root: Path, kind: TreeKind, said: Mapping[str, Sequence[str]]) -> Iterator[ImportedItem]:
    tree = read_tree(root)
    if kind is TreeKind.BASIC_MEMORY and not tree.pages and not tree.problems:
        msg = f"{str(root)!r} holds no notes: give the folder of a project, with its Markdown files"
        raise InvalidInputError(msg)
    statements, left_out = read_statements(tree, kind)
    for problem in (*tree.problems, *left_out):
        yield Unreadable(problem.path, problem.message)
    for statement in statements:
        memory = _memory(statement, _made_at(tree.pages[statement.path], root / statement.path))
        session = text_of(statement.details, "session")
        yield replace(memory, said_in=[(session, said[session])]) if session in said else memory


def _memory(statement: TreeStatement, at: datetime | None) -> ImportedMemory:
    said = [statement.target.memory_type, statement.target.memory_target, normalise_content(statement.content)]
    digest = hashlib.sha256("\0".join(said).encode()).hexdigest()[:16]
    origin: dict[str, JsonValue] = {"file": statement.path, "line": statement.line, **statement.details}
    return ImportedMemory(
        source_id=f"{statement.path}#{digest}",
        user=None,
        content=statement.content,
        where=f"{statement.path}:{statement.line}",
        memory_type=statement.target.memory_type,
        memory_target=statement.target.memory_target,
        when_to_use=" › ".join(dict.fromkeys(filter(None, statement.about))),
        observed_at=statement.at or at,
        created_at=statement.at or at,
        metadata={"origin": {name: value for name, value in origin.items() if value not in (None, "", [])}},
    )


def _made_at(page: TreePage, file: Path) -> datetime | None:
    """Return when a page says that it was made, or when its file was changed."""
    try:
        with suppress(ValueError):  # what is no time says nothing
            if told := read_moment(page.page.field("created") or page.page.field("date")):
                return told
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (ValueError, OSError):
        return None


def _dialogue(file: Path) -> Iterator[ImportedItem]:
    """Yield a dialogue, a message of AgentScope 2 a line; what was saved again later has the id that it had."""
    where = f"session/dialog/{file.name}"
    draft = SessionDraft(where)
    try:
        for number, value in read_objects(file, limit_bytes=_LINE_BYTES):
            if isinstance(value, LineProblem):
                yield Unreadable(f"{where}, line {number}", value.reason)
                continue
            blocks = [block for part in objects_of(value, "content") for block in _part(part)]
            blocks = blocks or text_block(value.get("content"))
            at, name = value.get("created_at"), text_of(value, "name") or None
            draft.add(text_of(value, "id"), text_of(value, "role"), blocks, at, name=name)
    except StoreAccessError as exc:
        yield Unreadable(where, exc.message)
    yield from draft.items(file.stem, None, "")


def _part(part: dict[str, JsonValue]) -> Blocks:
    match text_of(part, "type"):
        case "text":
            return text_block(part.get("text"))
        case "tool_call":
            told: dict[str, JsonValue] = {"name": text_of(part, "name"), "arguments": text_of(part, "input")}
            return [{"type": "tool_call", "call_id": text_of(part, "id"), **told}]
        case "data" if url := text_of(object_of(part, "source"), "url"):
            media_type = text_of(object_of(part, "source"), "media_type")
            if media_type.startswith("image/"):
                return [{"type": "image", "url": url, "media_type": media_type}]
            return file_block(url, text_of(part, "name"), media_type)
        case kind:
            return other_block(kind, part)
