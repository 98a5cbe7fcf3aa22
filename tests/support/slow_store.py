"""A local store whose appends take as long as a test wants."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from reme_core import LocalStore
from reme_core.ports import Appended, AppendMessages
from reme_core.schema import Scope

_MOST_S = 20.0


class SlowStore(LocalStore):
    """Begins an append, and does it when `may_write` is set; everything else is done at once."""

    def __init__(self, folder: Path) -> None:
        """Keep the folder in which the file lies; writes wait from the beginning."""
        super().__init__(folder / "memory.db")
        self.may_write = threading.Event()
        self.begun = 0

    async def append(self, scope: Scope, request: AppendMessages) -> Appended:
        """Append when it may."""
        self.begun += 1
        await asyncio.to_thread(self.may_write.wait, _MOST_S)
        return await super().append(scope, request)
