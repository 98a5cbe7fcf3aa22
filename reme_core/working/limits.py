"""Limits of a context: the share of a window that it may take. Numbers: design.md, section 6."""

from __future__ import annotations

from dataclasses import dataclass

from reme_core.errors import InvalidInputError

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
        accept_prose: Take a model's summary in words of its own, too: without headings, and if it has next to no word
            of what was said, beside quotations of it. Without this it is not used.
    """

    max_input_length: int = 128_000
    compact_ratio: float = 0.7
    reserve_tokens: int = 10_000
    recent_n: int = 1
    recent_max_bytes: int = 102_400
    old_max_bytes: int = 3_000
    max_summary_tokens: int | None = None
    accept_prose: bool = False

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
        accept_prose: object = self.accept_prose
        if not isinstance(accept_prose, bool):
            msg = f"accept_prose: wanted True or False, found {accept_prose!r}"
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
