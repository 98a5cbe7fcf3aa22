"""The options that commands share: whose memory, where it lies, how it is told."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Concatenate, ParamSpec, TypeAlias, cast, get_type_hints

import typer

from reme_core.cli.output import Output
from reme_core.errors import InvalidInputError, InvalidLinesError, NotFoundError, ReMeError, UnsupportedFilterError
from reme_core.facade.parts import FILE_NAME, UNSET
from reme_core.facade.reme import ReMe

User: TypeAlias = Annotated[
    str | None, typer.Option("--user", "-u", envvar="REME_USER", help="Whose memory; there is no default.")
]
Shared: TypeAlias = Annotated[bool, typer.Option("--shared", help="The shared scope of the space, instead of a user.")]
Space: TypeAlias = Annotated[str, typer.Option("--space", envvar="REME_SPACE", help="The memory space.")]
Folder: TypeAlias = Annotated[str, typer.Option("--dir", envvar="REME_DIR", help="The folder of the memory file.")]
Wait: TypeAlias = Annotated[
    float, typer.Option("--wait", envvar="REME_WAIT", help="Seconds to wait for another process that is writing.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="One line of JSON on stdout; errors as JSON on stderr.")]
NoEmbedding: TypeAlias = Annotated[
    bool, typer.Option("--no-embedding", help="No embedding model, whatever the environment names.")
]
Types: TypeAlias = Annotated[list[str] | None, typer.Option("--type", help="Memories of this type; repeatable.")]
Targets: TypeAlias = Annotated[list[str] | None, typer.Option("--target", help="Memories about this; repeatable.")]
Session: TypeAlias = Annotated[str | None, typer.Option("--session", help="Messages of this session.")]
AsOf: TypeAlias = Annotated[str | None, typer.Option("--as-of", help="What held at this time, and was said by then.")]
Superseded: TypeAlias = Annotated[bool, typer.Option("--superseded", help="Also memories that were replaced.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
DEFAULT_FOLDER = ".reme"
DEFAULT_WAIT_S = 10.0
# A command asks once: no next question finds more. Some 500,000 messages are loaded in this time.
_LOADING_WAIT_S = 10.0
OPTION_NAMES = {
    "task_name": "--task",
    "memory_type": "--type",
    "memory_target": "--target",
    "limit": "--limit",
    "cursor": "--cursor",
    "token_budget": "--tokens",
    "freq_threshold": "--freq",
    "min_freq": "--freq",
    "utility_threshold": "--utility",
    "max_utility": "--utility",
    "tool_names": "NAME",
    "top_k": "--top-k",
    "min_score": "--min-score",
    "layers": "--layer",
    "metadata": "--metadata",
    "keyword": "--keyword",
    "session_id": "--session",
    "user_id": "--user",
    "memory_space": "--space",
    "start_time": "--from",
    "end_time": "--to",
    "as_of": "--as-of",
    "include_shared": "--include-shared",
    "observed_at": "--observed",
    "valid_from": "--since",
    "valid_to": "--until",
    "when_to_use": "--when-to-use",
    "busy_timeout_s": "--wait",
    "working_dir": "--dir",
}
"""Arguments of `ReMe`, and the options that they are in the commands."""

_COMMANDS = {
    "flush()": "`reme flush`",
    "list_jobs (`reme jobs`)": "`reme jobs`",
    "list_memories": "`reme list`",
}
"""Methods that errors of `ReMe` advise, and the commands that do the same."""

# An argument at the beginning of what is refused, or one whose name is no word of a sentence; what is quoted is data.
_ARGUMENT = re.compile(r"^[a-z_]+(?=[:\[])|(?<![\w'\"/.-])[a-z]+_[a-z_]+\b")

# Where the fields of the one memory that a command adds, or of the scope, stand for the methods behind it.
_ONE_DRAFT = re.compile(r"^(?:memories\[0\]|scope|vector_store)[.:] ?")


class NoFileError(NotFoundError):
    """There is no memory file in a folder; looking must not make one."""

    def __init__(self, path: Path) -> None:
        """Name the file that is missing."""
        ReMeError.__init__(self, f"there is no memory in {str(path)!r} yet: add something first, or check --dir")
        self.missing = (str(path),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """The options that every command has.

    Attributes:
        user: The user, None if not named.
        shared: The shared scope of the space is meant.
        space: The memory space.
        folder: The folder of the file.
        wait_s: How long to wait for another process that is writing.
    """

    user: str | None
    shared: bool
    space: str
    folder: str
    wait_s: float

    @property
    def user_id(self) -> str:
        """The user id of the scope; a scope is never guessed (InvalidInputError)."""
        if self.shared:
            return ""
        if not self.user:
            msg = "whose memory? Give --user NAME or set REME_USER (or --shared for the shared scope of the space)"
            raise InvalidInputError(msg)
        return self.user

    @property
    def file(self) -> Path:
        """The path of the file."""
        return Path(self.folder).expanduser() / FILE_NAME

    def check_file(self) -> None:
        """Refuse to look where nothing was ever written.

        Raises:
            NoFileError: There is no file.
            InvalidInputError: The folder has no name.
        """
        if not self.folder.strip():
            msg = "--dir is empty: give the path of a folder"
            raise InvalidInputError(msg)
        if not self.file.exists():
            raise NoFileError(self.file)

    def open(self, *, with_llm: bool = False, with_embedding: bool = False) -> ReMe:
        """Make the memory; models, where wanted, are those that the environment names."""
        return ReMe(
            self.space,
            self.folder,
            llm=UNSET if with_llm else None,
            embedding=UNSET if with_embedding else None,
            vector_store={
                "backend": "local_file",
                "busy_timeout_s": self.wait_s,
                "loading_wait_s": _LOADING_WAIT_S,
            },
        )

    @asynccontextmanager
    async def existing(
        self, *, with_llm: bool = False, with_embedding: bool = False
    ) -> AsyncIterator[tuple[ReMe, str]]:
        """Open the memory that is there, beside the user id of the scope (InvalidInputError, NoFileError)."""
        user_id = self.user_id
        self.check_file()
        async with self.open(with_llm=with_llm, with_embedding=with_embedding) as memory:
            yield memory, user_id


P = ParamSpec("P")


def with_common_options(command: Callable[Concatenate[CommonOptions, Output, P], int]) -> Callable[..., int]:
    """Return a command for typer: it has the common options behind its own, and is handed what they say."""

    def run(
        *,
        user: User = None,
        shared: Shared = False,
        space: Space = "default",
        folder: Folder = DEFAULT_FOLDER,
        wait: Wait = DEFAULT_WAIT_S,
        as_json: Json = False,
        **own: object,
    ) -> int:
        where = CommonOptions(user=user, shared=shared, space=space, folder=folder, wait_s=wait)
        typed = cast("Callable[..., int]", command)
        return typed(where, Output(as_json=as_json), **own)

    types = {**get_type_hints(run, include_extras=True), **get_type_hints(command, include_extras=True)}
    _, _, *first = signature(command).parameters.values()
    *last, _ = signature(run).parameters.values()
    parameters = [parameter.replace(annotation=types[parameter.name]) for parameter in (*first, *last)]
    run.__name__, run.__doc__, run.__annotations__ = command.__name__, command.__doc__, types
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # where `inspect.signature` looks first
    return run


def types_of(types: Sequence[str]) -> str | Sequence[str]:
    """Return the memory types that were asked for; `auto`, which is any, where it or none is among them."""
    return "auto" if not types or "auto" in types else types


def refuse(what: str, options: Mapping[str, object]) -> None:
    """Refuse options that mean nothing here (InvalidInputError)."""
    for name, value in options.items():
        if value is not None:
            msg = f"{name} says nothing about {what}: leave it out"
            raise InvalidInputError(msg)


def in_commands(error: ReMeError) -> str:
    """Return an error's text with options and commands in the place of arguments and methods; lines of files stay."""
    text = str(error)
    for method, command in _COMMANDS.items():
        text = text.replace(method, command)
    if isinstance(error, InvalidLinesError) or not isinstance(error, (InvalidInputError, UnsupportedFilterError)):
        return text
    return _ARGUMENT.sub(lambda match: OPTION_NAMES.get(match[0], match[0]), _ONE_DRAFT.sub("", text))


@contextmanager
def option_name(options: Mapping[str, str]) -> Iterator[None]:
    """Let what is refused within be told by the names of options: arguments of `ReMe` have others.

    A refusal that lists lines is left as it is.
    """
    try:
        yield
    except InvalidLinesError:
        raise
    except InvalidInputError as exc:
        told = _ARGUMENT.sub(lambda match: options.get(match[0], match[0]), str(exc))
        raise InvalidInputError(told) from exc
