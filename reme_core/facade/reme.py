"""ReMe: the facade over the layers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import JsonValue

from reme_core.agents import ReMyAgentV1Op
from reme_core.errors import ConfigurationError, InvalidInputError, PartialFailureError, ReMeError
from reme_core.facade import config
from reme_core.facade.adapter_support import AdapterSupport
from reme_core.facade.config import UNSET, Ports, Settings, Unset
from reme_core.facade.learning import LearningMethods
from reme_core.facade.learning_service import LearningService
from reme_core.facade.strategies import (
    AgenticDistillation,
    AgenticRetriever,
    BindsDistiller,
    BindsRetriever,
    GuidesDistiller,
    RuntimePorts,
    SimpleDistillation,
)
from reme_core.facade.sync import SyncDescriptor
from reme_core.facade.working_memory import WorkingMemoryMethods
from reme_core.jobs.job_runner import JobRunner
from reme_core.jobs.job_service import JobService, check_ended
from reme_core.jobs.retry_policy import RetryPolicy
from reme_core.models import CharacterTokenCounter, SystemClock
from reme_core.ports import (
    ChatModel,
    Clock,
    Counts,
    Embedder,
    EventQuery,
    FindMessages,
    ListBlocks,
    ListMemories,
    MemoryFilter,
    MessagePage,
    Retriever,
    RetrieveRequest,
    Store,
    Summarizer,
    SummaryRequest,
    TokenCounter,
    ToolContext,
)
from reme_core.recall.chat_turn import Chat
from reme_core.remember.memory_editor import Editor
from reme_core.remember.record_messages import VerbatimSummarizer
from reme_core.remember.summarizer import DistillingSummarizer
from reme_core.remember.summary_job import SummaryWorker
from reme_core.remember.summary_payload import SUMMARY
from reme_core.remember.undo import undo_run
from reme_core.retrieval.resting_embedder import RestingEmbedder
from reme_core.schema import (
    STATEMENTS,
    UTC_NAME,
    Block,
    ChatReply,
    Erased,
    Event,
    Job,
    Memory,
    MemoryPage,
    RetrieveResult,
    Scope,
    StoredMessage,
    SummaryResult,
    UndoResult,
    Usage,
    make_scope,
    new_id,
    parse_messages,
    shown,
)
from reme_core.schema.checks import is_path
from reme_core.steps import user_input as inputs
from reme_core.steps.guidance import read_instructions
from reme_core.steps.missing_model import missing_model_message
from reme_core.steps.slicing import Slicing
from reme_core.text import Language
from reme_core.transfer.scope_export import TransferCounts, export_scope, import_scope
from reme_core.working.ports import HeldContexts, WorkingPorts
from reme_core.working.tokens import TokenLedger

_LOG = logging.getLogger("reme")

_HISTORY_PAGE = 1000


class ReMe(WorkingMemoryMethods, LearningMethods, AdapterSupport):
    """Durable, scoped memory.

    Every call names the user whose memory it touches; `user_id=""` is the shared scope of the memory space. A call
    returns after what it says is on disk, and raises a `ReMeError` otherwise. One object serves any number of users,
    event loops and threads; several processes may work on one folder at once. Opening is lazy: nothing is touched
    before the first call.
    """

    sync = SyncDescriptor()

    def __init__(
        self,
        memory_space: str = "default",
        working_dir: str | Path = ".reme",
        *,
        llm: ChatModel | Settings | Unset | None = UNSET,
        embedding: Embedder | Settings | Unset | None = UNSET,
        vector_store: Store | Settings | None = None,
        use_agentic_mode: bool = False,
        use_reviser: bool = False,
        language: Language | None = None,
        embed_messages: bool = True,
        slicing: Slicing | None = None,
        trying: RetryPolicy | None = None,
        token_counter: TokenCounter | None = None,
        clock: Clock | None = None,
        timezone: str = UTC_NAME,
    ) -> None:
        """Keep the settings.

        Args:
            memory_space: The workspace; nothing crosses it.
            working_dir: The folder of the local file.
            llm: Settings such as `{"backend": "openai", "model": "qwen-plus", "temperature": 0.6}`, a `ChatModel`, or
                None for none. Left out, the environment decides: `REME_LLM_MODEL` with `REME_LLM_API_KEY` or
                `OPENAI_API_KEY`.
            embedding: Settings such as `{"backend": "openai", "model": "text-embedding-v4", "dimension": 1024}`, an
                `Embedder`, or None for none. Left out, the environment decides: `REME_EMBEDDING_MODEL` with a key.
            vector_store: `{"backend": "local_file"}` (the default), `{"backend": "qdrant", ...}`, or a `Store`.
            use_agentic_mode: Let agents summarise and retrieve, with more model calls than the simple strategy: which
                takes at most two a summary and none a retrieve.
            use_reviser: Have each summary checked by a further model call, and done again once if something is wrong.
            language: Of the prompts, `en` or `zh`; None follows the conversation.
            embed_messages: Give messages vectors. Words alone find nearly as much; memories get theirs in any case.
            slicing: Where blocks begin.
            trying: How often a job is tried, and how long it is held.
            token_counter: Counts the tokens of a budget; by default by characters.
            clock: Tells the time; by default that of this machine.
            timezone: Where the users are of whom `summary` is not told, by its IANA name.

        Raises:
            ConfigurationError: Settings that can't be used.
            MissingExtraError: A library that is not installed.
            InvalidInputError: A memory space that can't be one.
        """
        for name, part in (("clock", clock), ("token_counter", token_counter)):
            config.check_object(part, name)
        if language not in {None, "en", "zh"}:
            msg = f"language: wanted 'en', 'zh' or None, found {shown(language)}"
            raise ConfigurationError(msg)
        self._memory_space = make_scope(memory_space, "").memory_space
        self._ports: Ports = config.build(
            working_dir=working_dir, llm=llm, embedding=embedding, vector_store=vector_store
        )
        for name, wanted in (("use_agentic_mode", use_agentic_mode), ("use_reviser", use_reviser)):
            if wanted and self._ports.llm is None:
                raise ConfigurationError(missing_model_message(name))
        if trying is not None:
            _check_kind(trying, (RetryPolicy,), "trying: wanted a RetryPolicy")
        self._clock = clock or SystemClock()
        self._timezone = inputs.read_timezone(timezone)
        self._trying = trying or RetryPolicy()
        self._language = language
        self._embedder = None
        if self._ports.embedder is not None:
            self._embedder = RestingEmbedder(self._ports.embedder, self._clock, on_recovery=lambda: self._work.resume())
        self._message_embedder = self._embedder if embed_messages else None
        self._record = VerbatimSummarizer(
            store=self._ports.store, embedder=self._message_embedder, slicing=config.check_slicing(slicing)
        )
        self._runtime = RuntimePorts(
            store=self._ports.store,
            embedder=self._embedder,
            model=self._ports.llm,
            clock=self._clock,
            counter=token_counter or CharacterTokenCounter(),
        )
        self._work = JobService(
            memory_space=self._memory_space,
            store=self._ports.store,
            embedder=self._embedder,
            clock=self._clock,
            max_scopes=self._trying.max_scopes,
        )
        self._editor = Editor(store=self._ports.store, embedder=self._embedder, start=self._work.start)
        self._runner = self._work.runner = JobRunner(store=self._ports.store, clock=self._clock, trying=self._trying)
        self._learner = LearningService(
            ports=self._runtime,
            record=self._record,
            runner=self._runner,
            start=self._work.start,
            language=language,
        )
        self._closed = False
        self._ledger = TokenLedger(self._runtime.counter)
        self._held = HeldContexts()
        self._summarizer: Summarizer = self._record
        self._retriever: Retriever = self._runtime.simple_retriever()
        if use_agentic_mode:
            self.set_summarizer(AgenticDistillation(language=language, use_reviser=use_reviser))
            self.set_retriever(AgenticRetriever(language=language))
        elif self._ports.llm is not None:
            self.set_summarizer(SimpleDistillation(language=language, use_reviser=use_reviser))

    def __repr__(self) -> str:
        """Name the memory space and the store."""
        return f"ReMe(memory_space={self._memory_space!r}, store={self._ports.store!r})"

    async def __aenter__(self) -> Self:
        """Return the memory; where there is a model for it, what earlier processes left undone begins."""
        await self._work.recover()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an error on its way is not replaced, and one that stops the program stops the jobs as well."""
        failures = await self._close(finish_jobs=error is None or isinstance(error, Exception))
        if error is None:
            check_ended(failures)

    async def close(self, *, finish_jobs: bool = True) -> None:
        """Finish the jobs that are due, then close what was built here; objects that were handed in stay open.

        Closing twice is harmless.

        Args:
            finish_jobs: False stops those that run as well; the next start finishes them.

        Raises:
            PartialFailureError: Everything is closed; some jobs failed. The next start tries again those pending.
        """
        check_ended(await self._close(finish_jobs=finish_jobs))

    async def _close(self, *, finish_jobs: bool) -> list[ReMeError]:
        if self._closed:
            return []
        self._closed = True
        try:
            if finish_jobs:
                return await self._work.end()
            await self._work.stop()
            return []
        finally:
            for part in self._ports.owned:
                await part.close()

    def set_summarizer(self, summarizer: Summarizer | BindsDistiller) -> None:
        """Set the summarizer: a `Summarizer`, or settings such as `AgenticDistillation(...)`.

        Raises:
            ConfigurationError: It needs a chat model, and there is none; or it is no summarizer at all.
        """
        _check_kind(summarizer, (BindsDistiller, Summarizer), "summarizer: wanted a Summarizer or settings of one")
        if not isinstance(summarizer, BindsDistiller):
            self._summarizer = summarizer
            self._runner.set_worker(SUMMARY, None)
            return
        guidance = summarizer.guidance if isinstance(summarizer, GuidesDistiller) else None
        worker = SummaryWorker(
            store=self._ports.store,
            distiller=summarizer.bind_distiller(self._runtime),
            is_guided=guidance is not None,
        )
        self._runner.set_worker(SUMMARY, worker)
        self._summarizer = DistillingSummarizer(
            record=self._record, runner=self._runner, clock=self._clock, start=self._work.start, guidance=guidance
        )

    def set_retriever(self, retriever: Retriever | BindsRetriever) -> None:
        """Set the retriever: a `Retriever`, or settings such as `AgenticRetriever(...)`.

        Raises:
            ConfigurationError: It needs a chat model, and there is none; or it is no retriever at all.
        """
        _check_kind(retriever, (BindsRetriever, Retriever), "retriever: wanted a Retriever or settings of one")
        self._retriever = (
            retriever.bind_retriever(self._runtime) if isinstance(retriever, BindsRetriever) else retriever
        )

    def tool_context(self, *, user_id: str) -> ToolContext:
        """Return a context in which the tools of `reme_core.tools` work on a user's memory, outside an agent."""
        return ToolContext(
            scope=self._scope(user_id),
            store=self._ports.store,
            embedder=self._embedder,
            model=self._ports.llm,
            clock=self._clock,
        )

    async def summary(
        self,
        messages: Sequence[object],
        *,
        user_id: str,
        session_id: str | None = None,
        memory_type: str = "auto",
        end_session: bool | None = None,
        background: bool = False,
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
            session_id: The session that they continue; by default a new one, which ends with this call. Either way
                each call ends a block; longer calls are cut by silence, size and `starts_block` as `slicing` says.
            memory_type: `auto`, `personal`, `procedural` or `tool`: what to distil. Without a chat model nothing is.
            end_session: Nothing more of this session will come: a tool call without its result is sliced as well. By
                default so where `session_id` is left out.
            background: Return once the messages are on disk and can be found by their words; vectors and memories
                follow in the background.
            instructions: What to keep and never to keep of these messages as memories, beside what `SimpleDistillation`
                was given; kept with the job. Without a chat model no memories are made, and it says nothing.
            timezone: Where the user is, by its IANA name such as "Europe/Berlin": "yesterday" is reckoned in it; by
                default that of the memory.

        Raises:
            InvalidInputError: A message that can't be read, naming it, or instructions that the strategy in use does
                not follow; nothing was kept.
            ConflictError: A message id that is taken by another message; nothing was kept.
            PartialFailureError: The messages are on disk, what follows failed and is tried again later; `done` is the
                result so far.
        """
        await self._work.recover()
        scope, now = self._scope(user_id), self._clock.now()
        parsed = parse_messages(messages, now=lambda: now)
        inputs.check_not_future(parsed, now)
        kind = inputs.read_summary_type(memory_type)
        ends = session_id is None if end_session is None else inputs.read_flag(end_session, "end_session")
        session = new_id() if session_id is None else inputs.read_id(session_id, "session_id")
        if not parsed and session_id is None:
            return SummaryResult(session_id=session)
        request = SummaryRequest(
            session_id=session,
            messages=parsed,
            memory_type=kind,
            ends_session=ends,
            background=inputs.read_flag(background, "background"),
            instructions=read_instructions(instructions),
            timezone=self._timezone if timezone is None else inputs.read_timezone(timezone),
        )
        result = await self._summarizer.summarize(scope, request)
        if request.background or result.degraded:
            self._work.start(scope)
        return result

    async def retrieve(
        self,
        query: str | None = None,
        *,
        user_id: str,
        limit: int | None = None,
        top_k: int | None = None,
        token_budget: int | None = None,
        min_score: float | None = None,
        memory_type: str | Sequence[str] = "auto",
        memory_target: str | Sequence[str] | None = None,
        session_id: str | None = None,
        layers: Sequence[str] | None = None,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
        as_of: datetime | str | None = None,
        include_superseded: bool = False,
        include_shared: bool = False,
    ) -> RetrieveResult:
        """Find what answers a question: memories first where they do, then what was said, best first.

        Args:
            query: The question, in words; of a pasted text, the first 4,000 characters. One about a time alone ("what
                happened last week?") lists what lies there; so do `start_time` and `end_time` without a query.
            user_id: Whose memory is asked.
            limit: At most this many results; 10 unless `token_budget` is given.
            top_k: The same as `limit`.
            token_budget: As many results as fit into this many tokens, repetition dropped.
            min_score: Leaves out results that score lower, in [0, 1], once all are ranked. Memories that answer the
                question score 0.5 and more, messages less.
            memory_type: `auto`, a type or a list of types. Messages are looked at for `auto`, `personal`, `history`.
            memory_target: Only memories about this target, or these.
            session_id: Only messages of this session.
            layers: Some of `memory`, `summary` (blocks) and `message`; by default memories and messages.
            metadata: Only memories whose metadata have these values.
            start_time: Said (memories: observed) at this time or later.
            end_time: Said before this time.
            as_of: Memories that held at this time, and what was said by then. By default all that were not replaced,
                whether what they state is over, holds or lies ahead.
            include_superseded: Also memories that were replaced.
            include_shared: Also the shared scope of the space.

        Raises:
            InvalidInputError: Something can't be read, naming it.
            UnsupportedFilterError: A layer was asked for that one of the filters can't be applied to.
            ModelError: The agent of an agentic retriever failed.
        """
        if token_budget is not None:
            token_budget = inputs.read_count(token_budget, "token_budget")
        request = RetrieveRequest(
            query=inputs.read_question(query, is_timed=start_time is not None or end_time is not None),
            limit=inputs.read_limit(limit, top_k),
            token_budget=token_budget,
            min_score=None if min_score is None else inputs.read_share(min_score, "min_score"),
            layers=inputs.read_layers(layers),
            types=inputs.read_types(memory_type),
            targets=inputs.read_targets(memory_target),
            metadata=inputs.read_metadata_filter(metadata),
            session_id=None if session_id is None else inputs.read_id(session_id, "session_id"),
            said_from=inputs.read_time(start_time, "start_time"),
            said_to=inputs.read_time(end_time, "end_time"),
            as_of=inputs.read_time(as_of, "as_of"),
            include_superseded=inputs.read_flag(include_superseded, "include_superseded"),
            include_shared=inputs.read_flag(include_shared, "include_shared"),
            now=self._clock.now(),
        )
        await self._work.recover()
        return await self._retriever.retrieve(self._scope(user_id), request)

    async def chat(
        self,
        message: str,
        *,
        user_id: str,
        session_id: str | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> ChatReply:
        """Talk with ReMy, who knows what this user's memory holds, and keep the turn.

        The turn is on disk when this returns; memories are made of it in the background.

        Args:
            message: What the user says.
            user_id: Who says it.
            session_id: The session that it continues; by default a new one, named in the reply.
            on_text: Is given the answer in pieces as it is written, where the model can stream.

        Raises:
            ConfigurationError: There is no chat model.
            ModelError: The model failed; nothing was kept.
        """
        if self._ports.llm is None:
            raise ConfigurationError(missing_model_message("chat"))
        await self._work.recover()
        chat = Chat(
            agent=ReMyAgentV1Op(language=self._language),
            model=self._ports.llm,
            store=self._ports.store,
            embedder=self._embedder,
            clock=self._clock,
            summarizer=self._summarizer,
        )
        session = new_id() if session_id is None else inputs.read_id(session_id, "session_id")
        return await chat.turn(self._scope(user_id), inputs.read_query(message, "message"), session, on_text)

    async def add_memory(
        self,
        content: str,
        *,
        user_id: str,
        memory_type: str = "personal",
        memory_target: str = "self",
        when_to_use: str = "",
        metadata: Mapping[str, JsonValue] | None = None,
        observed_at: datetime | str | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        importance: float = 0.5,
        confidence: float = 1.0,
        reason: str = "",
    ) -> Memory:
        """Add one memory. If a current one of this type and target says the same, that one is the answer.

        `valid_from` and `valid_to` are the statement's own time, known to a year (`2023`), a month (`2023-01`), a day
        (`2023-01-05`) or exactly; an end lasts until the end of its year, month or day. They hide nothing: what is over
        is found like what holds. Of two that say the same of times that lie apart, the later one supersedes the other.

        Raises:
            InvalidInputError: A field that can't be used, naming it.
        """
        fields: dict[str, object] = {
            "content": content,
            "memory_type": memory_type,
            "memory_target": memory_target,
            "when_to_use": when_to_use,
            "metadata": metadata,
            "observed_at": observed_at,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "importance": importance,
            "confidence": confidence,
        }
        [memory] = await self.add_memories([fields], user_id=user_id, reason=reason)
        return memory

    async def add_memories(
        self, memories: Sequence[Mapping[str, object]], *, user_id: str, run_id: str | None = None, reason: str = ""
    ) -> list[Memory]:
        """Add memories, all or none, in one write; each a mapping of the fields that `add_memory` takes.

        Also `memory_id`, `author` and `sources`. With a `run_id`, `undo` takes them back together.

        Raises:
            InvalidInputError: A field that can't be used, naming it.
            ConflictError: A memory id that is taken.
        """
        run = None if run_id is None else inputs.read_id(run_id, "run_id")
        drafts = inputs.read_list(memories, "memories")
        why = inputs.read_text(reason, "reason")
        return await self._editor.add(self._scope(user_id), drafts, run_id=run, reason=why, at=self._clock.now())

    async def get_memory(self, memory_id: str, *, user_id: str) -> Memory:
        """Return a memory, current or not (MemoryNotFoundError)."""
        [memory] = await self._ports.store.get(self._scope(user_id), [inputs.read_id(memory_id, "memory_id")])
        return memory

    async def update_memory(
        self,
        memory_id: str,
        *,
        user_id: str,
        content: str | None = None,
        when_to_use: str | None = None,
        memory_type: str | None = None,
        memory_target: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        expected_revision: int | None = None,
        reason: str = "",
    ) -> Memory:
        """Change what is given and keep the rest; `metadata` replaces the whole object.

        `valid_to` tells when the statement was or will be over, which leaves it found as before; what is not to be
        found any more is deleted, or superseded by what holds now. Both times are read as in `add_memory`.

        Raises:
            MemoryNotFoundError: No such memory in this scope.
            InvalidInputError: Nothing to change, or a value that can't be used.
            ConflictError: It has another revision than expected, or another current memory says the same.
        """
        given: dict[str, object] = {
            "content": content,
            "when_to_use": when_to_use,
            "memory_type": memory_type,
            "memory_target": memory_target,
            "metadata": metadata,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "importance": importance,
            "confidence": confidence,
        }
        return await self._editor.update(
            self._scope(user_id),
            inputs.read_id(memory_id, "memory_id"),
            {name: value for name, value in given.items() if value is not None},
            expected_revision=None if expected_revision is None else inputs.read_revision(expected_revision),
            reason=inputs.read_text(reason, "reason"),
            at=self._clock.now(),
        )

    async def supersede_memory(
        self,
        memory_id: str,
        content: str,
        *,
        user_id: str,
        when_to_use: str = "",
        metadata: Mapping[str, JsonValue] | None = None,
        observed_at: datetime | str | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        reason: str = "",
    ) -> Memory:
        """Replace a memory by one that holds from `valid_from` on (by default from `observed_at`, or now).

        The old one is closed at that time, if it was not over before, and kept: `retrieve(as_of=...)` finds it for
        times before. One that has not begun is closed before it begins.

        Raises:
            MemoryNotFoundError: No such memory in this scope.
            InvalidInputError: A field that can't be used, or a time before that from which the old one holds already.
            ConflictError: The old one was replaced already, or another current memory says the same.
        """
        given = {
            "content": content,
            "when_to_use": when_to_use,
            "metadata": metadata,
            "observed_at": observed_at,
            "valid_from": valid_from,
            "valid_to": valid_to,
        }
        return await self._editor.supersede(
            self._scope(user_id),
            inputs.read_id(memory_id, "memory_id"),
            given,
            reason=inputs.read_text(reason, "reason"),
            at=self._clock.now(),
        )

    async def delete_memory(self, memory_id: str, *, user_id: str, reason: str = "") -> None:
        """Remove a memory; its history stays (MemoryNotFoundError)."""
        await self._editor.delete(
            self._scope(user_id),
            inputs.read_id(memory_id, "memory_id"),
            reason=inputs.read_text(reason, "reason"),
            at=self._clock.now(),
        )

    async def list_memories(
        self,
        *,
        user_id: str,
        memory_type: str | Sequence[str] = "auto",
        memory_target: str | Sequence[str] | None = None,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        keyword: str | None = None,
        as_of: datetime | str | None = None,
        include_superseded: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> MemoryPage:
        """Return a page of memories, newest first; `next_cursor` of the answer asks for the next one.

        Raises:
            InvalidInputError: Something can't be read, or a cursor that is not of this list.
        """
        query = ListMemories(
            filter=MemoryFilter(
                types=STATEMENTS if (types := inputs.read_types(memory_type)) is None else types,
                targets=inputs.read_targets(memory_target),
                metadata=inputs.read_metadata_filter(metadata),
                keyword=None if keyword is None else inputs.read_query(keyword, "keyword"),
                as_of=inputs.read_time(as_of, "as_of"),
                include_superseded=inputs.read_flag(include_superseded, "include_superseded"),
            ),
            limit=inputs.read_count(limit, "limit"),
            cursor=cursor,
        )
        return await self._ports.store.list_memories(self._scope(user_id), query)

    async def delete_all_memories(self, *, user_id: str) -> Erased:
        """Remove everything of a user for good: messages, blocks, memories, events, vectors and texts.

        Raises:
            StoreUnavailableError: It is deleted, but another process holds old pages; call again.
        """
        return await self._ports.store.erase(self._scope(user_id))

    async def history(self, memory_id: str, *, user_id: str) -> list[Event]:
        """Return every change of a memory, oldest first; also of one that was deleted.

        Raises:
            MemoryNotFoundError: This scope never held such a memory.
        """
        scope, wanted = self._scope(user_id), inputs.read_id(memory_id, "memory_id")
        events: list[Event] = []
        while True:
            after = events[-1].sequence if events else 0
            page = await self._ports.store.events(scope, EventQuery(memory_id=wanted, after=after, limit=_HISTORY_PAGE))
            events += page
            if len(page) < _HISTORY_PAGE:
                break
        if not events:
            await self._ports.store.get(scope, [wanted])
        return events

    async def undo(self, run_id: str, *, user_id: str) -> UndoResult:
        """Put back what a run changed, in one write that can itself be undone.

        Raises:
            RunNotFoundError: No such run in this scope.
            ConflictError: One of its memories was changed since; nothing was undone.
        """
        return await undo_run(
            self._ports.store,
            self._embedder,
            self._scope(user_id),
            inputs.read_id(run_id, "run_id"),
            at=self._clock.now(),
        )

    async def get_messages(self, message_ids: Sequence[str], *, user_id: str) -> list[StoredMessage]:
        """Return messages by id, in the order asked (MessageNotFoundError)."""
        ids = inputs.read_ids(message_ids, "message_ids")
        return await self._ports.store.get_messages(self._scope(user_id), ids)

    async def find_messages(
        self,
        *,
        user_id: str,
        keyword: str | None = None,
        session_id: str | None = None,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
        limit: int = 50,
        newest_first: bool = False,
        cursor: str | None = None,
    ) -> MessagePage:
        """Return a page of the messages that hold every word of a keyword, in the order in which they were kept."""
        query = FindMessages(
            keyword=None if keyword is None else inputs.read_query(keyword, "keyword"),
            session_id=None if session_id is None else inputs.read_id(session_id, "session_id"),
            said_from=inputs.read_time(start_time, "start_time"),
            said_to=inputs.read_time(end_time, "end_time"),
            limit=inputs.read_count(limit, "limit"),
            newest_first=inputs.read_flag(newest_first, "newest_first"),
            cursor=cursor,
        )
        return await self._ports.store.find_messages(self._scope(user_id), query)

    async def get_block(self, block_id: str, *, user_id: str) -> Block:
        """Return a block with its index entry and the ids of its messages (BlockNotFoundError)."""
        [block] = await self._ports.store.get_blocks(self._scope(user_id), [inputs.read_id(block_id, "block_id")])
        return block

    async def list_blocks(
        self, *, user_id: str, session_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> tuple[Sequence[Block], str | None]:
        """Return a page of the block index, oldest first, and the cursor of the next one."""
        page = await self._ports.store.list_blocks(
            self._scope(user_id),
            ListBlocks(
                session_id=None if session_id is None else inputs.read_id(session_id, "session_id"),
                limit=inputs.read_count(limit, "limit"),
                cursor=cursor,
            ),
        )
        return page.blocks, page.next_cursor

    async def flush(self) -> Usage:
        """Finish what is left to do in this memory space: jobs, and vectors of messages that wait for one.

        Jobs that failed before are tried again now, each once; those that others are at are waited for.

        Raises:
            PartialFailureError: Some of it still waits; `failures` says why, `done` what was spent.
        """
        return await self._work.flush()

    async def list_jobs(self, *, user_id: str) -> list[Job]:
        """Return a user's jobs, oldest first: pending, running, and dead ones with the reason."""
        return await self._work.list_jobs(self._scope(user_id))

    async def users_with_jobs(self) -> list[str]:
        """Return the users of this memory space that have jobs."""
        return await self._work.users_with_jobs()

    async def retry_job(self, job_id: str, *, user_id: str) -> None:
        """Have a job tried again as if it were new, a dead one too.

        Raises:
            JobNotFoundError: This user has no such job.
            ConflictError: It is being done.
        """
        await self._work.retry_job(self._scope(user_id), inputs.read_id(job_id, "job_id"))

    async def drop_job(self, job_id: str, *, user_id: str) -> None:
        """Give a job up for good; its messages stay.

        Raises:
            JobNotFoundError: This user has no such job.
            ConflictError: It is being done.
        """
        await self._work.drop_job(self._scope(user_id), inputs.read_id(job_id, "job_id"))

    async def export(self, path: str | Path, *, user_id: str) -> TransferCounts:
        """Write everything of a user to a file of JSON Lines (StoreAccessError)."""
        return await export_scope(self._ports.store, self._scope(user_id), _path(path, "path"))

    async def import_(
        self, path: str | Path, *, user_id: str, progress: Callable[[int], None] | None = None
    ) -> TransferCounts:
        """Read a file that `export` wrote into a user's memory; doing it twice changes nothing more.

        Args:
            path: The file.
            user_id: Whose memory it becomes.
            progress: Told how many lines are done, now and then.

        Raises:
            InvalidInputError: A line that is wrong, by number; nothing was imported.
            StoreAccessError: The file can't be read.
            ConflictError: An id that is taken by something else.
        """
        scope = self._scope(user_id)
        moved = await import_scope(
            self._ports.store,
            self._embedder,
            scope,
            _path(path, "path"),
            progress=progress,
        )
        await self._record.embed(scope)
        if self._embedder is not None and self._embedder.is_resting:
            self._work.start(scope)  # what has no vector yet gets it later
        return moved

    async def stats(self, *, user_id: str) -> Counts:
        """Return how much a user's memory holds."""
        return await self._ports.store.count(self._scope(user_id))

    async def _recover(self) -> None:
        await self._work.recover()

    def _working_ports(self) -> WorkingPorts:
        """Return what working memory stands on."""
        return WorkingPorts(
            store=self._ports.store,
            keep=self._keep,
            model=self._ports.llm,
            ledger=self._ledger,
            clock=self._clock,
            held=self._held,
        )

    async def _keep(self, scope: Scope, request: SummaryRequest) -> SummaryResult:
        """Take over messages that leave a context; what follows from them goes on in the background."""
        try:
            result = await self._summarizer.summarize(scope, request)
        except PartialFailureError as exc:
            if not isinstance(exc.done, SummaryResult):
                raise
            _LOG.warning("messages that left a context are kept; what follows from them failed: %s", exc)
            result = exc.done
        self._work.start(scope)
        return result

    def _learner_of(self) -> LearningService:
        return self._learner

    def _path(self, value: object, name: str) -> Path:
        return _path(value, name)

    def _scope(self, user_id: object) -> Scope:
        return make_scope(self._memory_space, user_id)


def _check_kind(value: object, kinds: tuple[type, ...], wanted: str) -> None:
    if isinstance(value, type) or not isinstance(value, kinds):
        msg = f"{wanted}, found {shown(value)}"
        raise ConfigurationError(msg)


def _path(value: object, name: str) -> Path:
    if isinstance(value, (str, Path)) and is_path(str(value)) and Path(value).name:
        return Path(value).expanduser()
    msg = f"{name}: wanted the path of a file, found {shown(value)}"
    raise InvalidInputError(msg)
