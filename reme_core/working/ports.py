"""Ports that working memory stands on."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from reme_core.ports import ChatModel, Clock, Store, SummaryRequest
from reme_core.schema import Scope, SummaryResult
from reme_core.working.tokens import TokenLedger

_MOST_HELD = 1000

Keep: TypeAlias = Callable[[Scope, SummaryRequest], Awaitable[SummaryResult]]


class HeldContexts:
    """What contexts were said to refer to by this process, the last thousand: so that it is said once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._held: dict[tuple[Scope, str], frozenset[str]] = {}
        self._gate = threading.Lock()

    def holds(self, scope: Scope, session_id: str, references: frozenset[str]) -> bool:
        """Tell whether a session was said to refer to all of these."""
        return references <= self._held.get((scope, session_id), frozenset())

    def remember(self, scope: Scope, session_id: str, references: frozenset[str]) -> None:
        """Remember what a session refers to now, in place of what it did."""
        with self._gate:
            self._held.pop((scope, session_id), None)
            self._held[scope, session_id] = references
            while len(self._held) > _MOST_HELD:
                del self._held[next(iter(self._held))]

    def forget(self, scope: Scope, session_id: str) -> None:
        """Forget a session: it is closed."""
        with self._gate:
            self._held.pop((scope, session_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingPorts:
    """What working memory stands on.

    Attributes:
        store: Where tool results and pointers at messages go, and messages are found again.
        keep: Takes messages over for good: they are on disk when it returns, and what follows from them is a job.
        model: Writes summaries; None: they are extracts of what was said.
        ledger: Counts tokens.
        clock: Tells the time.
        held: What contexts were said to refer to.
    """

    store: Store
    keep: Keep
    model: ChatModel | None
    ledger: TokenLedger
    clock: Clock
    held: HeldContexts
