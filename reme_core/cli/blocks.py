"""The commands of memory blocks: texts under a label that stand in the prompt of an agent."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import STANDARD_INPUT, read_text
from reme_core.cli.options import CommonOptions, with_common_options
from reme_core.cli.output import Output, minute
from reme_core.errors import InvalidInputError
from reme_core.schema import MemoryBlock

blocks = typer.Typer(no_args_is_help=True, help="Show and set memory blocks, which stand in an agent's prompt.")

Label = Annotated[str, typer.Argument(metavar="LABEL", help="The name of the block, such as human or persona.")]
Revision = Annotated[
    int | None, typer.Option("--expect", help="Only if it has this revision; exit code 8 if it has another.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; its history tells it.")]


@with_common_options
async def list_(where: CommonOptions, output: Output) -> int:
    """List the memory blocks of a user, granted ones with them. Exit code 1: none."""
    async with where.existing() as (memory, whose):
        found = await memory.memory_blocks(**whose)
    if output.as_json:
        output.value({"blocks": [block.model_dump(mode="json") for block in found]})
    for block in () if output.as_json else found:
        output.line(block.label, *_told(block), block.description)
    if found:
        return ExitCode.DONE
    output.remark("no memory blocks yet: reme block set LABEL TEXT makes one")
    return ExitCode.NOTHING_FOUND


@with_common_options
async def show(where: CommonOptions, output: Output, label: Label) -> int:
    """Show a memory block with its text."""
    async with where.existing() as (memory, whose):
        _print(output, await memory.get_memory_block(label, **whose))
    return ExitCode.DONE


@with_common_options
def set_(
    where: CommonOptions,
    output: Output,
    label: Label,
    text: Annotated[
        str | None, typer.Argument(help="Its whole text; - reads it from standard input. Left out, it stays.")
    ] = None,
    *,
    description: Annotated[str | None, typer.Option("--description", help="What it is for.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Tokens that its text may have. [default: 500]")] = None,
    read_only: Annotated[
        bool | None, typer.Option("--read-only/--editable", help="Whether tools of a model may not change it.")
    ] = None,
    expect: Revision = None,
    reason: Reason = "",
) -> Coroutine[object, object, int]:
    """Make a memory block, or change what is given of it."""
    if (text, description, limit, read_only) == (None, None, None, None):
        msg = f"nothing to set of block {label!r}: give its text, or an option; '' makes it empty"
        raise InvalidInputError(msg)
    content = read_text(text) if text == STANDARD_INPUT else text

    async def keep() -> int:
        whose = where.whose
        async with where.open() as memory:
            block = await memory.set_memory_block(
                label,
                content,
                **whose,
                description=description,
                limit_tokens=limit,
                read_only=read_only,
                expected_revision=expect,
                reason=reason,
            )
        _print(output, block)
        return ExitCode.DONE

    return keep()


@with_common_options
async def delete(
    where: CommonOptions, output: Output, label: Label, *, expect: Revision = None, reason: Reason = ""
) -> int:
    """Delete a memory block; its history stays."""
    async with where.existing() as (memory, whose):
        await memory.delete_memory_block(label, **whose, expected_revision=expect, reason=reason)
    return _done(output, "deleted", label)


@with_common_options
async def grant(
    where: CommonOptions,
    output: Output,
    label: Label,
    *,
    write: Annotated[bool, typer.Option("--write", help="The user's agents may change its text.")] = False,
    reason: Reason = "",
) -> int:
    """Let a user see a block of the shared scope."""
    async with where.existing() as (memory, whose):
        _print(output, await memory.grant_memory_block(label, **whose, write=write, reason=reason))
    return ExitCode.DONE


@with_common_options
async def revoke(where: CommonOptions, output: Output, label: Label, *, reason: Reason = "") -> int:
    """Take back what was granted to a user; the block stays."""
    async with where.existing() as (memory, whose):
        await memory.revoke_memory_block(label, **whose, reason=reason)
    return _done(output, "revoked", label)


def _done(output: Output, did: str, label: str) -> int:
    if output.as_json:
        output.value({did: label})
    else:
        output.line(f"{did} {label}")
    return ExitCode.DONE


def _print(output: Output, block: MemoryBlock) -> None:
    if output.as_json:
        output.value(block.model_dump(mode="json"))
        return
    foot = (f"id {block.memory_id}", f"by {block.author}", f"changed {minute(block.updated_at)}", block.description)
    output.record((block.label, *_told(block)), block.text, foot)


def _told(block: MemoryBlock) -> tuple[str, ...]:
    marks = ("" if block.access == "own" else f"shared for {block.access}", "read-only" if block.read_only else "")
    return (f"{block.tokens} of {block.limit_tokens} tokens", f"revision {block.revision}", *marks)


for _name, _command in (
    ("list", list_),
    ("show", show),
    ("set", set_),
    ("delete", delete),
    ("grant", grant),
    ("revoke", revoke),
):
    blocks.command(_name)(_command)
