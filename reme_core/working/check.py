"""Check of a context against its limits, the share of a window that it may take; what would leave, and what stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reme_core.errors import InvalidInputError
from reme_core.schema import Message
from reme_core.working.tokens import TokenLedger

# Of the share that a context may take, this much is really used: counts are estimates.
_MARGIN = 0.95
_MIN_WINDOW = 1_000
# A summary takes at most this share of the threshold; four thousand tokens hold six sections of a long task.
_SUMMARY_SHARE, _MOST_SUMMARY = 0.2, 4_000
# ... and of what system prompt and tools leave of it.
_SUMMARY_ROOM = 1 / 3
# Bytes of one tool result for each token of the threshold: a quarter of the threshold in ASCII, which has four
# characters a token; and a sixteenth once the result is old.
_RECENT_BYTES, _OLD_BYTES = 1.0, 0.25


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
    """

    max_input_length: int = 128_000
    compact_ratio: float = 0.7
    reserve_tokens: int = 10_000
    recent_n: int = 1
    recent_max_bytes: int = 102_400
    old_max_bytes: int = 3_000
    max_summary_tokens: int | None = None

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
        if self.max_summary_tokens is not None:
            numbers.append(("max_summary_tokens", self.max_summary_tokens, 1))
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
        return int(self.max_input_length * self.compact_ratio * _MARGIN)

    @property
    def summary_limit(self) -> int:
        """Tokens that a summary may take."""
        most = min(_MOST_SUMMARY, int(self.threshold * _SUMMARY_SHARE))
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
        return max(0, min(self.reserve_tokens, (self.threshold - self.summary_room(taken) - taken) // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCheck:
    """How full a context is, and how it would be split.

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
        to_compact, to_keep = _split(messages, leading, taken, limits, ledger)
    return ContextCheck(
        tokens=tokens,
        message_tokens=message_tokens,
        taken=taken,
        threshold=limits.threshold,
        max_input_length=limits.max_input_length,
        to_compact=tuple(to_compact),
        to_keep=tuple(to_keep),
    )


def last_user_message(messages: Sequence[Message]) -> int | None:
    """Return the place of the last message in which a user says something; a tool's results alone are not said."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user" and any(block.type != "tool_result" for block in messages[place].content):
            return place
    return None


def waiting_calls(messages: Sequence[Message]) -> frozenset[int]:
    """Return the places of the messages with a call of the going turn that no result follows on.

    The going turn is what follows on the last user message; without one, all.
    """
    return _waiting(_Links(messages), last_user_message(messages))


def _leading(messages: Sequence[Message]) -> int:
    """Return how many system messages stand before all others."""
    for place, message in enumerate(messages):
        if message.role != "system":
            return place
    return len(messages)


def _split(
    messages: Sequence[Message], leading: int, taken: int, limits: ContextLimits, ledger: TokenLedger
) -> tuple[list[Message], list[Message]]:
    """Return what goes and what stays."""
    links = _Links(messages)
    must = _must_stay(messages, leading, links)
    budget = limits.reserve(taken) - _count(messages, must, ledger)
    start = _newest(messages, leading, must, budget, ledger)
    kept = must | links.whole(place for place in range(start, len(messages)) if place not in must)
    last = len(messages) - 1
    if last >= leading and last not in kept:
        newest = links.group(last)
        room = limits.threshold - limits.summary_room(taken) - taken
        if not links.lack_call(newest) and _count(messages, kept | newest, ledger) <= room:
            kept |= newest
    return _divided(messages, leading, kept)


def _count(messages: Sequence[Message], places: Iterable[int], ledger: TokenLedger) -> int:
    return sum(ledger.count_message(messages[place]) for place in places)


def _must_stay(messages: Sequence[Message], leading: int, links: _Links) -> set[int]:
    """Return the places of the last user message and of the calls that wait, each with what belongs to it."""
    must, user = set[int](), last_user_message(messages)
    for place in {*_waiting(links, user), *(() if user is None else (user,))}:
        must |= links.group(place)
    return {place for place in must if place >= leading}


def _waiting(links: _Links, user: int | None) -> frozenset[int]:
    begin = 0 if user is None else user + 1
    links.read_back(begin)
    return frozenset(place for place in links.unanswered if place >= begin)


def _newest(messages: Sequence[Message], leading: int, must: set[int], budget: int, ledger: TokenLedger) -> int:
    """Return where the newest messages begin that a budget holds beside those that stay anyway."""
    place = len(messages)
    while place > leading:
        if place - 1 not in must:
            budget -= ledger.count_message(messages[place - 1])
            if budget < 0:
                break
        place -= 1
    return place


def _divided(messages: Sequence[Message], leading: int, kept: set[int]) -> tuple[list[Message], list[Message]]:
    """Return the messages that go and those that stay, both in order: slices between those that stay."""
    goes, stays = list[Message](), list(messages[:leading])
    begin = leading
    for place in sorted(kept):
        goes += messages[begin:place]
        stays.append(messages[place])
        begin = place + 1
    goes += messages[begin:]
    return goes, stays


class _Links:
    """Which messages belong together, by calls and results, as far back as was read.

    A result belongs to the nearest call before it with its id, since some models use ids again; one that has no call
    before it to the later calls with its id that no result follows on.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._start = len(messages)
        self._beside: dict[int, set[int]] = {}
        self._results: dict[str, set[int]] = {}
        self._calls: dict[int, set[str]] = {}
        self._is_settled = False

    @property
    def unanswered(self) -> Iterable[int]:
        """The places of calls that no result follows on, of what was read."""
        return self._calls.keys()

    def read_back(self, start: int) -> None:
        """Read the messages from `start` on that were not read yet."""
        while self._start > start:
            self._start -= 1
            for block in reversed(self._messages[self._start].content):
                if block.type == "tool_result":
                    self._results.setdefault(block.call_id, set()).add(self._start)
                elif block.type == "tool_call":
                    self._call(block.call_id, self._start)

    def group(self, place: int) -> set[int]:
        """Return a message and all that belongs to it, reading back as far as it takes."""
        self.read_back(place)
        group = self._settled({place})
        while self._start > 0 and self.lack_call(group):
            self.read_back(self._start - 1)
            group = self._settled({place})
        return group

    def lack_call(self, places: set[int]) -> bool:
        """Tell whether there is a result among some messages that has no call in what was read."""
        return any(not places.isdisjoint(results) for results in self._results.values())

    def whole(self, places: Iterable[int]) -> set[int]:
        """Return those of some messages that belong to no message outside of them, be it one that was not read."""
        among = set(places)
        self.read_back(min(among, default=self._start))
        self._settled(among)
        alone = {place for results in self._results.values() for place in results}
        left, whole = set(among), set[int]()
        while left:
            group = self._reach({left.pop()})
            left -= group
            if group <= among and group.isdisjoint(alone):
                whole |= group
        return whole

    def _settled(self, places: set[int]) -> set[int]:
        """Return some messages and what belongs to them; results before their call are looked for if one has none."""
        group = self._reach(places)
        if self._is_settled or group.isdisjoint(self._calls):
            return group
        self._is_settled = True
        self.read_back(0)
        for place, call_ids in self._calls.items():
            for call_id in call_ids:
                self._join(place, self._results.get(call_id, ()))
        called = set[str]().union(*self._calls.values())
        self._results = {call_id: results for call_id, results in self._results.items() if call_id not in called}
        return self._reach(places)

    def _reach(self, places: set[int]) -> set[int]:
        reached, edge = set(places), list(places)
        while edge:
            fresh = self._beside.get(edge.pop(), set()) - reached
            reached |= fresh
            edge += fresh
        return reached

    def _call(self, call_id: str, place: int) -> None:
        results = self._results.pop(call_id, None)
        if results is None:
            self._calls.setdefault(place, set()).add(call_id)
        else:
            self._join(place, results)

    def _join(self, place: int, others: Iterable[int]) -> None:
        for other in others:
            if other != place:
                self._beside.setdefault(place, set()).add(other)
                self._beside.setdefault(other, set()).add(place)
