"""The command about tools: what their calls add up to, and guidelines from these."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import JsonValue

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import (
    OPTION_NAMES,
    CommonOptions,
    NoEmbedding,
    option_name,
    refuse,
    with_common_options,
)
from reme_core.cli.output import Output, counted, listed
from reme_core.errors import InvalidInputError, PartialFailureError
from reme_core.schema import ToolSummary

_TOOLS_LIMIT = 100


@with_common_options
def tools(
    where: CommonOptions,
    output: Output,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names of tools, exact.")] = None,
    *,
    summarize: Annotated[bool, typer.Option("--summarize", help="Have the chat model write guidelines.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", help="List at most so many; 100 by default.")] = None,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where the last page ended.")] = None,
    no_embedding: NoEmbedding = False,
) -> int:
    """List the tools whose calls are recorded, or print what is known of some. Exit code 1: nothing is."""
    if summarize and not names:
        msg = "--summarize needs the NAMEs of tools: reme tools lists them"
        raise InvalidInputError(msg)
    with option_name(OPTION_NAMES):
        if not names:
            page_size = _TOOLS_LIMIT if limit is None else limit
            return asyncio.run(_list_tools(where, output, limit=page_size, cursor=cursor))
        refuse("tools that are named", {"--limit": limit, "--cursor": cursor})
        if summarize:
            return asyncio.run(_summarize(where, output, names, with_embedding=not no_embedding))
        return asyncio.run(_show_tools(where, output, names))


async def _list_tools(where: CommonOptions, output: Output, *, limit: int, cursor: str | None) -> ExitCode:
    """Print a page of the tools that were called, by name, with the number of their calls."""
    async with where.existing() as (memory, user_id):
        page = await memory.list_tools(user_id=user_id, limit=limit, cursor=cursor)
    if output.as_json:
        tools: list[JsonValue] = [{"tool_name": name, "calls": calls} for name, calls in page.tools]
        output.value({"tools": tools, "next_cursor": page.next_cursor})
        return ExitCode.DONE
    for name, calls in page.tools:
        output.line(name, counted(calls, "call"))
    if not page.tools:
        output.remark("no tools: no call of one is recorded")
    if page.next_cursor is not None:
        output.remark(f"more: --cursor {page.next_cursor}")
    return ExitCode.DONE


async def _show_tools(where: CommonOptions, output: Output, names: Sequence[str]) -> ExitCode:
    """Print what is known of tools; if it is nothing of any of them, the exit code tells."""
    async with where.existing() as (memory, user_id):
        found = await memory.retrieve_tool_memory(names, user_id=user_id)
    if output.as_json:
        output.value(found.model_dump(mode="json"))
    elif found.text:
        output.piece(f"{found.text}\n")
    return _told(output, found.missing, has_found=bool(found.results))


def _told(output: Output, missing: Sequence[str], *, has_found: bool) -> ExitCode:
    if missing:
        output.remark(f"nothing is known of {listed(*missing)}: reme tools lists those that were called")
    return ExitCode.DONE if has_found else ExitCode.NOTHING_FOUND


async def _summarize(where: CommonOptions, output: Output, names: Sequence[str], *, with_embedding: bool) -> ExitCode:
    """Have guidelines written and print what is known of the tools then.

    Raises:
        PartialFailureError: Some were not written and are jobs now; what there is, is printed.
    """
    async with where.existing(with_llm=True, with_embedding=with_embedding) as (memory, user_id):
        has_model = memory.tool_context(user_id=user_id).model is not None
        try:
            result = await memory.summarize_tool_memory(names, user_id=user_id)
        except PartialFailureError as exc:
            if isinstance(exc.done, ToolSummary):
                _print_summary(output, exc.done)
            raise
    _print_summary(output, result)
    if not has_model:
        output.remark("no guideline was written, since there is no chat model: set REME_LLM_MODEL and a key")
    return _told(output, result.missing, has_found=bool(result.results))


def _print_summary(output: Output, result: ToolSummary) -> None:
    if output.as_json:
        output.value(result.model_dump(mode="json"))
        return
    if result.results:
        output.piece("\n\n".join(item.text for item in result.results) + "\n")
    if result.unchanged:
        output.remark(f"nothing new of {listed(*result.unchanged)}: the guideline stays")
    for run_id in result.run_ids:
        output.line(f"written by run {run_id}; reme undo takes it back")
    if result.job_ids:
        output.line(f"{counted(len(result.job_ids), 'job')} left: reme flush writes these guidelines")
