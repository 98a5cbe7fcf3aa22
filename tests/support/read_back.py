"""A question to a memory, asked by another process."""

from __future__ import annotations

import asyncio
from pathlib import Path


def found_in(folder: Path, space: str, user_id: str, query: str) -> str:
    """Open the memory of a folder and return what it finds."""
    from reme_core import ReMe  # in the other process

    async def ask() -> str:
        async with ReMe(space, folder, llm=None, embedding=None) as memory:
            return (await memory.retrieve(query, user_id=user_id)).text

    return asyncio.run(ask())
