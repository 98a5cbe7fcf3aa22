"""Reloading of what left a context: files of an offloader, and the tool that loads from them or the memory."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
import re
from pathlib import Path
from typing import Any, Final

from agentscope.message import TextBlock, ToolResultState
from agentscope.permission import PermissionBehavior, PermissionContext, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import ToolBase, ToolChunk

from reme_agentscope._shared.opening import OpenedMemory
from reme_core import working
from reme_core.adapting import RELOAD_DESCRIPTION, RELOAD_TOOL
from reme_core.errors import ToolFeedback
from reme_core.private_drafts import private_draft, put_in_place, sync_folder
from reme_core.schema import make_scope
from reme_core.schema.plain import clean_text, usable_id

_FILE_HANDLE = re.compile(r"file-[0-9a-f]{32}")


class OffloadFiles:
    """A folder with one part for each user, and in it one for each session. The methods block.

    No name of a user, session or file becomes a path: parts are named by digests.
    """

    def __init__(self, folder: Path, *, user_id: str) -> None:
        """Keep the place; nothing is made."""
        self._folder = folder / "agentscope" / _digest(user_id)

    @property
    def folder(self) -> Path:
        """The part of this user."""
        return self._folder

    def put_text(self, session_id: str, text: str) -> str:
        """Return the handle of a text that is on disk; the same text of the same session has the same one.

        Raises:
            OSError: It is not on disk.
        """
        handle = f"file-{_digest(session_id, text)}"
        _write(self._path(session_id, handle), text.encode())
        return handle

    def find_text(self, session_id: str, handle: str) -> str | None:
        """Return a text of this session; None: there is none.

        Raises:
            OSError: It can't be read.
        """
        if not _FILE_HANDLE.fullmatch(handle):
            return None
        try:
            return self._path(session_id, handle).read_bytes().decode()
        except FileNotFoundError:
            return None

    def put_data(self, data: bytes, media_type: str) -> Path:
        """Return the file that holds the data, which is on disk.

        Raises:
            OSError: It is not on disk.
        """
        name = hashlib.sha256(data).hexdigest() + (mimetypes.guess_extension(media_type) or ".bin")
        path = (self._folder / "data" / name).absolute()
        _write(path, data)
        return path

    def _path(self, session_id: str, handle: str) -> Path:
        return self._folder / _digest(session_id) / f"{handle}.txt"


def _digest(*parts: str) -> str:
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        whole.update(len(data).to_bytes(8) + data)
    return whole.hexdigest()[:32]


def _write(path: Path, data: bytes) -> None:
    """Write a file that is whole or not there, and survives a power cut."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with private_draft(path) as draft:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        put_in_place(draft, path)
    for folder in path.parent.parents[:3]:
        sync_folder(folder)


DATA_SESSION: Final = "agentscope-data"
"""Where data lie that no file would take: blocks of data come without a session."""

_MOST_CHARS = 20_000
_DEFAULT_CHARS = 4_000


def said(text: str) -> ToolChunk:
    """Return the answer of a tool."""
    return ToolChunk(content=[TextBlock(text=text)], state=ToolResultState.SUCCESS)


def failed(text: str) -> ToolChunk:
    """Return the answer of a tool that failed."""
    return ToolChunk(content=[TextBlock(text=text)], state=ToolResultState.ERROR)


class ReadingTool(ToolBase):
    """A tool of ours: it changes nothing, and is allowed."""

    is_concurrency_safe = True
    is_read_only = True

    async def check_permissions(
        self,
        tool_input: dict[str, Any] | None = None,
        context: PermissionContext | None = None,
    ) -> PermissionDecision:
        """Allow it: it only reads what belongs to the user whose agent this is."""
        return PermissionDecision(behavior=PermissionBehavior.ALLOW, message=f"{self.name} only reads the memory")


class ReloadContext(ReadingTool):
    """Loads what an offloader kept, of the agent's own session only."""

    name = RELOAD_TOOL
    description = RELOAD_DESCRIPTION
    is_state_injected = True

    def __init__(self, memory: OpenedMemory, *, user_id: str, files: OffloadFiles | None = None) -> None:
        """Keep what is read from, and whose it is."""
        super().__init__()
        self._memory = memory
        self._user_id = user_id
        self._files = files
        self.input_schema = {
            "type": "object",
            "properties": {
                "handle": {
                    "type": "string",
                    "description": "The reference, as named where something was left out.",
                },
                "offset": {"type": "integer", "description": "The character to begin with.", "default": 0},
                "limit": {
                    "type": "integer",
                    "description": f"At most so many characters, up to {_MOST_CHARS}.",
                    "default": _DEFAULT_CHARS,
                },
                "pattern": {
                    "type": "string",
                    "description": "Words to look for, instead of an offset.",
                },
            },
            "required": ["handle"],
        }

    async def call(
        self,
        handle: str = "",
        offset: int = 0,
        limit: int = _DEFAULT_CHARS,
        pattern: str | None = None,
        _agent_state: AgentState | None = None,
        **kwargs: Any,  # noqa: ANN401  # models invent arguments
    ) -> ToolChunk:
        """Answer in words, whatever the model asks for."""
        if _agent_state is None:
            return failed("Error reloading: there is no conversation to load from")
        request = working.PieceRequest(
            handle=clean_text(str(handle)).strip(),
            sessions=(usable_id(_agent_state.session_id), DATA_SESSION),
            offset=max(0, _number(offset, 0)),
            limit_chars=min(max(1, _number(limit, _DEFAULT_CHARS)), _MOST_CHARS),
            pattern=clean_text(str(pattern or "")).strip(),
        )
        found = _FILE_HANDLE.search(request.handle)
        try:
            if found is not None:
                return await self._read_file(request, found[0])
            memory = self._memory.get()
            scope = make_scope(memory.memory_space, self._user_id)
            return said(await working.reload_piece(memory.working.store, scope, request))
        except ToolFeedback as exc:
            return failed(str(exc))
        except Exception as exc:  # noqa: BLE001  # a tool answers with its error, and the reply goes on
            return failed(f"Error reloading: {exc}")

    async def _read_file(self, request: working.PieceRequest, handle: str) -> ToolChunk:
        session_id, words = request.sessions[0], request.pattern
        text = None if self._files is None else await asyncio.to_thread(self._files.find_text, session_id, handle)
        if text is None:
            memory = self._memory.get()
            scope = make_scope(memory.memory_space, self._user_id)
            return failed(await working.unknown_handle(memory.working.store, scope, handle, request))
        if words:
            numbered = enumerate(text.splitlines(), start=1)
            lines = [f"{number}: {line}" for number, line in numbered if words.casefold() in line.casefold()]
            return said("\n".join(lines)[: request.limit_chars] or f"{words!r} is not in {handle}.")
        end = request.offset + request.limit_chars
        return said(working.with_rest(text[request.offset : end], end if end < len(text) else None, len(text)))


def _number(value: object, default: int) -> int:
    """Return what a model means by a number: `"3"` and `3.0` are 3."""
    try:
        return int(float(value)) if isinstance(value, str | int | float) else default
    except (ValueError, OverflowError):
        return default
