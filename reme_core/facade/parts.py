"""Parts of a `ReMe`: its settings, what the methods of each subject work on, and what adapters share with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, overload

from reme_core.errors import ConfigurationError, InvalidInputError, ReMeError
from reme_core.schema import Scope, shown
from reme_core.schema.checks import is_path

if TYPE_CHECKING:
    from reme_core.facade.config import Ports
    from reme_core.facade.learning_service import LearningService
    from reme_core.facade.reme import ReMe
    from reme_core.facade.strategies import RuntimePorts
    from reme_core.facade.sync import SyncReMe
    from reme_core.files.keeper import FolderKeeper
    from reme_core.jobs.job_service import JobService
    from reme_core.ports import ChatModel, Clock, Embedder, Retriever, Store, Summarizer, TokenCounter, ToolContext
    from reme_core.remember.memory_editor import Editor
    from reme_core.remember.summarizer import VerbatimSummarizer
    from reme_core.retrieval.resting_embedder import RestingEmbedder
    from reme_core.schema import MemoryBlock
    from reme_core.steps.costs import CostBook
    from reme_core.steps.memory_blocks import BlockWrite, MemoryBlocks
    from reme_core.stores import SqlDatabase
    from reme_core.text import Language
    from reme_core.working.ports import WorkingPorts


_LOG = logging.getLogger("reme")

FILE_NAME = "memory.db"
"""The local file in the working folder."""

DATABASE_VARIABLE = "REME_DATABASE_URL"
"""The variable that names a PostgreSQL database, for a memory whose store is left out."""

Settings: TypeAlias = Mapping[str, object]
"""Settings as a dictionary with a `backend`, such as `{"backend": "openai", "model": "qwen-plus"}`."""


class Unset:
    """Marks an argument that was left out, so that the environment decides."""

    def __repr__(self) -> str:
        """Say what it stands for."""
        return "from the environment"


UNSET = Unset()
P = ParamSpec("P")


class MemoryParts(Protocol):
    """A `ReMe`, as its own parts see it."""

    _memory_space: str
    _ports: Ports
    _runtime: RuntimePorts
    _clock: Clock
    _embedder: RestingEmbedder | None
    _record: VerbatimSummarizer
    _work: JobService
    _editor: Editor
    _summarizer: Summarizer
    _retriever: Retriever
    _language: Language | None
    _timezone: str
    _costs: CostBook
    _in_space: Callable[[str], ReMe]
    _files: FolderKeeper | None

    @property
    def _learning(self) -> LearningService: ...

    def _working_ports(self) -> WorkingPorts: ...

    @property
    def _blocks(self) -> MemoryBlocks: ...

    def _block_write(self, reason: object) -> BlockWrite: ...

    @property
    def database(self) -> SqlDatabase: ...  # noqa: D102  # described where it is

    def _scope(self, user_id: object, *, shared: object) -> Scope: ...

    async def _looked_up(self, user_id: object, *, shared: object) -> Scope: ...


def file_path(value: object) -> Path:
    """Return the path of a file (InvalidInputError)."""
    if isinstance(value, (str, Path)) and is_path(str(value)) and Path(value).name:
        return Path(value).expanduser()
    msg = f"path: wanted the path of a file, found {shown(value)}"
    raise InvalidInputError(msg)


async def local_file(ports: Ports) -> Path:
    """Return the path of the local file, which is opened, and made if it is not there (ConfigurationError)."""
    if ports.file is None:
        msg = f"{ports.store!r} is no local store: it has no file of ours"
        raise ConfigurationError(msg)
    await ports.file.database.read(lambda connection: None)
    return Path(ports.file.database.path)


class AdapterSupport:
    """The parts of a `ReMe`, read-only. What they are and who closes them is the memory's affair."""

    @property
    def memory_space(self: MemoryParts) -> str:
        """The workspace that nothing crosses."""
        return self._memory_space

    @property
    def working(self: MemoryParts) -> WorkingPorts:
        """What working memory stands on, for the functions of `reme_core.working`."""
        return self._working_ports()

    @property
    def folders(self: MemoryParts) -> FolderKeeper | None:
        """What keeps the files beside the store, None where there are none."""
        return self._files

    @property
    def in_space(self: MemoryParts) -> Callable[[str], ReMe]:
        """What makes a memory of another memory space, on the same store and with the same models and settings.

        Close that one first: this one closes what both stand on. What `set_summarizer` and `set_retriever` changed here
        is not changed there.
        """
        return self._in_space

    @property
    def embedder(self: MemoryParts) -> Embedder | None:
        """The embedding model, None where texts are found by their words alone."""
        return self._ports.embedder

    @property
    def resting_embedder(self: MemoryParts) -> RestingEmbedder | None:
        """The embedding model as the memory asks it: at rest for a while after each failure."""
        return self._embedder

    @property
    def llm(self: MemoryParts) -> ChatModel | None:
        """The chat model, None in verbatim mode."""
        return self._ports.llm

    @property
    def token_counter(self: MemoryParts) -> TokenCounter:
        """What counts the tokens of a budget."""
        return self._runtime.counter

    @property
    def clock(self: MemoryParts) -> Clock:
        """What tells the time."""
        return self._clock

    @property
    def store(self: MemoryParts) -> Store:
        """Where everything is kept."""
        return self._ports.store

    @property
    def start_waiting(self: MemoryParts) -> Callable[[Scope], None]:
        """What has all that waits in a scope, such as memories that lack a vector, done in the background."""
        return self._work.start

    def tool_context(
        self: MemoryParts, *, user_id: str | None = None, shared: bool = False, blocks: Iterable[MemoryBlock] = ()
    ) -> ToolContext:
        """Return a context in which tools work on one scope, outside an agent; the prompt shows these memory blocks."""
        from reme_core.ports import RunTrace, ToolContext

        return ToolContext(
            scope=self._scope(user_id, shared=shared),
            store=self._ports.store,
            embedder=self._embedder,
            model=self._ports.llm,
            clock=self._clock,
            token_counter=self._runtime.counter,
            trace=RunTrace(shown_blocks={block.label: block.revision for block in blocks}),
        )

    @property
    def database(self: MemoryParts) -> SqlDatabase:
        """The local file, or the database, for tables of adapters; it is open as long as the memory.

        Raises:
            ConfigurationError: The store that was handed in is neither of ours.
        """
        from reme_core.stores import SqlStore

        store = self._ports.file or self._ports.store
        if not isinstance(store, SqlStore):
            msg = f"{store!r} has no tables of ours: leave `vector_store` out, or use a memory of its own"
            raise ConfigurationError(msg)
        return store.database


def log_failed_close(error: Exception) -> None:
    """Say what went wrong with closing a memory while an error of the program was on its way, which is not replaced."""
    told = f": {error}" if isinstance(error, ReMeError) else ""  # words of others may quote what was said
    _LOG.error("closing the memory failed as well: %s%s", type(error).__name__, told)


def check_kind(value: object, kinds: tuple[type, ...], wanted: str) -> None:
    """Refuse what is no object of these kinds, classes of them included (ConfigurationError)."""
    if isinstance(value, type) or not isinstance(value, kinds):
        msg = f"{wanted}, found {shown(value)}"
        raise ConfigurationError(msg)


class MakesSync(Generic[P]):
    """`ReMe.sync(...)` takes the arguments of `ReMe` and makes a blocking memory; `memory.sync()` wraps an open one."""

    def __init__(self, init: Callable[Concatenate[ReMe, P], None]) -> None:
        """Take the constructor whose arguments these are."""

    @overload
    def __get__(self, memory: None, kind: type[ReMe]) -> Callable[P, SyncReMe]: ...

    @overload
    def __get__(self, memory: ReMe, kind: type[ReMe]) -> Callable[[], SyncReMe]: ...

    def __get__(self, memory: ReMe | None, kind: type[ReMe]) -> Callable[P, SyncReMe] | Callable[[], SyncReMe]:
        """Return what makes the blocking memory, for the class or for one memory."""
        from reme_core.facade.sync import SyncReMe  # made of ReMe's methods, so not above it

        def make(*args: P.args, **kwargs: P.kwargs) -> SyncReMe:
            return SyncReMe(kind(*args, **kwargs))  # type: ignore[arg-type]  # P is that of `kind`

        return make if memory is None else lambda: SyncReMe(memory)
