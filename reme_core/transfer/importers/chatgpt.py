"""ChatGPT's data export: `conversations.json` (or `conversations-000.json` and on), each conversation a tree.

The branch that ends in `current_node` is the conversation. Source: the files of exports as public converters read them,
such as https://github.com/mitkury/chatgpt-export-parser (docs/chatgpt-data-export-format.md).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from reme_core.transfer.importers.items import ImportedItem, Unreadable
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

_FILES = re.compile(r"conversations(-\d+)?\.json")
# What the model thought, and what it was told of the user: kept, but nobody has said it.
_UNSAID = frozenset({"thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"})
_IMAGE = "image_asset_pointer"


@dataclass(frozen=True, slots=True)
class ChatGPTExport:
    """The conversations of an export: a zip, what it was unpacked to, or the JSON file."""

    path: str
    name: str = "chatgpt"

    def items(self) -> Iterator[ImportedItem]:
        """Yield the conversations; an export is of one user, and doesn't name it."""
        return read_items(Path(self.path), _FILES, "conversations.json", _conversation)


def _conversation(where: str, value: JsonValue) -> Iterator[ImportedItem]:
    mapping = value.get("mapping") if isinstance(value, dict) else None
    key = text_of(value, "conversation_id", "id") if isinstance(value, dict) else ""
    if not isinstance(value, dict) or not isinstance(mapping, dict) or not key:
        yield Unreadable(where, "is no conversation of ChatGPT: that has an id and a mapping")
        return
    if not mapping:
        return  # opened, and nothing said in it
    title = text_of(value, "title")
    where = f"{where} ({title[:60]!r})"
    nodes = {name: node for name, node in mapping.items() if isinstance(node, dict)}
    try:
        branch = branch_to(_last(value, nodes), {name: text_of(node, "parent") or None for name, node in nodes.items()})
    except ValueError as exc:
        yield Unreadable(where, str(exc))
        return
    draft = SessionDraft(where)
    call: str | None = None
    for name in branch:
        message = object_of(nodes[name], "message")
        if not draft.messages:
            message = {"create_time": value.get("create_time"), **message}
        call = _add(draft, text_of(message, "id") or name, message, call)
    yield from draft.items(key, None, title)


def _last(value: Mapping[str, JsonValue], nodes: Mapping[str, dict[str, JsonValue]]) -> str:
    """Return the node that the conversation ends with: the one that is said to, or the leaf of the latest message."""
    current = text_of(value, "current_node")
    if current in nodes:
        return current
    parents = {node.get("parent") for node in nodes.values() if isinstance(node.get("parent"), str)}
    leaves = [name for name in nodes if name not in parents]
    if not leaves:
        msg = "its messages answer each other in a ring"
        raise ValueError(msg)
    return max(leaves, key=lambda name: _seconds(object_of(nodes[name], "message").get("create_time")))


def _seconds(value: JsonValue) -> float:
    try:
        return float(value) if isinstance(value, (int, float)) and not math.isnan(value) else 0.0
    except OverflowError:
        return 0.0


def _add(draft: SessionDraft, key: str, message: Mapping[str, JsonValue], call: str | None) -> str | None:
    """Add a message, and return the call that waits for its answer."""
    author, content, told = (object_of(message, name) for name in ("author", "content", "metadata"))
    kind, role = text_of(content, "content_type"), text_of(author, "role")
    recipient = text_of(message, "recipient") or "all"
    said = _said(content)
    if (kind in _UNSAID and content) or (said and told.get("is_visually_hidden_from_conversation") is True):
        blocks = other_block(kind, content)
    elif role == "assistant" and recipient != "all":
        text = "\n".join(str(block["text"]) for block in said if block["type"] == "text")
        arguments = _arguments(text)
        blocks = [{"type": "tool_call", "call_id": key, "name": recipient, "arguments": arguments}]
        call = key
    elif role == "tool" and call is not None:
        texts = [str(block["text"]) for block in said if block["type"] == "text"]
        result: dict[str, JsonValue] = {"type": "tool_result", "call_id": call, "output": "\n".join(texts)}
        result |= {"name": text_of(author, "name") or None, "is_error": kind == "system_error"}
        blocks = [result, *(block for block in said if block["type"] != "text")]
        call = None
    else:
        blocks = _with_attachments(told, said)
        call = call if not blocks or role == "tool" else None
    model = text_of(told, "model_slug")
    draft.add(key, role, blocks, message.get("create_time"), metadata={"model": model} if model else None)
    return call


def _said(content: Mapping[str, JsonValue]) -> Blocks:
    parts = content.get("parts")
    if isinstance(parts, list):
        return [block for part in parts for block in (_part(part) if isinstance(part, dict) else text_block(part))]
    # Code, what it printed, pages of the browser, errors.
    texts = [text_of(content, name) for name in ("name", "title", "url", "text", "result", "content")]
    joined = text_block("\n".join(filter(None, texts)))
    is_known = joined or not content or text_of(content, "content_type") in ("text", "code", "execution_output")
    return joined if is_known else other_block(text_of(content, "content_type"), dict(content))


def _part(part: dict[str, JsonValue]) -> Blocks:
    kind, pointer = text_of(part, "content_type"), text_of(part, "asset_pointer")
    if kind == _IMAGE and pointer:
        caption = text_of(object_of(object_of(part, "metadata"), "dalle"), "prompt")
        return [{"type": "image", "url": pointer, "caption": caption or None}]
    if pointer:
        return file_block(pointer, "")
    return text_block(part.get("text")) or other_block(kind, part)


def _with_attachments(told: Mapping[str, JsonValue], said: Blocks) -> Blocks:
    """Return what was said with what is attached; an image that is shown gets the name of its file as its caption."""
    files = {text_of(file, "id"): file for file in objects_of(told, "attachments")}
    blocks: Blocks = []
    for block in said:
        file = files.pop(str(block.get("url")).rpartition("/")[2], {})
        is_bare = block["type"] == "image" and not block["caption"]
        blocks.append({**block, "caption": text_of(file, "name") or None} if is_bare else block)
    for key, file in files.items():
        media_type = text_of(file, "mime_type", "mimeType")
        blocks += file_block(f"file-service://{key}" if key else "", text_of(file, "name"), media_type)
    return blocks


def _arguments(text: str) -> JsonValue:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text
