"""Tool calls that were made, what they add up to, and what calls about them answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated

from pydantic import Field, JsonValue, ValidationError, model_validator

from reme_core.errors import InvalidInputError
from reme_core.schema.checks import Id, Json, Metadata, Text, checked_again, describe, kind_of
from reme_core.schema.mapping import MappingModel, Usage
from reme_core.schema.memories import Memory, MemoryType
from reme_core.schema.scope import new_id
from reme_core.schema.times import UtcTime, utc_now

MAX_CALL_BYTES = 1 << 23
"""Input and output of one call together, as UTF-8; as much as one message."""

_MOST_SECONDS = 1e9

GUIDELINE_KIND = "guideline"
"""What the metadata of the memory with a tool's guideline has as its `kind`."""

GUIDELINE_KEYS = frozenset({"kind", "calls"})
"""Keys by which the metadata of a memory about a tool says that it is a guideline, and from how many calls; ours."""

ToolName = Annotated[Id, Field(max_length=256)]
"""The name of a tool, as models write it; compared character by character."""


class ToolCallResult(MappingModel):
    """One call of a tool, and what came of it.

    Attributes:
        call_id: Unique within the scope; random unless given. A call that is recorded already is not recorded again.
        create_time: When it was made; now unless given.
        tool_name: The tool.
        input: Its arguments: a JSON value, or what the model wrote where that is none.
        output: What it answered; for a failed call, the error.
        token_cost: Tokens that the call took, None where nobody counted them.
        success: Whether it did what it was called for. Left out, it is told from the output when
            `add_tool_call_results` records the call: one that looks like an error has failed. Until then it is true.
        time_cost: Seconds that it took, None where nobody measured them.
        message_ids: The messages that it was taken from: that with the call, that with the result.
        metadata: A JSON object; kept.
    """

    call_id: Id = Field(default_factory=new_id)
    create_time: UtcTime = Field(default_factory=utc_now)
    tool_name: ToolName
    input: Json = Field(default_factory=dict)
    output: Text = ""
    token_cost: Annotated[int, Field(ge=0, le=1 << 53)] | None = None
    success: bool = True
    time_cost: Annotated[float, Field(ge=0, le=_MOST_SECONDS, allow_inf_nan=False)] | None = None
    message_ids: tuple[Id, ...] = ()
    metadata: Metadata = Field(default_factory=dict)

    @model_validator(mode="after")
    def _bounded(self) -> ToolCallResult:
        size = len(self.output.encode()) + len(json.dumps(self.input, ensure_ascii=False).encode())
        if size > MAX_CALL_BYTES:
            msg = f"input and output have {size} bytes, at most {MAX_CALL_BYTES} are kept of one call: cut the output"
            raise ValueError(msg)
        return self


def parse_tool_call_results(items: object) -> tuple[ToolCallResult, ...]:
    """Read calls from `ToolCallResult` objects, dictionaries and texts of JSON; objects are checked again.

    Raises:
        InvalidInputError: Naming the place (`results[3].time_cost`) and the reason; one bad call refuses all.
    """
    if isinstance(items, (str, bytes, Mapping, ToolCallResult)) or not isinstance(items, Iterable):
        msg = f"results: wanted a list of tool call results, found {kind_of(items)}"
        raise InvalidInputError(msg)
    calls = tuple(_parse_one(item, f"results[{index}]") for index, item in enumerate(items))
    seen: set[str] = set()
    for index, call in enumerate(calls):
        if call.call_id in seen:
            msg = f"results[{index}].call_id: {call.call_id!r} stands twice in one call: ids are unique"
            raise InvalidInputError(msg)
        seen.add(call.call_id)
    return calls


def _parse_one(item: object, where: str) -> ToolCallResult:
    if isinstance(item, ToolCallResult):
        return checked_again(item, ToolCallResult, where)
    if isinstance(item, str):
        item = _read_json(item, where)
    if not isinstance(item, Mapping):
        msg = f"{where}: wanted a ToolCallResult or a dictionary, found {kind_of(item)}"
        raise InvalidInputError(msg)
    try:
        return ToolCallResult.model_validate({key: value for key, value in item.items() if value is not None})
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, where, form=ToolCallResult)) from exc


def _read_json(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        msg = f"{where}: a text has to be a JSON object with the fields of a call ({str(exc)[:80]})"
        raise InvalidInputError(msg) from exc


class ToolError(MappingModel):
    """One kind of failure of a tool.

    Attributes:
        error: What the failures have in common; see `reme_core.text.error_class`.
        count: How many calls ended so.
        last_at: When one ended so last.
    """

    error: str
    count: int
    last_at: datetime


class ToolStatistics(MappingModel):
    """What the calls of one tool add up to; exact at the time of asking, all calls counted.

    Attributes:
        tool_name: The tool.
        calls: How many calls were recorded.
        successes: How many of them succeeded.
        success_rate: `successes / calls`; None without calls.
        timed_calls: Calls whose time is known.
        mean_time_s: Their mean, in seconds (correctly rounded sum over number); None without any.
        p95_time_s: Their 95th percentile by nearest rank: the ceil(0.95 n)-th smallest; None without any.
        token_calls: Calls whose tokens are known.
        tokens: The tokens of these together.
        mean_tokens: `tokens / token_calls`; None without any.
        errors: The most frequent failures, at most five; ties: the latest first.
        other_errors: Failures of further kinds.
        first_at: When the earliest call was made.
        last_at: When the latest one was made.
    """

    tool_name: str
    calls: int = 0
    successes: int = 0
    success_rate: float | None = None
    timed_calls: int = 0
    mean_time_s: float | None = None
    p95_time_s: float | None = None
    token_calls: int = 0
    tokens: int = 0
    mean_tokens: float | None = None
    errors: tuple[ToolError, ...] = ()
    other_errors: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None


class RecordedToolCalls(MappingModel):
    """The answer of `add_tool_call_results`; the calls are on disk when it is returned.

    Attributes:
        call_ids: The calls handed in, or found in the messages, in order.
        known_call_ids: Those of them that were recorded already, and so were not recorded again.
        tool_names: The tools that were called, each once, in the order of their first call.
        open_call_ids: Of messages: ids of tool calls whose results are not among them.
        skipped_call_ids: Of messages: ids of tool calls that are not recorded, because what they call can be no name of
            a tool: it is empty, longer than 256 characters or has control characters.
    """

    call_ids: tuple[str, ...] = ()
    known_call_ids: tuple[str, ...] = ()
    tool_names: tuple[str, ...] = ()
    open_call_ids: tuple[str, ...] = ()
    skipped_call_ids: tuple[str, ...] = ()


class ToolMemory(MappingModel):
    """What is known of one tool.

    Attributes:
        tool_name: The tool.
        guideline: How to use it, written by a model from calls of it; empty where none was written.
        memory_id: The memory that holds the guideline.
        new_calls: Calls recorded since the guideline was written; all of them where there is none.
        notes: Other current memories about the tool, newest first; bounded.
        statistics: What its calls add up to, computed by us.
        examples: Some calls, failures of each kind first, cut to a readable length; only where there is no guideline.
        text: All of it as plain text, to put into a prompt; bounded.
    """

    tool_name: str
    guideline: str = ""
    memory_id: str | None = None
    new_calls: int = 0
    notes: tuple[Memory, ...] = ()
    statistics: ToolStatistics
    examples: tuple[ToolCallResult, ...] = ()
    text: str = ""


class ToolMemories(MappingModel):
    """The answer of `retrieve_tool_memory`.

    Attributes:
        results: What is known, in the order asked.
        missing: Names of which nothing is known.
        text: The texts of the results, to put into a prompt; at most 60,000 characters. What has no room is left out,
            whole tools from the end, and its last line names them.
    """

    results: tuple[ToolMemory, ...] = ()
    missing: tuple[str, ...] = ()
    text: str = ""


class ToolSummary(MappingModel):
    """The answer of `summarize_tool_memory`; all of it is on disk when it is returned.

    Attributes:
        memories: The guidelines written.
        results: What is known of each tool now; without a model: statistics, kinds of errors and examples.
        unchanged: Tools of which no call was recorded since their guideline was written.
        missing: Names of which no call is recorded.
        run_ids: The runs that wrote, for `undo`.
        job_ids: Work that is still to be done, after a failure.
        usage: What it cost.
        degraded: What failed and was done without, one short sentence each; empty where nothing did.
    """

    memories: tuple[Memory, ...] = ()
    results: tuple[ToolMemory, ...] = ()
    unchanged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    run_ids: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    usage: Usage = Usage()
    degraded: tuple[str, ...] = ()


def is_guideline(memory: Memory) -> bool:
    """Tell whether a memory is the guideline of a tool: only `summarize_tool_memory` writes it, and people may."""
    return memory.memory_type is MemoryType.TOOL and memory.metadata.get("kind") == GUIDELINE_KIND


def shown_input(value: JsonValue) -> str:
    """Write the input of a call on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
