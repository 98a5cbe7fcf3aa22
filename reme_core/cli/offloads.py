"""The commands about working memory: what left a context, loading it again, cleaning it up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.keyboard import ask
from reme_core.cli.options import (
    CommonOptions,
    Yes,
    refuse,
    with_common_options,
)
from reme_core.cli.output import Output, counted, minute
from reme_core.errors import InvalidInputError
from reme_core.facade.messages import IDLE_DAYS, RETENTION_DAYS
from reme_core.schema import CleanedOffloads, OffloadInfo, OffloadKind, Reloaded, ReloadResult

# A text is read in pieces of this size: each reading costs as much as the whole text, and most texts are one piece.
_PIECE_CHARS = 10_000_000
_FOUND_CHARS = 4000
_LINES = re.compile(r"(\d{1,9})?(?:(-)(\d{1,9})?)?", re.ASCII)
_DEFAULT_LIMIT = 5


@with_common_options
async def offloads(
    where: CommonOptions,
    output: Output,
    *,
    session: Annotated[str | None, typer.Option("--session", help="Of this session.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many.")] = 100,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where the last page ended.")] = None,
) -> int:
    """List what left the contexts of sessions, newest first, with the references that reload takes."""
    async with where.existing() as (memory, whose):
        offloads, next_cursor = await memory.list_offloads(
            **whose, session_id=session, limit=limit, newest_first=True, cursor=cursor
        )
    if output.as_json:
        output.value({"offloads": [item.model_dump(mode="json") for item in offloads], "next_cursor": next_cursor})
        return ExitCode.DONE
    for item in offloads:
        _print_offload(output, item)
    if not offloads:
        output.remark("no offloads: nothing has left a context")
    if next_cursor is not None:
        output.remark(f"more: --cursor {next_cursor}")
    return ExitCode.DONE


def _print_offload(output: Output, item: OffloadInfo) -> None:
    is_pointer = item.kind is OffloadKind.MESSAGES
    size = counted(len(item.message_ids), "message") if is_pointer else f"{item.bytes:,} bytes"
    session = f"session {item.session_id}"
    output.line(item.reference, minute(item.created_at), str(item.kind), item.name or "", size, session)


@with_common_options
async def reload(
    where: CommonOptions,
    output: Output,
    reference: Annotated[str | None, typer.Argument(metavar="REFERENCE", help="What was offloaded.")] = None,
    *,
    query: Annotated[str | None, typer.Option("--query", "-q", help="Words to look for.")] = None,
    lines: Annotated[str | None, typer.Option("--lines", metavar="10-40", help="These lines.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", help="From this character on, the first being 0.")] = None,
    chars: Annotated[int | None, typer.Option("--chars", help="At most so many characters of each text.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="What left this session only.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="What was said or offloaded since then.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="What was said or offloaded before then.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help=f"At most so many results of a search, {_DEFAULT_LIMIT} by default.")
    ] = None,
) -> int:
    """Print what left a context: all of it, lines of it, or what a search finds in it or in everything."""
    if reference is None:
        refuse("a search in everything", {"--lines": lines, "--offset": offset})
        if query is None and start is None and end is None:
            msg = "give a REFERENCE (reme offloads lists them), or search with --query, --from or --to"
            raise InvalidInputError(msg)
    else:
        refuse("one text", {"--from": start, "--to": end})
        if query is None:
            refuse("a text that isn't searched", {"--limit": limit})
    if query is not None and not query.strip():
        msg = "--query is empty: write the words to look for, or leave it out"
        raise InvalidInputError(msg)
    start_line, end_line = (None, None) if lines is None else read_lines(lines)
    is_read = reference is not None and query is None
    most = _PIECE_CHARS if is_read else _FOUND_CHARS
    async with where.existing() as (memory, whose):
        load = partial(memory.reload_context, **whose, reference=reference)
        found = await load(
            query=query,
            session_id=session,
            start_line=start_line,  # a place and a query don't go together, and are refused
            end_line=end_line,
            offset=offset,
            start_time=start,
            end_time=end,
            limit=_DEFAULT_LIMIT if limit is None else limit,
            limit_chars=most if chars is None else chars,
        )
        if not is_read:
            return _print_search(output, found, is_one_text=reference is not None)
        pieces = list(found.results)
        # A length was asked for, or lines: where those end, an offset alone couldn't say.
        while chars is None and lines is None and pieces[-1].next_offset is not None:
            pieces += (await load(offset=pieces[-1].next_offset, limit_chars=_PIECE_CHARS)).results
    _print_pieces(output, pieces, by_lines=lines is not None)
    return ExitCode.DONE


def read_lines(text: str) -> tuple[int | None, int | None]:
    """Read `10-40`, `10-`, `-40` or `10` as first and last line; the numbers are checked later (InvalidInputError)."""
    match = _LINES.fullmatch(text)
    first, dash, last = match.groups() if match else (None, None, None)
    if first is None and last is None:
        msg = f"--lines: wanted numbers of lines such as 10-40, found {text!r:.60}"
        raise InvalidInputError(msg)
    start = None if first is None else int(first)
    return start, (start if dash is None else None if last is None else int(last))


def _print_search(output: Output, found: ReloadResult, *, is_one_text: bool) -> ExitCode:
    """Print what a search has found; nothing found is an exit code."""
    if output.as_json:
        output.value(found.model_dump(mode="json"))
    has_found = bool(found.results)
    if is_one_text:
        has_found = _print_matches(output, found.results[0])
    else:
        for place, item in enumerate(found.results if not output.as_json else (), start=1):
            _print_found(output, place, item)
    if has_found:
        return ExitCode.DONE
    output.remark("nothing found")
    return ExitCode.NOTHING_FOUND


def _print_found(output: Output, place: int, item: Reloaded) -> None:
    score = "" if item.score is None else f"{item.score:.2f}"
    head = (f"{place}.", score, str(item.kind or "message"), minute(item.created_at), item.name or "")
    named = f"reference {item.reference}" if item.reference else " ".join(("id", *item.message_ids))
    session = "" if item.session_id is None else f"session {item.session_id}"
    output.record(head, item.memory, (named, session))


def _print_matches(output: Output, item: Reloaded) -> bool:
    """Print the places of a text that a search has found; tell whether there are any."""
    if item.matches and not output.as_json:
        _print_text(output, item.memory)
        output.remark(f"{counted(item.matches, 'place')} of {counted(item.lines, 'line')}")
    return bool(item.matches)


def _print_pieces(output: Output, pieces: Sequence[Reloaded], *, by_lines: bool) -> None:
    """Print a text, or the piece of it that lines, offset and length choose."""
    if output.as_json:
        output.value(ReloadResult(results=(_joined(pieces),)).model_dump(mode="json"))
        return
    _print_text(output, *(piece.memory for piece in pieces))
    last = pieces[-1]
    if last.next_offset is not None:
        # Behind an offset the lines that were asked for would be forgotten.
        more = "the rest of these lines: a larger --chars" if by_lines else f"more: --offset {last.next_offset}"
        output.remark(f"up to line {last.last_line} of {last.lines}; {more}")


def _joined(pieces: Sequence[Reloaded]) -> Reloaded:
    last = pieces[-1]
    text = "".join(piece.memory for piece in pieces)
    return pieces[0].model_copy(update={"memory": text, "last_line": last.last_line, "next_offset": last.next_offset})


def _print_text(output: Output, *pieces: str) -> None:
    """Print a text; it ends with a line end, as what comes next begins a line."""
    for piece in pieces:
        output.piece(piece)
    if not pieces[-1].endswith("\n"):
        output.piece("\n")


@with_common_options
async def clean(
    where: CommonOptions,
    output: Output,
    *,
    days: Annotated[float, typer.Option("--days", help="Texts older than this many days go.")] = RETENTION_DAYS,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", help="Beyond this many bytes of text the oldest go, of whatever age.")
    ] = None,
    idle_days: Annotated[
        float, typer.Option("--idle-days", help="Sessions idle for this many days hold nothing any more.")
    ] = IDLE_DAYS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
    yes: Yes = False,
) -> int:
    """Remove the texts of old offloads for good; messages stay, and so does what an open session refers to."""
    async with where.existing() as (memory, whose):
        clean_up = partial(
            memory.clean_offloads, **whose, older_than_days=days, max_bytes=max_bytes, idle_days=idle_days
        )
        cleaned = await clean_up(dry_run=True) if dry_run or not yes else None
        if cleaned is not None and cleaned.removed and not dry_run:
            ask(f"{_what_goes(cleaned, where)} Remove them for good?")
        if cleaned is None or (cleaned.removed and not dry_run):
            cleaned = await clean_up()
    _tell_cleaned(output, cleaned, dry_run=dry_run)
    return ExitCode.DONE


def _what_goes(cleaned: CleanedOffloads, where: CommonOptions) -> str:
    first, last = minute(cleaned.removed[0].created_at), minute(cleaned.removed[-1].created_at)
    count = counted(len(cleaned.removed), "offload")
    return (
        f"{count} ({cleaned.bytes_removed:,} bytes, made {first} to {last}) of {where.scope_name} would go; "
        "--dry-run lists them."
    )


def _tell_cleaned(output: Output, cleaned: CleanedOffloads, *, dry_run: bool) -> None:
    if output.as_json:
        output.value(cleaned.model_dump(mode="json"))
        return
    if dry_run:
        for item in cleaned.removed:
            _print_offload(output, item)
    done = "would remove" if dry_run else "removed"
    count = counted(len(cleaned.removed), "offload")
    output.line(f"{done} {count} ({cleaned.bytes_removed:,} bytes); {cleaned.bytes_left:,} bytes stay")
    if cleaned.held:
        output.remark(f"{counted(len(cleaned.held), 'offload')} would go and stay: an open session refers to them")
