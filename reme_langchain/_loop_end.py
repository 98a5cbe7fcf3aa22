"""The end of a loop of ours."""

from __future__ import annotations

import asyncio


async def finish_tasks(timeout_s: float) -> None:
    """Wait for what was begun on this loop, the memory's work in the background, and stop what takes longer.

    What is stopped is on disk as a job, which the memory takes up again.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if not others:
        return
    _, late = await asyncio.wait(others, timeout=timeout_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=timeout_s)
