"""Lookup of what is known of tools, by their exact names."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.ports import ListMemories, MemoryFilter, Store
from reme_core.schema import Memory, MemoryType, Scope, ToolCallResult, ToolMemories, ToolMemory, ToolStatistics
from reme_core.toolstats.example_calls import pick_examples
from reme_core.toolstats.tool_guideline import find_guideline, written_from
from reme_core.toolstats.tool_text import joined_texts, tool_text

MOST_NOTES = 10
"""Memories about a tool beside its guideline; the newest."""

MOST_EXAMPLES = 5
"""Calls that stand in for a guideline."""

EXAMPLE_CHARS = 300
"""Characters of an example's output, and of an input that is longer; a notice of what is left out comes on top."""


async def retrieve_tool_memories(store: Store, scope: Scope, names: Sequence[str]) -> ToolMemories:
    """Return what is known of tools, in the order asked, each once; those of which nothing is known are `missing`.

    Names are compared character by character, blanks at their ends apart. `tool_calls` is None where nothing keeps
    calls: memories are found all the same.
    """
    wanted = list(dict.fromkeys(name.strip() for name in names))
    results: list[ToolMemory] = []
    missing: list[str] = []
    for statistics in await store.tool_statistics(scope, wanted) if wanted else ():
        found = await _tool_memory(store, scope, statistics)
        if statistics.calls or found.memory_id is not None or found.notes:
            results.append(found)
        else:
            missing.append(statistics.tool_name)
    return ToolMemories(results=tuple(results), missing=tuple(missing), text=joined_texts(results))


async def tool_memory(store: Store, scope: Scope, tool_name: str) -> ToolMemory:
    """Return what is known of one tool; of an unknown one, its name and statistics without calls."""
    [statistics] = await store.tool_statistics(scope, [tool_name.strip()])
    return await _tool_memory(store, scope, statistics)


async def _tool_memory(store: Store, scope: Scope, statistics: ToolStatistics) -> ToolMemory:
    guideline = await find_guideline(store, scope, statistics.tool_name)
    notes = await _notes(store, scope, statistics.tool_name, guideline)
    examples: tuple[ToolCallResult, ...] = ()
    if guideline is None and statistics.calls:
        picked = await pick_examples(store, scope, statistics, limit=MOST_EXAMPLES, max_chars=EXAMPLE_CHARS)
        examples = tuple(sorted(picked, key=lambda call: call.success))
    content = "" if guideline is None else guideline.content
    return ToolMemory(
        tool_name=statistics.tool_name,
        guideline=content,
        memory_id=None if guideline is None else guideline.memory_id,
        new_calls=_new_calls(guideline, statistics),
        notes=notes,
        statistics=statistics,
        examples=examples,
        text=tool_text(statistics, content, notes, examples),
    )


async def _notes(store: Store, scope: Scope, tool_name: str, guideline: Memory | None) -> tuple[Memory, ...]:
    about = MemoryFilter(types=(MemoryType.TOOL,), targets=(tool_name,))
    page = await store.list_memories(scope, ListMemories(filter=about, limit=MOST_NOTES + 1))
    others = [memory for memory in page.memories if guideline is None or memory.memory_id != guideline.memory_id]
    return tuple(others[:MOST_NOTES])


def _new_calls(guideline: Memory | None, statistics: ToolStatistics) -> int:
    """Return how many calls the guideline knows nothing of: all, if it was written from others than these."""
    known = 0 if guideline is None else written_from(guideline)
    return statistics.calls - known if known <= statistics.calls else statistics.calls
