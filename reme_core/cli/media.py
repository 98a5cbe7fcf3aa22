"""The command that saves an image or a file of a message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import STANDARD_OUTPUT, file_to_write
from reme_core.cli.options import CommonOptions, with_common_options
from reme_core.cli.output import Output
from reme_core.errors import InvalidInputError, StoreAccessError
from reme_core.private_drafts import private_draft, put_in_place


@with_common_options
async def blob(
    where: CommonOptions,
    output: Output,
    ref: Annotated[str, typer.Argument(metavar="REF", help="sha256:... of a message, as reme show prints it.")],
    *,
    file: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The file to write. - is stdout.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> int:
    """Save an image or a file of a message."""
    path = Path(file).expanduser()  # noqa: ASYNC240  # nothing else runs in a command
    if file != STANDARD_OUTPUT and path.exists() and not force:
        msg = f"{file!r} exists: give another path, or --force to replace it"
        raise InvalidInputError(msg)
    with file_to_write(str(path), as_json=output.as_json) as target:
        async with where.existing() as (memory, whose):
            found = await memory.read_blob(ref, **whose)
        await asyncio.to_thread(_write, Path(target), found.data)
    if output.as_json:
        output.value({"ref": found.ref, "media_type": found.media_type, "bytes": len(found.data), "file": str(path)})
    elif file == STANDARD_OUTPUT:
        output.remark(f"wrote {found.media_type}, {len(found.data):,} bytes")
    else:
        output.line(f"{path}", found.media_type, f"{len(found.data):,} bytes")
    return ExitCode.DONE


def _write(path: Path, data: bytes) -> None:
    from reme_core.transfer.json_lines import file_to_write as checked_target  # noqa: PLC0415  # help goes without it

    try:
        target, mode = checked_target(path)
        with private_draft(target) as draft:
            draft.write_bytes(data)
            if mode is not None:
                draft.chmod(mode)
            put_in_place(draft, target)
    except OSError as exc:
        msg = f"{str(path)!r} can't be written ({exc.strerror}): give a path in a folder that exists and is writable"
        raise StoreAccessError(msg) from exc
