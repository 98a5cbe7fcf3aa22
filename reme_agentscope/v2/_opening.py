"""The memory that a middleware, its tools and its offloader share: handed in, or built on first use."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from agentscope.embedding import EmbeddingModelBase
from agentscope.model import ChatModelBase

import reme_agentscope
import reme_core
from reme_core.errors import ConfigurationError, PartialFailureError, ReMeError
from reme_core.schema import make_scope

if TYPE_CHECKING:
    from reme_core import ReMe

_LOG = logging.getLogger("reme_agentscope")

DEFAULT_USER = "default"
_DEFAULT_SPACE = "default"


def told(error: BaseException) -> str:
    """Return what a log may say of an error: only our own messages are known to hold no words of the talk."""
    return f"{type(error).__name__}: {error}" if isinstance(error, ReMeError) else type(error).__name__


def user_of(user_name: str | None) -> str:
    """Return the user id; an empty name is none, as a form sends it, and never the shared scope.

    Raises:
        InvalidInputError: The name can't be a user's.
    """
    return make_scope(_DEFAULT_SPACE, user_name or DEFAULT_USER).user_id


class OpenedMemory:
    """A `ReMe` that was handed in, or one in a working folder, built on first use and closed by `close`.

    After `close` the next use builds a new one. Any event loop and thread may use it.
    """

    def __init__(
        self,
        given: ReMe | None = None,
        *,
        working_dir: str = ".reme",
        chat_model: ChatModelBase | None = None,
        embedding_model: EmbeddingModelBase[str] | None = None,
    ) -> None:
        """Keep the settings; nothing is opened."""
        self._given = given
        # Loaded here and not with this module, as it takes some tenths of a second; nor within the first reply.
        self._make: type[ReMe] = reme_core.ReMe
        self._working_dir = working_dir
        self._chat_model = chat_model
        self._embedding_model = embedding_model
        self._gate = threading.Lock()
        self._built: ReMe | None = None

    def __repr__(self) -> str:
        """Name the memory, or where it will be."""
        return repr(self._given or self._built or self._working_dir)

    @property
    def place(self) -> tuple[str, ...]:
        """What tells it from others: the workspace, and the folder or file, as far as it lies in one."""
        if self._given is None:
            return _DEFAULT_SPACE, str(self._working_dir)
        try:
            return self._given.memory_space, self._given.database.path
        except ConfigurationError:  # nothing of it lies in a file
            return (self._given.memory_space,)

    def get(self) -> ReMe:
        """Return the memory; a first call builds it, and may raise what `ReMe` raises."""
        if self._given is not None:
            return self._given
        with self._gate:
            if self._built is None:
                self._built = self._make(
                    _DEFAULT_SPACE,
                    self._working_dir,
                    llm=None if self._chat_model is None else reme_agentscope.as_chat_model(self._chat_model),
                    embedding=None
                    if self._embedding_model is None
                    else reme_agentscope.as_embedder(self._embedding_model),
                )
            return self._built

    async def finish_jobs(self) -> None:
        """Wait until memories are made of what was kept; what fails is logged and stays a job of the memory."""
        memory = self._given or self._built
        if memory is None:
            return
        try:
            await memory.flush()
        except ReMeError as exc:
            _LOG.error("memories are still to be made of messages that are kept: %s", told(exc))
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if me is None or me.cancelling():
                raise
            _LOG.error("memories are still to be made of messages that are kept: a model was interrupted")

    async def close(self) -> None:
        """Close what was built here; a memory that was handed in stays open."""
        with self._gate:
            built, self._built = self._built, None
        if built is None:
            return
        try:
            await built.close()
        except PartialFailureError as exc:  # it is closed, and the next start tries again
            _LOG.error("memories are still to be made of messages that are kept: %s", told(exc))
