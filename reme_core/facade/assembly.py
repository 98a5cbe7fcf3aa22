"""Assembly of the parts of a memory from the settings that it is made with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reme_core.errors import ConfigurationError
from reme_core.facade.config import Ports, check_object, check_slicing
from reme_core.facade.parts import check_kind
from reme_core.facade.strategies import RuntimePorts
from reme_core.jobs.job_runner import JobRunner
from reme_core.jobs.job_service import JobService
from reme_core.jobs.retry_policy import RetryPolicy
from reme_core.models import CharacterTokenCounter, SystemClock
from reme_core.remember.memory_editor import Editor
from reme_core.remember.summarizer import VerbatimSummarizer
from reme_core.retrieval.embedded_store import EmbeddedStore
from reme_core.retrieval.resting_embedder import RestingEmbedder
from reme_core.schema import make_scope, read_zone
from reme_core.steps import user_input as inputs
from reme_core.steps.costs import CostBook
from reme_core.steps.records import read_schemas
from reme_core.steps.user_input import missing_model_message
from reme_core.steps.web_results import WebMarkingStore

if TYPE_CHECKING:
    from reme_core.files.keeper import FolderKeeper, Folders
    from reme_core.ports import Clock, Store, TokenCounter
    from reme_core.schema import Scope
    from reme_core.steps.records import MemorySchema, Schemas
    from reme_core.steps.slicing import Slicing


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """Settings of a memory beside its store and its models, checked, with what is left out filled in."""

    memory_space: str
    clock: Clock
    counter: TokenCounter
    timezone: str
    slicing: Slicing
    retry: RetryPolicy
    web_tools: frozenset[str]
    schemas: Sequence[MemorySchema]
    embed_messages: bool
    files: str | Path | Folders | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledParts:
    """The parts of a memory; see `MemoryParts`. The store of `ports` does what the settings ask of it."""

    ports: Ports
    embedder: RestingEmbedder | None
    files: FolderKeeper | None
    record: VerbatimSummarizer
    runtime: RuntimePorts
    work: JobService
    editor: Editor
    runner: JobRunner
    costs: CostBook


def read_settings(
    *,
    memory_space: str,
    language: object,
    embed_messages: bool,
    slicing: Slicing | None,
    retry: RetryPolicy | None,
    token_counter: TokenCounter | None,
    clock: Clock | None,
    timezone: str,
    files: str | Path | Folders | None,
    web_tools: Sequence[str],
    schemas: Schemas,
) -> MemorySettings:
    """Check settings (ConfigurationError, InvalidInputError)."""
    for name, part in (("clock", clock), ("token_counter", token_counter)):
        check_object(part, name)
    inputs.check_language(language)
    if retry is not None:
        check_kind(retry, (RetryPolicy,), "retry: wanted a RetryPolicy")
    return MemorySettings(
        memory_space=make_scope(memory_space, shared=True).memory_space,
        clock=clock or SystemClock(),
        counter=token_counter or CharacterTokenCounter(),
        timezone=inputs.read_timezone(timezone),
        slicing=check_slicing(slicing),
        retry=retry or RetryPolicy(),
        web_tools=frozenset(inputs.read_names(web_tools, "web_tools")),
        schemas=read_schemas(schemas),
        embed_messages=embed_messages,
        files=files,
    )


def check_model(ports: Ports, *, use_agentic_mode: bool, use_reviser: bool) -> None:
    """Refuse what takes a chat model where there is none (ConfigurationError)."""
    for name, wanted in (("use_agentic_mode", use_agentic_mode), ("use_reviser", use_reviser)):
        if wanted and ports.llm is None:
            raise ConfigurationError(missing_model_message(name))


def assemble(settings: MemorySettings, ports: Ports) -> AssembledParts:
    """Put the parts together; nothing is opened."""
    clock = settings.clock
    embedder = None
    if ports.embedder is not None:
        embedder = RestingEmbedder(ports.embedder, clock, on_recovery=lambda: work.resume())
        ports = replace(ports, store=EmbeddedStore(ports.store, embedder))
    if settings.web_tools:
        ports = replace(ports, store=WebMarkingStore(ports.store, settings.web_tools))
    files = None
    if settings.files is not None:
        from reme_core.files.keeper import FollowedStore

        files = _folder_keeper(settings.files, settings, ports.store, embedder, lambda scope: work.start(scope))
        ports = replace(ports, store=FollowedStore(ports.store, files))
    work = JobService(
        memory_space=settings.memory_space,
        store=ports.store,
        embedder=embedder,
        clock=clock,
        max_scopes=settings.retry.max_scopes,
    )
    work.runner = runner = JobRunner(store=ports.store, clock=clock, retry=settings.retry)
    message_embedder = embedder if settings.embed_messages else None
    return AssembledParts(
        ports=ports,
        embedder=embedder,
        files=files,
        record=VerbatimSummarizer(store=ports.store, embedder=message_embedder, slicing=settings.slicing),
        runtime=_runtime(settings, ports, embedder),
        work=work,
        editor=Editor(store=ports.store, embedder=embedder, start=work.start),
        runner=runner,
        costs=CostBook(ports.store, clock),
    )


def _folder_keeper(
    files: str | Path | Folders,
    settings: MemorySettings,
    store: Store,
    embedder: RestingEmbedder | None,
    start: Callable[[Scope], None],
) -> FolderKeeper:
    from reme_core.files.keeper import FolderKeeper, FolderPorts

    ports = FolderPorts(
        memory_space=settings.memory_space,
        store=store,
        resting_embedder=embedder,
        clock=settings.clock,
        token_counter=settings.counter,
        start_waiting=start,
    )
    return FolderKeeper(files, ports)


def _runtime(settings: MemorySettings, ports: Ports, embedder: RestingEmbedder | None) -> RuntimePorts:
    return RuntimePorts(
        store=ports.store,
        embedder=embedder,
        model=ports.llm,
        clock=settings.clock,
        counter=settings.counter,
        zone=read_zone(settings.timezone),
        web_tools=settings.web_tools,
        schemas=settings.schemas,
    )
