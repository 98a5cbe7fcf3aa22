"""ReMe: the facade over the layers."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Never, Self

from reme_core.errors import ConfigurationError, ReMeError
from reme_core.facade.conversation import ConversationMethods
from reme_core.facade.evolution import EvolutionMethods
from reme_core.facade.memories import MemoryMethods
from reme_core.facade.memory_blocks import MemoryBlockMethods
from reme_core.facade.messages import JobMethods, MessageMethods, OffloadMethods
from reme_core.facade.parts import UNSET, AdapterSupport, MakesSync, Settings, Unset, check_kind, log_failed_close
from reme_core.facade.records import RecordMethods
from reme_core.facade.relations import RelationMethods
from reme_core.facade.tasks import TaskMethods, ToolMethods
from reme_core.facade.transfer import EmbeddingMethods, TransferMethods
from reme_core.facade.working_memory import WorkingMemoryMethods
from reme_core.schema import UTC_NAME, Scope, make_scope
from reme_core.schema.checks import not_among
from reme_core.steps import user_input as inputs

if TYPE_CHECKING:
    from reme_core.facade.learning_service import LearningService
    from reme_core.facade.strategies import BindsDistiller, BindsRetriever
    from reme_core.files.keeper import Folders
    from reme_core.jobs.retry_policy import RetryPolicy
    from reme_core.ports import (
        ChatModel,
        Clock,
        Embedder,
        Retriever,
        Store,
        Summarizer,
        TokenCounter,
    )
    from reme_core.steps.records import Schemas
    from reme_core.steps.slicing import Slicing
    from reme_core.text import Language
    from reme_core.working.ports import WorkingPorts


class ReMe(
    ConversationMethods,
    MemoryMethods,
    RelationMethods,
    RecordMethods,
    EvolutionMethods,
    MemoryBlockMethods,
    MessageMethods,
    JobMethods,
    TaskMethods,
    ToolMethods,
    TransferMethods,
    EmbeddingMethods,
    WorkingMemoryMethods,
    OffloadMethods,
    AdapterSupport,
):
    """Durable, scoped memory.

    Every call names the user whose memory it touches, or asks for the shared scope of the memory space by
    `shared=True`; an empty `user_id` is an error. A call returns after what it says is on disk, and raises a
    `ReMeError` otherwise. One object serves any number of users, event loops and threads; several processes may work
    on one folder at once. Opening is lazy: nothing is touched before the first call.
    """

    def __init__(
        self,
        /,
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
        retry: RetryPolicy | None = None,
        token_counter: TokenCounter | None = None,
        clock: Clock | None = None,
        timezone: str = UTC_NAME,
        files: str | Path | Folders | None = None,
        web_tools: Sequence[str] = (),
        schemas: Schemas = (),
        **unknown: Never,
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
            vector_store: `{"backend": "local_file"}` (the default), `{"backend": "postgres", "url": ...}`,
                `{"backend": "qdrant", ...}`, or a `Store`. Left out, `REME_DATABASE_URL` decides, if it is set.
            use_agentic_mode: Let agents summarise and retrieve, with more model calls than the simple strategy: which
                takes at most two a summary and none a retrieve.
            use_reviser: Have each summary checked by a further model call, and done again once if something is wrong.
            language: Of the prompts, `en` or `zh`; None follows the conversation.
            embed_messages: Give messages vectors. Words alone find nearly as much; memories get theirs in any case.
            slicing: Where blocks begin.
            retry: How often a job is tried, and how long it is held.
            token_counter: Counts the tokens of a budget; by default by characters.
            clock: Tells the time; by default that of this machine.
            timezone: Where the users are of whom `summary` is not told, by its IANA name.
            files: Keep memories, journal and what was said as files, too: the path of a folder that gets one for each
                user, or `Folders(...)`. A call returns once what it says is in the store; the files follow.
            web_tools: Names of tools that fetch from outside: their results are of the trust class `web`.
            schemas: Pydantic classes whose instances are memories, filled by each summary; see `MemorySchema`.
            unknown: Settings that do not exist: one that is spelt wrong is told with what was probably meant.

        Raises:
            ConfigurationError: Settings that can't be used.
            MissingExtraError: A library that is not installed.
            InvalidInputError: A memory space that can't be one.
        """
        from reme_core.facade import assembly, config
        from reme_core.facade.strategies import AgenticRetriever, AgenticSummarizer, SimpleSummarizer

        for name in unknown:
            names = tuple(set(inspect.signature(ReMe).parameters) - {"unknown"})
            raise ConfigurationError(not_among("settings of ReMe", name, sorted(names)))
        settings = assembly.read_settings(
            memory_space=memory_space,
            language=language,
            embed_messages=embed_messages,
            slicing=slicing,
            retry=retry,
            token_counter=token_counter,
            clock=clock,
            timezone=timezone,
            files=files,
            web_tools=web_tools,
            schemas=schemas,
        )
        ports = config.build(working_dir=working_dir, llm=llm, embedding=embedding, vector_store=vector_store)
        assembly.check_model(ports, use_agentic_mode=use_agentic_mode, use_reviser=use_reviser)
        self._in_space: Callable[[str], ReMe] = partial(
            ReMe,
            llm=ports.llm,
            embedding=ports.embedder,
            vector_store=ports.base,
            use_agentic_mode=use_agentic_mode,
            use_reviser=use_reviser,
            language=language,
            embed_messages=embed_messages,
            slicing=slicing,
            retry=retry,
            token_counter=token_counter,
            clock=clock,
            timezone=timezone,
            web_tools=web_tools,
            schemas=schemas,
        )
        self._memory_space, self._scope = settings.memory_space, partial(make_scope, settings.memory_space)
        self._clock, self._timezone, self._language = settings.clock, settings.timezone, language
        made = assembly.assemble(settings, ports)
        self._ports, self._embedder, self._files, self._runtime = made.ports, made.embedder, made.files, made.runtime
        self._record, self._work, self._editor = made.record, made.work, made.editor
        self._runner, self._costs = made.runner, made.costs
        self._closed, self._gate = False, threading.Lock()
        self._made_learning: LearningService | None = None
        self._made_working: WorkingPorts | None = None
        self._summarizer: Summarizer = self._record
        self._retriever: Retriever = self._runtime.simple_retriever()
        if use_agentic_mode:
            self.set_summarizer(AgenticSummarizer(language=language, use_reviser=use_reviser))
            self.set_retriever(AgenticRetriever(language=language))
        elif ports.llm is not None:
            self.set_summarizer(SimpleSummarizer(language=language, use_reviser=use_reviser))
        if ports.llm is not None:
            _ = self._learning  # it does the jobs that earlier processes left

    sync = MakesSync(__init__)
    """`ReMe.sync(...)` takes the arguments of `ReMe` and makes a `SyncReMe`; `memory.sync()` wraps an open memory."""

    async def _looked_up(self, user_id: object, *, shared: object) -> Scope:
        """Return a scope whose memories are about to be asked for, after a person's edits of its files were taken."""
        scope = self._scope(user_id, shared=shared)
        if self._files is not None:
            await self._files.look(scope)
        return scope

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
        try:
            await self.close(finish_jobs=error is None or isinstance(error, Exception))
        except Exception as exc:  # the program's own error goes on
            if error is None:
                raise
            log_failed_close(exc)

    async def close(self, *, finish_jobs: bool = True) -> None:
        """Finish the jobs that are due, then close what was built here; objects that were handed in stay open.

        Closing twice is harmless.

        Args:
            finish_jobs: False stops those that run as well; the next start finishes them.

        Raises:
            PartialFailureError: Everything is closed; some jobs failed. The next start tries again those pending.
        """
        from reme_core.jobs.job_service import check_ended

        if self._closed:
            return
        self._closed = True
        failures: list[ReMeError] = []
        try:
            if finish_jobs:
                failures = await self._work.end()
            else:
                await self._work.stop()
            if self._files is not None:
                await (self._files.join() if finish_jobs else self._files.stop())
        finally:
            for part in self._ports.owned:
                await part.close()
        check_ended(failures)

    def set_summarizer(self, summarizer: Summarizer | BindsDistiller) -> None:
        """Set the summarizer: a `Summarizer`, or settings such as `AgenticSummarizer(...)`.

        Raises:
            ConfigurationError: It needs a chat model, and there is none; or it is no summarizer at all.
        """
        from reme_core.facade.strategies import BindsDistiller, GuidesDistiller, summary_worker
        from reme_core.ports import Summarizer
        from reme_core.remember.summarizer import SUMMARY, DistillingSummarizer

        check_kind(summarizer, (BindsDistiller, Summarizer), "summarizer: wanted a Summarizer or settings of one")
        if not isinstance(summarizer, BindsDistiller):
            self._summarizer = summarizer
            self._runner.set_worker(SUMMARY, None)
            return
        guidance = summarizer.guidance if isinstance(summarizer, GuidesDistiller) else None
        worker_over = partial(summary_worker, summarizer, self._runtime)
        self._runner.set_worker(SUMMARY, worker_over(self._ports.store))
        self._summarizer = DistillingSummarizer(
            record=self._record,
            runner=self._runner,
            clock=self._clock,
            start=self._work.start,
            guidance=guidance,
            worker_over=worker_over,
        )

    def set_retriever(self, retriever: Retriever | BindsRetriever, *, system_prompt: str | None = None) -> None:
        """Set the retriever: a `Retriever`, or settings such as `AgenticRetriever(...)`.

        Args:
            retriever: The retriever, or its settings.
            system_prompt: That of `AgenticRetriever(system_prompt=...)`, given here.

        Raises:
            ConfigurationError: It needs a chat model, and there is none; it has no system prompt; or it is no retriever
                at all.
        """
        from reme_core.facade.strategies import AgenticRetriever, BindsRetriever
        from reme_core.ports import Retriever

        check_kind(retriever, (BindsRetriever, Retriever), "retriever: wanted a Retriever or settings of one")
        if system_prompt is not None:
            check_kind(retriever, (AgenticRetriever,), "system_prompt: goes with an AgenticRetriever")
            assert isinstance(retriever, AgenticRetriever)  # noqa: S101  # just checked
            retriever = replace(retriever, system_prompt=inputs.read_query(system_prompt, "system_prompt"))
        self._retriever = (
            retriever.bind_retriever(self._runtime) if isinstance(retriever, BindsRetriever) else retriever
        )

    @property
    def _learning(self) -> LearningService:
        """What attempts and calls of tools teach; it is loaded with the first call that needs it."""
        from reme_core.facade.learning_service import LearningService

        with self._gate:
            if self._made_learning is None:
                self._made_learning = LearningService(
                    ports=self._runtime,
                    record=self._record,
                    runner=self._runner,
                    start=self._work.start,
                    language=self._language,
                )
            return self._made_learning

    def _working_ports(self) -> WorkingPorts:
        """Return what working memory stands on."""
        from reme_core.working.ports import HeldContexts, WorkingPorts
        from reme_core.working.tokens import TokenLedger

        with self._gate:
            if self._made_working is None:
                self._made_working = WorkingPorts(
                    store=self._ports.store,
                    keep=self._keep,
                    model=self._ports.llm,
                    ledger=TokenLedger(self._runtime.counter),
                    clock=self._clock,
                    held=HeldContexts(),
                    web_tools=self._runtime.web_tools,
                )
            return self._made_working
