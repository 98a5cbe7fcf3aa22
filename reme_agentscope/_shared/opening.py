"""The memory that an adapter's objects share: handed in, or built in a folder; and whose it is."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import reme_agentscope
import reme_core
from reme_agentscope._shared.memory_kind import LOG
from reme_core.adapting import Appends
from reme_core.errors import ConfigurationError, InvalidInputError, ReMeError, StoreError
from reme_core.schema import make_scope, shown

if TYPE_CHECKING:
    from reme_core import ReMe

DEFAULT_USER = "default"
_DEFAULT_SPACE = "default"
_PARTS = ("/agent:", "/session:")


def told(error: BaseException) -> str:
    """Return what a log may say of an error: only our own messages are known to hold no words of the talk."""
    return f"{type(error).__name__}: {error}" if isinstance(error, ReMeError) else type(error).__name__


def user_of(user_name: str | None, *, agent: str | None = None, session: str | None = None) -> str:
    """Return the user id of a name; with an agent or a session, that of the part of this user's memory that is theirs.

    None is the user `default`, which the log says once: everybody who gives no name shares that memory.

    Raises:
        InvalidInputError: A name that can't be one, a blank one included: it is never the shared scope.
    """
    if user_name is None:
        say_default()
    whose = {"user_name": DEFAULT_USER if user_name is None else user_name, "agent_name": agent, "session": session}
    for what, name in whose.items():
        given: object = name
        if given is not None and (
            not isinstance(given, str) or not given.strip() or any(part in given for part in _PARTS)
        ):
            msg = f"{what}: wanted a name that can stand in a user_id, found {shown(given)}: give one that is not blank"
            raise InvalidInputError(msg)
    parts = [f"{mark}{name}" for mark, name in zip(_PARTS, (agent, session), strict=True) if name is not None]
    return make_scope(_DEFAULT_SPACE, f"{whose['user_name']}{''.join(parts)}").user_id


@functools.cache
def say_default() -> None:
    """Warn, once in a process."""
    LOG.warning("no user_name was given: this is the memory of the user %r, which all without a name share", "default")


def check_kept(appends: Appends) -> None:
    """Raise what keeps something that was said from being on disk (StoreError)."""
    if (error := appends.last_error) is not None:
        msg = f"what was said last is not on disk, and lost when the process ends: {told(error)}"
        raise StoreError(msg) from error


def failing_note(appends: Appends) -> str:
    """Return a line for the answer of a tool while what is said can't be kept; "" while all is well."""
    error = appends.last_error
    return "" if error is None else f"\nError: what was said last could not be stored: {told(error)}"


async def logged(ending: Awaitable[None]) -> None:
    """Await the end of jobs; what fails is logged, and stays a job of the memory."""
    left = "memories are still to be made of messages that are kept: %s"
    try:
        await ending
    except ReMeError as exc:
        LOG.error(left, told(exc))
    except asyncio.CancelledError:
        me = asyncio.current_task()
        if me is None or me.cancelling():
            raise
        LOG.error(left, "a model was interrupted")


class _AsyncClosable(Protocol):
    async def close(self) -> None: ...


class ClosedAtEnd:
    """Is closed where an `async with` ends; an error on its way is not replaced."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        """Return it; it works without this, too."""
        return self

    async def __aexit__(
        self: _AsyncClosable,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Close it."""
        try:
            await self.close()
        except ReMeError:
            if error is None:
                raise


class OpenedMemory:
    """A `ReMe` that was handed in, or one in a working folder, which `close` closes.

    After `close` the next use builds a new one. Any event loop and thread may use it.
    """

    def __init__(
        self,
        given: ReMe | None = None,
        *,
        working_dir: str = ".reme",
        chat_model: object = None,
        embedding_model: object = None,
    ) -> None:
        """Keep the settings; no file is touched.

        Raises:
            ConfigurationError: What was handed in is no `ReMe`, a model is none, or the folder's name can't be one.
        """
        # Loaded here and not with this module, as it takes some tenths of a second; nor within the first reply.
        self._make: type[ReMe] = reme_core.ReMe
        handed_in: object = given
        if handed_in is not None and not isinstance(handed_in, self._make):
            msg = f"reme: wanted a ReMe, found {shown(handed_in)}: open one with ReMe(memory_space, working_dir)"
            raise ConfigurationError(msg)
        self._given = given
        self._working_dir = working_dir
        self._chat_model = chat_model
        self._embedding_model = embedding_model
        self._gate = threading.Lock()
        self._is_used = False
        self._built = None if given is not None else self._build()

    def __repr__(self) -> str:
        """Name the memory, or where it will be."""
        return repr(self._given or self._working_dir)

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
        """Return the memory; after `close` a new one."""
        self._is_used = True
        if self._given is not None:
            return self._given
        with self._gate:
            if self._built is None:
                self._built = self._build()
            return self._built

    async def flush(self) -> None:
        """Wait until memories are made of what was kept; raises what `ReMe.flush` does."""
        if self._is_used:
            await self.get().flush()

    async def close(self) -> None:
        """Close what was built here, where it was used; a memory that was handed in stays open."""
        used, self._is_used = self._is_used, False
        with self._gate:
            built, self._built = self._built, None
        if built is not None and used:
            await built.close()

    def _build(self) -> ReMe:
        chat_model, embedding_model = self._chat_model, self._embedding_model
        return self._make(
            _DEFAULT_SPACE,
            self._working_dir,
            llm=None if chat_model is None else reme_agentscope.as_chat_model(chat_model),
            embedding=None if embedding_model is None else reme_agentscope.as_embedder(embedding_model),
        )
