"""Sessions of the OpenAI Agents SDK in a memory: items as they came, and what was said in them as messages.

```python
from agents import Runner
from reme_core.openai_agents import ReMeSession

session = ReMeSession("chat-1", memory, user_id="Ana")
result = await Runner.run(agent, "My flight is on Friday", session=session)
```

The SDK's `Session` is a protocol, which this class has by its form: the SDK is not imported here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, TypeAlias, TypeVar

from pydantic import JsonValue

from reme_core.errors import ConfigurationError, InvalidInputError
from reme_core.facade.reme import ReMe
from reme_core.schema import Scope, can_be_kept, make_scope, new_id, shown
from reme_core.schema.blobs import is_apart
from reme_core.schema.content_blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from reme_core.schema.plain import ascii_json, clean_json, clean_text, fit_blocks, is_kept, usable_id
from reme_core.steps.user_input import read_id
from reme_core.stores import SqlConnection, SqlDatabase
from reme_core.stores.sql.blob_rows import drop_unused, keep_apart, put_together
from reme_core.stores.sql.bookkeeping import look_up_scope

T = TypeVar("T")

_Row: TypeAlias = tuple[str | None, str]
"""The id of what was said in an item, and the item as text."""

# `erased_with`: the scope whose end is that of the row. `message`: the id of what was said in it, if anything was.
_TABLES = (
    """CREATE TABLE IF NOT EXISTS openai_agents_items (
        position INTEGER PRIMARY KEY AUTOINCREMENT, erased_with INTEGER NOT NULL, session TEXT NOT NULL,
        message TEXT, body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS openai_agents_in_order ON openai_agents_items (erased_with, session, position)",
)
_OF_SESSION = "FROM openai_agents_items WHERE erased_with = ? AND session = ?"


class ReMeSession:
    """A `Session` of the OpenAI Agents SDK: what an agent is shown again lies in the file of a memory.

    Items (messages, calls of tools, their outputs, reasoning, ...) come back equal and in order. Messages of user and
    assistant, tool calls and tool outputs are also kept as messages of this session in the memory: `retrieve` finds
    them, and with a chat model memories are made of them in the background. Any number of processes may use one
    session at once; two users never share one. `delete_all_memories` removes items and messages of a user.
    """

    def __init__(
        self,
        session_id: str,
        memory: ReMe,
        *,
        user_id: str,
        session_settings: Any = None,  # noqa: ANN401  # the SDK's SessionSettings, which can't be named here
    ) -> None:
        """Check the names; nothing is opened.

        Args:
            session_id: The session; also that of the messages.
            memory: In whose file they lie; it stays open.
            user_id: Whose session it is.
            session_settings: The SDK's `SessionSettings(limit=...)`: how many items an agent is shown; None: all.

        Raises:
            ConfigurationError: The memory lies in no file or database of ours.
            InvalidInputError: A session or user that can't be one.
        """
        if not user_id or not user_id.strip():
            msg = "user_id: whose session is it? Give the id of a user"
            raise InvalidInputError(msg)
        given: object = memory
        if not isinstance(given, ReMe):
            msg = f"memory: wanted a ReMe, found {shown(given)}"
            raise ConfigurationError(msg)
        self.session_id = read_id(session_id, "session_id")
        self.session_settings = session_settings
        self._memory = memory
        self._user_id = user_id
        self._scope = make_scope(memory.memory_space, user_id)
        self._database: SqlDatabase = memory.database
        # Ids of what was said in items that were just removed, by item: the SDK takes items out and adds them again.
        self._removed: dict[str, list[str]] = {}

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest `limit` items in their order; without a limit those that `session_settings` allows."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        work = partial(_newest, scope=self._scope, session=self.session_id, limit=limit)
        bodies = await self._database.read(work, within=self._scope)
        return [json.loads(body) for body in bodies]

    async def add_items(self, items: list[Any]) -> None:
        """Add items at the end; they, and what was said in them, are on disk when this returns.

        Raises:
            InvalidInputError: An item that is no JSON object; nothing was kept.
        """
        bodies = [_written(item, place) for place, item in enumerate(items)]
        if bodies:
            await _to_its_end(self._add(items, bodies))

    async def _add(self, items: Sequence[Any], bodies: Sequence[str]) -> None:
        # First what was said: whoever is killed in between has items neither acknowledged nor there twice.
        removed, self._removed = self._removed, {}
        messages: list[dict[str, JsonValue]] = []
        rows: list[_Row] = []
        for item, body in zip(items, bodies, strict=True):
            message_id = _taken(removed, body) or new_id()
            message = _said(item, message_id)
            messages += [] if message is None else [message]
            rows.append((None if message is None else message_id, body))
        try:
            if messages:
                await self._memory.summary(
                    messages,
                    user_id=self._user_id,
                    session_id=self.session_id,
                    end_session=False,
                    background=True,
                    on_conflict="rename",
                )
            work = partial(_insert, scope=self._scope, session=self.session_id, rows=rows)
            await self._database.write(work, within=self._scope)
        except BaseException:
            self._note_removed(rows)  # who tries again says nothing twice
            raise

    async def pop_item(self) -> Any | None:  # noqa: ANN401  # an item of the SDK
        """Remove the last item and return it; None where there is none. What was said in it stays in the memory."""
        rows = await self._remove(limit=1)
        return json.loads(rows[0][1]) if rows else None

    async def clear_session(self) -> None:
        """Remove all items: agents begin anew. What was said in them stays in the memory, where `retrieve` finds it."""
        await self._remove(limit=_ALL)

    async def _remove(self, *, limit: int) -> Sequence[_Row]:
        work = partial(_delete, scope=self._scope, session=self.session_id, limit=limit)
        rows = await _to_its_end(self._database.write(work, within=self._scope))
        self._note_removed(rows)
        return rows

    def _note_removed(self, rows: Sequence[_Row]) -> None:
        for message_id, body in rows:
            if message_id is not None:
                self._removed.setdefault(_digest(body), []).append(message_id)


def _taken(removed: Mapping[str, list[str]], body: str) -> str | None:
    """Return the id of what was said in an equal item that was removed just before, each once."""
    ids = removed.get(_digest(body))
    return ids.pop(0) if ids else None


def _digest(body: str) -> str:
    return blake2b(body.encode(), digest_size=16).hexdigest()


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait for a write, through cancellation, which goes on afterwards: who is told of it finds all or nothing."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        task.exception()  # it is looked at: who was cancelled asks for nothing more
        raise cancelled
    return task.result()


def _written(item: object, place: int) -> str:
    """Return an item as text (InvalidInputError)."""
    try:
        if isinstance(item, Mapping):
            return ascii_json(dict(item))
        reason = "no object"
    except (TypeError, ValueError, RecursionError) as exc:
        reason = str(exc)
    msg = f"items[{place}]: wanted a JSON object, found {shown(item)} ({reason:.100}); nothing was kept"
    raise InvalidInputError(msg)


_ALL = 1 << 62  # a limit that nothing reaches


def _number(connection: SqlConnection, scope: Scope) -> int | None:
    """Return the number of a scope that has items, None where there are none."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'openai_agents_items'"
    if connection.dialect.is_file and not connection.execute(query).fetchone():
        return None
    return look_up_scope(connection, scope)


def _newest(connection: SqlConnection, *, scope: Scope, session: str, limit: int | None) -> list[str]:
    number = _number(connection, scope)
    if number is None or (limit is not None and limit <= 0):
        return []
    query = f"SELECT body {_OF_SESSION} ORDER BY position DESC LIMIT ?"
    rows = connection.execute(query, (number, session, _ALL if limit is None else limit)).fetchall()
    return [put_together(connection, number, body) for (body,) in reversed(rows)]


def _insert(connection: SqlConnection, *, scope: Scope, session: str, rows: Sequence[_Row]) -> None:
    for table in _TABLES if connection.dialect.is_file else ():
        connection.execute(table)
    number = connection.dialect.number_of(connection, scope)
    connection.executemany(
        "INSERT INTO openai_agents_items (erased_with, session, message, body) VALUES (?, ?, ?, ?)",
        [(number, session, message_id, keep_apart(connection, number, body)) for message_id, body in rows],
    )


def _delete(connection: SqlConnection, *, scope: Scope, session: str, limit: int) -> list[_Row]:
    """Remove the newest items; return them in order."""
    number = _number(connection, scope)
    if number is None:
        return []
    query = f"SELECT position, message, body {_OF_SESSION} ORDER BY position DESC LIMIT ?"
    rows = connection.execute(query, (number, session, limit)).fetchall()
    whole = [(message_id, put_together(connection, number, body)) for _, message_id, body in reversed(rows)]
    connection.executemany("DELETE FROM openai_agents_items WHERE position = ?", [row[:1] for row in rows])
    if any(is_apart(body) for _, _, body in rows):
        drop_unused(connection, number)
    return whole


# Tuples: what an item has in the place of a word may not be hashable.
_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_SPEAKERS = ("user", "assistant")


def _said(item: Mapping[str, JsonValue], message_id: str) -> dict[str, JsonValue] | None:
    """Return what was said in an item as a message, None where that is nothing: instructions, reasoning, references."""
    kind, role = item.get("type", "message"), item.get("role")
    blocks: list[ContentBlock] = []
    if kind == "message" and role in _SPEAKERS:
        blocks = _content(item.get("content"))
    elif kind in _CALLS:
        role, blocks = "assistant", [_call(item)]
    elif kind in _OUTPUTS:
        output = "\n".join(block.text for block in _content(item.get("output")) if block.type == "text")
        role, blocks = "tool", [ToolResultBlock(call_id=_call_id(item), output=output)]
    kept, _ = fit_blocks(blocks)
    if not any(block.type != "text" or block.text.strip() for block in kept):
        return None
    return {"message_id": message_id, "role": role, "content": [block.model_dump(mode="json") for block in kept]}


def _content(content: JsonValue) -> list[ContentBlock]:
    """Return a text, or parts as the SDK has them, as blocks; parts of other kinds are left out."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list):
        return []
    return [block for part in parts if isinstance(part, dict) and (block := _part(part)) is not None]


def _part(part: Mapping[str, JsonValue]) -> ContentBlock | None:
    match part.get("type"):
        case "text" | "input_text" | "output_text":
            return TextBlock(text=_text(part.get("text")))
        case "refusal":
            return TextBlock(text=_text(part.get("refusal")))
        case "input_image":
            return ImageBlock(url=_reference(part.get("image_url"), part.get("file_id")))
        case "input_file":
            name = _text(part.get("filename")) or None
            data = part.get("file_data")
            url = f"data:;base64,{data}" if isinstance(data, str) and not data.startswith("data:") else data
            return FileBlock(url=_reference(url, part.get("file_url"), part.get("file_id")), name=name)
        case _:
            return None


def _call(item: Mapping[str, JsonValue]) -> ToolCallBlock:
    written = item.get("arguments", item.get("input"))
    try:
        arguments = clean_json(json.loads(written)) if isinstance(written, str) else written
    except (ValueError, RecursionError):
        arguments = written
    usable = arguments if isinstance(arguments, dict) and is_kept(arguments) else _text(written)
    return ToolCallBlock(call_id=_call_id(item), name=_text(item.get("name")), arguments=usable)


def _call_id(item: Mapping[str, JsonValue]) -> str:
    return usable_id(_text(item.get("call_id")) or "unknown")


def _reference(*places: JsonValue) -> str:
    """Return where an image or a file lies, or its bytes, which are kept once; of what is broken, the item has all."""
    place = clean_text(next((place for place in places if isinstance(place, str)), "data:"))
    return place if can_be_kept(place) else "data:"


def _text(value: JsonValue) -> str:
    return clean_text(value) if isinstance(value, str) else ""
