"""Table of the HTTP calls: which path is which method of `ReMe`, and which right it takes.

The routes, the OpenAPI document and the client are made of it. What can't be taken back by `undo` takes the right
`admin`, and so does what only an application may do; all else that writes takes `write`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, TypeAdapter

from reme_core.facade.reme import ReMe
from reme_core.serve.access import Right
from reme_core.serve.http import handlers
from reme_core.serve.http.forms import Handler, answer_of, form_of

Verb: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]
_PLACEHOLDER = re.compile(r"{(\w+)}")


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        verb: The HTTP method.
        path: With `{name}` for arguments.
        right: What the key must allow.
        handler: A method of `ReMe`, or a function on one.
        finish: Makes the answer of what the handler returns, where that is not it.
        is_long: Whether it may ask a model, so that a stream of events is worth it.
        is_kept: Whether the answer to an `Idempotency-Key` is kept.
        admin_flag: An argument that takes the right `admin` where it is true.
    """

    verb: Verb
    path: str
    right: Right
    handler: Handler
    finish: Callable[[Any], BaseModel] | None = None
    is_long: bool = False
    is_kept: bool = True
    admin_flag: str = ""

    @property
    def name(self) -> str:
        """The name of the method that it is."""
        return self.handler.__name__

    @property
    def form(self) -> type[BaseModel]:
        """The model of its arguments."""
        return form_of(self.handler)

    @property
    def answer(self) -> TypeAdapter[Any]:
        """What writes and reads its answer."""
        return answer_of(self.finish or self.handler)

    @property
    def path_names(self) -> tuple[str, ...]:
        """The arguments that stand in the path."""
        return tuple(_PLACEHOLDER.findall(self.path))

    @property
    def has_body(self) -> bool:
        """Whether the other arguments come as JSON, and not behind `?`."""
        return self.verb in {"POST", "PATCH"}

    async def run(self, memory: ReMe, user_id: str, arguments: Mapping[str, Any]) -> object:
        """Call what it is for a user, and return the answer (ReMeError)."""
        whose = {"user_id": user_id} if "user_id" in signature(self.handler).parameters else {}
        answer = await self.handler(memory, **whose, **arguments)
        return answer if self.finish is None else self.finish(answer)


_READ, _WRITE, _ADMIN = Right.READ, Right.WRITE, Right.ADMIN

CALLS: tuple[Call, ...] = (
    Call("GET", "/v1/memories", _READ, ReMe.list_memories),
    Call("POST", "/v1/memories", _WRITE, ReMe.add_memory),
    Call("POST", "/v1/memories/batch", _WRITE, ReMe.add_memories),
    Call("GET", "/v1/memories/{memory_id}", _READ, ReMe.get_memory),
    Call("PATCH", "/v1/memories/{memory_id}", _WRITE, ReMe.update_memory),
    Call("DELETE", "/v1/memories/{memory_id}", _WRITE, ReMe.delete_memory, admin_flag="erase"),
    Call("POST", "/v1/memories/{memory_id}/supersede", _WRITE, ReMe.supersede_memory),
    Call("GET", "/v1/memories/{memory_id}/history", _READ, handlers.history),
    Call("GET", "/v1/changes", _READ, ReMe.changes, handlers.with_changes_text),
    Call("GET", "/v1/relations", _READ, ReMe.neighbours),
    Call("GET", "/v1/relations/path", _READ, ReMe.path),
    Call("POST", "/v1/evolve", _WRITE, ReMe.evolve, is_long=True),
    Call("POST", "/v1/runs/{run_id}/undo", _WRITE, ReMe.undo),
    Call("GET", "/v1/memory_blocks", _READ, ReMe.memory_blocks),
    Call("GET", "/v1/memory_blocks/{label}", _READ, ReMe.get_memory_block),
    Call("PATCH", "/v1/memory_blocks/{label}", _WRITE, ReMe.set_memory_block),
    Call("DELETE", "/v1/memory_blocks/{label}", _WRITE, ReMe.delete_memory_block),
    Call("POST", "/v1/memory_blocks/{label}/grant", _ADMIN, ReMe.grant_memory_block),
    Call("DELETE", "/v1/memory_blocks/{label}/grant", _ADMIN, ReMe.revoke_memory_block),
    Call("GET", "/v1/memory_block_text", _READ, ReMe.memory_block_text),
    Call("GET", "/v1/messages", _READ, ReMe.find_messages),
    Call("POST", "/v1/messages/lookup", _READ, ReMe.get_messages),
    Call("GET", "/v1/messages/{message_id}", _READ, handlers.get_message),
    Call("GET", "/v1/blobs/{ref}", _READ, ReMe.read_blob),
    Call("GET", "/v1/blocks", _READ, handlers.list_blocks),
    Call("GET", "/v1/blocks/{block_id}", _READ, ReMe.get_block),
    Call("POST", "/v1/retrieve", _READ, ReMe.retrieve, handlers.with_text, is_long=True),
    Call("POST", "/v1/summary", _WRITE, ReMe.summary, is_long=True),
    Call("POST", "/v1/summary/preview", _READ, ReMe.preview_summary, handlers.with_preview_text, is_long=True),
    Call("POST", "/v1/chat", _WRITE, ReMe.chat, is_long=True),
    Call("GET", "/v1/stats", _READ, ReMe.stats),
    Call("GET", "/v1/cost", _READ, ReMe.costs),
    Call("GET", "/v1/cost/users", _ADMIN, handlers.costs_of_users),
    Call("DELETE", "/v1/users/me", _ADMIN, ReMe.delete_all_memories, is_kept=False),
    Call("GET", "/v1/jobs", _READ, handlers.list_jobs),
    Call("GET", "/v1/jobs/users", _ADMIN, handlers.users_with_jobs),
    Call("POST", "/v1/jobs/flush", _ADMIN, ReMe.flush, is_long=True),
    Call("POST", "/v1/jobs/{job_id}/retry", _WRITE, ReMe.retry_job),
    Call("DELETE", "/v1/jobs/{job_id}", _ADMIN, ReMe.drop_job),
    Call("POST", "/v1/tasks/summary", _WRITE, ReMe.summary_task, is_long=True),
    Call("POST", "/v1/tasks/retrieve", _READ, ReMe.retrieve_task_memory, is_long=True),
    Call("POST", "/v1/tasks/uses", _WRITE, ReMe.record_use),
    Call("POST", "/v1/tasks/feedback", _WRITE, ReMe.observe),
    Call("POST", "/v1/tasks/forget", _WRITE, ReMe.forget_memories),
    Call("GET", "/v1/tools", _READ, ReMe.list_tools),
    Call("GET", "/v1/tools/calls", _READ, ReMe.list_tool_calls),
    Call("POST", "/v1/tools/calls", _WRITE, ReMe.add_tool_call_results),
    Call("POST", "/v1/tools/summary", _WRITE, ReMe.summarize_tool_memory, is_long=True),
    Call("POST", "/v1/tools/retrieve", _READ, ReMe.retrieve_tool_memory),
    Call("POST", "/v1/context/check", _READ, ReMe.check_context),
    Call("POST", "/v1/context/prepare", _WRITE, ReMe.pre_reasoning_hook, is_long=True),
    Call("POST", "/v1/context/compact", _WRITE, ReMe.compact_memory, is_long=True),
    Call("POST", "/v1/context/tool_results", _WRITE, ReMe.compact_tool_result),
    Call("DELETE", "/v1/context/{session_id}", _WRITE, ReMe.close_context),
    Call("GET", "/v1/offloads", _READ, handlers.list_offloads),
    Call("POST", "/v1/offloads", _WRITE, ReMe.offload_context),
    Call("POST", "/v1/offloads/texts", _WRITE, ReMe.offload_text),
    Call("POST", "/v1/offloads/reload", _READ, ReMe.reload_context),
    Call("POST", "/v1/offloads/clean", _ADMIN, ReMe.clean_offloads),
)
"""In the order in which paths are tried: one with a name before one with an argument."""
