"""A context that is over its budget, brought below it, in the request and in the thread alike."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import cast

from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse, ResponseT
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, SystemMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from reme_core import Message, PreparedContext, ReMe
from reme_core.schema.plain import clean_text
from reme_langchain._place import HookContext
from reme_langchain._searching import known_messages
from reme_langchain.messages import to_langchain
from reme_langchain.middleware._capture import untimed
from reme_langchain.middleware._own_messages import (
    ConvertedMessages,
    as_cut,
    most_tokens,
    most_tokens_of,
    part_of,
    summary_message,
    summary_text,
)
from reme_langchain.middleware._settings import Compact

_LOG = logging.getLogger("reme")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelContext:
    """What would be sent to a model."""

    messages: Sequence[AnyMessage]
    system: SystemMessage | None
    tools: Sequence[BaseTool | dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedRequest:
    """What is sent instead, and what the thread has to be told so that it stays so."""

    messages: list[AnyMessage]
    update: list[BaseMessage]


class ContextCompactor:
    """Decides by what was decided before: a context changes only when it is over its budget."""

    def __init__(self, memory: ReMe, settings: Compact) -> None:
        """Keep the settings."""
        self._memory = memory
        self._limits = settings.limits
        self._forms = ConvertedMessages()
        self._tools: tuple[list[object], str] = ([], "")

    async def fit(
        self,
        context: ModelContext,
        state: Sequence[AnyMessage],
        place: HookContext,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> CompactedRequest | None:
        """Return a context that fits; None where this one does.

        All that leaves is on disk and in the summary first. If that fails, what fits is sent, the newest messages, and
        the thread stays as it is. Nothing is raised.

        Args:
            context: What would be sent.
            state: The messages of the thread.
            place: Whose it is.
            before: Awaited before anything is cut or leaves.
        """
        counted = self._counted(context)
        if self._surely_fits(context, counted):
            return None
        try:
            found = await self._prepare(context, place, counted, before)
        except Exception as exc:  # noqa: BLE001  # an agent goes on with what fits, whatever a model or store has
            _LOG.warning("the context was not compacted: %s: %s", type(exc).__name__, exc)
            return await self._trimmed(context, counted)
        if found is None:
            return None
        prepared, forms = found
        for problem in prepared.problems:
            _LOG.warning("a summary of the context was made without the model: %s", problem)
        return _fitted(context.messages, forms, prepared, state) if prepared.has_changed else None

    def _surely_fits(self, context: ModelContext, counted: str) -> bool:
        """Tell by a bound whether a context fits: to read a long one costs more than to look at it."""
        room = self._limits.threshold - most_tokens(counted)
        for message in context.messages:
            room -= most_tokens_of(message)
            if room < 0:
                return False
        return True

    async def _prepare(
        self, context: ModelContext, place: HookContext, counted: str, before: Callable[[], Awaitable[None]] | None
    ) -> tuple[PreparedContext, list[Message | None]] | None:
        """Have the core bring the context below its budget; None where it is."""
        forms = self._read(context.messages)
        summaries = [summary_text(message) for message in context.messages if part_of(message) == "summary"]
        summary = summaries[-1] if summaries else ""
        if not await self._will_change(forms, counted, summary):
            return None
        if before is not None:
            await before()
        forms = await self._as_stored(context.messages, forms, place)
        prepared = await self._memory.pre_reasoning_hook(
            [form for form in forms if form is not None],
            user_id=place.user_id,
            session_id=place.session_id,
            system_prompt=counted,
            compressed_summary=summary,
            limits=self._limits,
        )
        return prepared, forms

    async def _as_stored(
        self, messages: Sequence[AnyMessage], forms: Sequence[Message | None], place: HookContext
    ) -> list[Message | None]:
        """Give messages the time at which they were captured: by it the memory knows what it has, though it is cut."""
        ids = [form.message_id for form in forms if form is not None]
        times = {
            stored.message.message_id: stored.message.created_at
            for stored in await known_messages(self._memory, place.user_id, ids)
        }
        timed: list[Message | None] = []
        for message, form in zip(messages, forms, strict=True):
            said_at = None if form is None else times.get(form.message_id)
            if form is None or said_at is None or said_at == form.created_at:
                timed.append(form)
                continue
            known = untimed(form.model_copy(update={"created_at": said_at}))
            self._forms.remember(message, known)
            timed.append(known)
        return timed

    async def _will_change(self, forms: Sequence[Message | None], counted: str, summary: str) -> bool:
        """Tell whether the core would cut something, or have it leave; it answers with the same context otherwise."""
        said = [form for form in forms if form is not None]
        longest = self._limits.recent_bytes
        outputs = (block.output for form in said for block in form.content if block.type == "tool_result")
        if any(4 * len(output) > longest and len(output.encode()) > longest for output in outputs):
            return True
        check = await self._memory.check_context(
            said, system_prompt=counted, compressed_summary=summary, limits=self._limits
        )
        return check.is_over

    async def _trimmed(self, context: ModelContext, counted: str) -> CompactedRequest | None:
        """Leave out the oldest messages, calls with their results, of this request alone."""
        try:
            forms = self._read(context.messages)
            check = await self._memory.check_context(
                [form for form in forms if form is not None], system_prompt=counted, limits=self._limits
            )
        except Exception as exc:  # noqa: BLE001  # as above: then the model itself may say that it is too long
            _LOG.warning("the context was not trimmed: %s: %s", type(exc).__name__, exc)
            return None
        kept = {id(form) for form in check.to_keep}
        messages = [
            message
            for message, form in zip(context.messages, forms, strict=True)
            if part_of(message) == "summary" or (form is not None and id(form) in kept)
        ]
        return CompactedRequest(messages=messages, update=[]) if check.is_over else None

    def _read(self, messages: Sequence[AnyMessage]) -> list[Message | None]:
        now = self._memory.clock.now()
        return [self._forms.read(message, now=now) if part_of(message) is None else None for message in messages]

    def _counted(self, context: ModelContext) -> str:
        """Return what is sent besides, in one text: system prompt, tools and the memories shown."""
        system = "" if context.system is None else context.system.text
        recalled = (message.text for message in context.messages if part_of(message) == "recall")
        return clean_text("\n".join([system, self._tools_text(context.tools), *recalled]))

    def _tools_text(self, tools: Sequence[BaseTool | dict[str, object]]) -> str:
        known, text = self._tools
        if len(known) != len(tools) or any(one is not other for one, other in zip(known, tools, strict=True)):
            text = json.dumps([convert_to_openai_tool(tool) for tool in tools], default=str)
            self._tools = (list(tools), text)
        return text


def _fitted(
    messages: Sequence[AnyMessage],
    forms: Sequence[Message | None],
    prepared: PreparedContext,
    state: Sequence[AnyMessage],
) -> CompactedRequest:
    """Put the summary where the first message that left was; what changed takes its place, what stays is not touched.

    A message takes another's place in a thread by its id, and so the summary gets the id of that first one: thus the
    commands of other middleware stay what they are, which `REMOVE_ALL_MESSAGES` would undo.
    """
    kept = {form.message_id: form for form in prepared.messages}
    in_thread = {message.id for message in state}
    sent: list[AnyMessage] = []
    update: list[BaseMessage] = []
    anchor, is_shown, follows_kept = _anchor(messages, forms, kept, in_thread), False, False
    for message, form in zip(messages, forms, strict=True):
        if form is None:
            stays, changed = part_of(message) == "recall" and follows_kept, None
        else:
            changed = kept.get(form.message_id)
            stays = follows_kept = changed is not None
        if stays and (form is None or changed is form):
            sent.append(message)
        elif stays and changed is not None:
            views = cast("list[AnyMessage]", list(map(as_cut, to_langchain([changed]))))
            sent += views
            update += [view for view in views if message.id in in_thread]
        else:
            if message is anchor and prepared.compressed_summary:
                shown = summary_message(prepared.compressed_summary, message_id=message.id)
                sent.append(shown)
                is_shown = True
                if message.id in in_thread:
                    update.append(shown)
                    continue
            if message.id in in_thread and message.id is not None:
                update.append(RemoveMessage(id=message.id))
    if prepared.compressed_summary and not is_shown:
        sent.insert(0, summary_message(prepared.compressed_summary, message_id=None))
    if None in in_thread:  # outside a graph, which names them all: without ids, only all at once can be replaced
        update = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *sent]
    return CompactedRequest(messages=sent, update=update)


def _anchor(
    messages: Sequence[AnyMessage],
    forms: Sequence[Message | None],
    kept: Mapping[str, Message],
    in_thread: set[str | None],
) -> AnyMessage | None:
    """Return the first message that leaves, or the summary before, of those that the thread has."""
    for message, form in zip(messages, forms, strict=True):
        leaves = part_of(message) == "summary" if form is None else form.message_id not in kept
        if leaves and message.id in in_thread:
            return message
    return None


def with_update(
    answer: ModelResponse[ResponseT] | AIMessage | ExtendedModelResponse[ResponseT],
    update: Sequence[BaseMessage],
    notes: Mapping[str, object] = MappingProxyType({}),
) -> ExtendedModelResponse[ResponseT]:
    """Add to an answer what the thread has to be told; a command that it has already stays in it."""
    if isinstance(answer, AIMessage):
        answer = ModelResponse(result=[answer])
    if isinstance(answer, ModelResponse):
        answer = ExtendedModelResponse(model_response=answer)
    is_whole = any(message.id == REMOVE_ALL_MESSAGES for message in update)
    # Commands are applied after the answer, which has to be said again where all is replaced.
    told = [*update, *answer.model_response.result] if is_whole else list(update)
    inner = answer.command
    if inner is None:
        return replace(answer, command=Command(update={"messages": told, **notes}))
    if not isinstance(inner.update, Mapping):
        return answer
    theirs = inner.update.get("messages", [])
    theirs = theirs if isinstance(theirs, list) else [theirs]
    messages = [*told, *theirs] if is_whole else [*theirs, *told]
    return replace(answer, command=replace(inner, update={**inner.update, "messages": messages, **notes}))
