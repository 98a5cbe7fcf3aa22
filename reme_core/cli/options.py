"""The options that commands share: whose memory, where it lies, how it is told."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Concatenate, ParamSpec, TypeAlias, TypedDict, cast, get_type_hints

import typer

from reme_core.cli.output import Output, listed
from reme_core.cli.wording import one_line
from reme_core.errors import ConfigurationError, InvalidInputError, NotFoundError, ReMeError
from reme_core.facade.parts import DATABASE_VARIABLE, FILE_NAME, UNSET
from reme_core.facade.reme import ReMe

if TYPE_CHECKING:
    from reme_core.stores import HeldScope

User: TypeAlias = Annotated[
    str | None, typer.Option("--user", "-u", envvar="REME_USER", help="Whose memory; there is no default.")
]
Shared: TypeAlias = Annotated[bool, typer.Option("--shared", help="The shared scope of the space, instead of a user.")]
Space: TypeAlias = Annotated[str, typer.Option("--space", envvar="REME_SPACE", help="The memory space.")]
Folder: TypeAlias = Annotated[str, typer.Option("--dir", envvar="REME_DIR", help="The folder of the memory file.")]
DatabaseUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar=DATABASE_VARIABLE,
        show_envvar=True,
        help="A PostgreSQL database, instead of the file: postgresql://user:password@host/database",
    ),
]
Wait: TypeAlias = Annotated[
    float, typer.Option("--wait", envvar="REME_WAIT", help="Seconds to wait for another process that is writing.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="One line of JSON on stdout; errors as JSON on stderr.")]
NoEmbedding: TypeAlias = Annotated[
    bool, typer.Option("--no-embedding", help="No embedding model, whatever the environment names.")
]
Types: TypeAlias = Annotated[list[str] | None, typer.Option("--type", help="Memories of this type; repeatable.")]
Targets: TypeAlias = Annotated[list[str] | None, typer.Option("--target", help="Memories about this; repeatable.")]
Trust: TypeAlias = Annotated[
    list[str] | None, typer.Option("--trust", help="Resting on words of user, assistant, tool or web; repeatable.")
]
Session: TypeAlias = Annotated[str | None, typer.Option("--session", help="Messages of this session.")]
AsOf: TypeAlias = Annotated[str | None, typer.Option("--as-of", help="What held at this time, and was said by then.")]
Superseded: TypeAlias = Annotated[bool, typer.Option("--superseded", help="Also memories that were replaced.")]
KnownAt: TypeAlias = Annotated[
    str | None, typer.Option("--known-at", help="As the memory stood at this time, whatever was changed since.")
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
DEFAULT_FOLDER = ".reme"
DEFAULT_WAIT_S = 10.0
_SHOWN_SPACES = 5
# A command asks once: no next question finds more. Some 500,000 messages are loaded in this time.
_LOADING_WAIT_S = 10.0


class NoFileError(NotFoundError):
    """There is no memory file in a folder; looking must not make one."""

    def __init__(self, path: Path) -> None:
        """Name the file that is missing."""
        ReMeError.__init__(self, f"there is no memory in {str(path)!r} yet: add something first, or check --dir")
        self.missing = (str(path),)


class Whose(TypedDict):
    """The arguments by which a call of `ReMe` names a scope: a user, or the shared scope of the space."""

    user_id: str | None
    shared: bool


def whose_of(user_id: str) -> Whose:
    """Return the arguments that name a scope as it is kept, where the shared one is the user ""."""
    return {"user_id": user_id or None, "shared": not user_id}


def web_tools() -> list[str]:
    """Return the names of tools that fetch from outside, which stand in a variable with commas between them."""
    return [name for part in os.environ.get("REME_WEB_TOOLS", "").split(",") if (name := part.strip())]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """The options that every command has.

    Attributes:
        user: The user, None if not named.
        shared: The shared scope of the space is meant.
        space: The memory space.
        folder: The folder of the file.
        wait_s: How long to wait for another process that is writing.
        hints: Whether hints go to stderr: people read it.
        database_url: The PostgreSQL database that stands in the place of the file, if any.
    """

    user: str | None
    shared: bool
    space: str
    folder: str
    wait_s: float
    hints: bool = False
    database_url: str | None = field(default=None, repr=False)

    @property
    def whose(self) -> Whose:
        """The arguments of `ReMe` that name the scope; it is never guessed (InvalidInputError)."""
        if self.shared:
            if self.user and self.user != os.environ.get("REME_USER"):
                msg = f"--user {one_line(self.user)!r} and --shared name two scopes: leave one of them out"
                raise InvalidInputError(msg)
            return whose_of("")
        if not self.user:
            msg = "whose memory? Give --user NAME or set REME_USER (or --shared for the shared scope of the space)"
            raise InvalidInputError(msg)
        return whose_of(self.user)

    @property
    def scope_name(self) -> str:
        """The scope in words, for a question."""
        user_id = self.whose["user_id"]
        name = "the shared scope" if user_id is None else f"user {one_line(user_id)!r}"
        return f"{name} in memory space {one_line(self.space)!r}"

    @property
    def file(self) -> Path:
        """The path of the file."""
        return Path(self.folder).expanduser() / FILE_NAME

    def check_folder(self) -> None:
        """Refuse a folder without a name, and the URL of a database (InvalidInputError)."""
        if not self.folder.strip() or "://" in self.folder:
            what = "a URL: name a database by --database-url, or" if self.folder.strip() else "empty:"
            msg = f"--dir is {what} give the path of a folder"
            raise InvalidInputError(msg)

    def check_file(self) -> None:
        """Refuse to look where nothing was ever written; a database is there, or says itself that it is not.

        Raises:
            NoFileError: There is no file.
            InvalidInputError: The folder has no name.
        """
        self.check_folder()
        if self.database_url is None and not self.file.exists():
            raise NoFileError(self.file)

    def check_no_database(self) -> None:
        """Refuse what is about the file where a database stands in its place (ConfigurationError)."""
        if self.database_url is not None:
            msg = (
                f"this is about the memory file, and a database stands in its place ({DATABASE_VARIABLE} or"
                " --database-url): use PostgreSQL's own tools, such as pg_dump, or leave the database out"
            )
            raise ConfigurationError(msg)

    def open(
        self, *, with_llm: bool = False, with_embedding: bool = False, loading_wait_s: float | None = None
    ) -> ReMe:
        """Make the memory; models, where wanted, are those that the environment names (InvalidInputError)."""
        self.check_folder()
        wait_s = _LOADING_WAIT_S if loading_wait_s is None else loading_wait_s
        memory = ReMe(
            self.space,
            self.folder,
            llm=UNSET if with_llm else None,
            embedding=UNSET if with_embedding else None,
            vector_store=self.store_settings(loading_wait_s=wait_s),
            web_tools=web_tools(),
        )
        if self.hints and memory.llm is not None and sys.stderr.isatty():
            typer.echo(f"{memory.llm!r} is asked; this may take a while (Ctrl-C leaves the rest to later)", err=True)
        return memory

    def store_settings(self, *, loading_wait_s: float = 0.5) -> Mapping[str, object]:
        """Return the settings of the store, for `ReMe`."""
        if self.database_url is None:
            return {"backend": "local_file", "busy_timeout_s": self.wait_s, "loading_wait_s": loading_wait_s}
        return {
            "backend": "postgres",
            "url": self.database_url,
            "lock_timeout_s": self.wait_s,
            "loading_wait_s": loading_wait_s,
        }

    @asynccontextmanager
    async def existing(
        self, *, with_llm: bool = False, with_embedding: bool = False
    ) -> AsyncIterator[tuple[ReMe, Whose]]:
        """Open the memory that is there, beside the arguments that name the scope (InvalidInputError, NoFileError)."""
        whose = self.whose
        self.check_file()
        async with self.open(with_llm=with_llm, with_embedding=with_embedding) as memory:
            # Of a database only the scopes of one space can be seen.
            scopes = await _scopes_of(memory) if self.hints and self.database_url is None else ()
            if hint := other_spaces(scopes, self.space):
                typer.echo(f"reme: {hint}", err=True)
            yield memory, whose

    async def scopes(self) -> Sequence[HeldScope]:
        """Return all scopes of the file that is there, or those of the space in a database (NoFileError)."""
        if self.database_url is not None:
            return await _scopes_in_database(self.database_url, self.space)
        self.check_file()
        async with self.open() as memory:
            return await _scopes_of(memory)


P = ParamSpec("P")


Command: TypeAlias = Callable[Concatenate[CommonOptions, Output, P], Coroutine[object, object, int]]
"""A command: an async function, or one that reads its input first and returns the coroutine of the rest."""


def with_common_options(command: Command[P], *, without: Collection[str] = ()) -> Callable[..., int]:
    """Return a command for typer: it has the common options behind its own, and is handed what they say."""

    def run(
        *,
        user: User = None,
        shared: Shared = False,
        space: Space = "default",
        folder: Folder = DEFAULT_FOLDER,
        database_url: DatabaseUrl = None,
        wait: Wait = DEFAULT_WAIT_S,
        as_json: Json = False,
        **own: object,
    ) -> int:
        where = CommonOptions(
            user=user,
            shared=shared,
            space=space,
            folder=folder,
            wait_s=wait,
            hints=not as_json,
            database_url=database_url or None,
        )
        typed = cast("Callable[..., Coroutine[object, object, int]]", command)
        return asyncio.run(typed(where, Output(as_json=as_json), **own))

    types = {**get_type_hints(run, include_extras=True), **get_type_hints(command, include_extras=True)}
    _, _, *first = signature(command).parameters.values()
    *last, _ = (item for item in signature(run).parameters.values() if item.name not in without)
    parameters = [parameter.replace(annotation=types[parameter.name]) for parameter in (*first, *last)]
    run.__name__, run.__doc__, run.__annotations__ = command.__name__, command.__doc__, types
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # where `inspect.signature` looks first
    return run


def of_the_space(command: Command[P]) -> Callable[..., int]:
    """Return a command for typer that is about a whole memory space; see `with_common_options`."""
    return with_common_options(command, without={"user", "shared"})


def of_the_file(command: Command[P]) -> Callable[..., int]:
    """Return a command for typer that is about the whole file; see `with_common_options`."""
    return with_common_options(command, without={"user", "shared", "space"})


async def _scopes_of(memory: ReMe) -> Sequence[HeldScope]:
    from reme_core.stores import list_scopes  # noqa: PLC0415  # help is shown without it

    return await memory.database.read(list_scopes, within=memory.memory_space)


async def _scopes_in_database(url: str, space: str) -> Sequence[HeldScope]:
    from reme_core.stores import PostgresStore, list_scopes  # noqa: PLC0415  # help is shown without it

    store = PostgresStore(url)
    try:
        return await store.database.read(list_scopes, within=space)
    finally:
        await store.close()


def other_spaces(scopes: Sequence[HeldScope], space: str) -> str:
    """Return a hint where a space is empty and others are not, else an empty text."""
    names = list(dict.fromkeys(item.scope.memory_space for item in scopes))
    if not names or space in names:
        return ""
    others = listed(*map(repr, names[:_SHOWN_SPACES]))
    return f"memory space {one_line(space)!r} is empty; there is {others}: use --space"


def types_of(types: Sequence[str]) -> str | Sequence[str]:
    """Return the memory types that were asked for; `auto`, which is any, where it or none is among them."""
    return "auto" if not types or "auto" in types else types


def refuse(what: str, options: Mapping[str, object]) -> None:
    """Refuse options that mean nothing here (InvalidInputError)."""
    for name, value in options.items():
        if value is not None:
            msg = f"{name} says nothing about {what}: leave it out"
            raise InvalidInputError(msg)
