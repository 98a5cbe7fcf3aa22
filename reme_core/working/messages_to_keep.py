"""Check of a context against its limits, the share of a window that it may take; what would leave, and what stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from reme_core.errors import InvalidInputError
from reme_core.schema import Message
from reme_core.working.tokens import TokenLedger

# Of the share that a context may take, this much is really used: counts are estimates.
_MARGIN = 0.95
_MIN_WINDOW = 1_000
# A summary takes at most this share of the threshold; four thousand tokens hold six sections of a long task.
_SUMMARY_SHARE, _MOST_SUMMARY = 0.2, 4_000
# A shorter one no model can write: twice what headings and a pointer take.
_LEAST_SUMMARY = 120
# ... and of what system prompt and tools leave of it.
_SUMMARY_ROOM = 1 / 3
# Bytes of one tool result for each token of the threshold: a quarter of the threshold in ASCII, which has four
# characters a token; and a sixteenth once the result is old.
_RECENT_BYTES, _OLD_BYTES = 1.0, 0.25

ROOM = 0.9
"""The share of the threshold that what stays may take before it is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLimits:
    """How long a context may get, and what of it stays. The defaults scale down with a small window.

    Attributes:
        max_input_length: The model's window, in tokens.
        compact_ratio: The share of it that a context may take.
        reserve_tokens: What stays of the newest messages in a compaction, at most half of what they may take.
        recent_n: So many messages with tool results, the newest ones, may be as long as `recent_max_bytes`.
        recent_max_bytes: Of a recent tool result, in bytes of UTF-8; the rest is offloaded.
        old_max_bytes: Of an older one.
        max_summary_tokens: Of the summary; None: a fifth of the threshold, at most 4,000.
        max_tokens: That a context may take, if not the share of the window; the window is then the summariser's.
        keep_messages: So many of the newest messages stay in a compaction, if there is room, and not by their tokens.
    """

    max_input_length: int = 128_000
    compact_ratio: float = 0.7
    reserve_tokens: int = 10_000
    recent_n: int = 1
    recent_max_bytes: int = 102_400
    old_max_bytes: int = 3_000
    max_summary_tokens: int | None = None
    max_tokens: int | None = None
    keep_messages: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers (InvalidInputError)."""
        least = {
            "max_input_length": _MIN_WINDOW,
            "reserve_tokens": 0,
            "recent_n": 0,
            "recent_max_bytes": 1,
            "old_max_bytes": 1,
        }
        numbers = [(name, getattr(self, name), low) for name, low in least.items()]
        optional = (("max_summary_tokens", 1), ("max_tokens", 1), ("keep_messages", 0))
        numbers += [(name, value, low) for name, low in optional if (value := getattr(self, name)) is not None]
        for name, value, low in numbers:
            if type(value) is not int or value < low:
                msg = f"{name}: wanted a whole number of at least {low}, found {value!r}"
                raise InvalidInputError(msg)
        if not isinstance(self.compact_ratio, (int, float)) or not 0.1 <= self.compact_ratio <= 1:
            msg = f"compact_ratio: wanted a share between 0.1 and 1, found {self.compact_ratio!r}"
            raise InvalidInputError(msg)

    @property
    def threshold(self) -> int:
        """Tokens that system prompt, tools, summary and messages may take together."""
        return self.max_tokens or int(self.max_input_length * self.compact_ratio * _MARGIN)

    @property
    def summary_limit(self) -> int:
        """Tokens that a summary may take."""
        most = min(_MOST_SUMMARY, max(_LEAST_SUMMARY, int(self.threshold * _SUMMARY_SHARE)))
        return most if self.max_summary_tokens is None else min(self.max_summary_tokens, most)

    @property
    def recent_bytes(self) -> int:
        """Bytes that a recent tool result may take."""
        return min(self.recent_max_bytes, int(self.threshold * _RECENT_BYTES))

    @property
    def old_bytes(self) -> int:
        """Bytes that an older tool result may take, never more than a recent one."""
        return min(self.old_max_bytes, int(self.threshold * _OLD_BYTES), self.recent_bytes)

    def summary_room(self, taken: int) -> int:
        """Return the tokens that a summary may take where `taken` are taken by system prompt and tools."""
        return max(0, min(self.summary_limit, int((self.threshold - taken) * _SUMMARY_ROOM)))

    def reserve(self, taken: int) -> int:
        """Return the tokens of messages that stay in a compaction, with `taken` as for `summary_room`."""
        fixed = self.summary_room(taken) + taken
        if self.keep_messages is not None:
            return max(0, int(ROOM * self.threshold) - fixed)
        return max(0, min(self.reserve_tokens, (self.threshold - fixed) // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asides:
    """Messages of a context that a framework has put there and nobody has said, by their ids.

    Neither is summarised, cut, or written to the transcript.

    Attributes:
        pinned: They stay, whatever they take: hints for the next answer.
        unsaid: They leave as others do: memories that were found, reminders.
    """

    pinned: frozenset[str] = frozenset()
    unsaid: frozenset[str] = frozenset()

    def hold(self, message: Message) -> bool:
        """Tell whether a message is one of them."""
        return message.message_id in self.pinned or message.message_id in self.unsaid


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCheck:
    """How full a context is, and how it would be split; `to_compact, to_keep, is_valid = check` unpacks it.

    Attributes:
        tokens: All of it: system prompt, tools, summary and messages.
        message_tokens: The messages, leading system messages included.
        taken: What no compaction changes: system prompt, tools and leading system messages.
        threshold: What `tokens` may be at most.
        max_input_length: The model's window.
        to_compact: The messages that would go into the summary, in order; none while it isn't over.
        to_keep: The others, in order.
    """

    tokens: int
    message_tokens: int
    taken: int
    threshold: int
    max_input_length: int
    to_compact: tuple[Message, ...]
    to_keep: tuple[Message, ...]

    def __iter__(self) -> Iterator[tuple[Message, ...] | bool]:
        """Yield what goes, what stays, and that calls and results are on one side: they always are."""
        return iter((self.to_compact, self.to_keep, True))

    @property
    def is_over(self) -> bool:
        """Whether it is longer than it may be."""
        return self.tokens > self.threshold

    @property
    def ratio(self) -> float:
        """The share of the model's window that it takes; above 1 it doesn't fit at all."""
        return self.tokens / self.max_input_length


def check_context(
    messages: Sequence[Message],
    *,
    limits: ContextLimits,
    ledger: TokenLedger,
    system_prompt: str = "",
    summary: str = "",
    overhead_tokens: int = 0,
    asides: Asides = Asides(),
    force: bool = False,
) -> ContextCheck:
    """Count a context and, where it is over its threshold, say which messages go and which stay.

    What stays, in order: leading system messages; the last user message; calls of the going turn that wait for their
    results; and the newest messages, as many as the reserve holds together with those two. A call and its results are
    on one side: results that come late go with their call. If the reserve doesn't hold the newest message with what
    belongs to it, that stays as long as the threshold leaves room for it beside a summary.

    Messages that were counted before are not looked at again, but for those that stay, those of the going turn and,
    where a call there has no result, all.

    Args:
        messages: In order; not changed.
        limits: How long the context may get.
        ledger: Counts, and remembers.
        system_prompt: What stands before the messages, if it isn't one of them.
        summary: The summary of what left before.
        overhead_tokens: What else goes into each request, such as the schemas of tools.
        asides: Messages that nobody has said.
        force: Split as though it were over.

    Raises:
        InvalidInputError: `overhead_tokens` is no number of tokens, or the counter gave none.
    """
    if type(overhead_tokens) is not int or overhead_tokens < 0:
        msg = f"overhead_tokens: wanted a whole number of at least 0, found {overhead_tokens!r:.60}"
        raise InvalidInputError(msg)
    message_tokens = ledger.count_messages(messages)
    leading = _leading(messages)
    fixed = ledger.count_text(system_prompt) + overhead_tokens
    taken = fixed + sum(map(ledger.count_message, messages[:leading]))
    tokens = fixed + ledger.count_text(summary) + message_tokens
    to_compact: Sequence[Message] = ()
    to_keep = messages
    if force or tokens > limits.threshold:
        split = _Split(messages=messages, leading=leading, taken=taken, limits=limits, ledger=ledger, asides=asides)
        to_compact, to_keep = split.divided()
    return ContextCheck(
        tokens=tokens,
        message_tokens=message_tokens,
        taken=taken,
        threshold=limits.threshold,
        max_input_length=limits.max_input_length,
        to_compact=tuple(to_compact),
        to_keep=tuple(to_keep),
    )


def last_user_message(messages: Sequence[Message], unsaid: Set[str] = frozenset()) -> int | None:
    """Return the place of the last message in which a user says something; a tool's results alone are not said."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        is_said = message.role == "user" and message.message_id not in unsaid
        if is_said and any(block.type != "tool_result" for block in message.content):
            return place
    return None


def waiting_calls(messages: Sequence[Message], unsaid: Set[str] = frozenset()) -> frozenset[int]:
    """Return the places of the messages with a call of the going turn that no result follows on.

    The going turn is what follows on the last user message; without one, all.
    """
    return _waiting(_linked(messages, 0), last_user_message(messages, unsaid))


def _leading(messages: Sequence[Message]) -> int:
    """Return how many system messages stand before all others."""
    for place, message in enumerate(messages):
        if message.role != "system":
            return place
    return len(messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """One division of a context into what goes and what stays."""

    messages: Sequence[Message]
    leading: int
    taken: int
    limits: ContextLimits
    ledger: TokenLedger
    asides: Asides

    def divided(self) -> tuple[list[Message], list[Message]]:
        """Return what goes and what stays, both in order."""
        user, ids = last_user_message(self.messages, self.asides.unsaid), self.asides.pinned
        pinned = {place for place, message in enumerate(self.messages) if message.message_id in ids} if ids else set()
        begin = 0 if user is None else min({user} | pinned)
        links = _linked_at_end(self.messages, begin)
        must = self._must_stay(links, user, pinned)
        newest = self._newest(must)
        if min(newest, default=begin) < begin:
            links = _linked_at_end(self.messages, min(newest))
        free = newest - links.alone
        kept = must | {place for place in newest if links.group(place) <= free}
        last = len(self.messages) - 1
        if last >= self.leading and last not in kept:
            group = links.group(last)
            room = self.limits.threshold - self.limits.summary_room(self.taken) - self.taken
            if group.isdisjoint(links.alone) and self._count(kept | group) <= room:
                kept |= group
        return self._parted(kept)

    def _parted(self, kept: Iterable[int]) -> tuple[list[Message], list[Message]]:
        """Return what goes, in slices between what stays, since few of ten thousand messages do; and what stays."""
        goes, stays = list[Message](), list(self.messages[: self.leading])
        begin = self.leading
        for place in sorted(place for place in kept if place >= self.leading):
            goes += self.messages[begin:place]
            stays.append(self.messages[place])
            begin = place + 1
        goes += self.messages[begin:]
        return goes, stays

    def _must_stay(self, links: _Links, user: int | None, pinned: Set[int]) -> set[int]:
        """Return the places of what is pinned, the last user message and the calls that wait.

        Each comes with what belongs to it, such as what a framework has put behind the user's words.
        """
        begun = {*_waiting(links, user), *pinned}
        if user is not None:
            begun.add(user)
            if user + 1 < len(self.messages) and self.messages[user + 1].message_id in self.asides.unsaid:
                begun.add(user + 1)
        return {place for first in begun for place in links.group(first) if place >= self.leading}

    def _newest(self, must: set[int]) -> set[int]:
        """Return the places of the newest messages that the reserve holds beside those that stay anyway."""
        budget = self.limits.reserve(self.taken) - self._count(must)
        left = self.limits.keep_messages
        newest = set[int]()
        for place in range(len(self.messages) - 1, self.leading - 1, -1):
            if self.messages[place].message_id in self.asides.pinned or (left is None and place in must):
                continue
            if place not in must:
                budget -= self.ledger.count_message(self.messages[place])
            left = None if left is None else left - 1
            if budget < 0 or (left is not None and left < 0):
                break
            newest.add(place)
        return newest | must

    def _count(self, places: Iterable[int]) -> int:
        return sum(self.ledger.count_message(self.messages[place]) for place in places)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Links:
    """Which messages belong together, by calls and results.

    Attributes:
        beside: The places next to a place: of its calls' results, and of its results' calls.
        unanswered: The places of calls that no result follows on.
        alone: The places of results that have no call.
    """

    beside: Mapping[int, Set[int]]
    unanswered: frozenset[int]
    alone: frozenset[int]

    def group(self, place: int) -> set[int]:
        """Return a message and all that belongs to it."""
        reached, edge = {place}, [place]
        while edge:
            fresh = self.beside.get(edge.pop(), frozenset()) - reached
            reached |= fresh
            edge += fresh
        return reached


def _linked_at_end(messages: Sequence[Message], begin: int) -> _Links:
    """Return which messages belong together, of those from `begin` on: what is before is read as far as it takes."""
    called = set[str]()
    for place in range(len(messages) - 1, -1, -1):
        if place < begin and not called:
            links = _linked(messages, place + 1)
            # A call that no result follows on may have one before it, however far.
            return _linked(messages, 0) if links.unanswered else links
        for block in reversed(messages[place].content):
            if block.type == "tool_result":
                called.add(block.call_id)
            elif block.type == "tool_call":
                called.discard(block.call_id)
    return _linked(messages, 0)


def _linked(messages: Sequence[Message], begin: int) -> _Links:
    """Return which messages belong together, of those from `begin` on.

    A result belongs to the nearest call before it with its id, since some models use ids again; one that has no call
    before it to the later calls with its id that no result follows on.
    """
    latest: dict[str, int] = {}
    waiting: dict[str, set[int]] = {}
    early: dict[str, set[int]] = {}
    beside: dict[int, set[int]] = {}

    def join(first: int, second: int) -> None:
        beside.setdefault(first, set()).add(second)
        beside.setdefault(second, set()).add(first)

    for place in range(begin, len(messages)):
        for block in messages[place].content:
            if block.type == "tool_call":
                latest[block.call_id] = place
                waiting.setdefault(block.call_id, set()).add(place)
            elif block.type == "tool_result" and block.call_id in latest:
                join(latest[block.call_id], place)
                waiting[block.call_id].discard(latest[block.call_id])
            elif block.type == "tool_result":
                early.setdefault(block.call_id, set()).add(place)
    for call_id, results in early.items():
        for call in waiting.get(call_id, ()):
            for result in results:
                join(call, result)
    return _Links(
        beside=beside,
        unanswered=frozenset[int]().union(*waiting.values()),
        alone=frozenset[int]().union(*(places for call_id, places in early.items() if not waiting.get(call_id))),
    )


def _waiting(links: _Links, user: int | None) -> frozenset[int]:
    begin = 0 if user is None else user + 1
    return frozenset(place for place in links.unanswered if place >= begin)
