"""Sessions of the OpenAI Agents SDK in the file of a memory: items as they came, and what was said in them as messages.

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
import sqlite3
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import JsonValue

from reme_core.errors import ConfigurationError, InvalidInputError
from reme_core.schema import Scope, make_scope, shown
from reme_core.schema.messages import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from reme_core.schema.plain import ascii_json, clean_json, clean_text, fit_blocks, usable_id
from reme_core.steps.user_input import read_id
from reme_core.stores import Database
from reme_core.stores.local.file.scope_numbers import find_scope

if TYPE_CHECKING:
    from reme_core.facade.reme import ReMe

T = TypeVar("T")

# `erased_with`: the scope whose end is that of the row. `digest`: tells equal items, by their bytes.
_TABLES = (
    """CREATE TABLE IF NOT EXISTS openai_agents_items (
        position INTEGER PRIMARY KEY AUTOINCREMENT, erased_with INTEGER NOT NULL, session TEXT NOT NULL,
        digest BLOB NOT NULL, body TEXT NOT NULL)""",
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
            ConfigurationError: The memory has no local file.
            InvalidInputError: A session or user that can't be one.
        """
        if not user_id:
            msg = "user_id: whose session is it? Give the id of a user"
            raise InvalidInputError(msg)
        if not hasattr(memory, "database"):
            msg = f"memory: wanted a ReMe, found {shown(memory)}"
            raise ConfigurationError(msg)
        self.session_id = read_id(session_id, "session_id")
        self.session_settings = session_settings
        self._memory = memory
        self._user_id = user_id
        self._scope = make_scope(memory.memory_space, user_id)
        self._scope_key = (memory.memory_space, user_id, self.session_id)
        self._file: Database = memory.database

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest `limit` items in their order; without a limit those that `session_settings` allows."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        bodies = await self._file.read(partial(_newest, scope=self._scope, session=self.session_id, limit=limit))
        return [json.loads(body) for body in bodies]

    async def add_items(self, items: list[Any]) -> None:
        """Add items at the end; they, and what was said in them, are on disk when this returns.

        Raises:
            InvalidInputError: An item that is no JSON object; nothing was kept.
        """
        rows = [_row(item, place) for place, item in enumerate(items)]
        if rows:
            await _to_its_end(self._add(items, rows))

    async def _add(self, items: Sequence[Any], rows: Sequence[tuple[bytes, str]]) -> None:
        # First what was said: whoever is killed in between has items neither acknowledged nor there twice.
        before = await self._file.read(
            partial(_counts, scope=self._scope, session=self.session_id, digests=[digest for digest, _ in rows])
        )
        messages = [
            said for item, name in zip(items, self._names(rows, before), strict=True) if (said := _said(item, name))
        ]
        if messages:
            await self._memory.summary(
                messages,
                user_id=self._user_id,
                session_id=self.session_id,
                end_session=False,
                background=True,
                on_conflict="rename",
            )
        await self._file.write(partial(_insert, scope=self._scope, session=self.session_id, rows=rows))

    def _names(self, rows: Sequence[tuple[bytes, str]], before: Mapping[bytes, int]) -> list[str]:
        """Return ids for messages: an item that is taken out and added again, as the SDK does, says nothing new."""
        seen = Counter(before)
        names = []
        for digest, _ in rows:
            text = json.dumps([*self._scope_key, digest.hex(), seen[digest]])
            names.append(blake2b(text.encode(), digest_size=16).hexdigest())
            seen[digest] += 1
        return names

    async def pop_item(self) -> Any | None:  # noqa: ANN401  # an item of the SDK
        """Remove the last item and return it; None where there is none. What was said in it stays in the memory."""
        body = await _to_its_end(self._file.write(partial(_pop, scope=self._scope, session=self.session_id)))
        return None if body is None else json.loads(body)

    async def clear_session(self) -> None:
        """Remove all items: agents begin anew. What was said in them stays in the memory, where `retrieve` finds it."""
        await _to_its_end(self._file.write(partial(_clear, scope=self._scope, session=self.session_id)))


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


# -- rows ----------------------------------------------------------------------------------------------------------


def _row(item: object, place: int) -> tuple[bytes, str]:
    """Return digest and text of an item (InvalidInputError)."""
    try:
        if isinstance(item, Mapping):
            body = ascii_json(dict(item))
            return blake2b(body.encode(), digest_size=16).digest(), body
        reason = "no object"
    except (TypeError, ValueError, RecursionError) as exc:
        reason = str(exc)
    msg = f"items[{place}]: wanted a JSON object, found {shown(item)} ({reason:.100}); nothing was kept"
    raise InvalidInputError(msg)


def _number(connection: sqlite3.Connection, scope: Scope) -> int | None:
    """Return the number of a scope that has items, None where there are none."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'openai_agents_items'"
    return find_scope(connection, scope) if connection.execute(query).fetchone() else None


def _newest(connection: sqlite3.Connection, *, scope: Scope, session: str, limit: int | None) -> list[str]:
    number = _number(connection, scope)
    if number is None or (limit is not None and limit <= 0):
        return []
    query = f"SELECT body {_OF_SESSION} ORDER BY position DESC LIMIT ?"
    rows = connection.execute(query, (number, session, -1 if limit is None else limit)).fetchall()
    return [body for (body,) in reversed(rows)]


def _counts(
    connection: sqlite3.Connection, *, scope: Scope, session: str, digests: Sequence[bytes]
) -> dict[bytes, int]:
    """Return how often equal items are there, by their digests."""
    number = _number(connection, scope)
    if number is None:
        return {}
    query = f"SELECT count(*) {_OF_SESSION} AND digest = ?"
    return {digest: connection.execute(query, (number, session, digest)).fetchone()[0] for digest in set(digests)}


def _insert(connection: sqlite3.Connection, *, scope: Scope, session: str, rows: Sequence[tuple[bytes, str]]) -> None:
    for table in _TABLES:
        connection.execute(table)
    number = Database.number_of(connection, scope)
    connection.executemany(
        "INSERT INTO openai_agents_items (erased_with, session, digest, body) VALUES (?, ?, ?, ?)",
        [(number, session, digest, body) for digest, body in rows],
    )


def _pop(connection: sqlite3.Connection, *, scope: Scope, session: str) -> str | None:
    number = _number(connection, scope)
    row = (
        connection.execute(
            f"SELECT position, body {_OF_SESSION} ORDER BY position DESC LIMIT 1", (number, session)
        ).fetchone()
        if number is not None
        else None
    )
    if row is None:
        return None
    connection.execute("DELETE FROM openai_agents_items WHERE position = ?", (row[0],))
    return str(row[1])


def _clear(connection: sqlite3.Connection, *, scope: Scope, session: str) -> None:
    number = _number(connection, scope)
    if number is not None:
        connection.execute(f"DELETE {_OF_SESSION}", (number, session))


# -- what was said -------------------------------------------------------------------------------------------------

# Tuples: what an item has in the place of a word may not be hashable.
_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_SPEAKERS = ("user", "assistant")


def _said(item: Mapping[str, JsonValue], message_id: str) -> dict[str, object] | None:
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
            return FileBlock(url=_reference(part.get("file_url"), part.get("file_id")), name=name)
        case _:
            return None


def _call(item: Mapping[str, JsonValue]) -> ToolCallBlock:
    written = item.get("arguments", item.get("input"))
    try:
        arguments = clean_json(json.loads(written)) if isinstance(written, str) else written
    except (ValueError, RecursionError):
        arguments = written
    usable = arguments if isinstance(arguments, dict) else _text(written)
    return ToolCallBlock(call_id=_call_id(item), name=_text(item.get("name")), arguments=usable)


def _call_id(item: Mapping[str, JsonValue]) -> str:
    return usable_id(_text(item.get("call_id")) or "unknown")


def _reference(*places: JsonValue) -> str:
    """Return where an image or a file lies; the bytes of one that is sent along stay in the item."""
    place = next((place for place in places if isinstance(place, str)), "data:")
    return "data:" if place.startswith("data:") else clean_text(place)


def _text(value: JsonValue) -> str:
    return clean_text(value) if isinstance(value, str) else ""
