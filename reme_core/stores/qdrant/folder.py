"""A folder of Qdrant's local mode, which one client may have open."""

from __future__ import annotations

from pathlib import Path

import portalocker
from qdrant_client import AsyncQdrantClient

from reme_core.errors import StoreUnavailableError

_LOCK = ".lock"  # the name qdrant-client gives it


def open_folder(folder: Path) -> AsyncQdrantClient:
    """Open a folder unless somebody else has it open.

    The client asks for the lock itself, but where it is refused it leaves the lock's file open until the garbage is
    collected. So we ask first.

    Raises:
        StoreUnavailableError: Another client, of this process or another, has the folder open.
    """
    lock = folder / _LOCK
    if lock.is_file():
        with lock.open("r+b") as handle:
            try:
                portalocker.lock(handle, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
            except portalocker.exceptions.LockException as exc:
                msg = f"opening {str(folder)!r}: another client has this folder open; run a Qdrant server instead"
                raise StoreUnavailableError(msg) from exc
            portalocker.unlock(handle)
    return AsyncQdrantClient(path=str(folder))
