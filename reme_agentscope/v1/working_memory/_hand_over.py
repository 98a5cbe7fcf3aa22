"""Hand-over of what leaves a prompt to the long-term memory, since `record` at the end no longer sees it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import deepcopy

from agentscope.memory import LongTermMemoryBase
from agentscope.message import Msg

_LOG = logging.getLogger("reme_agentscope")


class LongTermHandOver:
    """Holds the long-term memory apart from the working memory, with whose state it would be saved otherwise."""

    def __init__(self, long_term: LongTermMemoryBase | None) -> None:
        """Keep it; None: nothing is handed over."""
        self._long_term = long_term
        self._owed: list[Msg] = []
        self._handed: set[str] = set()

    async def hand_over(self, msgs: Sequence[Msg]) -> None:
        """Hand over copies of messages, each once; what it fails to take comes again with the next ones, or none."""
        if self._long_term is None:
            return
        # What was to leave may have stayed all the same, and is to leave again.
        wanted = [*self._owed, *(deepcopy(msg) for msg in msgs if msg.id not in self._handed)]
        if not wanted:
            return
        self._handed.update(msg.id for msg in wanted)
        self._owed, is_taken = [], False
        try:
            await self._long_term.record(list(wanted))
            is_taken = True
        except Exception as exc:  # noqa: BLE001  # somebody else's code; the messages are in the working memory, whole
            _LOG.error("the long-term memory failed to record: %s", type(exc).__name__)
        finally:
            if not is_taken:  # where this was cancelled, too
                self._owed = [*wanted, *self._owed]
