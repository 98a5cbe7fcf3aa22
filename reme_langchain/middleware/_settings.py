"""The settings of `ReMeMiddleware`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reme_core import ContextLimits
from reme_core.errors import ConfigurationError
from reme_core.schema import MemoryType, shown
from reme_langchain._searching import check_words

# `max_tokens` says what a context may take, and not what the model that summarises can read: that much any one can.
_LEAST_WINDOW = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """What is recalled when a run begins.

    Attributes:
        limit: At most so many memories; those that the thread has been shown already are left out.
        token_budget: As many as fit into so many tokens; None: no such bound.
        min_score: Leaves out what scores lower, in [0, 1]; see `ReMe.retrieve`.
        timeout_s: Seconds; what takes longer is left out of this run, with a warning.
        where: `message`: in a message behind the user's, kept in the thread. `system`: at the end of the system prompt,
            recalled once for each thread and then the same for good.
        memory_type: `auto`, a memory type, or several.
        layers: Some of `memory`, `summary` and `message`; None: memories and messages. Of messages, those that users
            and models have said in words; calls of tools and their results are left out.
    """

    limit: int = 5
    token_budget: int | None = None
    min_score: float | None = None
    timeout_s: float = 2.0
    where: Literal["message", "system"] = "message"
    memory_type: str | Sequence[str] = "auto"
    layers: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Check them (ConfigurationError): in a run, what can't be used would be a warning."""
        _check_count("Recall.limit", self.limit)
        if self.token_budget is not None:
            _check_count("Recall.token_budget", self.token_budget)
        if self.min_score is not None:
            _check_share("Recall.min_score", self.min_score)
        _check_seconds("Recall.timeout_s", self.timeout_s)
        check_words([self.where], ("message", "system"), "Recall.where")
        if self.memory_type != "auto":
            listed = [self.memory_type] if isinstance(self.memory_type, str) else self.memory_type
            check_words(listed, tuple(MemoryType), "Recall.memory_type")
        if self.layers is not None:
            check_words(self.layers, ("memory", "summary", "message"), "Recall.layers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """How what was said becomes memory.

    Attributes:
        memory_type: `auto`, `personal`, `procedural` or `tool`: what is distilled, where the memory has a chat model.
        close_s: Seconds that closing, and the end of the process, wait for what is still to be delivered.
    """

    memory_type: str = "auto"
    close_s: float = 5.0

    def __post_init__(self) -> None:
        """Check them (ConfigurationError)."""
        check_words([self.memory_type], ("auto", "personal", "procedural", "tool"), "Capture.memory_type")
        _check_seconds("Capture.close_s", self.close_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """When a context is compacted, and what stays of it.

    Attributes:
        max_tokens: System prompt, tools and messages may take so much together; at least 1,000.
        keep_tokens: So much of the newest messages stays.
        max_summary_tokens: Of the summary; None: a fifth of `max_tokens`, at most 4,000.
    """

    max_tokens: int = 80_000
    keep_tokens: int = 10_000
    max_summary_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers (ConfigurationError, InvalidInputError)."""
        _check_count("Compact.max_tokens", self.max_tokens, least=1_000)
        _ = self.limits

    @property
    def limits(self) -> ContextLimits:
        """The same in the core's form."""
        return ContextLimits(
            max_input_length=max(self.max_tokens, _LEAST_WINDOW),
            max_tokens=self.max_tokens,
            reserve_tokens=self.keep_tokens,
            max_summary_tokens=self.max_summary_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """Which tool results are put on disk, and what of them is shown.

    Attributes:
        over_chars: Results with more characters than this.
        head_chars: Shown of the beginning.
        tail_chars: Shown of the end.
    """

    over_chars: int = 8_000
    head_chars: int = 400
    tail_chars: int = 200

    def __post_init__(self) -> None:
        """Check the numbers (ConfigurationError)."""
        for name in ("head_chars", "tail_chars"):
            _check_count(f"Offload.{name}", getattr(self, name), least=0)
        _check_count("Offload.over_chars", self.over_chars, least=self.head_chars + self.tail_chars + 1)


def _check_count(name: str, value: object, *, least: int = 1) -> None:
    if type(value) is not int or value < least:
        msg = f"{name}: wanted a whole number of at least {least}, found {shown(value)}"
        raise ConfigurationError(msg)


def _check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        msg = f"{name}: wanted seconds above 0, found {shown(value)}"
        raise ConfigurationError(msg)


def _check_share(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        msg = f"{name}: wanted a number from 0 to 1, found {shown(value)}"
        raise ConfigurationError(msg)
