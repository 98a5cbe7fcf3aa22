"""`ReMeOffloader`: what leaves the context of an agent of AgentScope 2.x is on disk first."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentscope.message import (
    Base64Source,
    ContentBlock,
    DataBlock,
    HintBlock,
    Msg,
    TextBlock,
    ToolResultBlock,
    URLSource,
)
from agentscope.tool import ToolBase
from pydantic import AnyUrl, JsonValue

from reme_agentscope._shared.opening import ClosedAtEnd, OpenedMemory, logged, told, user_of
from reme_agentscope.v2._reloading import DATA_SESSION, OffloadFiles, ReloadContext
from reme_core.adapting import RELOAD_TOOL
from reme_core.errors import ReMeError, StoreError
from reme_core.schema import make_scope
from reme_core.schema.blobs import LONG_BASE64
from reme_core.schema.plain import as_json, clean_text, usable_id

if TYPE_CHECKING:
    from reme_core import ReMe

_LOG = logging.getLogger("reme_agentscope")

# Lone surrogates, which no file keeps, and line breaks that JSON leaves as they are.
_UNKEPT = re.compile("[\x00\x85\u2028\u2029\ud800-\udfff]")
_MAX_NAME = 200


class ReMeOffloader(ClosedAtEnd):
    """Keeps what leaves a context; give it to `Agent(offloader=...)`, and its tools to the agent's toolkit.

    Texts lie in the memory, and in files of its folder where the memory fails; data lie in files, and in the memory
    where the folder fails. The text that it returns names the reference and the tool that loads it again. It raises
    only where nothing could be written: the agent's context is then left as it was.

    Whose it is says `user_name`; sessions share no reference. `delete_all_memories` of that user removes the files too,
    as the memory was told of their folder; files of a memory that was never reached stay.
    """

    def __init__(
        self, workspace_dir: str | Path = ".reme", *, user_name: str | None = None, reme: ReMe | None = None
    ) -> None:
        """Keep the settings; nothing is opened.

        Args:
            workspace_dir: The folder of the files, and of the memory where none is handed in.
            user_name: Whose contexts they are; None: `default`.
            reme: A memory; it stays open.

        Raises:
            InvalidInputError: A user name that can't be one, such as a blank one.
            ConfigurationError: Something else than a `ReMe`, or a folder whose name can't be one.
        """
        self._user_id = user_of(user_name)
        self._memory = OpenedMemory(reme, working_dir=str(workspace_dir))
        self._files = OffloadFiles(Path(workspace_dir).expanduser(), user_id=self._user_id)
        self._is_noted = False

    def __repr__(self) -> str:
        """Name its memory."""
        return f"{type(self).__name__}({self._memory!r})"

    async def close(self) -> None:
        """Close what was built here; the next call would open it again."""
        await logged(self._memory.close())

    async def list_tools(self) -> list[ToolBase]:
        """Return the tool that loads again what left the context; pass it to the agent's toolkit."""
        return [ReloadContext(self._memory, user_id=self._user_id, files=self._files)]

    async def offload_context(self, session_id: str, msgs: list[Msg]) -> str:
        """Keep messages, each a line of JSON, and return what loads them again. Long base64 goes into files.

        Raises:
            StoreError: They are not on disk.
        """
        if not msgs:
            return "nothing (there were no messages)"
        kept = [
            msg.model_copy(update={"content": [await self._with_files(block) for block in msg.content]}) for msg in msgs
        ]
        return await self._keep(session_id, "".join(f"{_dumped(message)}\n" for message in kept), name="context")

    async def offload_tool_result(self, session_id: str, tool_result: ToolResultBlock) -> str:
        """Keep the output of a tool, its data in files, and return what loads it again.

        Raises:
            StoreError: It is not on disk.
        """
        text = await self._text_of(tool_result.output)
        if not text.strip():
            text = _dumped(tool_result)
        return await self._keep(session_id, _kept(text), name=tool_result.name)

    async def offload_data_block(self, block: DataBlock) -> DataBlock:
        """Return a block that points at a file with the data; one that points at a URL comes back unchanged.

        Raises:
            StoreError: The data are not on disk.
        """
        if not isinstance(block.source, Base64Source):
            return block
        media_type = block.source.media_type
        try:
            data = base64.b64decode(block.source.data, validate=True)
        except (binascii.Error, ValueError) as exc:
            # There are no data to point at; AgentScope says of a block without a URL that it is not shown.
            _LOG.error("a data block of type %.80r is no base64 and was not offloaded: %s", media_type, told(exc))
            return block
        try:
            await self._note_folder()
            url = (await asyncio.to_thread(self._files.put_data, data, media_type)).as_uri()
        except OSError as exc:
            _LOG.error("data go into the memory, as the folder takes no file: %s", told(exc))
            url = f"reme://{await self._put_into_memory(DATA_SESSION, block.source.data, name=media_type, after=exc)}"
        return block.model_copy(update={"source": URLSource(url=AnyUrl(url), media_type=media_type)})

    async def _keep(self, session_id: str, text: str, *, name: str) -> str:
        session = usable_id(session_id)
        try:
            info = await self._memory.get().offload_text(
                text, user_id=self._user_id, session_id=session, name=clean_text(name).strip()[:_MAX_NAME] or None
            )
        except Exception as exc:  # noqa: BLE001  # whatever the store has: the text goes into a file, or this raises
            _LOG.error("a context goes into a file, as the memory did not take it: %s", told(exc))
            return _named(await self._put_into_file(session, text, after=exc))
        return _named(info.reference)

    async def _put_into_file(self, session_id: str, text: str, *, after: Exception) -> str:
        try:
            await self._note_folder()
            return await asyncio.to_thread(self._files.put_text, session_id, text)
        except OSError as exc:
            msg = f"nothing was offloaded: the memory failed ({told(after)}), and so did the folder ({told(exc)})"
            raise StoreError(msg) from exc

    async def _note_folder(self) -> None:
        """Tell the memory of the folder, so that erasing the user removes it; anew with the next file if that fails."""
        if self._is_noted:
            return
        try:
            memory = self._memory.get()
            scope = make_scope(memory.memory_space, self._user_id)
            database, folder = memory.database, self._files.folder
            await database.write(lambda connection: database.note_file(connection, scope, folder), within=scope)
        except Exception as exc:  # noqa: BLE001  # whatever the memory has: what leaves the context is kept all the same
            _LOG.warning("erasing the user would not remove %r: %s", str(self._files.folder), told(exc))
        else:
            self._is_noted = True

    async def _put_into_memory(self, session_id: str, text: str, *, name: str, after: Exception) -> str:
        try:
            info = await self._memory.get().offload_text(
                text, user_id=self._user_id, session_id=session_id, name=clean_text(name).strip()[:_MAX_NAME] or None
            )
        except ReMeError as exc:
            msg = f"no data were offloaded: the folder failed ({told(after)}), and so did the memory ({told(exc)})"
            raise StoreError(msg) from exc
        return info.reference

    async def _with_files(self, block: ContentBlock) -> ContentBlock:
        """Return a block of a message with files in place of long base64, also in the output of a tool."""
        if isinstance(block, DataBlock) and isinstance(block.source, Base64Source):
            return block if len(block.source.data) < LONG_BASE64 else await self.offload_data_block(block)
        if isinstance(block, ToolResultBlock) and not isinstance(block.output, str):
            return block.model_copy(update={"output": [await self._with_files(part) for part in block.output]})
        if isinstance(block, HintBlock) and not isinstance(block.hint, str):
            return block.model_copy(update={"hint": [await self._with_files(part) for part in block.hint]})
        return block

    async def _text_of(self, output: str | Sequence[TextBlock | DataBlock]) -> str:
        if isinstance(output, str):
            return output
        parts = []
        for block in output:
            if isinstance(block, TextBlock):
                parts.append(block.text)
            else:
                parts.append(_described(await self.offload_data_block(block)))
        return "\n".join(parts)


def _named(reference: str) -> str:
    return f'{RELOAD_TOOL}(handle="{reference}")'


def _described(block: DataBlock) -> str:
    where = str(block.source.url) if isinstance(block.source, URLSource) else "data that can't be read"
    return f"[{block.source.media_type}: {where}]"


def _dumped(value: Msg | ToolResultBlock) -> str:
    """Return a whole message as one line of JSON; what JSON has no form for becomes a short text."""
    whole: JsonValue
    try:
        whole = value.model_dump(mode="json")
    except ValueError:
        whole = as_json(value.model_dump())
    return _kept(json.dumps(whole, ensure_ascii=False))


def _kept(text: str) -> str:
    """Write what no file keeps as JSON writes it: nothing is lost."""
    return _UNKEPT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
