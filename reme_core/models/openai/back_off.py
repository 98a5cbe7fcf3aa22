"""Back-off between attempts of a request: exponential, with full jitter."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """Exponential back-off with full jitter, and what the endpoint asks for where it says so.

    Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015: of the variants compared, full
    jitter needs the fewest calls.

    Attributes:
        first_s: The first wait lies between 0 and this; each further one doubles the bound.
        longest_s: The bound never passes this.
        longest_asked_s: A `Retry-After` is honoured up to this.
        sleep: Waits for so many seconds.
        jitter: A random number in [0, 1).
    """

    first_s: float = 0.5
    longest_s: float = 20.0
    longest_asked_s: float = 60.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    def seconds(self, failures: int, asked_s: float | None) -> float:
        """Return the wait after so many failures (at least 1) in a row; `asked_s` is the endpoint's `Retry-After`.

        Where the endpoint names a time, up to `first_s` is added, so that its callers don't come back all at once.
        """
        if asked_s is not None:
            return min(asked_s, self.longest_asked_s) + self.jitter() * self.first_s
        doublings = min(failures - 1, 30)
        return self.jitter() * min(self.longest_s, self.first_s * float(1 << doublings))
