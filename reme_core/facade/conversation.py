"""Conversations on the facade: messages come in, what answers a question goes out, and ReMy talks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from reme_core.errors import ConfigurationError
from reme_core.facade.parts import MemoryParts
from reme_core.schema import ChatReply, RetrieveResult, SummaryPreview, SummaryResult, new_id, parse_messages
from reme_core.steps import user_input as inputs
from reme_core.steps.user_input import missing_model_message
from reme_core.telemetry import traced

if TYPE_CHECKING:
    from reme_core.ports import SummaryRequest


class ConversationMethods:
    """The methods of `ReMe` that take messages in and answer questions."""

    @traced("upsert_memory")
    async def summary(
        self: MemoryParts,
        messages: Sequence[object],
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str | None = None,
        memory_type: str = "auto",
        end_session: bool | None = None,
        background: bool = False,
        on_conflict: str = "raise",
        instructions: str | None = None,
        timezone: str | None = None,
    ) -> SummaryResult:
        """Keep messages, slice them into blocks, index these, and with a chat model make memories of them.

        The messages are on disk before a model is asked. What then fails, or is cut short by the end of the process, is
        a job that `flush`, `close` or the next start finishes.

        Args:
            messages: `Message` objects, dictionaries (OpenAI's form is read) or `(role, text)` pairs. They keep the
                `message_id` and `created_at` that they bring; a message that is there already is not added again.
            user_id: Whose they are.
            shared: The shared scope of the space, in place of a user.
            session_id: The session that they continue; by default a new one, which ends with this call. Either way
                each call ends a block; longer calls are cut by silence, size and `starts_block` as `slicing` says.
            memory_type: `auto`, `personal`, `procedural`, `tool` or `identity`: what to distil. Without a chat model
                nothing is.
            end_session: Nothing more of this session will come: a tool call without its result is sliced as well. By
                default so where `session_id` is left out.
            background: Return once the messages are on disk and can be found by their words; vectors and memories
                follow in the background.
            on_conflict: Of a message whose id is taken by another message, or in another session: `raise` refuses all
                of them; `rename` keeps it under an id that follows from its own, and tells its own in its metadata
                (`reme_original_id`). Handed in again, it is known under that id.
            instructions: What to keep and never to keep of these messages as memories, beside what `SimpleSummarizer`
                was given; kept with the job. Without a chat model no memories are made, and it says nothing.
            timezone: Where the user is, by its IANA name such as "Europe/Berlin": "yesterday" is reckoned in it; by
                default that of the memory.

        Raises:
            InvalidInputError: A message that can't be read, naming it, or instructions that the strategy in use does
                not follow; nothing was kept.
            ConflictError: A message id that is taken by another message, unless it is to be renamed; nothing was kept.
            PartialFailureError: The messages are on disk, what follows failed and is tried again later; `done` is the
                result so far.
        """
        scope = self._scope(user_id, shared=shared)
        zone = self._timezone if timezone is None else timezone
        request = replace(
            await _request(messages, self._clock.now(), session_id, memory_type, end_session, instructions, zone),
            background=inputs.read_flag(background, "background"),
            on_conflict=inputs.read_on_conflict(on_conflict),
        )
        if not request.messages and session_id is None:
            return SummaryResult(session_id=request.session_id)
        result = await self._summarizer.summarize(scope, request)
        await self._work.recover()  # later than the append: what was said is on disk first
        if request.background or result.degraded:
            self._work.start(scope)
        return result

    async def preview_summary(
        self: MemoryParts,
        messages: Sequence[object],
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str | None = None,
        memory_type: str = "auto",
        end_session: bool | None = None,
        instructions: str | None = None,
        timezone: str | None = None,
    ) -> SummaryPreview:
        """Tell what `summary` would remember of messages, with the stored memories that facts were compared with.

        The model is asked what `summary` asks it, and nothing is written: no message, job, memory or event, nor is work
        begun that was left. What the model took is paid, and `costs` tells it under `preview`.

        Args:
            messages: As for `summary`.
            user_id: Whose they would be.
            shared: The shared scope of the space, in place of a user.
            session_id: As for `summary`.
            memory_type: As for `summary`.
            end_session: As for `summary`.
            instructions: As for `summary`.
            timezone: As for `summary`.

        Raises:
            ConfigurationError: There is no chat model, or the summarizer in use is somebody else's own.
            InvalidInputError: A message that can't be read, naming it, or instructions that are not followed.
            ConflictError: A message id that is taken by another message.
            ModelError: The model failed.
            PartialFailureError: Agents of some targets failed; `done` is what the others came to.
        """
        from reme_core.remember.preview import preview
        from reme_core.remember.summarizer import DistillingSummarizer
        from reme_core.steps.distillation import UsageCounter
        from reme_core.steps.web_results import mark_web

        scope = self._scope(user_id, shared=shared)
        zone = self._timezone if timezone is None else timezone
        request = await _request(messages, self._clock.now(), session_id, memory_type, end_session, instructions, zone)
        if not isinstance(self._summarizer, DistillingSummarizer):
            own = "this summarizer has no preview: SimpleSummarizer() and AgenticSummarizer() do"
            raise ConfigurationError(missing_model_message("a preview") if self._summarizer is self._record else own)
        meter = UsageCounter()
        try:
            marked = replace(request, messages=mark_web(request.messages, self._runtime.web_tools))
            return await preview(self._summarizer, scope, marked, meter)
        finally:
            await self._costs.add(scope, "preview", meter.usage)

    @traced("search_memory")
    async def retrieve(
        self: MemoryParts,
        query: str | None = None,
        *,
        user_id: str | None = None,
        shared: bool = False,
        limit: int | None = None,
        top_k: int | None = None,
        token_budget: int | None = None,
        min_score: float | None = None,
        memory_type: str | Sequence[str] = "auto",
        memory_target: str | Sequence[str] | None = None,
        session_id: str | None = None,
        layers: Sequence[str] | None = None,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        trust: str | Sequence[str] | None = None,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
        as_of: datetime | str | None = None,
        include_superseded: bool = False,
        include_shared: bool = False,
        explain: bool = False,
        why_not: str | None = None,
    ) -> RetrieveResult:
        """Find what answers a question: memories first where they do, then what was said, best first.

        Args:
            query: The question, in words; of a pasted text, the first 4,000 characters. One about a time alone ("what
                happened last week?") lists what lies there; so do `start_time` and `end_time` without a query.
            user_id: Whose memory is asked.
            shared: The shared scope of the space, in place of a user.
            limit: At most this many results; 10 unless `token_budget` is given.
            top_k: The same as `limit`.
            token_budget: As many results as fit into this many tokens, repetition dropped.
            min_score: Leaves out results that score lower, in [0, 1], once all are ranked. Memories that answer the
                question score 0.5 and more, messages less.
            memory_type: `auto`, a type or a list of types. Messages are looked at for `auto`, `personal`, `history`.
            memory_target: Only memories about this target, or these.
            session_id: Only messages of this session.
            layers: Some of `memory`, `summary` (blocks) and `message`; by default memories and messages, and where
                these are too few what a model wrote into the block index.
            metadata: Only memories whose metadata have these values.
            trust: Only what rests on words of this class, or these: `user`, `assistant`, `tool`, `web`.
            start_time: Said (memories: observed) at this time or later.
            end_time: Said before this time.
            as_of: Memories that held at this time, and what was said by then. By default all that were not replaced,
                whether what they state is over, holds or lies ahead.
            include_superseded: Also memories that were replaced.
            include_shared: Also the shared scope of the space.
            explain: Tell in `explanation` what each score is made of, what was left out and by which rule, and where
                the time went. The answer is the same.
            why_not: The id of a memory, a message or a block of which `explanation.why_not` tells why it is no result.

        Raises:
            InvalidInputError: Something can't be read, naming it.
            UnsupportedFilterError: A layer was asked for that one of the filters can't be applied to.
            ModelError: The agent of an agentic retriever failed.
        """
        from reme_core.ports import RetrieveRequest

        if token_budget is not None:
            token_budget = inputs.read_count(token_budget, "token_budget")
        request = RetrieveRequest(
            query=inputs.read_question(query, is_timed=start_time is not None or end_time is not None),
            limit=inputs.read_limit(limit, top_k),
            token_budget=token_budget,
            min_score=None if min_score is None else inputs.read_share(min_score, "min_score"),
            layers=inputs.read_layers(layers),
            types=inputs.read_searched_types(memory_type),
            targets=inputs.read_targets(memory_target),
            metadata=inputs.read_metadata_filter(metadata),
            trust=inputs.read_trust(trust),
            session_id=None if session_id is None else inputs.read_id(session_id, "session_id"),
            said_from=inputs.read_time(start_time, "start_time"),
            said_to=inputs.read_time(end_time, "end_time"),
            as_of=inputs.read_time(as_of, "as_of"),
            include_superseded=inputs.read_flag(include_superseded, "include_superseded"),
            include_shared=inputs.read_flag(include_shared, "include_shared"),
            now=self._clock.now(),
            explain=inputs.read_flag(explain, "explain"),
            why_not=None if why_not is None else inputs.read_id(why_not, "why_not"),
        )
        await self._work.recover()
        scope = await self._looked_up(user_id, shared=shared)
        found = await self._retriever.retrieve(scope, request)
        await self._costs.add(scope, "retrieve", found.usage)
        return found

    async def chat(
        self: MemoryParts,
        message: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> ChatReply:
        """Talk with ReMy, who knows what this user's memory holds, and keep the turn.

        The user's memory blocks, where there are any, stand in each prompt as they are then, and ReMy may edit them.
        The turn is on disk when this returns; memories are made of it in the background.

        Args:
            message: What the user says.
            user_id: Who says it.
            shared: The shared scope of the space, in place of a user.
            session_id: The session that it continues; by default a new one, named in the reply.
            on_text: Is given the answer in pieces as it is written, where the model can stream.

        Raises:
            ConfigurationError: There is no chat model.
            ModelError: The model failed; nothing was kept.
        """
        from reme_core.agents import AgentOptions
        from reme_core.recall.agentic_retriever import Chat

        if self._ports.llm is None:
            raise ConfigurationError(missing_model_message("chat"))
        await self._work.recover()
        chat = Chat(
            options=AgentOptions(language=self._language),
            model=self._ports.llm,
            store=self._ports.store,
            embedder=self._embedder,
            clock=self._clock,
            summarizer=self._summarizer,
            retriever=self._runtime.simple_retriever(),
            blocks=self._blocks,
            zone=self._runtime.zone,
        )
        session = new_id() if session_id is None else inputs.read_id(session_id, "session_id")
        scope = await self._looked_up(user_id, shared=shared)
        reply = await chat.turn(scope, inputs.read_query(message, "message"), session, on_text)
        await self._costs.add(scope, "chat", reply.usage)
        return reply


async def _request(
    messages: Sequence[object],
    now: datetime,
    session_id: str | None,
    memory_type: str,
    end_session: object,
    instructions: str | None,
    timezone: str,
) -> SummaryRequest:
    """Read the arguments of a summary (InvalidInputError: naming what can't be read)."""
    from reme_core.ports import SummaryRequest

    read = partial(parse_messages, messages, now=lambda: now)
    parsed = await asyncio.to_thread(read) if _brings_bytes(messages) else read()
    inputs.check_not_future(parsed, now)
    return SummaryRequest(
        session_id=new_id() if session_id is None else inputs.read_id(session_id, "session_id"),
        messages=parsed,
        memory_type=inputs.read_summary_type(memory_type),
        ends_session=session_id is None if end_session is None else inputs.read_flag(end_session, "end_session"),
        instructions=inputs.read_instructions(instructions),
        timezone=inputs.read_timezone(timezone),
    )


def _brings_bytes(messages: object) -> bool:
    """Whether images or files come with their bytes: to write 5 MB as base64 takes 5 ms, and there may be many."""
    given = messages if isinstance(messages, (list, tuple)) else ()
    contents = (message.get("content") for message in given if isinstance(message, Mapping))
    parts = (part for content in contents if isinstance(content, (list, tuple)) for part in content)
    return any(isinstance(part, Mapping) and "data" in part for part in parts)
