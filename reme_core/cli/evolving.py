"""The command that consolidates: `reme evolve`."""

from __future__ import annotations

from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import CommonOptions, NoEmbedding, Targets, with_common_options
from reme_core.cli.output import Output, counted
from reme_core.schema import Evolution, Memory, with_validity


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
    else:
        _print(output, found)
    return ExitCode.DONE if found.text else ExitCode.NOTHING_FOUND


def _print(output: Output, found: Evolution) -> None:
    for merge in found.merges:
        output.line(f"{merge.after.memory_type} / {merge.after.memory_target}", style="bold")
        for memory in merge.before:
            output.line(f"- {_said(memory)}", f"id {memory.memory_id}")
        output.line(f"+ {_said(merge.after)}", f"id {merge.after.memory_id}")
    if found.links:
        output.line(f"{counted(len(found.links), 'replaced memory')} to name the end of the chain")
    told = (
        ("contradiction", found.contradictions),
        ("may say the same", found.likely),
        ("not joined", found.rejected),
        ("left out", found.changed),
    )
    for what, groups in told:
        for group in groups:
            output.line(f"{what}: {group.reason}" if group.reason else f"{what}:", style="bold")
            for memory in group.memories:
                output.line(f"  {_said(memory)}", f"id {memory.memory_id}")
    for memory in found.forgettable:
        output.line("used often, seldom of help:", _said(memory), f"id {memory.memory_id}")
    for sentence in found.degraded:
        output.remark(sentence)
    if not found.text:
        output.remark("nothing to consolidate")
    elif found.run_id is not None:
        output.line(f"written by run {found.run_id}; reme undo takes it back")
    else:
        output.remark("nothing was written" if found.dry_run is False else "nothing is written without --apply")


def _said(memory: Memory) -> str:
    return f"({memory.observed_at:%Y-%m-%d}) {with_validity(memory.content, memory)}"
