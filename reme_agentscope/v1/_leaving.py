"""What leaves a prompt is handed to the long-term memory: `record` at the end of the reply no longer sees it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import deepcopy

from agentscope.memory import LongTermMemoryBase
from agentscope.message import Msg

_LOG = logging.getLogger("reme_agentscope")


class HandOver:
    """Holds the long-term memory apart from the working memory, with whose state it would be saved otherwise."""

    def __init__(self, long_term: LongTermMemoryBase | None) -> None:
        """Keep it; None: nothing is handed over."""
        self._long_term = long_term
        self._owed: list[Msg] = []

    async def hand_over(self, msgs: Sequence[Msg]) -> None:
        """Hand over copies of messages; what it fails to take is handed over again with the next ones, or none."""
        if self._long_term is None:
            return
        wanted = [*self._owed, *(deepcopy(msg) for msg in msgs)]
        if not wanted:
            return
        try:
            await self._long_term.record(list(wanted))
        except Exception as exc:  # noqa: BLE001  # somebody else's code; the messages are in the working memory, whole
            _LOG.error("the long-term memory failed to record: %s", type(exc).__name__)
            self._owed = wanted
        else:
            self._owed = []
