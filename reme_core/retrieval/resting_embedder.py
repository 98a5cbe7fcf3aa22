"""An embedder that rests while it fails: words answer meanwhile, and nobody waits for it twice.

A circuit breaker (Nygard 2018, Release It!, second edition, chapter 5), in front of one embedder of one memory.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

import numpy as np

from reme_core.errors import ModelError, ModelOutputError, ModelUnavailableError
from reme_core.ports import Clock, Embedder, EmbedsQueries, Matrix, NamedEmbedder, Vector, embedder_name

_LOG = logging.getLogger("reme")


def checked_rows(embedder: Embedder, count: int, answer: object) -> Matrix:
    """Return an answer as float32 of shape (count, dimension), rows of unit norm; one that can't be so is zeros.

    Raises:
        ModelOutputError: It is not a matrix of that shape.
    """
    try:
        matrix = np.asarray(answer)
    except ValueError as exc:
        msg = f"the embedder answered {count} texts with rows of several lengths: check the model"
        raise ModelOutputError(msg, raw="") from exc
    if matrix.shape != (count, embedder.dimension) or matrix.dtype.kind not in "fiu":
        msg = (
            f"the embedder answered {count} texts with an array of {matrix.dtype} of shape {matrix.shape}, "
            f"wanted numbers of shape {(count, embedder.dimension)}: check its dimension"
        )
        raise ModelOutputError(msg, raw="")
    rows = matrix.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows has no finite norm, and so is left as zeros
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        usable = np.isfinite(norms) & (norms > 0)
        unit: Matrix = np.where(usable, rows / np.where(usable, norms, 1.0), 0.0).astype(np.float32)
    return unit


def unusable_vectors(count: int) -> str:
    """Say that the vectors of so many texts can't be used."""
    return f"the embedder gave zeros or values that are not finite for {count} text(s): check the model"


QUESTION_TIMEOUT_S = 1.5
"""How long a question waits for its vector. Hosted models answer a short text in 0.1 to 0.5 s; agents wait 2 s for what
they recall, by which words have to have answered."""

TEXTS_TIMEOUT_S, MORE_TEXTS_TIMEOUT_S = 10.0, 2.0
"""How long texts that are stored wait: the first one, and more for each further one, as a model on the CPU needs it."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""After a failure it is asked again after a second, and after each further one in a row twice as late, to a minute."""

_GIVEN_UP_S = 0.5
"""A caller who is cancelled after so long has waited in vain; one who goes earlier says nothing about the model."""


class CircuitBreaker:
    """Whether a part may be asked. Usable from any number of threads and event loops.

    Closed while the part works. A failure opens it; after the pause one call tries the part, while others are still
    refused, and its outcome closes the circuit or doubles the pause. What ends after the circuit has changed counts no
    more.
    """

    def __init__(self, clock: Clock) -> None:
        """Begin closed."""
        self._clock = clock
        self._lock = threading.Lock()
        self._failure: ModelError | None = None
        self._since = clock.now()
        self._pause_s = 0.0
        self._trying = False
        self._refused: ModelError | None = None
        self._state = 0

    def enter(self) -> int:
        """Return a ticket for one call, to be handed back by `succeed`, `fail` or `leave`.

        Raises:
            ModelUnavailableError: It is open; the words are those of the failure.
        """
        now = self._clock.now()
        with self._lock:
            if self._refused is not None:
                raise self._refused
            if self._failure is not None:
                if self._trying or self._is_resting(now):
                    raise ModelUnavailableError(self._failure.message) from self._failure
                self._trying = True
            return self._state

    def succeed(self, ticket: int) -> bool:
        """Close it; return whether it was open."""
        with self._lock:
            if ticket != self._state or self._failure is None:
                return False
            self._failure, self._trying = None, False
            self._state += 1
            return True

    def fail(self, ticket: int, error: ModelError) -> None:
        """Open it, or prolong the pause; the first failure of an outage is one line of the log."""
        now = self._clock.now()
        with self._lock:
            if ticket == self._state:
                self._open(now, error)

    def leave(self, ticket: int) -> None:
        """Say that a call has told nothing about the part."""
        with self._lock:
            if ticket == self._state:
                self._trying = False

    def rest(self, error: ModelError) -> None:
        """Open it for a failure that was noticed after a call; while it rests this changes nothing."""
        now = self._clock.now()
        with self._lock:
            if self._refused is None and (self._failure is None or not (self._trying or self._is_resting(now))):
                self._open(now, error)

    def wake(self) -> None:
        """Let the next call try it, however long the pause would still be."""
        with self._lock:
            self._since = self._clock.now() - timedelta(seconds=self._pause_s)

    def refuse(self, error: ModelError) -> None:
        """Refuse every call from now on; the first time is one line of the log."""
        with self._lock:
            if self._refused is None:
                _LOG.error("embedding: %s", error.message)
            self._refused = error

    @property
    def is_resting(self) -> bool:
        """Whether a call would be refused now."""
        now = self._clock.now()
        with self._lock:
            return self._refused is not None or (self._failure is not None and (self._trying or self._is_resting(now)))

    def _is_resting(self, now: datetime) -> bool:
        # A clock that was put back must not make the pause longer.
        return timedelta() <= now - self._since < timedelta(seconds=self._pause_s)

    def _open(self, now: datetime, error: ModelError) -> None:
        if self._failure is None:
            self._pause_s = FIRST_PAUSE_S
            _LOG.warning(
                "embedding: %s; texts are found by their words, vectors follow when it answers again: it is asked "
                "after a pause of %g to %g s",
                error.message,
                FIRST_PAUSE_S,
                LONGEST_PAUSE_S,
            )
        else:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._failure, self._since, self._trying = error, now, False
        self._state += 1


class RestingEmbedder:
    """Holds an embedder, and is one: while that fails it answers at once with the failure, see `CircuitBreaker`.

    What it refuses as a text, and not for itself (`ModelError` that is not retryable), is left to the caller, who says
    `rest` where the refusal is about more than that text.
    """

    def __init__(
        self,
        embedder: Embedder,
        clock: Clock,
        *,
        on_recovery: Callable[[], None] | None = None,
        question_timeout_s: float = QUESTION_TIMEOUT_S,
    ) -> None:
        """Keep them.

        Args:
            embedder: What may fail; it stays its owner's.
            clock: Measures the pauses.
            on_recovery: Called when it works again, in the event loop of the call that has found it so.
            question_timeout_s: How long a question waits.
        """
        self._embedder = embedder
        self._clock = clock
        self._circuit = CircuitBreaker(clock)
        self._on_recovery = on_recovery
        self._question_timeout_s = question_timeout_s
        self._last_question: tuple[str, Vector] | None = None

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._embedder.dimension

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return what the embedder does, its rows of unit norm; a row that can't be is left as zeros.

        Raises:
            ModelUnavailableError: It rests.
            ModelOutputError: The answer is not a matrix of the right shape, or has no row that can be used.
            ModelError: What the embedder raises.
        """
        wanted = list(texts)
        if not wanted:
            return await self._embedder.embed(wanted)
        timeout_s = TEXTS_TIMEOUT_S + MORE_TEXTS_TIMEOUT_S * (len(wanted) - 1)
        return await self._ask(lambda: self._embedder.embed(wanted), len(wanted), timeout_s)

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a question; raises as `embed`. One that is asked twice in a row is embedded once."""
        asked = self._last_question
        if asked is not None and asked[0] == text and not self.is_resting:
            return asked[1]

        async def ask() -> object:
            if isinstance(self._embedder, EmbedsQueries):
                return [await self._embedder.embed_query(text)]
            return await self._embedder.embed([text])

        vector: Vector = (await self._ask(ask, 1, self._question_timeout_s))[0]
        self._last_question = (text, vector)
        return vector

    def rest(self, error: ModelError) -> None:
        """Ask nothing for a while, for a failure that a caller has met."""
        self._circuit.rest(error)

    def refuse(self, error: ModelError) -> None:
        """Ask nothing any more: the vectors would not be comparable with those stored."""
        self._circuit.refuse(error)

    @property
    def name(self) -> str:
        """What its vectors go by; see `embedder_name`."""
        return embedder_name(self._embedder)

    def wake(self) -> None:
        """Ask with the next call, for somebody who wants to know now."""
        self._circuit.wake()

    @property
    def is_resting(self) -> bool:
        """Whether a call would be answered with the last failure, without asking."""
        return self._circuit.is_resting

    async def _ask(self, call: Callable[[], Awaitable[object]], count: int, timeout_s: float) -> Matrix:
        ticket, begun = self._circuit.enter(), self._clock.now()
        try:
            async with asyncio.timeout(timeout_s):
                rows = checked_rows(self._embedder, count, await call())
            if not rows.any():
                raise ModelOutputError(unusable_vectors(count), raw="")
        except ModelError as exc:
            if exc.retryable:
                self._circuit.fail(ticket, exc)
            raise
        except OSError as exc:  # no connection, or a time-out, of an embedder that maps no errors; ours, too
            what = f"no answer within {timeout_s:g} s" if isinstance(exc, TimeoutError) else type(exc).__name__
            failure = ModelUnavailableError(f"{self._name}: {what}")
            self._circuit.fail(ticket, failure)
            raise failure from exc
        except asyncio.CancelledError:
            if self._clock.now() - begun >= timedelta(seconds=_GIVEN_UP_S):
                self._circuit.fail(ticket, ModelUnavailableError(f"{self._name}: no answer before the caller gave up"))
            raise
        else:
            if self._circuit.succeed(ticket):
                _LOG.info("embedding: %s answers again", self._name)
                if self._on_recovery is not None:
                    self._on_recovery()
            return rows
        finally:
            self._circuit.leave(ticket)

    @property
    def _name(self) -> str:
        return (
            repr(self._embedder.model) if isinstance(self._embedder, NamedEmbedder) else type(self._embedder).__name__
        )
