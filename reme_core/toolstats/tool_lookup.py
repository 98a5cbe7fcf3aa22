"""Lookup of what is known of tools by their exact names, and its plain text for a prompt or for people."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

from reme_core.ports import ListMemories, MemoryFilter, Store
from reme_core.schema import (
    Memory,
    MemoryType,
    Scope,
    ToolCallResult,
    ToolMemories,
    ToolMemory,
    ToolStatistics,
    shown_input,
)
from reme_core.text import Language, prompt_language, shortened
from reme_core.toolstats.tool_guideline import find_guideline, pick_examples, written_from

MAX_TOOL_CHARS = 6000
"""Characters of the text of one tool: a few of them fit into a prompt."""

MAX_TEXT_CHARS = 60_000
"""Characters of the texts of several tools together: ten of the longest ones."""

# The last line, which names the tools that are left out.
_LAST_LINE_CHARS = 1000
# The guideline has half of the room, whoever has written it; ours are shorter.
_GUIDELINE_CHARS = 3000
_LINE_CHARS = 300
_NAME_CHARS = 256
_STATISTICS: Mapping[Language, str] = MappingProxyType({"en": "Statistics:", "zh": "统计："})
_NOTES, _EXAMPLES = "Notes:", "Examples:"
_HEADINGS = frozenset({*_STATISTICS.values(), _NOTES, _EXAMPLES})
# A line of somebody else that reads as our heading, however it is adorned.
_FORGED = re.compile(r"[\W_]*(?:statistics|统计)[\W_]*", re.IGNORECASE)
# What makes a line the heading of a tool, behind blanks, also those nobody sees; and what makes it an item of a list.
_UNSEEN = r"\s>\u200b-\u200f\u2060\ufeff"
_HEADING_MARKS = re.compile(rf"[{_UNSEEN}]*[#＃][{_UNSEEN}#＃]*")
_BULLET = re.compile(r"\s*[-*+•]\s+")


def statistics_lines(statistics: ToolStatistics) -> list[str]:
    """Write what calls add up to, a line for each thing that is known; none without calls."""
    if not statistics.calls:
        return []
    lines = [f"Calls: {statistics.calls}, {_percent(statistics)} succeeded"]
    if statistics.mean_time_s is not None and statistics.p95_time_s is not None:
        mean, p95 = _seconds(statistics.mean_time_s), _seconds(statistics.p95_time_s)
        lines.append(f"Time: mean {mean}, p95 {p95} ({statistics.timed_calls} timed)")
    if statistics.mean_tokens is not None:
        lines.append(f"Tokens: mean {statistics.mean_tokens:.0f}")
    errors = [f"{error.count} x {error.error}" for error in statistics.errors]
    if statistics.other_errors:
        errors.append(f"{statistics.other_errors} of other kinds")
    if errors:
        lines.append(f"Errors: {', '.join(errors)}")
    return lines


def tool_text(
    statistics: ToolStatistics, guideline: str, notes: Sequence[Memory], examples: Sequence[ToolCallResult]
) -> str:
    """Write all that is known of a tool: guideline, statistics, notes and examples, as far as there are any.

    Our figures stand under a heading of their own, in the language of the guideline. From the guideline, whoever wrote
    it, lines that are this heading are left out, and no line of it or of a note is a heading with `#`, so that nothing
    of it stands under our heading or looks like another tool. At most `MAX_TOOL_CHARS` characters:
    what comes last is left out first, by whole lines.
    """
    lines = [f"## {_one_line(statistics.tool_name, _NAME_CHARS)}"]
    written = _cut(guideline, _GUIDELINE_CHARS)
    lines += _guideline_lines(written)
    if figures := statistics_lines(statistics):
        lines += [_STATISTICS[prompt_language([written])], *figures]
    lines += _listed(_NOTES, (_without_marks(note.content) for note in notes))
    lines += _listed(_EXAMPLES, map(_example, examples))
    text: list[str] = []
    room = MAX_TOOL_CHARS
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return "\n".join(text[:-1] if text[-1] in _HEADINGS else text)
        text.append(line)
    return "\n".join(text)


def _guideline_lines(guideline: str) -> Iterable[str]:
    for line in guideline.splitlines():
        bullet = _BULLET.match(line)
        start = bullet[0] if bullet else ""
        text = _without_marks(line[len(start) :])
        if not _FORGED.fullmatch(text):
            yield start + text


def _without_marks(text: str) -> str:
    marks = _HEADING_MARKS.match(text)
    return text[marks.end() :] if marks else text


def joined_texts(memories: Sequence[ToolMemory]) -> str:
    """Join the texts of tools; at most `MAX_TEXT_CHARS` characters.

    Whole tools are left out from the end, and named in a last line.
    """
    texts = [memory.text for memory in memories]
    if _fitting(texts, MAX_TEXT_CHARS) == len(texts):
        return "\n\n".join(texts)
    count = _fitting(texts, MAX_TEXT_CHARS - _LAST_LINE_CHARS)
    names = [_one_line(memory.tool_name, _NAME_CHARS) for memory in memories[count:]]
    return "\n\n".join([*texts[:count], _left_out(names)])


def _fitting(texts: Sequence[str], max_chars: int) -> int:
    """Return how many texts from the first on fit into so many characters, two between each."""
    return bisect_right(list(accumulate(len(text) + 2 for text in texts)), max_chars)


def _left_out(names: Sequence[str]) -> str:
    """Name tools on a line of less than `_LAST_LINE_CHARS` characters."""
    told = names[: _fitting(names, _LAST_LINE_CHARS - 100)]
    more = f" and {len(names) - len(told)} more" if len(told) < len(names) else ""
    return f"Left out for their length: {', '.join(told)}{more}"


def _listed(heading: str, texts: Iterable[str]) -> list[str]:
    lines = [f"- {_one_line(text, _LINE_CHARS)}" for text in texts]
    return [heading, *lines] if lines else []


def _example(call: ToolCallResult) -> str:
    outcome = "succeeded" if call.success else "failed"
    # Each is cut by itself: a long input must not take the room of the answer.
    asked, said = (_one_line(text, _LINE_CHARS // 2 - 10) for text in (shown_input(call.input), call.output))
    return f"{outcome}: {asked} -> {said}"


def _one_line(text: str, max_chars: int) -> str:
    # Of megabytes only what may be shown is gone through.
    return _cut(" ".join(_cut(text, 4 * max_chars).split()), max_chars)


def _cut(text: str, max_chars: int) -> str:
    """Cut a text so that it has at most so many characters, the notice of what is left out included."""
    if len(text) <= max_chars:
        return text
    notice = len(f" [… {len(text)} characters left out …] ")
    return shortened(text, max(max_chars - notice, 1))


def _percent(statistics: ToolStatistics) -> str:
    """Write the share of successes; neither 0 nor 100 where it is only nearly so."""
    share = f"{100 * statistics.successes / statistics.calls:.1f}"
    if share == "100.0":
        return "100 %" if statistics.successes == statistics.calls else "over 99.9 %"
    if share == "0.0":
        return "0 %" if not statistics.successes else "under 0.1 %"
    return f"{share} %"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value:.2g} s"


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
