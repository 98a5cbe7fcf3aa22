"""Loading of texts that left a context: by reference, by search or by time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import zip_longest

from reme_core.errors import InvalidInputError, OffloadNotFoundError
from reme_core.ports import (
    FindMessages,
    ListOffloads,
    MessageSearch,
    OffloadSearch,
    ScoredMessage,
    ScoredOffload,
    Store,
)
from reme_core.retrieval import Candidate, fill_budget
from reme_core.schema import (
    Message,
    OffloadInfo,
    OffloadKind,
    OffloadRecord,
    Reloaded,
    ReloadResult,
    Scope,
    StoredMessage,
    ToolCallBlock,
    ToolResultBlock,
)
from reme_core.steps.message_lines import all_pages, message_text, talk_text
from reme_core.text import TextMatches, read_piece, search_text, shortened

TOOL_NAME = "reload"
# The messages that a pointer or an earlier summary is about are found themselves.
_FOUND = (OffloadKind.TOOL_RESULT,)
# Of a very long line, a search shows at most so many characters on both sides of what it has found.
_AROUND = 200
_LEAST_AROUND = 20
# Where passages repeat each other, a search looks further down, but not behind so many.
_MOST_CANDIDATES = 200
_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadRequest:
    """What is to be loaded.

    With a reference: its text from the beginning, or the piece that `start_line` and `end_line`, or `offset`, or
    `query` choose. Without one: what `query` finds, or all that was said or offloaded between two times.

    Attributes:
        reference: What was offloaded.
        query: Words to look for: in the reference, or in everything that was offloaded or said.
        session_id: Only of this session.
        start_line: The first line of the piece, from 1.
        end_line: Its last line.
        offset: Where the piece begins, in characters.
        limit_chars: At most this many characters of each result.
        limit: At most this many results, or matches in one reference.
        said_from: Said or offloaded at this time or later; not with a reference.
        said_to: Said or offloaded before this time; not with a reference.
    """

    reference: str | None = None
    query: str | None = None
    session_id: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    offset: int | None = None
    limit_chars: int = 4000
    limit: int = 5
    said_from: datetime | None = None
    said_to: datetime | None = None


async def reload_context(store: Store, scope: Scope, request: ReloadRequest) -> ReloadResult:
    """Load what left a context.

    For a reference one result, whose text goes on at `next_offset`; for a search in it, the lines that it has found.
    The text of messages is written as lines of a talk, in order; what was cut out of them before stays a reference.
    Without a reference passages of offloaded texts and messages together, best first, none of which repeats another
    passage; by time alone messages and the beginnings of offloaded texts, in the order of time.

    Raises:
        OffloadNotFoundError: The scope (or the session, where one is named) has no such reference.
        InvalidInputError: Options that don't go together or lie outside of the text, saying what to give.
    """
    _check(request)
    if request.reference is not None:
        row = await store.get_offload(scope, request.reference)
        if request.session_id not in {None, row.session_id}:
            raise OffloadNotFoundError(
                [request.reference],
                where=f"of session {request.session_id!r:.80}",
                advice="it left the context of another session, leave the session out",
            )
        stored = await store.get_messages(scope, row.message_ids) if row.message_ids else []
        # Whatever goes through a whole text, which may have millions of characters, does so off the loop.
        return ReloadResult(results=(await asyncio.to_thread(_piece_of, row, stored, request),))
    if request.query is None:
        return ReloadResult(results=await _at_that_time(store, scope, request))
    return ReloadResult(results=await _found(store, scope, request, request.query))


def _check(request: ReloadRequest) -> None:
    lines = request.start_line is not None or request.end_line is not None
    places = lines or request.offset is not None
    times = request.said_from is not None or request.said_to is not None
    problem = None
    if request.limit < 1 or request.limit_chars < 1:
        problem = f"limit and limit_chars: wanted at least 1, found {request.limit} and {request.limit_chars}"
    elif request.query is not None and not request.query.strip():
        problem = "query: is empty; write the words to look for, or leave it out"
    elif request.reference is None and places:
        problem = "start_line, end_line, offset: are places in one text: give its reference as well"
    elif request.reference is None and request.query is None and not times:
        problem = "reference or query: give the reference of what to load, words to search for, or a time"
    elif request.reference is not None and times:
        problem = "times: choose among all that was said; with a reference give lines, an offset or a query"
    elif request.query is not None and places:
        problem = "query: is looked for in the whole text; give either a query, or lines or an offset"
    elif request.said_from is not None and request.said_to is not None and request.said_from >= request.said_to:
        problem = f"start_time: {request.said_from} is not before end_time, {request.said_to}"
    if problem is not None:
        raise InvalidInputError(problem)


def _piece_of(row: OffloadRecord, stored: Sequence[StoredMessage], request: ReloadRequest) -> Reloaded:
    name = row.name
    if row.kind is not OffloadKind.MESSAGES:
        text = row.text
    elif len(stored) == 1:  # of one message a part was cut out: its lines and characters are to be those of the notice
        text, name = message_text(stored[0].message), stored[0].message.speaker
    else:
        text = talk_text(item.message for item in stored)
    about = Reloaded(
        memory="",
        reference=row.reference,
        kind=row.kind,
        session_id=row.session_id,
        message_ids=row.message_ids or (() if row.message_id is None else (row.message_id,)),
        name=name,
        created_at=row.said_at or row.created_at,
    )
    if request.query is not None:
        return about.model_copy(update=_searched(text, request.query, request))
    piece = read_piece(
        text,
        start_line=request.start_line,
        end_line=request.end_line,
        offset=request.offset,
        limit_chars=request.limit_chars,
    )
    place = asdict(piece)
    return about.model_copy(update={**place, "memory": place.pop("text")})


def _searched(text: str, query: str, request: ReloadRequest) -> dict[str, object]:
    around = min(_AROUND, max(_LEAST_AROUND, request.limit_chars // (2 * request.limit)))
    found = search_text(text, query, limit=request.limit, around=around)
    size: dict[str, object] = {"lines": text.count("\n") + 1, "chars": len(text), "matches": found.total}
    if not found.matches:
        return size
    shown = _match_lines(found, request.limit_chars)
    first, last = found.matches[0], found.matches[len(shown) - 1]
    return {
        **size,
        "memory": "\n".join(shown),
        "first_line": first.line,
        "last_line": last.line,
        "offset": first.offset,
    }


def _match_lines(found: TextMatches, limit_chars: int) -> list[str]:
    """Write matches with their places, as many as there is room for, the first one always."""
    lines: list[str] = []
    room = limit_chars
    for match in found.matches:
        line = f"line {match.line} (offset {match.offset}): {match.excerpt}"
        room -= len(line) + 1
        if lines and room < 0:
            break
        lines.append(shortened(line, limit_chars))
    return lines


async def _at_that_time(store: Store, scope: Scope, request: ReloadRequest) -> tuple[Reloaded, ...]:
    """Return what was said or offloaded between two times, earlier things first: a text with its beginning."""
    # What was kept first need not have been said first: all of that time is looked at, its texts apart.
    query = ListOffloads(
        session_id=request.session_id,
        made_from=request.said_from,
        made_to=request.said_to,
        kinds=_FOUND,
        limit=_PAGE,
    )
    listed = await all_offloads(store, scope, query)
    said = await store.find_messages(
        scope,
        FindMessages(
            session_id=request.session_id,
            said_from=request.said_from,
            said_to=request.said_to,
            limit=max(request.limit, _PAGE),
        ),
    )
    # A message stands before the texts that were cut out of it, which have its time.
    items: list[StoredMessage | OffloadInfo] = [*said.messages, *listed]
    results: list[Reloaded] = []
    for item in sorted(items, key=_time_of)[: request.limit]:
        if isinstance(item, StoredMessage):
            results.append(await asyncio.to_thread(_said, item, request, score=None))
            continue
        try:
            row = await store.get_offload(scope, item.reference)
        except OffloadNotFoundError:  # cleaned up meanwhile
            continue
        results.append(await asyncio.to_thread(_piece_of, row, (), request))
    return tuple(results)


async def all_offloads(store: Store, scope: Scope, query: ListOffloads) -> list[OffloadInfo]:
    """Return every offload that a query means, in its order."""
    pages = all_pages(lambda cursor: store.list_offloads(scope, replace(query, cursor=cursor)))
    return [info async for page in pages for info in page.offloads]


def _time_of(item: StoredMessage | OffloadInfo) -> datetime:
    return item.message.created_at if isinstance(item, StoredMessage) else item.said_at or item.created_at


async def _found(store: Store, scope: Scope, request: ReloadRequest, query: str) -> tuple[Reloaded, ...]:
    passages = await _passages(store, scope, request, query)
    messages = await store.search_messages(
        scope,
        MessageSearch(
            text=query,
            limit=2 * request.limit,
            session_id=request.session_id,
            said_from=request.said_from,
            said_to=request.said_to,
        ),
    )
    return await asyncio.to_thread(_together, passages, messages, request)


async def _passages(store: Store, scope: Scope, request: ReloadRequest, query: str) -> Sequence[ScoredOffload]:
    """Return passages of which none repeats one before it: a file that was read eight times is found once."""
    wanted = request.limit
    while True:
        found = await store.search_offloads(
            scope,
            OffloadSearch(
                text=query,
                limit=wanted,
                session_id=request.session_id,
                made_from=request.said_from,
                made_to=request.said_to,
                kinds=_FOUND,
            ),
        )
        taken = await asyncio.to_thread(_without_repetition, found, request.limit)
        if len(taken) == request.limit or len(found) < wanted or wanted > _MOST_CANDIDATES:
            return taken
        wanted *= 4


def _without_repetition(found: Sequence[ScoredOffload], limit: int) -> list[ScoredOffload]:
    candidates = (Candidate(item=place, text=item.passage, tokens=0) for place, item in enumerate(found))
    return [found[candidate.item] for candidate in fill_budget(candidates, budget_tokens=None, limit=limit)]


def _together(
    passages: Sequence[ScoredOffload], messages: Sequence[ScoredMessage], request: ReloadRequest
) -> tuple[Reloaded, ...]:
    offloaded = [_passage(item, item.score, request) for item in passages]
    said = [
        _said(item.stored, request, score=min(max(item.score, 0.0), 1.0))
        for item in messages
        if not _is_of_the_tool(item.stored.message)
    ]
    return tuple(_in_turn(offloaded, said)[: request.limit])


def _is_of_the_tool(message: Message) -> bool:
    """Tell whether a message is nothing but calls of the tool, or what it answered: what was found earlier."""
    return all(
        isinstance(block, (ToolCallBlock, ToolResultBlock)) and block.name == TOOL_NAME for block in message.content
    )


def _in_turn(passages: Sequence[Reloaded], messages: Sequence[Reloaded]) -> list[Reloaded]:
    """Take from both in turn, beginning with the better one, so that neither crowds out the other.

    Their scores say different things: a passage's how near to each other it holds the words, a message's also what
    stands around it and when it was said. In the answer no score is above the one before it.
    """
    first, second = passages, messages
    if messages and (not passages or (messages[0].score or 0.0) > (passages[0].score or 0.0)):
        first, second = messages, passages
    results: list[Reloaded] = []
    best = 1.0
    for pair in zip_longest(first, second):
        for found in pair:
            if found is not None:
                best = min(best, found.score or 0.0)
                results.append(found.model_copy(update={"score": best}))
    return results


def _passage(found: ScoredOffload, score: float, request: ReloadRequest) -> Reloaded:
    info, text, offset, line = found.info, found.passage, found.offset, found.first_line
    if len(text) > request.limit_chars:
        skipped, shown = _excerpt(text, request)
        text, offset, line = shown, offset + skipped, line + text.count("\n", 0, skipped)
    return Reloaded(
        memory=text,
        reference=info.reference,
        kind=info.kind,
        session_id=info.session_id,
        message_ids=() if info.message_id is None else (info.message_id,),
        name=info.name,
        first_line=line,
        last_line=line + text.removesuffix("\n").count("\n"),
        lines=info.lines,
        offset=offset,
        chars=info.chars,
        score=score,
        created_at=info.said_at or info.created_at,
    )


def _said(stored: StoredMessage, request: ReloadRequest, *, score: float | None) -> Reloaded:
    message = stored.message
    text = talk_text([message])
    offset, shown = 0, text
    if len(text) > request.limit_chars:
        offset, shown = _excerpt(text, request)
    first = text.count("\n", 0, offset) + 1
    return Reloaded(
        memory=shown,
        session_id=stored.session_id,
        message_ids=(message.message_id,),
        name=message.speaker,
        first_line=first,
        last_line=first + shown.removesuffix("\n").count("\n"),
        lines=text.count("\n") + 1,
        offset=offset,
        chars=len(text),
        score=score,
        created_at=message.created_at,
    )


def _excerpt(text: str, request: ReloadRequest) -> tuple[int, str]:
    """Return where the piece of a long message begins that is shown, and the piece: from what was asked for on."""
    offset = 0
    if request.query is not None:
        found = search_text(text, request.query, limit=1, around=request.limit_chars // 3)
        offset = found.matches[0].offset if found.matches else 0
    return offset, text[offset : offset + request.limit_chars]
