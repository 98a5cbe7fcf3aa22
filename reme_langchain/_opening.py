"""A memory where a path, or nothing, was given in its place; and its closing where a `with` ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from reme_core import ReMe
from reme_core.errors import ConfigurationError
from reme_core.ports import Embedder
from reme_core.schema import shown

MemoryOrPath: TypeAlias = ReMe | str | Path | None
"""A `ReMe`; or the path of its working folder, or of its file; or the URL of a database of PostgreSQL; or None for the
database that REME_DATABASE_URL names, and the default working folder where it names none."""

DEFAULT_FOLDER = ".reme"
IN_MEMORY = ":memory:"
_FILES = frozenset({".db", ".sqlite", ".sqlite3"})
_SERVERS = ("postgresql://", "postgres://")


class NothingToDo:
    """An answer of what is done already, whether `await` stands before it or not."""

    def __await__(self) -> Iterator[None]:
        """Wait for nothing."""
        return iter(())


class _Closable(Protocol):
    def close(self) -> None: ...

    async def aclose(self) -> None: ...


class ClosedOnExit:
    """Is closed where a `with`, or an `async with`, ends."""

    __slots__ = ()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self: _Closable, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return it."""
        return self

    async def __aexit__(
        self: _Closable, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.aclose()


def open_memory(
    given: object,
    *,
    embedder: Embedder | None = None,
    what: str = "memory",
    synchronous: Literal["FULL", "NORMAL"] = "FULL",
    with_models: bool = True,
) -> tuple[ReMe, bool]:
    """Return the memory and whether it was made here, to be closed by whoever called.

    A path that ends in .db, .sqlite or .sqlite3, or that is a file, is the file; any other one is the working folder,
    whose file is `memory.db`. Nothing is opened yet.

    Args:
        given: See `MemoryOrPath`.
        embedder: For a memory made here; without one, the environment decides.
        what: The argument's name, for the error.
        synchronous: For a file opened here: FULL survives a power cut, NORMAL a killed process. Of a server, the
            caller sees to it.
        with_models: False: a memory made here has none, whatever the environment says.

    Raises:
        ConfigurationError: It is none of these.
    """
    if isinstance(given, ReMe):
        return given, False
    if given is not None and not isinstance(given, str | Path):
        msg = f"{what}: wanted a ReMe, a path or postgresql://..., found {shown(given)}"
        raise ConfigurationError(msg)
    if str(given) == IN_MEMORY:
        msg = f"{what}: {IN_MEMORY!r} is SQLite's word for nothing on disk, and here all is on disk: give a folder"
        raise ConfigurationError(msg)
    folder, store = _place(given, what, synchronous)
    if not with_models:
        return ReMe(working_dir=folder, vector_store=store, llm=None, embedding=None), True
    if embedder is None:
        return ReMe(working_dir=folder, vector_store=store), True
    return ReMe(working_dir=folder, vector_store=store, embedding=embedder), True


def is_server(given: object) -> bool:
    """Return whether a database server is named in place of a path."""
    return isinstance(given, str) and given.startswith(_SERVERS)


def _place(given: str | Path | None, what: str, synchronous: str) -> tuple[Path, dict[str, object] | None]:
    """Return the working folder, and the settings of the store; None: the environment decides."""
    if given is None and synchronous == "FULL":
        return Path(DEFAULT_FOLDER), None
    if is_server(given):
        return Path(DEFAULT_FOLDER), {"backend": "postgres", "url": given}
    if "://" in str(given) or (isinstance(given, Path) and given.parts[:1] in {("postgresql:",), ("postgres:",)}):
        msg = (
            f"{what}: found a URL ({shown(str(given).partition(':/')[0])}), and memories lie in a file on this "
            "machine or in PostgreSQL: give a path, such as '.reme' or 'memory.db', or postgresql://... as a text"
        )
        raise ConfigurationError(msg)
    path = Path(DEFAULT_FOLDER if given is None else given).expanduser()
    store: dict[str, object] = {"backend": "local_file", "synchronous": synchronous}
    if path.suffix not in _FILES and not path.is_file():
        return path, store
    store["path"] = path
    return path.parent, store
