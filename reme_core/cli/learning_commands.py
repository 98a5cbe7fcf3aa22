"""The commands about what attempts at tasks and calls of tools teach."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from reme_core.cli import lessons, libraries, tool_records
from reme_core.cli.files import read_trajectories
from reme_core.cli.naming import option_name
from reme_core.cli.options import (
    DEFAULT_FOLDER,
    DEFAULT_WAIT_S,
    Folder,
    Json,
    NoEmbedding,
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
from reme_core.cli.working_commands import app
from reme_core.errors import InvalidInputError
from reme_core.tasks.task_values import FREQ_THRESHOLD, UTILITY_THRESHOLD

__all__ = ["app"]

_OPTIONS = {
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
}
_DEFAULT_LIMIT = 5
_TOOLS_LIMIT = 100


@app.command()
def learn(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Attempts, one JSON object a line; - is stdin.")],
    *,
    task: Annotated[str, typer.Option("--task", help="The task domain that the attempts belong to.")],
    no_llm: Annotated[bool, typer.Option("--no-llm", help="No chat model, whatever the environment names.")] = False,
    no_embedding: NoEmbedding = False,
    background: Annotated[
        bool, typer.Option("--background", help="Only keep the attempts; reme flush learns from them.")
    ] = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Keep attempts at tasks; with a chat model, learn from what worked, what failed, and what made the difference."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    items = read_trajectories(file)
    with option_name(_OPTIONS):
        return asyncio.run(
            lessons.learn(
                where,
                output,
                items,
                task_name=task,
                with_llm=not no_llm,
                with_embedding=not no_embedding,
                background=background,
            )
        )


@app.command()
def tasks(
    query: Annotated[str, typer.Argument(help="The task, in words.")],
    *,
    task: Annotated[str | None, typer.Option("--task", help="Only of this task domain.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = _DEFAULT_LIMIT,
    tokens: Annotated[int | None, typer.Option("--tokens", help="A text of at most so many tokens.")] = None,
    include_shared: Annotated[bool, typer.Option("--include-shared", help="Also the shared scope.")] = False,
    rerank: Annotated[bool, typer.Option("--rerank", help="Have the chat model put them in order.")] = False,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Have the chat model write one text of them.")] = False,
    no_embedding: NoEmbedding = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Print what was learnt for a task, as a text for a prompt. Exit code 1: nothing found."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    wanted = lessons.TaskOptions(
        query=query,
        task_name=task,
        limit=limit,
        token_budget=tokens,
        include_shared=include_shared,
        rerank=rerank,
        rewrite=rewrite,
    )
    with option_name(_OPTIONS):
        return asyncio.run(lessons.find(where, output, wanted, with_embedding=not no_embedding))


@app.command()
def forget(
    *,
    task: Annotated[str | None, typer.Option("--task", help="Only of this task domain.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Memories of this type; repeatable. [default: procedural]")
    ] = None,
    freq: Annotated[int, typer.Option("--freq", help="Only those used so often or more.")] = FREQ_THRESHOLD,
    utility: Annotated[
        float, typer.Option("--utility", help="Only those that helped in less than this share of their uses.")
    ] = UTILITY_THRESHOLD,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
    yes: Yes = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Remove memories that were used often and seldom helped; what was never used stays. Undo takes it back."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    with option_name(_OPTIONS):
        useless = lessons.ForgetOptions(task_name=task, types=types or ["procedural"], freq=freq, utility=utility)
        return asyncio.run(lessons.forget(where, output, useless, dry_run=dry_run, is_sure=yes))


@app.command()
def tools(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names of tools, exact.")] = None,
    *,
    summarize: Annotated[bool, typer.Option("--summarize", help="Have the chat model write guidelines.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", help="List at most so many; 100 by default.")] = None,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where the last page ended.")] = None,
    no_embedding: NoEmbedding = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """List the tools whose calls are recorded, or print what is known of some. Exit code 1: nothing is."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    if summarize and not names:
        msg = "--summarize needs the NAMEs of tools: reme tools lists them"
        raise InvalidInputError(msg)
    with option_name(_OPTIONS):
        if not names:
            page_size = _TOOLS_LIMIT if limit is None else limit
            return asyncio.run(tool_records.list_tools(where, output, limit=page_size, cursor=cursor))
        refuse("tools that are named", {"--limit": limit, "--cursor": cursor})
        if summarize:
            return asyncio.run(tool_records.summarize(where, output, names, with_embedding=not no_embedding))
        return asyncio.run(tool_records.show(where, output, names))


@app.command()
def dump(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file to write; one that exists is replaced. - is stdout.")
    ],
    *,
    types: Types = None,
    targets: Targets = None,
    superseded: Superseded = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Write memories, without messages, to a file of JSON Lines that any user of any space can load."""
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    with option_name(_OPTIONS):
        return asyncio.run(
            libraries.dump(where, output, file, types=types or (), targets=targets or (), include_superseded=superseded)
        )


@app.command()
def load(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file of reme dump, or of earlier tools of this kind; - is stdin.")
    ],
    *,
    task: Annotated[str | None, typer.Option("--task", help="The task domain of procedural memories.")] = None,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Leave out lines that can't be used, in place of loading nothing.")
    ] = False,
    no_deduplicate: Annotated[
        bool, typer.Option("--no-deduplicate", help="Keep what says nearly the same as another.")
    ] = False,
    no_embedding: NoEmbedding = False,
    user: User = None,
    shared: Shared = False,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Take over the memories of a file; doing it twice changes nothing more. Undo takes them back.

    Tool calls of earlier tools are recorded after the memories, and stay when these are taken back. What an
    interruption has left out of them is recorded by loading the file again.
    """
    where, output = begin(user, space, folder, wait, shared=shared, as_json=as_json)
    with option_name(_OPTIONS):
        return asyncio.run(
            libraries.load(
                where,
                output,
                file,
                task_name=task,
                skip_bad_lines=skip_bad_lines,
                deduplicate=not no_deduplicate,
                with_embedding=not no_embedding,
            )
        )
