"""Resources: a memory, a memory block, a session and the profile of the user, as texts that quote what was said."""

from __future__ import annotations

from urllib.parse import quote, unquote

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

from reme_core.errors import NotFoundError
from reme_core.retrieval.hits import hit_of_memory, hit_of_message
from reme_core.schema import found_text
from reme_core.serve.access import Right
from reme_core.serve.mcp.arguments import IdArguments
from reme_core.serve.mcp.caller import Caller
from reme_core.serve.mcp.reading import MAX_TEXT_CHARS, get_memory
from reme_core.steps.memory_blocks import blocks_text

PROFILE_URI = "reme://profile"
_MEMORY, _BLOCK, _SESSION = "reme://memory/", "reme://block/", "reme://session/"
_MIME = "text/plain"
_PROFILE_MEMORIES = 50
_SESSION_MESSAGES = 200

RESOURCES = [
    Resource(
        uri=PROFILE_URI,
        name="profile",
        title="What is known of the user",
        description="Memory blocks, and identity and personal memories, the newest first.",
        mime_type=_MIME,
    )
]
TEMPLATES = [
    ResourceTemplate(
        uri_template=f"{_MEMORY}{{id}}",
        name="memory",
        title="A memory",
        description="A memory with its messages and history.",
        mime_type=_MIME,
    ),
    ResourceTemplate(
        uri_template=f"{_BLOCK}{{label}}",
        name="block",
        title="A memory block",
        description="A text that stands in the agent's prompt under a label.",
        mime_type=_MIME,
    ),
    ResourceTemplate(
        uri_template=f"{_SESSION}{{id}}",
        name="session",
        title="A session",
        description=f"The last {_SESSION_MESSAGES} messages of a session.",
        mime_type=_MIME,
    ),
]


def memory_uri(memory_id: str) -> str:
    """Return the address of a memory or a message."""
    return f"{_MEMORY}{quote(memory_id, safe='')}"


async def read_resource(caller: Caller, uri: str) -> ReadResourceResult:
    """Return a resource (MCPError: there is none of this address for this caller)."""
    caller.principal.require(Right.READ)
    text = await _text(caller, uri)
    if text is None:
        there = f"{PROFILE_URI}, {_BLOCK}LABEL, and {_MEMORY}ID and {_SESSION}ID with ids that recall gives"
        msg = f"no resource here: there are {there}"
        raise MCPError(INVALID_PARAMS, msg, {"uri": uri})
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=_MIME, text=text)])


async def _text(caller: Caller, uri: str) -> str | None:
    if uri == PROFILE_URI:
        blocks = await caller.memory.memory_block_text(user_id=caller.user_id)
        told = [text for text in (blocks, await profile_text(caller)) if text]
        return "\n".join(told) or "Nothing is known of the user yet."
    if uri.startswith(_SESSION):
        return await session_text(caller, unquote(uri.removeprefix(_SESSION))) or None
    try:
        if uri.startswith(_BLOCK):
            label = unquote(uri.removeprefix(_BLOCK))
            return blocks_text([await caller.memory.get_memory_block(label, user_id=caller.user_id)])
        if uri.startswith(_MEMORY):
            return (await get_memory(caller, IdArguments(id=unquote(uri.removeprefix(_MEMORY))))).text
    except (NotFoundError, ValueError):  # no id at all is as unknown as one that nobody has
        pass
    return None


async def profile_text(caller: Caller) -> str:
    """Return what is known of the user, quoted; "" where nothing is."""
    page = await caller.memory.list_memories(
        user_id=caller.user_id, memory_type=["identity", "personal"], limit=_PROFILE_MEMORIES
    )
    return found_text([hit_of_memory(item) for item in page.memories], max_chars=MAX_TEXT_CHARS)


async def session_text(caller: Caller, session_id: str) -> str:
    """Return the last messages of a session in their order, quoted; "" where it has none."""
    page = await caller.memory.find_messages(
        user_id=caller.user_id, session_id=session_id, limit=_SESSION_MESSAGES, newest_first=True
    )
    hits = [hit_of_message(caller.principal.scope, item) for item in reversed(page.messages)]
    return found_text(hits, max_chars=MAX_TEXT_CHARS)
