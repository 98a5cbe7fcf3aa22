"""Tool memory: what calls of tools came to, and guidelines that a chat model writes from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

import reme_core
from reme_agentscope._shared.memory_kind import CallScope, MemoryKind, Remembered, Words, harmless, warn, words_of
from reme_agentscope._shared.recorded_text import as_texts
from reme_core import Message
from reme_core.schema import Hit, MemoryType, TextBlock
from reme_core.schema.plain import clean_text

if TYPE_CHECKING:
    from reme_core import ToolCallResult, ToolMemory

_WORDS = Words(
    not_found="No tool guidelines found for: ",
    record_failed="Error recording tool messages to memory",
    retrieve_failed="Error retrieving tool guidelines",
    tool_record_failed="Error recording tool memory",
    tool_retrieve_failed="Error retrieving tool memory",
)
_FIELDS = ("create_time", "tool_name", "input", "output", "token_cost", "success", "time_cost")
_EXAMPLES = "Examples:"
_PAGE = 1000
_MOST_PAGES = 10


class ToolKind(MemoryKind):
    """Keeps calls with their results, and knows tools by their names."""

    words = _WORDS
    waits_for_results = True  # a call says nothing without its result

    async def keep(self, place: CallScope, messages: Sequence[Message], options: Mapping[str, object]) -> Sequence[str]:
        """Record the calls in messages, and those that are the text of one as JSON."""
        given = [call for message in messages for call in _calls_in(message)]
        recorded = await place.memory.add_tool_call_results(given, user_id=place.user_id, messages=messages)
        if place.memory.llm is None or not recorded.tool_names:
            return ()
        summary = await place.memory.summarize_tool_memory(recorded.tool_names, user_id=place.user_id, background=True)
        return summary.job_ids

    async def search(self, place: CallScope, query: str, limit: int) -> list[Hit]:
        """Return what is known of the tools that a text names, a result for each."""
        names = _names_in(query, await _tools(place))
        return await _known(place, names[:limit], limit)

    def line(self, hit: Hit) -> str:
        """Return the text about a tool, with its name as a heading."""
        return harmless(hit.memory)

    def text(self, hits: Sequence[Hit]) -> str:
        """Return the texts one after the other."""
        return "\n\n".join(map(self.line, hits))

    async def remember(
        self, place: CallScope, thinking: str, content: object, options: Mapping[str, object]
    ) -> Remembered:
        """Record calls that are handed in as JSON, and with a chat model write guidelines from them."""
        calls = list(_read(content))
        if not calls:
            return Remembered(text="No valid tool call results to record.")
        recorded = await place.memory.add_tool_call_results(calls, user_id=place.user_id)
        if place.memory.llm is not None:
            await place.memory.summarize_tool_memory(recorded.tool_names, user_id=place.user_id)
        results = "results" if len(calls) > 1 else "result"
        return Remembered(
            text=f"Successfully recorded {len(calls)} tool execution {results} and generated usage guidelines."
        )

    async def recall(self, place: CallScope, keywords: object, limit: int) -> str:
        """Return what is known of tools by name; a text that is no name is searched for the names in it."""
        asked = [clean_text(text) for text in as_texts(keywords)]
        known = frozenset(await _tools(place)) if asked else frozenset[str]()
        names = [name for text in asked for name in ([text] if text in known else _names_in(text, known)[:limit])]
        return (
            self.text(await _known(place, list(dict.fromkeys(names)), limit))
            or f"{self.words.not_found}{','.join(asked)}"
        )


async def _known(place: CallScope, names: Sequence[str], limit: int) -> list[Hit]:
    if not names:
        return []
    found = await place.memory.retrieve_tool_memory(names, user_id=place.user_id)
    return [
        Hit(
            memory=_shown(tool, limit),
            layer="memory",
            score=1.0,
            memory_type=MemoryType.TOOL,
            memory_target=tool.tool_name,
        )
        for tool in found.results
    ]


def _shown(tool: ToolMemory, limit: int) -> str:
    """Return the text about a tool with at most `limit` examples, which stand at its end."""
    head, mark, examples = tool.text.partition(f"\n{_EXAMPLES}\n")
    if not mark or tool.guideline:
        return tool.text
    return "\n".join([head, _EXAMPLES, *examples.splitlines()[:limit]])


def _names_in(text: str, tools: Sequence[str] | frozenset[str]) -> list[str]:
    """Return the tools whose name stands in a text, as it is or as words: `web_search` in "search the web"."""
    said = words_of(text)
    folded = text.casefold()
    names = []
    for name in sorted(tools):
        parts = words_of(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))
        literal = rf"(?<!\w){re.escape(name.casefold())}(?!\w)"
        if re.search(literal, folded) or (len(parts) > 1 and parts <= said):
            names.append(name)
    return names


async def _tools(place: CallScope) -> list[str]:
    """Return the names of tools that were called; of very many, those that come first by name."""
    names: list[str] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await place.memory.list_tools(user_id=place.user_id, limit=_PAGE, cursor=cursor)
        names += [name for name, _ in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            break
    return names


def _calls_in(message: Message) -> Iterator[ToolCallResult]:
    """Yield the calls that are the texts of a message as JSON; ordinary talk is none. Their ids follow from its own."""
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    for number, text in enumerate(texts):
        if not text.lstrip().startswith(("{", "[")) or '"tool_name"' not in text:
            continue
        for place, call in enumerate(_read([text])):
            call_id = f"{message.message_id[:480]}/{number}.{place}"
            fields: dict[str, object] = {"call_id": call_id, "message_ids": (message.message_id,)}
            if "create_time" not in call.model_fields_set:
                fields["create_time"] = message.created_at
            yield call.model_copy(update=fields)


def _read(content: object) -> Iterator[ToolCallResult]:
    """Yield the calls in what a model or a caller handed in; what is none is warned of by name, and left out."""
    items = content if isinstance(content, list | tuple) else [content]
    for item in items:
        if item is None or (isinstance(item, str) and not item.strip()):
            continue
        try:
            values = json.loads(clean_text(item)) if isinstance(item, str) else item
        except (ValueError, RecursionError) as exc:  # json's errors are ValueErrors
            _warn_of(item, str(exc))
            continue
        for value in values if isinstance(values, list) else [values]:
            try:
                call = _as_call(value)
            except (ValueError, RecursionError) as exc:  # pydantic's are, too
                _warn_of(
                    item, f"{exc.error_count()} fields are wrong" if isinstance(exc, ValidationError) else str(exc)
                )
            else:
                yield call


def _warn_of(item: object, reason: str) -> None:
    warn(f"Failed to parse tool call result JSON: {item}. Error: {reason}")


def _as_call(value: JsonValue | object) -> ToolCallResult:
    if not isinstance(value, Mapping):
        msg = f"wanted an object with tool_name, found {type(value).__name__}"
        raise ValueError(msg)  # noqa: TRY004  # told like any other error in the text
    fields = {name: value[name] for name in _FIELDS if value.get(name) is not None}
    if "output" in fields and not isinstance(fields["output"], str):
        fields["output"] = json.dumps(fields["output"], ensure_ascii=False, default=str)
    return reme_core.ToolCallResult.model_validate(fields)
