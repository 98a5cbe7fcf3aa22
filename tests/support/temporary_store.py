"""A local store in a folder of its own, which goes with it."""

from __future__ import annotations

import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp

from reme_core.stores import LocalStore


class TemporaryStore(LocalStore):
    """A local store for tests that don't care where it lies; nobody has to close it."""

    def __init__(self) -> None:
        folder = Path(mkdtemp(prefix="reme-"))
        super().__init__(folder / "memory.db", synchronous="NORMAL")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
