"""The commands about working memory: what left a context, and loading it again."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from reme_core.cli import offloads as offloaded
from reme_core.cli.options import (
    DEFAULT_FOLDER,
    DEFAULT_WAIT_S,
    Folder,
    Json,
    Shared,
    Space,
    User,
    Wait,
    Yes,
    begin,
    refuse,
)
from reme_core.cli.work_commands import app
from reme_core.errors import InvalidInputError
from reme_core.facade.working_memory import IDLE_DAYS, RETENTION_DAYS

__all__ = ["app"]

_DEFAULT_LIMIT = 5


@app.command()
def offloads(
    *,
    session: Annotated[str | None, typer.Option("--session", help="Of this session.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many.")] = 100,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where the last page ended.")] = None,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """List what left the contexts of sessions, newest first, with the references that reload takes."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    with offloaded.options_named():
        return asyncio.run(offloaded.list_offloads(where, output, session_id=session, limit=limit, cursor=cursor))


@app.command()
def reload(
    reference: Annotated[str | None, typer.Argument(metavar="REFERENCE", help="What was offloaded.")] = None,
    *,
    query: Annotated[str | None, typer.Option("--query", "-q", help="Words to look for.")] = None,
    lines: Annotated[str | None, typer.Option("--lines", metavar="10-40", help="These lines.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", help="From this character on, the first being 0.")] = None,
    chars: Annotated[int | None, typer.Option("--chars", help="At most so many characters of each text.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="What left this session only.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="What was said or offloaded since then.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="What was said or offloaded before then.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help=f"At most so many results of a search, {_DEFAULT_LIMIT} by default.")
    ] = None,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Print what left a context: all of it, lines of it, or what a search finds in it or in everything."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    if reference is None:
        refuse("a search in everything", {"--lines": lines, "--offset": offset})
        if query is None and start is None and end is None:
            msg = "give a REFERENCE (reme offloads lists them), or search with --query, --from or --to"
            raise InvalidInputError(msg)
    else:
        refuse("one text", {"--from": start, "--to": end})
        if query is None:
            refuse("a text that isn't searched", {"--limit": limit})
    start_line, end_line = (None, None) if lines is None else offloaded.read_lines(lines)
    wanted = offloaded.ReloadOptions(
        reference=reference,
        query=query,
        start_line=start_line,
        end_line=end_line,
        offset=offset,
        chars=chars,
        session_id=session,
        start_time=start,
        end_time=end,
        limit=_DEFAULT_LIMIT if limit is None else limit,
    )
    with offloaded.options_named():
        return asyncio.run(offloaded.reload(where, output, wanted))


@app.command()
def clean(
    *,
    days: Annotated[float, typer.Option("--days", help="Texts older than this many days go.")] = RETENTION_DAYS,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", help="Beyond this many bytes of text the oldest go, of whatever age.")
    ] = None,
    idle_days: Annotated[
        float, typer.Option("--idle-days", help="Sessions idle for this many days hold nothing any more.")
    ] = IDLE_DAYS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
    yes: Yes = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Remove the texts of old offloads for good; messages stay, and so does what an open session refers to."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    with offloaded.options_named():
        return asyncio.run(
            offloaded.clean(
                where,
                output,
                older_than_days=days,
                max_bytes=max_bytes,
                idle_days=idle_days,
                dry_run=dry_run,
                is_sure=yes,
            )
        )
