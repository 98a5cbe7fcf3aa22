"""The command `reme mcp`: the memory as an MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import (
    DEFAULT_FOLDER,
    DEFAULT_WAIT_S,
    CommonOptions,
    DatabaseUrl,
    Folder,
    Space,
    User,
    Wait,
    web_tools,
)
from reme_core.errors import ConfigurationError, MissingExtraError
from reme_core.facade.reme import ReMe
from reme_core.schema import Scope, make_scope

if TYPE_CHECKING:
    from reme_core.serve.mcp.options import McpOptions


def mcp(
    *,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only the tools that read.")] = False,
    profile: Annotated[
        str, typer.Option("--profile", help="Which tools: default, chatgpt (search and fetch), or files.")
    ] = "default",
    root: Annotated[Path | None, typer.Option("--root", help="The folder that the profile files works on.")] = None,
    user: User = None,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    database_url: DatabaseUrl = None,
    wait: Wait = DEFAULT_WAIT_S,
) -> int:
    """Serve the memory to an MCP client on standard input and output, until the input ends."""
    where = CommonOptions(
        user=user, shared=False, space=space, folder=folder, wait_s=wait, database_url=database_url or None
    )
    scope = make_scope(where.space, where.whose["user_id"])
    from reme_core.serve.mcp.options import FileFolder, McpOptions, read_profile  # noqa: PLC0415  # for this command

    files = None if root is None else FileFolder(root, scope)
    options = McpOptions(profile=read_profile(profile), read_only=read_only, folder=files)
    where.check_folder()
    check_serving("reme mcp")
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="reme mcp: %(message)s")
    if sys.stdin.isatty():
        typer.echo("reme: waits for an MCP client on standard input; Ctrl-C ends it", err=True)
    asyncio.run(_serve(where, scope, options))
    return ExitCode.DONE


async def _serve(where: CommonOptions, scope: Scope, options: McpOptions) -> None:
    from reme_core.serve.access import Principal  # noqa: PLC0415
    from reme_core.serve.mcp.stdio import serve_stdio  # noqa: PLC0415
    from reme_core.serve.service import make_service  # noqa: PLC0415

    memory = ReMe(where.space, where.folder, vector_store=where.store_settings(), web_tools=web_tools())
    service = make_service(memory)
    await serve_stdio(service, Principal(scope=scope), options)


def check_serving(wanted_for: str, *also: str) -> None:
    """Refuse to serve without what it, and what else is named, stands on.

    Raises:
        MissingExtraError: A library is not installed.
        ConfigurationError: An older one is.
    """
    for library in ("mcp", *also):
        if importlib.util.find_spec(library) is None:
            raise MissingExtraError(library=library, extra="serve", wanted_for=wanted_for)
    if importlib.util.find_spec("mcp_types") is None:  # comes with mcp 2
        msg = (
            f"{wanted_for} needs mcp 2.3 or newer, and an older one is installed, as AgentScope 1.x asks for: use an "
            "environment of its own, or uvx --from 'reme-memory[serve]' reme-memory"
        )
        raise ConfigurationError(msg)
