"""Claude's data export: `conversations.json` with `chat_messages`, and `memories.json`, what Claude has noted.

Source: the files of exports as public converters read them, such as https://github.com/AgileWorksZA/claude_export and
https://github.com/Sinity/polylogue (docs/providers/claude-ai.md).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pydantic import JsonValue

from reme_core.files.markdown import MarkdownPage
from reme_core.transfer.importers.items import ImportedItem, ImportedMemory, Unreadable
from reme_core.transfer.importers.json_values import read_items
from reme_core.transfer.importers.session_draft import (
    Blocks,
    SessionDraft,
    branch_to,
    file_block,
    object_of,
    objects_of,
    other_block,
    text_block,
    text_of,
)
from reme_core.transfer.trees.pieces import pieces

_FILES = re.compile(r"(conversations(-\d+)?|memories)\.json")
_ROLES = {"human": "user"}
_TITLE = re.compile(r"\*\*(.+)\*\*")


@dataclass(frozen=True, slots=True)
class ClaudeExport:
    """The conversations and memories of an export: a zip, what it was unpacked to, or the JSON file."""

    path: str
    name: str = "claude"

    def items(self) -> Iterator[ImportedItem]:
        """Yield conversations and memories; users are the accounts."""
        return read_items(Path(self.path), _FILES, "conversations.json", _items)


def _items(where: str, value: JsonValue) -> Iterator[ImportedItem]:
    if isinstance(value, dict) and isinstance(value.get("chat_messages"), list) and text_of(value, "uuid"):
        yield from _conversation(where, value)
    elif isinstance(value, dict) and ("conversations_memory" in value or "project_memories" in value):
        yield from _memories(where, value)
    else:
        yield Unreadable(where, "is no conversation of Claude: that has a uuid and chat_messages")


def _conversation(where: str, value: Mapping[str, JsonValue]) -> Iterator[ImportedItem]:
    title = text_of(value, "name")
    draft = SessionDraft(f"{where} ({title[:60]!r})")
    try:
        messages = _branch(value)
    except ValueError as exc:
        yield Unreadable(draft.where, str(exc))
        return
    for message in messages:
        _add(draft, message, value.get("created_at"))
    yield from draft.items(text_of(value, "uuid"), text_of(object_of(value, "account"), "uuid") or None, title)


def _branch(value: Mapping[str, JsonValue]) -> list[dict[str, JsonValue]]:
    """Return the messages of the conversation as it stands: all, or where they name what they answer, one branch."""
    messages = objects_of(value, "chat_messages")
    by_id = {text_of(message, "uuid"): message for message in messages}
    if not messages or not all(text_of(message, "parent_message_uuid") for message in messages):
        return messages
    last = text_of(value, "current_leaf_message_uuid")
    last = last if last in by_id else text_of(messages[-1], "uuid")
    return [
        by_id[key] for key in branch_to(last, {key: text_of(one, "parent_message_uuid") for key, one in by_id.items()})
    ]


def _add(draft: SessionDraft, message: Mapping[str, JsonValue], since: JsonValue) -> None:
    """Add a message: what tools answered within it is a message of its own, so that nobody takes it for Claude's."""
    key, sender = text_of(message, "uuid"), text_of(message, "sender")
    role = _ROLES.get(sender, sender)
    blocks = [block for part in _parts(message, key) for block in part] or text_block(message.get("text"))
    blocks += _files(message)
    at = message.get("created_at") or since
    for place, (is_result, some) in enumerate(groupby(blocks, key=lambda block: block["type"] == "tool_result")):
        draft.add(f"{key}-{place}" if place and key else key, "tool" if is_result else role, [*some], at)


def _parts(message: Mapping[str, JsonValue], key: str) -> Iterator[Blocks]:
    call = ""
    for place, part in enumerate(objects_of(message, "content")):
        match text_of(part, "type"):
            case "text" | "voice_note":
                yield text_block(part.get("text"))
            case "tool_use":
                call = text_of(part, "id") or f"{key}-{place}"
                name, given = text_of(part, "name") or "tool", object_of(part, "input")
                yield [{"type": "tool_call", "call_id": call, "name": name, "arguments": given}]
            case "tool_result":
                yield [_result(part, text_of(part, "tool_use_id") or call or f"{key}-{place}")]
            case kind:
                yield other_block(kind, part)


def _result(part: Mapping[str, JsonValue], call: str) -> dict[str, JsonValue]:
    texts = [text_of(one, "text") for one in objects_of(part, "content")]
    output = text_of(part, "content") or "\n".join(filter(None, texts))
    name, is_error = text_of(part, "name") or None, part.get("is_error") is True
    return {"type": "tool_result", "call_id": call, "name": name, "output": output, "is_error": is_error}


def _files(message: Mapping[str, JsonValue]) -> Blocks:
    """Return references to what was attached, and the text that Claude read of it."""
    blocks: Blocks = []
    for one in objects_of(message, "attachments"):
        name = text_of(one, "file_name") or "attachment"
        blocks += file_block(f"claude-attachment:{name}", name)
        blocks += text_block(one.get("extracted_content"))
    for one in objects_of(message, "files"):
        key = text_of(one, "file_uuid", "uuid", "file_name")
        blocks += file_block(f"claude-file:{key}" if key else "", text_of(one, "file_name"))
    return blocks


def _memories(where: str, value: Mapping[str, JsonValue]) -> Iterator[ImportedMemory]:
    """Yield each item and paragraph of what Claude has noted, of its user and for each project."""
    user = text_of(value, "account_uuid") or None
    notes = {"": text_of(value, "conversations_memory")}
    notes |= {key: text for key, text in object_of(value, "project_memories").items() if isinstance(text, str)}
    for project, text in notes.items():
        above = ""
        for piece in pieces(MarkdownPage.parse(text.encode())):
            title = _TITLE.fullmatch(piece.text)
            if title is not None:
                above = title[1]
                continue
            digest = hashlib.sha256(f"{project}\0{piece.text}".encode()).hexdigest()[:16]
            yield ImportedMemory(
                source_id=f"{user or ''}/{digest}",
                user=user,
                content=piece.text,
                where=f"{where}, line {piece.line}",
                memory_target=f"project {project}" if project else "self",
                when_to_use=" › ".join(filter(None, [above, *piece.above])),
                metadata={"project": project} if project else {},
            )
