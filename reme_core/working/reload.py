"""Reloading in words for a model: a piece of what left a context, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from reme_core.errors import InvalidInputError, OffloadNotFoundError, ToolFeedback
from reme_core.ports import ListOffloads, Store
from reme_core.schema import OffloadInfo, Reloaded, Scope
from reme_core.schema.plain import clean_text
from reme_core.steps.load_offloaded import ReloadRequest, reload_context

_REFERENCE = re.compile(r"[0-9a-f]{16}")
_LISTED = 20
# The line that says where a text goes on.
_REST_BYTES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceRequest:
    """What a model asks for.

    Attributes:
        handle: A reference, whatever stands around it.
        sessions: In which it is looked for, one after the other; none: in all of the user's.
        offset: The character to begin with; below 0: the first one.
        limit_chars: At most so many characters.
        pattern: Words to look for, instead of an offset; "" for none.
        most_bytes: Of the whole answer, in UTF-8: a longer one would be cut as it arrives in the context.
    """

    handle: str
    sessions: Sequence[str] = ()
    offset: int = 0
    limit_chars: int = 4_000
    pattern: str = ""
    most_bytes: int = 80_000


async def reload_piece(store: Store, scope: Scope, request: PieceRequest) -> str:
    """Return a piece of what a handle leads to, as long as asked for, and where it goes on.

    Raises:
        ToolFeedback: There is no such thing, or no such place in it: in words for the model.
    """
    wanted, words = clean_text(request.handle).strip(), clean_text(request.pattern).strip()
    found = _REFERENCE.search(wanted)
    for session in request.sessions or (None,):
        try:
            if found is not None:
                return await _read(store, scope, request, session, found[0], words)
        except OffloadNotFoundError:
            continue
        except InvalidInputError as exc:
            msg = f"That can't be loaded: {exc}"
            raise ToolFeedback(msg) from exc
    raise ToolFeedback(await unknown_handle(store, scope, wanted, request))


def with_rest(text: str, next_offset: int | None, chars: int) -> str:
    """Return a piece of a text with the line that says where it goes on, if it does."""
    if next_offset is None:
        return text
    gap = "" if text.endswith("\n") else "\n"
    return f"{text}{gap}[… goes on at offset={next_offset} of {chars} …]"


async def unknown_handle(store: Store, scope: Scope, handle: str, request: PieceRequest) -> str:
    """Say that there is no such handle, and which ones there are."""
    session = request.sessions[0] if request.sessions else None
    query = ListOffloads(session_id=session, limit=_LISTED, newest_first=True)
    infos = (await store.list_offloads(scope, query)).offloads
    listed = "\n".join(map(_line, infos)) if infos else "there are none in this conversation"
    told = f"There is no handle {handle!r:.80} in this conversation. Known handles, newest first:\n{listed}"
    return _head(told, request.most_bytes)


async def _read(
    store: Store, scope: Scope, request: PieceRequest, session_id: str | None, reference: str, words: str
) -> str:
    async def load(offset: int | None, limit_chars: int) -> Reloaded:
        asked = ReloadRequest(
            reference=reference,
            session_id=session_id,
            query=words or None,
            offset=offset,
            limit_chars=limit_chars,
        )
        return (await reload_context(store, scope, asked)).results[0]

    room = max(1, request.most_bytes - _REST_BYTES)
    most = min(max(1, request.limit_chars), room)
    if words:
        return _head((await load(None, most)).memory, room) or f"{words!r} is not in {reference}."
    piece = await load(max(0, request.offset), most)
    begin, text = piece.offset, piece.memory
    # A piece ends where a line ends; who asks for the next one may count from `limit_chars`.
    while piece.next_offset is not None and len(text) < most:
        piece = await load(piece.next_offset, most - len(text))
        text += piece.memory
    shown = _head(text, room)
    return with_rest(shown, piece.next_offset if shown == text else begin + len(shown), piece.chars)


def _head(text: str, most_bytes: int) -> str:
    """Return as much of a text as has so many bytes."""
    return text if 4 * len(text) <= most_bytes else text.encode()[:most_bytes].decode(errors="ignore")


def _line(info: OffloadInfo) -> str:
    size = f"{info.chars} characters" if info.chars else f"{len(info.message_ids)} messages"
    return f"- {info.reference}: {info.name or info.kind}, {size}"
