"""The command `import`: a file of our own, or what another memory wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import STANDARD_INPUT, count_lines, file_to_read
from reme_core.cli.options import CommonOptions, NoEmbedding, Whose, refuse, with_common_options
from reme_core.cli.output import Output, counted, listed, minute
from reme_core.cli.transfer import print_problems, told_counts
from reme_core.errors import InvalidInputError, InvalidLinesError
from reme_core.schema import ImportedUser, ImportReport, TransferCounts

_MOST_LINES = 20


@with_common_options
async def import_(
    where: CommonOptions,
    output: Output,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A file that reme export wrote, - for stdin; with --from what the other memory wrote."
        ),
    ],
    *,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="The other memory, such as mem0; a wrong one lists all."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing, and tell what would be.")] = False,
    source_user: Annotated[str | None, typer.Option("--source-user", help="What this user has there, alone.")] = None,
    every_user: Annotated[
        bool, typer.Option("--every-user", help="Each user there goes to the user of the same name.")
    ] = False,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Leave out what is damaged in such a file, and import the rest.")
    ] = False,
    no_embedding: NoEmbedding = False,
) -> int:
    """Read an exported file, or another memory, into a user's memory; doing it twice changes nothing more."""
    if source is None:
        own = {"--dry-run": dry_run or None, "--source-user": source_user, "--every-user": every_user or None}
        refuse("a file of reme export (--from names another memory)", own)
        _check_no_folder(path)
        return await _import_own(where, output, path, with_embedding=not no_embedding, skip_bad_lines=skip_bad_lines)
    refuse("another memory (what is bad there is left out in any case)", {"--skip-bad-lines": skip_bad_lines or None})
    whose = Whose(user_id=where.user or None, shared=where.shared) if every_user else where.whose
    with TemporaryDirectory() as nothing:  # looking must not make a file
        if dry_run and where.database_url is None and not where.file.exists():
            where = replace(where, folder=nothing)
        async with where.open(with_embedding=not no_embedding) as memory:
            with output.progress(f"reading {source}", None, then=f"importing from {source}") as tell:
                report = await memory.import_from(
                    source,
                    path,
                    **whose,
                    source_user=source_user,
                    every_user=every_user,
                    dry_run=dry_run,
                    progress=tell,
                )
    if output.as_json:
        output.value(report.model_dump(mode="json"))
    else:
        _print_report(output, report)
    return ExitCode.PARTLY_DONE if report.unreadable_count else ExitCode.DONE


def _check_no_folder(path: str) -> None:
    if path != STANDARD_INPUT and Path(path).expanduser().is_dir():
        msg = f"{path!r} is a folder, and reme export writes a file: name what wrote it, as by --from {_all_sources()}"
        raise InvalidInputError(msg)


def _all_sources() -> str:
    from reme_core.transfer.importers.named_sources import SOURCES  # noqa: PLC0415  # help is shown without it

    return ", ".join(SOURCES)


async def _import_own(
    where: CommonOptions, output: Output, file: str, *, with_embedding: bool, skip_bad_lines: bool
) -> int:
    whose = where.whose
    with file_to_read(file) as path:
        lines = count_lines(path)
        async with where.open(with_embedding=with_embedding) as memory:
            with output.progress(f"reading {path.name}", lines, then=f"importing {path.name}") as tell:
                try:
                    moved = await memory.import_(path, **whose, skip_bad_lines=skip_bad_lines, progress=tell)
                except InvalidLinesError as exc:
                    if exc.lines[0][0] != 1:
                        raise
                    msg = f"{exc.message}; if another memory wrote it, name that, as by --from {_all_sources()}"
                    raise InvalidLinesError(msg, lines=exc.lines) from exc
    if output.as_json:
        output.value(moved.model_dump(mode="json", exclude={"events"}))
    else:
        print_problems(output, moved.problems)
        known = _known(moved)
        output.line(f"read {listed(*told_counts(moved))}{f'; of them {known}' if known else ''}")
    return ExitCode.PARTLY_DONE if moved.problems else ExitCode.DONE


def _print_report(output: Output, report: ImportReport) -> None:
    span = f", said {minute(report.first_at)} to {minute(report.last_at)}" if report.first_at else ""
    output.line(f"{report.source}: {_held(report)}{span}")
    for user in report.users[:_MOST_LINES]:
        output.line(_told_user(user))
    for item in report.unreadable[:_MOST_LINES]:
        output.line(f"left out {item.where}: {item.reason}")
    for count, what in ((report.unreadable_count, "not taken over"), (len(report.users), "users")):
        if count > _MOST_LINES:
            output.line(f"and {count - _MOST_LINES} more {what}")
    beside = listed(
        _known(report),
        f"{report.repeated_memories} that repeated others" if report.repeated_memories else "",
        f"{report.renewed_memories} that the source had changed since" if report.renewed_memories else "",
        f"{report.forgotten_memories} that were deleted here" if report.forgotten_memories else "",
    )
    added = listed(counted(report.added_messages, "message"), counted(report.added_memories, "memory"))
    verb = "would import" if report.dry_run else "imported"
    output.line(f"{verb} {added}{f'; beside them {beside}' if beside else ''}")
    if report.run_id is not None:
        output.line(f"memories were written by run {report.run_id}; reme undo takes them back")


def _known(moved: ImportReport | TransferCounts) -> str:
    known = listed(
        counted(moved.known_messages, "message") if moved.known_messages else "",
        counted(moved.known_memories, "memory") if moved.known_memories else "",
    )
    return f"{known} known before" if known else ""


def _told_user(user: ImportedUser) -> str:
    name = "what names no user" if user.source_user is None else f"user {user.source_user!r}"
    whose = "the shared scope" if user.user_id is None else f"user {user.user_id!r}"
    return f"{name}: {_held(user)}, {f'to {whose}' if user.is_imported else 'left out'}"


def _held(what: ImportReport | ImportedUser) -> str:
    return listed(
        f"{counted(what.sessions, 'session')} of {counted(what.messages, 'message')}", counted(what.memories, "memory")
    )
