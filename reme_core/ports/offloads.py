"""The port of what left a context: texts and pointers at messages, each under a random reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from reme_core.schema import OffloadInfo, OffloadKind, OffloadRecord, bounded_query


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOffloads:
    """Texts and pointers to be kept.

    Attributes:
        offloads: What to keep. One that is there already, by session, kind, name, message, place, `message_ids` and
            text, is not kept twice: the answer names the reference it has.
        hold: The session's context is about to refer to them: no clean-up takes them before the session lets go.
        exact: Keep each under the reference it has, also where the same is there under another one.
    """

    offloads: Sequence[OffloadRecord]
    hold: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOffloads:
    """Says what the context of an open session refers to; it replaces what was said before.

    Attributes:
        session_id: The session.
        references: All that its context refers to.
        now: The time of saying so.
        keep_since: What it has come to hold at this time or later is held as well: a context that was looked at then
            doesn't know of it. None: there is no such thing; without references the session is closed.
    """

    session_id: str
    references: frozenset[str]
    now: datetime
    keep_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffloads:
    """Which offloads of a scope, in the order of keeping.

    Attributes:
        session_id: Of this session.
        message_ids: Results of these messages.
        references: Only these; those that the scope doesn't have are passed over.
        made_from: Said at this time or later; offloaded, where nobody said it.
        made_to: Said before this time.
        kinds: Of these kinds only.
        limit: At most this many.
        cursor: From the page before.
        newest_first: The reverse order.
    """

    session_id: str | None = None
    message_ids: tuple[str, ...] | None = None
    references: tuple[str, ...] | None = None
    made_from: datetime | None = None
    made_to: datetime | None = None
    kinds: tuple[OffloadKind, ...] | None = None
    limit: int = 100
    cursor: str | None = None
    newest_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadPage:
    """One page of offloads; `next_cursor` is None on the last."""

    offloads: tuple[OffloadInfo, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadSearch:
    """A search over the texts of offloads, by words.

    Attributes:
        text: The query as asked.
        limit: At most this many, at least 1.
        session_id: Of this session only.
        made_from: Said at this time or later; offloaded, where nobody said it.
        made_to: Said before this time.
        kinds: Of these kinds only; None: any that has a text.
    """

    text: str
    limit: int = 10
    session_id: str | None = None
    made_from: datetime | None = None
    made_to: datetime | None = None
    kinds: tuple[OffloadKind, ...] | None = None

    def __post_init__(self) -> None:
        """Take the beginning of a pasted text; see `bounded_query`."""
        object.__setattr__(self, "text", bounded_query(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredOffload:
    """The best passage of an offload.

    Attributes:
        info: Which.
        passage: The passage as it stands in the text.
        offset: Where it begins, in characters.
        first_line: The number of its first line, from 1.
        score: In [0, 1]: the share of the query's words that it holds, weighted by how rare they are, and lowered where
            they stand far apart.
    """

    info: OffloadInfo
    passage: str
    offset: int
    first_line: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanOffloads:
    """Which texts may go. Pointers at messages take no room and stay.

    Attributes:
        older_than: Texts offloaded before this time go. None: age doesn't matter.
        max_bytes: Beyond this many bytes of text in the scope, the oldest go, whatever their age. None: no bound.
        idle_since: Sessions that said last before this time what they hold count as closed.
        dry_run: Only say what would go.
    """

    older_than: datetime | None = None
    max_bytes: int | None = None
    idle_since: datetime
    dry_run: bool = False
