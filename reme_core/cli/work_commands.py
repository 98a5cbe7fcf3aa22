"""The commands about what models do: talking, unfinished work, and taking it back."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from reme_core.cli import chat as talking
from reme_core.cli import jobs as open_work
from reme_core.cli import writing
from reme_core.cli.commands import app
from reme_core.cli.options import (
    DEFAULT_FOLDER,
    DEFAULT_WAIT_S,
    Folder,
    Json,
    NoEmbedding,
    Shared,
    Space,
    User,
    Wait,
    Yes,
    begin,
    refuse,
)
from reme_core.errors import InvalidInputError

__all__ = ["app"]


@app.command()
def chat(
    *,
    session: Annotated[str | None, typer.Option("--session", help="Go on with this session.")] = None,
    user: User = None,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
) -> int:
    """Talk with Remy, who remembers. /help tells what else can be typed; lines may come from a pipe."""
    where, output = begin(user, space, folder, wait)
    return talking.chat(where, output, session_id=session)


@app.command()
def jobs(
    *,
    everyone: Annotated[bool, typer.Option("--all", help="Of every user of the space.")] = False,
    retry: Annotated[str | None, typer.Option("--retry", metavar="ID", help="Try this one again now.")] = None,
    drop: Annotated[str | None, typer.Option("--drop", metavar="ID", help="Give this one up for good.")] = None,
    yes: Yes = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """List work that is not done: what waits, runs, or was given up, and why."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    if retry is not None and drop is not None:
        msg = "give either --retry ID or --drop ID"
        raise InvalidInputError(msg)
    if retry is not None or drop is not None:
        refuse("one job", {"--all": everyone or None})
    if drop is None:
        refuse("listing and retrying", {"--yes": yes or None})
    if retry is not None:
        return asyncio.run(open_work.retry(where, output, retry))
    if drop is not None:
        return asyncio.run(open_work.drop(where, output, drop, is_sure=yes))
    return asyncio.run(open_work.list_jobs(where, output, everyone=everyone))


@app.command()
def flush(
    *,
    no_embedding: NoEmbedding = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Finish what is left to do for all users of the space: memories to be made, vectors to be computed."""
    where, output = begin(None, space, folder, wait, as_json=as_json)
    return asyncio.run(open_work.flush(where, output, with_embedding=not no_embedding))


@app.command()
def undo(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="The run; reme add and reme history name it.")],
    *,
    no_embedding: NoEmbedding = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Take back what a run has changed. It can be undone in turn."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    return asyncio.run(writing.undo(where, output, run_id, with_embedding=not no_embedding))
