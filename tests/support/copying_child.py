"""A copy in a process of its own, which says how far it is."""

from __future__ import annotations

import asyncio
from multiprocessing.connection import Connection

from reme_core.stores import Chosen, CopyRequest, run_copy


def run(source: str, target: str, sender: Connection) -> None:
    """Copy a space; send each step of progress."""
    request = CopyRequest(source=source, target=target, chosen=Chosen(spaces=("space",)))
    asyncio.run(run_copy(request, progress=lambda done, _: sender.send(done)))
    sender.close()
