"""The commands and their options; what they do stands in `reading` and `writing`."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated, assert_never

import typer

from reme_core import __version__
from reme_core.cli import reading, writing
from reme_core.cli.files import read_messages, read_object, read_text
from reme_core.cli.options import (
    DEFAULT_FOLDER,
    DEFAULT_WAIT_S,
    AsOf,
    Folder,
    Json,
    NoEmbedding,
    Session,
    Shared,
    Space,
    Superseded,
    Targets,
    Types,
    User,
    Wait,
    Yes,
    begin,
    refuse,
)
from reme_core.errors import InvalidInputError
from reme_core.steps.user_input import read_metadata_filter

app = typer.Typer(
    name="reme",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Durable, scoped memory: add what was said, find it again.",
    epilog="Exit codes: 0 done, 1 nothing found, 2 bad input, 3 not found, 4 busy (try again), 5 damaged or newer "
    "file, 6 model failed, 7 no access, 8 conflict, 9 partly done, 130 interrupted.",
)


class LayerName(StrEnum):
    """The layers of a memory."""

    MEMORY = "memory"
    SUMMARY = "summary"
    MESSAGE = "message"


def _show_version(value: bool) -> None:  # noqa: FBT001  # the signature that typer calls
    if value:
        typer.echo(f"reme {__version__}")
        raise typer.Exit


@app.callback()
def about(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Durable, scoped memory: add what was said, find it again."""


@app.command()
def add(
    text: Annotated[str | None, typer.Argument(help="A memory, one statement; - reads it from standard input.")] = None,
    *,
    messages: Annotated[
        str | None, typer.Option("--messages", "-m", help="A file of messages, JSON or JSON Lines; - is stdin.")
    ] = None,
    session: Annotated[str | None, typer.Option("--session", help="The session that the messages continue.")] = None,
    end: Annotated[
        bool | None,
        typer.Option("--end/--open", help="Nothing more, or more, comes of this session. [default: end if new]"),
    ] = None,
    memory_type: Annotated[str | None, typer.Option("--type", help="The memory type.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Whom or what the memory is about.")] = None,
    when_to_use: Annotated[str | None, typer.Option("--when-to-use", help="What to match a question on.")] = None,
    observed: Annotated[str | None, typer.Option("--observed", help="When it was said, as 2026-01-31 09:30.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Since when it holds, as 2023, 2023-01 or 2023-01-05.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Until when it holds or held, as --since.")] = None,
    metadata: Annotated[str | None, typer.Option("--metadata", help="A JSON object.")] = None,
    no_embedding: NoEmbedding = False,
    no_llm: Annotated[bool, typer.Option("--no-llm", help="No chat model, whatever the environment names.")] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Only keep the messages; reme flush makes memories of them.")
    ] = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Add a memory, or the messages of a file; with a chat model, memories are made of these."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    if (text is None) == (messages is None):
        msg = "give either a memory or --messages FILE"
        raise InvalidInputError(msg)
    if messages is not None:
        alone = {"--target": target, "--when-to-use": when_to_use, "--observed": observed, "--metadata": metadata}
        refuse("--messages", {**alone, "--since": since, "--until": until})
        return asyncio.run(
            writing.add_messages(
                where,
                output,
                read_messages(messages),
                session_id=session,
                end_session=end,
                memory_type=memory_type or "auto",
                with_llm=not no_llm,
                with_embedding=not no_embedding,
                background=background,
            )
        )
    refuse("a memory", {"--session": session, "--end": end, "--background": background or None})
    return asyncio.run(
        writing.add_memory(
            where,
            output,
            read_text("-").strip() if text == "-" else text or "",
            memory_type=memory_type or "personal",
            memory_target=target or "self",
            when_to_use=when_to_use or "",
            observed_at=observed,
            since=since,
            until=until,
            metadata=read_object(metadata, "--metadata"),
            with_embedding=not no_embedding,
        )
    )


@app.command()
def search(
    query: Annotated[
        str | None, typer.Argument(help="The question, in words; not needed beside --from or --to.")
    ] = None,
    *,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="At most so many; 10 without --tokens.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="The same as --limit.")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", help="As many as fit into so many tokens.")] = None,
    min_score: Annotated[float | None, typer.Option("--min-score", help="Nothing that scores lower, 0 to 1.")] = None,
    types: Types = None,
    targets: Targets = None,
    layers: Annotated[list[LayerName] | None, typer.Option("--layer", help="Look here; repeatable.")] = None,
    metadata: Annotated[str | None, typer.Option("--metadata", help="A JSON object that must match.")] = None,
    session: Session = None,
    start: Annotated[str | None, typer.Option("--from", help="Said at this time or later.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Said before this time.")] = None,
    as_of: AsOf = None,
    superseded: Superseded = False,
    include_shared: Annotated[bool, typer.Option("--include-shared", help="Also the shared scope.")] = False,
    no_embedding: NoEmbedding = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Find what answers a question, or lies in a time. Exit code 1: nothing found."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    question = reading.SearchOptions(
        query=query,
        limit=limit,
        top_k=top_k,
        token_budget=tokens,
        min_score=min_score,
        types=types or (),
        targets=targets or (),
        layers=[str(layer) for layer in layers or ()],
        metadata=read_metadata_filter(read_object(metadata, "--metadata")) or None,
        session_id=session,
        start_time=start,
        end_time=end,
        as_of=as_of,
        include_superseded=superseded,
        include_shared=include_shared,
    )
    return asyncio.run(reading.search(where, output, question, with_embedding=not no_embedding))


@app.command("list")
def list_(
    *,
    layer: Annotated[LayerName, typer.Option("--layer", help="What to list.")] = LayerName.MEMORY,
    types: Types = None,
    targets: Targets = None,
    keyword: Annotated[str | None, typer.Option("--keyword", "-k", help="Holding every word of this.")] = None,
    session: Session = None,
    as_of: AsOf = None,
    superseded: Superseded = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 100,
    cursor: Annotated[str | None, typer.Option("--cursor", help="The next page; from the page before.")] = None,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """List memories (newest first), messages or blocks (oldest first)."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    given = {
        "--type": bool(types),
        "--target": bool(targets),
        "--keyword": keyword is not None,
        "--session": session is not None,
        "--as-of": as_of is not None,
        "--superseded": superseded,
    }
    reading.check_page_options(layer, given)
    match layer:
        case LayerName.MEMORY:
            page = reading.list_memories(
                where,
                output,
                types=types or (),
                targets=targets or (),
                keyword=keyword,
                as_of=as_of,
                include_superseded=superseded,
                limit=limit,
                cursor=cursor,
            )
        case LayerName.MESSAGE:
            page = reading.list_messages(where, output, keyword=keyword, session_id=session, limit=limit, cursor=cursor)
        case LayerName.SUMMARY:
            page = reading.list_blocks(where, output, session_id=session, limit=limit, cursor=cursor)
        case _:
            assert_never(layer)
    return asyncio.run(page)


@app.command()
def show(
    item_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of a memory, a message or a block, or a reference.")
    ],
    *,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Show a memory, a message, a block or the beginning of an offload, with the messages that it comes from."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    return asyncio.run(reading.show(where, output, item_id))


@app.command()
def history(
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a memory, deleted ones included.")],
    *,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Show every change of a memory, oldest first."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    return asyncio.run(reading.history(where, output, memory_id))


@app.command()
def export(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file to write; one that exists is replaced. - is stdout.")
    ],
    *,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Write everything of a user to a file of JSON Lines."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    return asyncio.run(reading.export(where, output, file))


@app.command("import")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that reme export wrote; - is stdin.")],
    *,
    no_embedding: NoEmbedding = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Read an exported file into a user's memory; doing it twice changes nothing more."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    return asyncio.run(writing.import_file(where, output, file, with_embedding=not no_embedding))


@app.command()
def delete(
    memory_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The id of a memory.")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Everything of the user, for good.")] = False,
    yes: Yes = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Delete a memory, or with --all everything of a user."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    if everything == (memory_id is not None):
        msg = "give either the ID of a memory or --all"
        raise InvalidInputError(msg)
    if memory_id is None:
        return asyncio.run(writing.delete_all(where, output, is_sure=yes))
    return asyncio.run(writing.delete_memory(where, output, memory_id, is_sure=yes))


@app.command()
def stats(
    *,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Show how much a user's memory holds."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    return asyncio.run(reading.stats(where, output))
