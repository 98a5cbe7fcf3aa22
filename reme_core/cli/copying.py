"""The command that copies a store into another one, or compares the two."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import JsonValue

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import DEFAULT_WAIT_S, Json, Wait
from reme_core.cli.output import Output, counted, listed
from reme_core.errors import InvalidInputError

if TYPE_CHECKING:
    from reme_core.stores import StoreCopy

_PLACE = "A folder or file of a memory, postgresql://..., or a file that reme copy wrote (.jsonl)"


def copy(
    *,
    source: Annotated[str, typer.Option("--from", metavar="PLACE", help=f"{_PLACE}. It is only read.")],
    target: Annotated[str, typer.Option("--to", metavar="PLACE", help=f"{_PLACE}.")],
    spaces: Annotated[
        list[str] | None,
        typer.Option("--space", help="This memory space; repeatable. Left out: all, of a database none."),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="This user alone.")] = None,
    shared: Annotated[bool, typer.Option("--shared", help="The shared scope alone.")] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Add what a user of the target lacks, instead of refusing who is there.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the two, and write nothing.")] = False,
    schema: Annotated[str, typer.Option("--schema", help="The schema of the tables in a database.")] = "reme",
    wait: Wait = DEFAULT_WAIT_S,
    as_json: Json = False,
) -> int:
    """Copy everything of a memory to another place, and compare the two; run again, it goes on where it was stopped.

    Each user is copied whole or not at all, as they are at one moment, while others write.
    """
    from reme_core import stores  # noqa: PLC0415  # help is shown without it

    if user is not None and shared:
        msg = "--user and --shared name two scopes: leave one of them out"
        raise InvalidInputError(msg)
    chosen = stores.Chosen(spaces=tuple(spaces) if spaces else None, user_id="" if shared else user)
    request = stores.CopyRequest(
        source=source, target=target, chosen=chosen, merge=merge, compare=verify, schema=schema, wait_s=wait
    )
    output = Output(as_json=as_json)
    with output.progress("copying messages and memories", None) as tell:
        done = asyncio.run(stores.run_copy(request, progress=tell))
    _print(output, done, verified=verify)
    if done.left_out:
        return ExitCode.PARTLY_DONE
    return ExitCode.DONE if done.units else ExitCode.NOTHING_FOUND


def _print(output: Output, done: StoreCopy, *, verified: bool) -> None:
    if output.as_json:
        units: list[JsonValue] = [
            {
                "memory_space": unit.memory_space,
                "user_id": unit.user_id,
                "outcome": unit.outcome,
                "rows": {**unit.rows},
            }
            for unit in done.units
        ]
        output.value({"rows": {**done.rows}, "units": units, "left_out": [*done.left_out]})
        return
    if not done.units:
        output.remark("the source holds nothing of this: check --space and --user")
    rows = done.rows
    held = listed(
        counted(sum(unit.user_id is not None for unit in done.units), "user"),
        counted(rows.get("messages", 0), "message"),
        counted(rows.get("memories", 0), "memory"),
        counted(rows.get("events", 0), "event"),
        counted(rows.get("items", 0), "item"),
    )
    there = sum(unit.outcome == "there" and unit.user_id is not None for unit in done.units)
    output.line(f"both hold {held}" if verified else f"copied and compared {held}")
    if there and not verified:
        output.line(f"{counted(there, 'user')} of these {'was' if there == 1 else 'were'} there already, and equal")
    if done.left_out:
        why = "the target has no such tables, or only the adapters that made them can read them"
        output.remark(f"left behind, in tables of adapters: {listed(*done.left_out)}: {why}")
        if "langgraph_threads" in done.left_out:
            output.remark("threads of LangGraph are moved by: python -m reme_langchain.import_checkpoints FROM TO")
