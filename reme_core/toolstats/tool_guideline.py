"""Guideline of a tool: the request with calls that stand for all, the check of the answer, the memory of it."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from pydantic import BeforeValidator, JsonValue

from reme_core.ports import ListToolCalls, MemoryFilter, ResponseSchema, Store
from reme_core.schema import Memory, MemoryType, Scope, ToolCallResult, ToolStatistics, shown_input
from reme_core.schema.checks import Text
from reme_core.schema.tool_calls import GUIDELINE_KIND
from reme_core.steps.ask_json import JsonQuestion, WrittenAnswer, none_as_empty, object_schema
from reme_core.steps.targets import all_memories
from reme_core.text import Language, fence, json_line, load_prompt, prompt_time, shortened

MOST_EXAMPLES = 30
"""Calls that a guideline is written from: some of each kind of failure, and as many successes."""

SHOWN_CHARS = 400
"""Characters that are shown of an input, and of an output: their heads and tails tell what was asked and came of it."""

_PER_ERROR = 3
# Of lines that are too long together less is shown of each; where the shortest are, the oldest are left out.
_SHORTER = (SHOWN_CHARS, 300, 200, 120, 60)
# As `shortened` writes it, and in which share of a text it puts it.
_NOTICE = re.compile(r" \[… (\d{1,12}) characters left out …\] ")
_HEAD_SHARE = 2 / 3


async def pick_examples(
    store: Store,
    scope: Scope,
    statistics: ToolStatistics,
    *,
    limit: int = MOST_EXAMPLES,
    max_chars: int = SHOWN_CHARS,
) -> tuple[ToolCallResult, ...]:
    """Return the latest failures of each frequent kind and the latest successes, newest first, no call twice.

    At most `limit` calls, at least 1. Failures take at most half of them, but one of each kind goes first where there
    is room for few; what one side can't fill is the other's.

    Outputs are cut to `max_chars` characters, and so are inputs that are longer as JSON, which become its text; a
    notice of what is left out comes on top. Calls may have megabytes, so they are cut once, and not on the loop.
    """
    name, picked = statistics.tool_name, dict[str, ToolCallResult]()

    async def take(query: ListToolCalls) -> None:
        page = await store.list_tool_calls(scope, query)
        for call in page.calls:
            if len(picked) < limit:
                picked.setdefault(call.call_id, call)

    kinds = statistics.errors[: limit - 1 if statistics.successes and limit > 1 else limit]
    each = max(1, min(_PER_ERROR, limit // 2 // len(kinds))) if kinds else 0
    for kind in kinds:
        await take(ListToolCalls(tool_name=name, success=False, error=kind.error, limit=each))
    if len(picked) < limit and statistics.successes:
        await take(ListToolCalls(tool_name=name, success=True, limit=limit - len(picked)))
    if len(picked) < min(limit, statistics.calls):
        await take(ListToolCalls(tool_name=name, success=False, limit=limit))
    newest_first = sorted(picked.values(), key=lambda call: (call.create_time, call.call_id), reverse=True)
    return await asyncio.to_thread(_cut, newest_first, max_chars)


def _cut(calls: Sequence[ToolCallResult], max_chars: int) -> tuple[ToolCallResult, ...]:
    return tuple(_cut_one(call, max_chars) for call in calls)


def _cut_one(call: ToolCallResult, max_chars: int) -> ToolCallResult:
    asked = shown_input(call.input)
    cut = {
        "input": call.input if len(asked) <= max_chars else shortened(asked, max_chars),
        "output": shortened(call.output, max_chars),
    }
    return call.model_copy(update=cut)


def shown_call(call: ToolCallResult, max_chars: int = SHOWN_CHARS) -> str:
    """Write a call as one line of JSON for a prompt; of input and output at most so many characters each."""
    line: dict[str, JsonValue] = {
        "at": prompt_time(call.create_time),
        "ok": call.success,
        "input": _shortened_again(shown_input(call.input), max_chars),
        "output": _shortened_again(call.output, max_chars),
    }
    return json_line(line)


def _shortened_again(text: str, max_chars: int) -> str:
    """Shorten a text that may have been shortened before; the notice counts all that is left out."""
    notice = _NOTICE.search(text)
    if notice is None:
        return shortened(text, max_chars)
    kept = text[: notice.start()] + text[notice.end() :]
    if len(kept) <= max_chars:
        return text
    head = int(max_chars * _HEAD_SHARE)
    left_out = int(notice[1]) + len(kept) - max_chars
    return f"{kept[:head]} [… {left_out} characters left out …] {kept[len(kept) - (max_chars - head) :]}"


def shown_calls(calls: Sequence[ToolCallResult], max_chars: int) -> str:
    """Write calls, newest first, as lines of JSON of at most `max_chars` characters together, whatever they hold.

    The calls are cut already; see `pick_examples`.
    """
    lines: list[str] = []
    for size in _SHORTER:
        lines = [shown_call(call, size) for call in calls]
        if sum(len(line) + 1 for line in lines) <= max_chars:
            return "\n".join(lines)
    while lines and sum(len(line) + 1 for line in lines) > max_chars:
        lines.pop()
    return "\n".join(lines)


PACKAGE = "reme_core.toolstats"
"""Where the prompts lie."""

KIND = GUIDELINE_KIND
"""What the metadata of a guideline has as its `kind`."""

MAX_REQUEST_CHARS = 24_000
"""Characters of the first request, whatever the calls hold: some 6,000 tokens, which leave room in a small window.

Asking once more adds the answer (2,000 characters at most) and what was wrong with it.
"""

MAX_WORDS = 200
"""Words of a guideline, headings included; see `word_count`."""

MAX_CHARS = 3000
"""Characters of a guideline: what is longer in so few words is data."""

# Of a guideline that somebody has made longer than ours are.
_SHOWN_BEFORE = 3000
# Tags and line breaks round the calls.
_AROUND = 200
_MOST_ITEMS = 12
# Han, kana and Hangul: scripts whose characters are counted, two for a word.
_COUNTED = re.compile("[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]")

_SECTIONS: Mapping[str, Mapping[Language, str]] = MappingProxyType(
    {
        "core_function": {"en": "Core function", "zh": "核心功能"},
        "success_patterns": {"en": "Success patterns", "zh": "成功模式"},
        "common_issues": {"en": "Common issues", "zh": "常见问题"},
        "best_practices": {"en": "Best practices", "zh": "最佳做法"},
    }
)


Items = Annotated[tuple[Text, ...], BeforeValidator(none_as_empty)]


class WrittenGuideline(WrittenAnswer):
    """A guideline as the model writes it; keys of its own say nothing."""

    core_function: Text
    success_patterns: Items = ()
    common_issues: Items = ()
    best_practices: Items = ()


def guideline_question(
    tool_name: str, examples: Sequence[ToolCallResult], before: str, language: Language
) -> JsonQuestion[str]:
    """Return what the model is asked: calls of the tool and the guideline before (may be empty), no statistics.

    The answer is read as the text of the guideline. The request has at most `MAX_REQUEST_CHARS` characters.
    """
    system = load_prompt(PACKAGE, "guideline", language).fill({})
    parts = [fence("tool", json_line({"name": tool_name}))]
    if before:
        parts.append(fence("guideline", _bounded_line(before)))
    room = MAX_REQUEST_CHARS - len(system) - sum(map(len, parts)) - _AROUND
    return JsonQuestion(
        system=system,
        user="\n".join([*parts, fence("calls", shown_calls(examples, room))]),
        schema=_SCHEMA,
        language=language,
        read=lambda value: read_guideline(value, language),
    )


def _bounded_line(text: str) -> str:
    """Write a text as a line of JSON that is no longer than texts of people and models are."""
    line, size = json_line({"text": shortened(text, _SHOWN_BEFORE)}), _SHOWN_BEFORE
    while len(line) > 2 * _SHOWN_BEFORE:
        size //= 2
        line = json_line({"text": shortened(text, size)})
    return line


_TEXT: JsonValue = {"type": "string"}
_LIST: JsonValue = {"type": "array", "items": {"type": "string"}}
_SCHEMA = ResponseSchema(
    name="guideline",
    schema=object_schema(
        {"core_function": _TEXT, "success_patterns": _LIST, "common_issues": _LIST, "best_practices": _LIST}
    ),
)


def read_guideline(value: JsonValue, language: Language) -> str:
    """Read an answer as the text of a guideline.

    Raises:
        ValueError: Saying what is wrong: no core function, or too long; a ValidationError for what is wrong with its
            form.
    """
    written = WrittenGuideline.model_validate(value)
    core = " ".join(written.core_function.split())
    if not core:
        msg = "core_function: say what the tool does and when to use it; it is empty"
        raise ValueError(msg)
    lists = (written.success_patterns, written.common_issues, written.best_practices)
    sections = [_heading("core_function", language, core)]
    for name, items in zip(list(_SECTIONS)[1:], lists, strict=True):
        if len(items) > _MOST_ITEMS:
            msg = f"{name}: {len(items)} of them, at most {_MOST_ITEMS}: only what matters"
            raise ValueError(msg)
        lines = [f"- {line}" for item in items if (line := " ".join(item.split()).lstrip("-*• "))]
        if lines:
            sections.append("\n".join([_heading(name, language, ""), *lines]))
    text = "\n".join(sections)
    words = word_count(text)
    if words > MAX_WORDS or len(text) > MAX_CHARS:
        msg = (
            f"the guideline has {words} words and {len(text)} characters with its headings, at most {MAX_WORDS} and "
            f"{MAX_CHARS} are kept: say less, in shorter sentences"
        )
        raise ValueError(msg)
    return text


def word_count(text: str) -> int:
    """Count words: what stands between blanks is one, and two characters of Chinese, Japanese or Korean are one."""
    counted, words = 0, 0
    for word in text.split():
        characters = len(_COUNTED.findall(word))
        counted += characters
        words += sum(any(map(str.isalnum, part)) for part in _COUNTED.split(word)) if characters else 1
    return words + math.ceil(counted / 2)


def _heading(name: str, language: Language, text: str) -> str:
    heading = _SECTIONS[name][language]
    return f"{heading}：{text}" if language == "zh" else f"{heading}: {text}".rstrip()


async def find_guideline(store: Store, scope: Scope, tool_name: str) -> Memory | None:
    """Return the memory that holds the guideline of a tool; of several, the one changed last."""
    wanted = MemoryFilter(types=(MemoryType.TOOL,), targets=(tool_name,), metadata={"kind": KIND})
    found = await all_memories(store, scope, wanted)
    return max(found, key=lambda memory: (memory.updated_at, memory.memory_id), default=None)


def written_from(guideline: Memory) -> int:
    """Return how many calls were recorded when a guideline was written; 0 where it doesn't say."""
    calls = guideline.metadata.get("calls")
    return calls if type(calls) is int and calls > 0 else 0
