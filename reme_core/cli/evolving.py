"""The command that consolidates: `reme evolve`."""

from __future__ import annotations

from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import CommonOptions, NoEmbedding, Targets, with_common_options
from reme_core.cli.output import Output


@with_common_options
async def evolve(
    where: CommonOptions,
    output: Output,
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Write it, as one run that undo takes back.")] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="With --apply: remove what was used often and seldom helped.")
    ] = False,
    targets: Targets = None,
    no_llm: Annotated[bool, typer.Option("--no-llm", help="No chat model, whatever the environment names.")] = False,
    no_embedding: NoEmbedding = False,
) -> int:
    """Show which memories say the same and which contradict each other; with --apply, join the former."""
    async with where.existing(with_llm=not no_llm, with_embedding=not no_embedding) as (memory, whose):
        found = await memory.evolve(**whose, dry_run=not apply, forget=forget, memory_target=targets or None)
    if output.as_json:
        output.value(found.model_dump(mode="json"))
        return ExitCode.DONE if found.lines else ExitCode.NOTHING_FOUND
    for line in found.lines:
        output.line(line)
    for sentence in found.degraded:
        output.remark(sentence)
    if found.run_id is not None:
        output.line(f"written by run {found.run_id}; reme undo takes it back")
    elif found.dry_run and (found.merges or found.links or found.forgettable):
        output.remark("nothing is written without --apply")
    elif found.lines:
        output.remark("nothing is to be written: what is listed stays as it is")
    else:
        output.remark("nothing to consolidate")
    return ExitCode.DONE if found.lines else ExitCode.NOTHING_FOUND
