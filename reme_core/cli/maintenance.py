"""The commands about the file as a whole: its copies, its check, and whose memories it holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import (
    DEFAULT_FOLDER,
    DEFAULT_WAIT_S,
    CommonOptions,
    DatabaseUrl,
    Folder,
    Json,
    of_the_file,
    of_the_space,
)
from reme_core.cli.output import Output, counted, listed
from reme_core.errors import InvalidInputError
from reme_core.schema import Cost, FileCheck, Usage


@of_the_file
async def backup(
    where: CommonOptions,
    output: Output,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The copy to write.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> int:
    """Copy the memory file, all users and spaces, while others may write; the copy is checked."""
    where.check_no_database()
    if Path(file).exists() and not force:  # noqa: ASYNC240  # nothing else runs in a command
        msg = f"{file!r} exists: give another path, or --force to replace it"
        raise InvalidInputError(msg)
    where.check_file()
    async with where.open() as memory:
        checked = await memory.backup(file, overwrite=force)
    _print_check(output, checked, "copied to")
    return ExitCode.DONE


def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A copy that reme backup wrote.")],
    *,
    folder: Folder = DEFAULT_FOLDER,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> int:
    """Put a copy in the place of the memory file, which nobody may have open; what was there is kept beside it."""
    from reme_core.stores import restore_file  # noqa: PLC0415  # help is shown without it

    where = CommonOptions(
        user=None,
        shared=False,
        space="default",
        folder=folder,
        wait_s=DEFAULT_WAIT_S,
        database_url=database_url or None,
    )
    where.check_no_database()
    output = Output(as_json=as_json)
    where.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = restore_file(Path(file).expanduser(), where.file)
    if output.as_json:
        output.value({"file": str(where.file), "replaced": None if kept is None else str(kept)})
    else:
        output.line(f"restored {where.file}", "" if kept is None else f"what was there is now {kept}")
    return ExitCode.DONE


@of_the_file
async def check(
    where: CommonOptions,
    output: Output,
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="A copy; by default the memory file.")] = None,
    *,
    repair_digests: Annotated[
        bool, typer.Option("--repair-digests", help="Afterwards, take the texts as they are now for right ones.")
    ] = False,
) -> int:
    """Read all of the file and tell what is damaged, down to one changed byte of a text."""
    where.check_no_database()
    if file is not None and repair_digests:
        msg = "--repair-digests is for the memory file: leave FILE out"
        raise InvalidInputError(msg)
    if file is None:
        where.check_folder()
    path = where.file if file is None else Path(file).expanduser()  # noqa: ASYNC240  # as in backup
    if (missing := _nothing_in(path)) is not None:
        return _tell_nothing(output, path, missing)
    if file is not None:
        from reme_core.stores import check_file  # noqa: PLC0415  # as in restore

        return _print_check(output, check_file(path), "checked")
    async with where.open() as memory:
        checked = await memory.check(repair_digests=repair_digests)
    if repair_digests:
        output.remark("digests are written anew: the texts as they are now count as right")
    return _print_check(output, checked, "checked")


def _nothing_in(path: Path) -> str | None:
    """Say why there is nothing to check, before a store is made there; None: there is something.

    Raises:
        StoreAccessError: A store was there, and is gone or empty now.
    """
    from reme_core.stores import check_unused  # noqa: PLC0415  # as in restore

    if path.exists() and (not path.is_file() or path.stat().st_size):
        return None
    check_unused(path)
    return "is empty (0 bytes)" if path.exists() else "is not there"


def _tell_nothing(output: Output, path: Path, missing: str) -> ExitCode:
    if output.as_json:
        output.value({"path": str(path), "problems": [missing]})
    else:
        output.remark(f"{str(path)!r} {missing}: nothing was checked; is it the right path?")
    return ExitCode.NOTHING_FOUND


def _print_check(output: Output, checked: FileCheck, done: str) -> ExitCode:
    if output.as_json:
        output.value(checked.model_dump(mode="json"))
    else:
        for problem in checked.problems:
            output.line(problem)
        wrong = counted(len(checked.problems), "problem") if checked.problems else "no problem"
        output.line(f"{done} {checked.path}: {counted(checked.rows, 'row')}, {wrong} ({checked.file_bytes:,} bytes)")
    return ExitCode.UNREADABLE if checked.problems else ExitCode.DONE


@of_the_space
async def cost(
    where: CommonOptions,
    output: Output,
    *,
    one_user: Annotated[str | None, typer.Option("--user", "-u", help="One user's; by default all users'.")] = None,
    shared_alone: Annotated[bool, typer.Option("--shared", help="The shared scope's alone.")] = False,
    since: Annotated[str | None, typer.Option("--since", help="From this day (UTC) on.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Up to this day, which is not counted.")] = None,
) -> int:
    """Tell what models were asked and how many tokens that took, by day, user and purpose."""
    from reme_core.steps.costs import CostBook  # noqa: PLC0415  # help is shown without it

    first, end = _read_day(since, "--since"), _read_day(until, "--until")
    scope = replace(where, user=one_user, shared=shared_alone)
    user_id = None if one_user is None and not shared_alone else scope.whose["user_id"] or ""
    where.check_file()
    async with where.open() as memory:
        book = CostBook(memory.store, memory.clock)
        costs = await book.read(where.space, user_id=user_id, since=first, until=end)
    total = sum((Usage(**cost.model_dump(include=set(Usage.model_fields))) for cost in costs), Usage())
    if output.as_json:
        counts = total.model_dump(include={"model_calls", "prompt_tokens", "completion_tokens"})
        output.value({"costs": [cost.model_dump(mode="json") for cost in costs], "total": counts})
        return ExitCode.DONE
    for cost in costs:
        output.line(f"{cost.day} {cost.user_id or '(shared)'} {cost.purpose}", _spent(cost))
    if costs:
        output.line("in all", _spent(total))
    else:
        output.remark("no model was asked")
    return ExitCode.DONE


def _spent(cost: Cost | Usage) -> str:
    tokens = f"{cost.prompt_tokens:,} tokens asked, {cost.completion_tokens:,} answered"
    return f"{counted(cost.model_calls, 'model call')}, {tokens}"


def _read_day(text: str | None, name: str) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        msg = f"{name}: wanted a day such as 2026-11-23, found {text!r:.60}"
        raise InvalidInputError(msg) from None


@of_the_space
async def users(where: CommonOptions, output: Output) -> int:
    """List the users of a memory space, and how much is kept of each."""
    held = [item for item in await where.scopes() if item.scope.memory_space == where.space]
    if output.as_json:
        output.value(
            {
                "users": [
                    {"user_id": item.scope.user_id, "memories": item.memories, "messages": item.messages}
                    for item in held
                ]
            }
        )
        return ExitCode.DONE
    for item in held:
        kept = listed(counted(item.memories, "memory"), counted(item.messages, "message"))
        output.line(item.scope.user_id or "(shared)", kept)
    if not held:
        others = "--space names another one" if where.database_url else "reme spaces lists those there are"
        output.remark(f"no users in memory space {where.space!r}: {others}")
    return ExitCode.DONE


@of_the_file
async def spaces(where: CommonOptions, output: Output) -> int:
    """List the memory spaces of the file."""
    where.check_no_database()
    held = Counter(item.scope.memory_space for item in await where.scopes())
    if output.as_json:
        output.value({"spaces": [{"memory_space": name, "users": count} for name, count in sorted(held.items())]})
        return ExitCode.DONE
    for name, count in sorted(held.items()):
        output.line(name, counted(count, "user"))
    if not held:
        output.remark("nothing is kept in this file yet")
    return ExitCode.DONE
