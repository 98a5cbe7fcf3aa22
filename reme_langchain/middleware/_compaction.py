"""A context that is over its budget, brought below it, in the request and in the thread alike."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import cast

from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse, ResponseT
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, SystemMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from reme_core import Message, PreparedContext, ReMe
from reme_core.schema import make_scope
from reme_core.schema.plain import clean_text
from reme_core.working.late_results import tell_late_results
from reme_core.working.messages_to_keep import Asides, check_context
from reme_core.working.ports import off_loop
from reme_core.working.prepare import BeforeChange, ContextRequest, pre_reasoning_hook
from reme_langchain._place import HookContext
from reme_langchain.messages import to_langchain
from reme_langchain.middleware._own_messages import (
    ConvertedMessages,
    as_cut,
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
        self.limits = settings.limits
        self._forms = ConvertedMessages()
        self._tools: tuple[list[object], str] = ([], "")

    async def fit(
        self,
        context: ModelContext,
        state: Sequence[AnyMessage],
        place: HookContext,
        before: BeforeChange | None = None,
    ) -> CompactedRequest | None:
        """Return a context that fits; None where this one does.

        All that leaves is on disk and in the summary first. If that fails, what fits is sent, the newest messages, and
        the thread stays as it is. Nothing is raised.

        Args:
            context: What would be sent.
            state: The messages of the thread.
            place: Whose it is.
            before: See `pre_reasoning_hook`.
        """
        counted = self._counted(context)
        try:
            forms = await off_loop(partial(self._read, context.messages), len(context.messages))
            prepared = await pre_reasoning_hook(
                self._memory.working,
                make_scope(self._memory.memory_space, place.user_id),
                self._request(context.messages, forms, place, counted),
                before=before,
            )
        except Exception as exc:  # noqa: BLE001  # an agent goes on with what fits, whatever a model or store has
            _LOG.warning("the context was not compacted: %s: %s", type(exc).__name__, exc)
            return self._trimmed(context, counted)
        for problem in prepared.problems:
            _LOG.warning("a summary of the context was made without the model: %s", problem)
        return _fitted(context.messages, forms, prepared, state) if prepared.has_changed else None

    def _request(
        self, messages: Sequence[AnyMessage], forms: Sequence[Message | None], place: HookContext, counted: str
    ) -> ContextRequest:
        return ContextRequest(
            session_id=place.session_id,
            messages=[form for form in forms if form is not None],
            summary=clean_text(_shown_summary(messages)),
            system_prompt=counted,
            limits=self.limits,
            asides=_asides(messages, forms),
        )

    def _trimmed(self, context: ModelContext, counted: str) -> CompactedRequest | None:
        """Leave out the oldest messages, calls with their results, and tell late results, in this request alone."""
        try:
            forms = self._read(context.messages)
            said = [form for form in forms if form is not None]
            told = tell_late_results(said, _shown_summary(context.messages))
            check = check_context(
                told,
                limits=self.limits,
                ledger=self._memory.working.ledger,
                system_prompt=counted,
                asides=_asides(context.messages, forms),
            )
        except Exception as exc:  # noqa: BLE001  # as above: then the model itself may say that it is too long
            _LOG.warning("the context was not trimmed: %s: %s", type(exc).__name__, exc)
            return None
        kept = {form.message_id: form for form in check.to_keep}
        messages: list[AnyMessage] = []
        for message, form in zip(context.messages, forms, strict=True):
            shown = form if form is None else kept.get(form.message_id)
            if shown is form:
                messages.append(message)
            elif shown is not None:
                messages += _sent(shown)
        return CompactedRequest(messages=messages, update=[]) if check.is_over or told != tuple(said) else None

    def _read(self, messages: Sequence[AnyMessage]) -> list[Message | None]:
        """Return messages in the core's form, and None for one that shows a summary."""
        now = self._memory.clock.now()
        return [None if part_of(message) == "summary" else self._forms.read(message, now=now) for message in messages]

    def _counted(self, context: ModelContext) -> str:
        """Return what is sent besides, in one text: system prompt and tools."""
        system = "" if context.system is None else context.system.text
        return clean_text(f"{system}\n{self._tools_text(context.tools)}")

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
    anchor, is_shown = _anchor(messages, forms, kept, in_thread), False
    for message, form in zip(messages, forms, strict=True):
        changed = None if form is None else kept.get(form.message_id)
        if form is not None and changed is not None and changed.content is form.content:
            sent.append(message)
        elif changed is not None:
            views = _sent(changed)
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


def _shown_summary(messages: Sequence[AnyMessage]) -> str:
    summaries = [summary_text(message) for message in messages if part_of(message) == "summary"]
    return summaries[-1] if summaries else ""


def _sent(view: Message) -> list[AnyMessage]:
    """Return what is sent for a message that is shown otherwise than it was said."""
    return cast("list[AnyMessage]", [as_cut(message, view) for message in to_langchain([view])])


def _asides(messages: Sequence[AnyMessage], forms: Sequence[Message | None]) -> Asides:
    """Tell the memories that were recalled: nobody has said them."""
    pairs = zip(messages, forms, strict=True)
    unsaid = (form.message_id for message, form in pairs if form is not None and part_of(message) is not None)
    return Asides(unsaid=frozenset(unsaid))


def _anchor(
    messages: Sequence[AnyMessage],
    forms: Sequence[Message | None],
    kept: Mapping[str, Message],
    in_thread: set[str | None],
) -> AnyMessage | None:
    """Return the first message that leaves, or the summary before, of those that the thread has."""
    for message, form in zip(messages, forms, strict=True):
        leaves = form is None or form.message_id not in kept
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
