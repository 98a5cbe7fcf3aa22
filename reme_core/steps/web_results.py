"""Results of tools that fetch from outside, marked as such; and a store that marks them as its messages come in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from reme_core.errors import InvalidInputError
from reme_core.ports import Appended, AppendMessages, FindMessages, Store, WrappedStore
from reme_core.schema import Message, Scope, TrustClass
from reme_core.schema.checks import check_metadata
from reme_core.schema.trust import TRUST

_EARLIER = 50
"""Messages of a session among which calls are looked for; a result follows right behind its call."""


def mark_web(
    messages: Sequence[Message], web_tools: Collection[str], earlier: Sequence[Message] = ()
) -> Sequence[Message]:
    """Return messages, those of class `web` that hold a result of one of these tools.

    A result is of the tool that it names, else of the call that it answers, among these messages or earlier ones
    (InvalidInputError: the metadata of a message have no room for the mark).
    """
    if not web_tools:
        return messages
    calls = _calls([*earlier, *messages])
    return [_marked(item) if _tools_of(item, calls).intersection(web_tools) else item for item in messages]


def _calls(messages: Sequence[Message]) -> dict[str, str]:
    return {block.call_id: block.name for item in messages for block in item.content if block.type == "tool_call"}


def _tools_of(message: Message, calls: Mapping[str, str]) -> set[str | None]:
    results = [block for block in message.content if block.type == "tool_result"]
    if message.role == "tool" and not results:
        return {message.name}
    return {block.name or calls.get(block.call_id) or message.name for block in results}


def _marked(message: Message) -> Message:
    try:
        metadata = check_metadata({**message.metadata, TRUST: TrustClass.WEB.value})
    except ValueError as exc:
        msg = f"message {message.message_id!r}: its metadata leave no room for the mark of a web tool: {exc}"
        raise InvalidInputError(msg) from exc
    return message.model_copy(update={"metadata": metadata})


class WebMarkingStore(WrappedStore):
    """A `Store` that marks the results of some tools as messages are appended; see `mark_web`."""

    def __init__(self, store: Store, web_tools: Collection[str]) -> None:
        """Keep the store, and the names of the tools."""
        super().__init__(store)
        self._web_tools = frozenset(web_tools)

    def __repr__(self) -> str:
        """Name the store."""
        return repr(self._store)

    async def append(self, scope: Scope, request: AppendMessages) -> Appended:
        """Add messages; see `Store.append`."""
        calls = _calls(request.messages)
        earlier: list[Message] = []
        if any(None in _tools_of(item, calls) for item in request.messages):  # the call came with an append before
            wanted = FindMessages(session_id=request.session_id, limit=_EARLIER, newest_first=True)
            page = await self._store.find_messages(scope, wanted)
            earlier = [stored.message for stored in reversed(page.messages)]
        marked = mark_web(request.messages, self._web_tools, earlier)
        return await self._store.append(scope, replace(request, messages=marked))
