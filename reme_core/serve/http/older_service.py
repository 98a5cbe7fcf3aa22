"""The jobs of the older service (ReMe 0.1 to 0.3) under their names, so that its clients move by changing the address.

`workspace_id` is what a user is here: it must be the user id of the key, or its memory space; a key with the right
`act_as` may name any user of its space by it. Fields that only the older service knows are passed over. What took a
path on the server's disk is refused: nobody names files of the service from elsewhere.

Source: https://github.com/modelscope/ReMe: the flows of reme_ai/config/default.yaml, the calls in cookbook/simple_demo.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from reme_core.errors import InvalidInputError
from reme_core.facade.reme import ReMe
from reme_core.schema import Hit, Memory
from reme_core.schema.checks import describe
from reme_core.serve.access import ForbiddenError, Principal, Right
from reme_core.serve.http.forms import MAX_ITEMS, MAX_MESSAGES
from reme_core.serve.service import Service, principal_of

Limit: TypeAlias = Annotated[int, Field(ge=1, le=MAX_ITEMS)]
Messages: TypeAlias = Annotated[list[JsonValue], Field(max_length=MAX_MESSAGES)]


class _Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    workspace_id: str = ""


class OlderTrajectory(BaseModel):
    """An attempt at a task; the older service took a missing score for 0."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    messages: Messages
    score: float = 0.0
    task_id: str = ""


class OlderQuestion(_Job):
    """What is asked: in words, or by the conversation so far."""

    query: str = ""
    messages: Messages = []
    top_k: Limit = 5


class OlderConversations(_Job):
    """What is learnt from: attempts, or the messages of one conversation."""

    trajectories: Annotated[list[OlderTrajectory], Field(max_length=MAX_ITEMS)] = []
    messages: Messages = []

    def conversations(self) -> list[list[JsonValue]]:
        """Return the messages of each conversation."""
        return [item.messages for item in self.trajectories] + ([self.messages] if self.messages else [])


class OlderMemoryUse(_Job):
    """Memories that were used for a task, as `retrieve_task_memory` answered them."""

    memory_dicts: Annotated[list[dict[str, JsonValue]], Field(max_length=MAX_ITEMS)]
    update_utility: bool = False


class OlderThresholds(_Job):
    """Which memories were of no help."""

    freq_threshold: int
    utility_threshold: float


class OlderToolCalls(_Job):
    """Calls of tools."""

    tool_call_results: Messages


class OlderToolNames(_Job):
    """Names of tools, with commas between them."""

    tool_names: str

    def names(self) -> list[str]:
        """Return the names."""
        return [name for name in self.tool_names.split(",") if name.strip()]


class OlderStoreAction(_Job):
    """An action on all memories."""

    action: Literal["delete", "delete_ids", "list", "dump", "load", "copy"]
    memory_ids: Annotated[list[str], Field(max_length=MAX_ITEMS)] = []


class OlderAnswer(BaseModel):
    """An answer in the older service's form: a text for a prompt, and the memories that it is made of."""

    answer: str = ""
    messages: list[JsonValue] = []
    success: bool = True
    metadata: dict[str, JsonValue] = {}


@dataclass(frozen=True, slots=True)
class OlderCall:
    """A job of the older service: the form of its request, what it does, and which right it takes."""

    form: type[_Job]
    right: Right
    handler: Callable[[ReMe, str, Any], Awaitable[OlderAnswer]]


def older_routes(service: Service) -> list[BaseRoute]:
    """Return a POST path for each job."""
    return [
        Route(f"/{name}", partial(_serve, service, call), methods=["POST"], name=name)
        for name, call in OLDER_CALLS.items()
    ]


async def _serve(service: Service, call: OlderCall, request: Request) -> Response:
    principal = principal_of(request)
    try:
        asked = call.form.model_validate_json(await request.body() or b"{}")
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, "body", form=call.form)) from exc
    caller = _in_workspace(principal, asked.workspace_id)
    caller.require(call.right)
    answer = await call.handler(await service.memory_of(caller), caller.scope.user_id, asked)
    return JSONResponse(answer.model_dump(mode="json"))


def _in_workspace(principal: Principal, workspace_id: str) -> Principal:
    """Return who calls, in the workspace that a body names (ForbiddenError)."""
    if workspace_id in {"", principal.scope.user_id, principal.scope.memory_space}:
        return principal
    if Right.ACT_AS in principal.rights:
        return principal.act_as(workspace_id)
    msg = "workspace_id: is neither the user nor the memory space of this key: make a key for it, by `reme keys add`"
    raise ForbiddenError(msg)


async def _retrieve_task(memory: ReMe, user_id: str, asked: OlderQuestion) -> OlderAnswer:
    found = await memory.retrieve_task_memory(
        asked.query or None, user_id=user_id, messages=asked.messages, limit=asked.top_k
    )
    return _told(found.text, [_of_hit(hit) for hit in found.results])


async def _retrieve_personal(memory: ReMe, user_id: str, asked: OlderQuestion) -> OlderAnswer:
    found = await memory.retrieve(asked.query or None, user_id=user_id, limit=asked.top_k)
    return _told(found.text, [_of_hit(hit) for hit in found.results])


async def _summary_task(memory: ReMe, user_id: str, asked: OlderConversations) -> OlderAnswer:
    attempts: list[dict[str, JsonValue]] = [item.model_dump() for item in asked.trajectories]
    attempts += [{"messages": asked.messages, "score": 0.0}] if asked.messages else []
    done = await memory.summary_task(attempts, user_id=user_id, task_name=asked.workspace_id.strip() or "task")
    return _told("", [_of_memory(item) for item in done.memories])


async def _summary_personal(memory: ReMe, user_id: str, asked: OlderConversations) -> OlderAnswer:
    made: list[Memory] = []
    for messages in asked.conversations():
        made += (await memory.summary(messages, user_id=user_id, memory_type="personal")).memories
    return _told("", [_of_memory(item) for item in made])


async def _record_use(memory: ReMe, user_id: str, asked: OlderMemoryUse) -> OlderAnswer:
    ids = [str(item.get("memory_id", "")) for item in asked.memory_dicts]
    used = await memory.record_use(ids, user_id=user_id, helpful=float(asked.update_utility)) if ids else []
    return _told("", [_of_memory(item) for item in used])


async def _forget(memory: ReMe, user_id: str, asked: OlderThresholds) -> OlderAnswer:
    gone = await memory.forget_memories(
        user_id=user_id, freq_threshold=asked.freq_threshold, utility_threshold=asked.utility_threshold
    )
    return _told("", [_of_memory(item) for item in gone.memories])


async def _add_tool_calls(memory: ReMe, user_id: str, asked: OlderToolCalls) -> OlderAnswer:
    recorded = await memory.add_tool_call_results(asked.tool_call_results, user_id=user_id)
    return _told("", [{"memory_type": "tool", "when_to_use": name} for name in recorded.tool_names])


async def _summary_tools(memory: ReMe, user_id: str, asked: OlderToolNames) -> OlderAnswer:
    await memory.summarize_tool_memory(asked.names(), user_id=user_id)
    return await _retrieve_tools(memory, user_id, asked)


async def _retrieve_tools(memory: ReMe, user_id: str, asked: OlderToolNames) -> OlderAnswer:
    found = await memory.retrieve_tool_memory(asked.names(), user_id=user_id)
    known: list[dict[str, JsonValue]] = [
        {
            "memory_id": item.memory_id,
            "memory_type": "tool",
            "when_to_use": item.tool_name,
            "content": item.guideline or item.text,
            "tool_call_results": [call.model_dump(mode="json") for call in item.examples],
        }
        for item in found.results
    ]
    return _told(found.text, known)


async def _act_on_store(memory: ReMe, user_id: str, asked: OlderStoreAction) -> OlderAnswer:
    match asked.action:
        case "list":
            page = await memory.list_memories(user_id=user_id, limit=MAX_ITEMS)
            return _told("", [_of_memory(item) for item in page.memories])
        case "delete_ids":
            for memory_id in asked.memory_ids:
                await memory.delete_memory(memory_id, user_id=user_id)
            return _told(f"{len(asked.memory_ids)} deleted", [])
        case "delete":
            return _told(f"{await _delete_all(memory, user_id)} deleted", [])
        case "dump" | "load" | "copy":
            msg = (
                f"action: {asked.action} would name files of the service: use GET /v1/export, or `reme dump` and `load`"
            )
            raise InvalidInputError(msg)


async def _delete_all(memory: ReMe, user_id: str) -> int:
    """Delete all memories, page by page; messages stay, and so does the key."""
    count = 0
    while page := (await memory.list_memories(user_id=user_id, include_superseded=True, limit=MAX_ITEMS)).memories:
        for item in page:
            await memory.delete_memory(item.memory_id, user_id=user_id)
        count += len(page)
    return count


def _told(answer: str, memories: Sequence[Mapping[str, JsonValue]]) -> OlderAnswer:
    return OlderAnswer(answer=answer, metadata={"memory_list": [dict(item) for item in memories]})


def _of_hit(hit: Hit) -> dict[str, JsonValue]:
    return {
        "memory_id": hit.memory_id or hit.block_id or next(iter(hit.message_ids), ""),
        "memory_type": hit.memory_type or "history",
        "when_to_use": hit.when_to_use,
        "content": hit.memory,
        "score": hit.score,
        "time_created": None if hit.created_at is None else hit.created_at.isoformat(),
        "author": hit.name or "",
        "metadata": hit.metadata,
    }


def _of_memory(memory: Memory) -> dict[str, JsonValue]:
    return {
        "memory_id": memory.memory_id,
        "memory_type": memory.memory_type,
        "when_to_use": memory.when_to_use,
        "content": memory.content,
        "score": memory.confidence,
        "time_created": memory.created_at.isoformat(),
        "time_modified": memory.updated_at.isoformat(),
        "author": memory.author,
        "metadata": memory.metadata,
    }


OLDER_CALLS: Mapping[str, OlderCall] = {
    "retrieve_task_memory": OlderCall(OlderQuestion, Right.READ, _retrieve_task),
    "retrieve_task_memory_simple": OlderCall(OlderQuestion, Right.READ, _retrieve_task),
    "summary_task_memory": OlderCall(OlderConversations, Right.WRITE, _summary_task),
    "summary_task_memory_simple": OlderCall(OlderConversations, Right.WRITE, _summary_task),
    "retrieve_personal_memory": OlderCall(OlderQuestion, Right.READ, _retrieve_personal),
    "summary_personal_memory": OlderCall(OlderConversations, Right.WRITE, _summary_personal),
    "record_task_memory": OlderCall(OlderMemoryUse, Right.WRITE, _record_use),
    "delete_task_memory": OlderCall(OlderThresholds, Right.WRITE, _forget),
    "add_tool_call_result": OlderCall(OlderToolCalls, Right.WRITE, _add_tool_calls),
    "summary_tool_memory": OlderCall(OlderToolNames, Right.WRITE, _summary_tools),
    "retrieve_tool_memory": OlderCall(OlderToolNames, Right.READ, _retrieve_tools),
    "vector_store": OlderCall(OlderStoreAction, Right.WRITE, _act_on_store),
}
"""By their paths."""
