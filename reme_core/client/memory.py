"""ReMeClient: the methods of `ReMe` on a memory that another process serves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import update_wrapper
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from reme_core.client.connection import Connection
from reme_core.errors import InvalidInputError
from reme_core.facade.parts import file_path
from reme_core.facade.reme import ReMe
from reme_core.schema import (
    Block,
    ChatReply,
    Event,
    Job,
    OffloadInfo,
    TransferCounts,
    make_scope,
    new_id,
    parse_messages,
    parse_trajectories,
)
from reme_core.serve.http.calls import CALLS
from reme_core.transfer.json_lines import write_lines
from reme_core.transfer.scope_transfer import transfer_counts

if TYPE_CHECKING:
    import httpx2 as httpx

    from reme_core.facade.sync import SyncReMe

P = ParamSpec("P")
T = TypeVar("T")

_CALLS = {call.name: call for call in CALLS}
_MAX_PAGE = 500


def _served(
    method: Callable[Concatenate[Any, P], Coroutine[object, object, T]],
) -> Callable[Concatenate[ReMeClient, P], Coroutine[object, object, T]]:
    """Return a method of this name, signature and docstring that has a service run it."""
    names = signature(method)

    async def send(self: ReMeClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        given = names.bind(self, *args, **kwargs).arguments
        given.pop("self")
        answer: T = await self._send(method.__name__, given)
        return answer

    update_wrapper(send, method)
    return send


class ReMeClient:
    """A memory behind `reme serve`, with the methods of `ReMe`: a program moves there by changing one line.

    Whose memory a call touches is said by the key: `user_id` may be left out, or is its user; with the right `act_as`
    it is any user of its space. The shared scope is read by `include_shared=True` alone.
    What takes an object or names a file of the service is not there: `set_summarizer`, `backup`, `import_`, `dump` and
    the like. Errors are those of `ReMe`, and `UnauthorizedError` and `ForbiddenError` of `reme_core.serve.access`.
    A request that did not come through is sent again under the same `Idempotency-Key`. One object serves one event
    loop; `sync()` has one of its own.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 3,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Keep the address; nothing is sent before the first call.

        Args:
            url: Such as `http://127.0.0.1:2334`.
            api_key: A token that `reme keys add` printed; None where the service asks for none.
            timeout_s: Seconds of silence after which a request has failed; work that takes long is not silent.
            max_retries: How often a request that did not come through is sent again.
            transport: What carries requests, if not the network.
        """
        self._connection = Connection(
            url=url, api_key=api_key, timeout_s=timeout_s, max_retries=max_retries, transport=transport
        )

    def __repr__(self) -> str:
        """Name the address."""
        return f"ReMeClient({self._connection.url!r})"

    async def __aenter__(self) -> Self:
        """Return the memory."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def close(self, *, finish_jobs: bool = True) -> None:
        """Close the connections. `finish_jobs` is for `ReMe.close`: here the service does them."""
        await self._connection.close()

    def sync(self) -> SyncReMe:
        """Return this memory with methods that block; see `ReMe.sync`."""
        from reme_core.facade.sync import SyncReMe  # noqa: PLC0415  # few need it

        return SyncReMe(cast("ReMe", self))  # it calls methods by their names

    summary = _served(ReMe.summary)
    preview_summary = _served(ReMe.preview_summary)
    retrieve = _served(ReMe.retrieve)
    add_memory = _served(ReMe.add_memory)
    add_memories = _served(ReMe.add_memories)
    get_memory = _served(ReMe.get_memory)
    update_memory = _served(ReMe.update_memory)
    supersede_memory = _served(ReMe.supersede_memory)
    delete_memory = _served(ReMe.delete_memory)
    list_memories = _served(ReMe.list_memories)
    changes = _served(ReMe.changes)
    neighbours = _served(ReMe.neighbours)
    path = _served(ReMe.path)
    evolve = _served(ReMe.evolve)
    undo = _served(ReMe.undo)
    memory_blocks = _served(ReMe.memory_blocks)
    memory_block_text = _served(ReMe.memory_block_text)
    get_memory_block = _served(ReMe.get_memory_block)
    set_memory_block = _served(ReMe.set_memory_block)
    delete_memory_block = _served(ReMe.delete_memory_block)
    grant_memory_block = _served(ReMe.grant_memory_block)
    revoke_memory_block = _served(ReMe.revoke_memory_block)
    get_messages = _served(ReMe.get_messages)
    find_messages = _served(ReMe.find_messages)
    read_blob = _served(ReMe.read_blob)
    get_block = _served(ReMe.get_block)
    stats = _served(ReMe.stats)
    costs = _served(ReMe.costs)
    delete_all_memories = _served(ReMe.delete_all_memories)
    flush = _served(ReMe.flush)
    retry_job = _served(ReMe.retry_job)
    drop_job = _served(ReMe.drop_job)
    summary_task = _served(ReMe.summary_task)
    retrieve_task_memory = _served(ReMe.retrieve_task_memory)
    record_use = _served(ReMe.record_use)
    forget_memories = _served(ReMe.forget_memories)
    observe = _served(ReMe.observe)
    add_tool_call_results = _served(ReMe.add_tool_call_results)
    summarize_tool_memory = _served(ReMe.summarize_tool_memory)
    retrieve_tool_memory = _served(ReMe.retrieve_tool_memory)
    list_tool_calls = _served(ReMe.list_tool_calls)
    list_tools = _served(ReMe.list_tools)
    check_context = _served(ReMe.check_context)
    pre_reasoning_hook = _served(ReMe.pre_reasoning_hook)
    compact_tool_result = _served(ReMe.compact_tool_result)
    compact_memory = _served(ReMe.compact_memory)
    offload_context = _served(ReMe.offload_context)
    offload_text = _served(ReMe.offload_text)
    reload_context = _served(ReMe.reload_context)
    clean_offloads = _served(ReMe.clean_offloads)
    close_context = _served(ReMe.close_context)

    async def chat(
        self,
        message: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> ChatReply:
        """See `ReMe.chat`; `on_text` is given the answer in one piece."""
        given = {"message": message, "user_id": user_id, "shared": shared, "session_id": session_id}
        reply: ChatReply = await self._send("chat", given)
        if on_text is not None:
            on_text(reply.text)
        return reply

    async def history(self, memory_id: str, *, user_id: str | None = None, shared: bool = False) -> list[Event]:
        """See `ReMe.history`."""
        pages = self._pages("history", {"memory_id": memory_id, "user_id": user_id, "shared": shared})
        return [event async for page in pages for event in page.events]

    async def list_jobs(self, *, user_id: str | None = None, shared: bool = False) -> list[Job]:
        """See `ReMe.list_jobs`."""
        return [
            job async for page in self._pages("list_jobs", {"user_id": user_id, "shared": shared}) for job in page.jobs
        ]

    async def users_with_jobs(self) -> list[str]:
        """See `ReMe.users_with_jobs`."""
        return [user async for page in self._pages("users_with_jobs", {}) for user in page.users]

    async def list_blocks(
        self,
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[Sequence[Block], str | None]:
        """See `ReMe.list_blocks`."""
        given = {"user_id": user_id, "shared": shared, "session_id": session_id, "limit": limit, "cursor": cursor}
        page = await self._send("list_blocks", given)
        return page.blocks, page.next_cursor

    async def list_offloads(
        self,
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str | None = None,
        limit: int = 100,
        newest_first: bool = False,
        cursor: str | None = None,
    ) -> tuple[Sequence[OffloadInfo], str | None]:
        """See `ReMe.list_offloads`."""
        given = {"user_id": user_id, "shared": shared, "session_id": session_id, "limit": limit, "cursor": cursor}
        page = await self._send("list_offloads", {**given, "newest_first": newest_first})
        return page.offloads, page.next_cursor

    async def export(self, path: str | Path, *, user_id: str | None = None, shared: bool = False) -> TransferCounts:
        """Write everything of a user to a file of this machine; see `ReMe.export`."""
        counts = Counter[str]()

        async def counted() -> AsyncIterator[str]:
            async for line in self._connection.lines("/v1/export", _named(user_id, shared)):
                counts[json.loads(line)["kind"]] += 1
                yield line

        await write_lines(file_path(path), counted())
        return transfer_counts(counts)

    async def _pages(self, name: str, given: dict[str, object]) -> AsyncIterator[Any]:
        cursor: str | None = None
        while True:
            page = await self._send(name, {**given, "limit": _MAX_PAGE, "cursor": cursor})
            yield page
            if (cursor := page.next_cursor) is None:
                return

    async def _send(self, name: str, given: dict[str, Any]) -> Any:  # noqa: ANN401  # of the method's type
        user_id = _named(given.pop("user_id", None), given.pop("shared", False))
        _give_ids(name, given)
        return await self._connection.send(_CALLS[name], user_id, given)


def _named(user_id: object, shared: object) -> str | None:
    """Return the user as the service is told, None for that of the key (InvalidInputError)."""
    if shared is not False:
        msg = "shared: a service serves users; include_shared=True reads the shared scope beside a user's own"
        raise InvalidInputError(msg)
    return None if user_id is None else make_scope("space", user_id).user_id


def _give_ids(name: str, given: dict[str, Any]) -> None:
    """Give ids to what has none, so that the service knows it when it comes again (InvalidInputError)."""
    if "trajectories" in given:
        given["trajectories"] = parse_trajectories(given["trajectories"])
    if "messages" not in given:
        return
    given["messages"] = parse_messages(given["messages"])
    if name in {"summary", "offload_context"} and given["messages"] and given.get("session_id") is None:
        given["session_id"] = new_id()
        if name == "summary" and given.get("end_session") is None:
            given["end_session"] = True
