"""The command that tells what persons and things are to each other: `reme relations`."""

from __future__ import annotations

from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import CommonOptions, with_common_options
from reme_core.cli.output import Output, minute
from reme_core.schema import Neighbours, RelationPath, RelationStep, with_validity


@with_common_options
async def relations(
    where: CommonOptions,
    output: Output,
    name: Annotated[str, typer.Argument(help='A name, or "Ann\'s sister"; `user` is whose memory it is.')],
    other: Annotated[str | None, typer.Argument(help="Another name: show the chain between the two.")] = None,
    *,
    hops: Annotated[int | None, typer.Option("--hops", help="So many steps; 1, or 4 between two.")] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", help="What held at this time: 2026-11-01.")] = None,
) -> int:
    """Show what memories tell of somebody to others, or the chain between two. Exit code 1: nothing."""
    found: Neighbours | RelationPath
    async with where.existing() as (memory, whose):
        if other is None:
            found = await memory.neighbours(name, **whose, hops=1 if hops is None else hops, as_of=as_of)
        else:
            found = await memory.path(name, other, **whose, max_hops=4 if hops is None else hops, as_of=as_of)
    if output.as_json:
        output.value(found.model_dump(mode="json"))
    else:
        for step in found.steps:
            _print(output, step)
    if found.steps:
        return ExitCode.DONE
    near = f"; there is {', '.join(found.near_names)}" if found.near_names else ""
    output.remark(f"no relation is told{near}")
    return ExitCode.NOTHING_FOUND


def _print(output: Output, step: RelationStep) -> None:
    memory, way = step.memory, f"{step.start} → {step.end}"
    details = (f"id {memory.memory_id}", " ".join(("messages", *step.message_ids)) if step.message_ids else "")
    text = f"{step.relation}\n{with_validity(memory.content, memory)}"
    output.record((minute(memory.observed_at), way), text, details)
