"""How tests run agents: with their sync API, from a thread, and with their async one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

THREAD = {"configurable": {"thread_id": "t1"}}


async def invoke(agent: Any, way: str, text: str, **options: Any) -> dict[str, Any]:
    given = {"messages": [{"role": "user", "content": text}]}
    if way == "async":
        return await agent.ainvoke(given, **options)
    return await asyncio.to_thread(agent.invoke, given, **options)


both_ways = pytest.mark.parametrize("way", ["sync", "async"])
