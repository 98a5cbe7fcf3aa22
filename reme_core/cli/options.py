"""The options that commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

import typer

from reme_core.cli.output import Output
from reme_core.cli.where import CommonOptions
from reme_core.errors import InvalidInputError

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


def begin(
    user: str | None, space: str, folder: str, wait: float, *, shared: bool = False, as_json: bool = False
) -> tuple[CommonOptions, Output]:
    """Return whose memory it is about, and what prints."""
    where = CommonOptions(user=user, shared=shared, space=space, folder=folder, wait_s=wait)
    return where, Output(as_json=as_json)


def types_of(types: Sequence[str]) -> str | Sequence[str]:
    """Return the memory types that were asked for; `auto`, which is any, where it or none is among them."""
    return "auto" if not types or "auto" in types else types


def refuse(what: str, options: Mapping[str, object]) -> None:
    """Refuse options that mean nothing here (InvalidInputError)."""
    for name, value in options.items():
        if value is not None:
            msg = f"{name} says nothing about {what}: leave it out"
            raise InvalidInputError(msg)
