"""Parts that need no library and no file: a counter by characters, meters of cost."""

from __future__ import annotations

import threading
import time
from typing import Literal, Protocol, runtime_checkable

from reme_core.schema import Usage
from reme_core.schema.times import SystemClock as SystemClock
from reme_core.text import estimate_tokens


class CharacterTokenCounter:
    """Counts tokens from characters: an estimate, see `reme_core.text.estimate_tokens`. A `TokenCounter`."""

    def count(self, text: str) -> int:
        """Return the estimated number of tokens, 0 for an empty text."""
        return estimate_tokens(text)


@runtime_checkable
class Metered(Protocol):
    """A model that adds up what its calls have cost."""

    @property
    def usage(self) -> Usage:
        """The cost of all calls so far, failed ones included."""
        ...


class Tally:
    """Counts what one call costs, while it runs; `is_cut`: its answer was too long. The clock runs from the start."""

    def __init__(self) -> None:
        """Start counting."""
        self.attempts = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.is_cut = False
        self._started = time.perf_counter()
        self._milliseconds: float | None = None

    def usage(self, kind: Literal["chat", "embedding"]) -> Usage:
        """Return the cost. The first time stops the clock."""
        if self._milliseconds is None:
            self._milliseconds = (time.perf_counter() - self._started) * 1000
        return Usage(
            model_calls=self.attempts if kind == "chat" else 0,
            embedding_calls=self.attempts if kind == "embedding" else 0,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            milliseconds=self._milliseconds,
        )


class Meter:
    """Adds up costs; safe to use from several threads."""

    def __init__(self) -> None:
        """Start at nothing."""
        self._lock = threading.Lock()
        self._total = Usage()

    def add(self, usage: Usage) -> None:
        """Add the cost of one call."""
        with self._lock:
            self._total += usage

    @property
    def total(self) -> Usage:
        """The sum so far."""
        with self._lock:
            return self._total
