"""Embedders of two models, and a process that changes from one to the other, and may be killed on its way."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from reme_core import ReMe
from reme_core.ports import Matrix, NewVectors
from reme_core.schema import Reembedded
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder

SPACE, USER, DIMENSION = "space", "alice", 16


class OtherEmbedder(HashedEmbedder):
    """A model of another name, none of whose vectors means what those of `HashedEmbedder` do."""

    model = "other"  # type: ignore[assignment]  # read as the property is

    async def embed(self, texts: Sequence[str]) -> Matrix:
        return np.ascontiguousarray(np.roll(await super().embed(texts), 1, axis=1))


class KilledStore(LocalStore):
    """Ends its process when it has taken so many batches of new vectors; None: never."""

    kill_after: int | None = None

    async def put_new_vectors(self, memory_space: str, put: NewVectors) -> None:
        await super().put_new_vectors(memory_space, put)
        if self.kill_after is not None:
            self.kill_after -= 1
            if not self.kill_after:
                os.kill(os.getpid(), signal.SIGKILL)


def run(folder: Path, kill_after: int | None, lines: Connection) -> None:
    """Change the model; say what was done."""

    async def work() -> Reembedded:
        store = KilledStore(folder / "memory.db", synchronous="NORMAL")
        store.kill_after = kill_after
        memory = ReMe(SPACE, folder, llm=None, embedding=OtherEmbedder(DIMENSION), vector_store=store)
        try:
            return await memory.reembed()
        finally:
            await memory.close()
            await store.close()

    lines.send(asyncio.run(work()))
