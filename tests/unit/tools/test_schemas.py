"""Names and arguments of the tools are those of the design, in every form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from reme_core.errors import ConfigurationError, InvalidInputError, ToolFeedback
from reme_core.ports import Tool
from reme_core.schema import MemoryType
from reme_core.tools import (
    AddHistoryMemoryOp,
    AddMemoryOp,
    AddMetaMemoryOp,
    AddSummaryMemoryOp,
    BaseMemoryToolOp,
    DatetimeToolOp,
    DeleteMemoryOp,
    HandsOffOp,
    MemoryInsertOp,
    MemoryReplaceOp,
    MemoryRethinkOp,
    ReadHistoryMemoryOp,
    ReadIdentityMemoryOp,
    ReadMetaMemoryOp,
    ReloadOp,
    RetrieveBlockOp,
    RetrieveMessageOp,
    ReviseMemoryOp,
    ThinkToolOp,
    TimeAwareRetrieveOp,
    ToolItem,
    UpdateIdentityMemoryOp,
    UpdateMemoryOp,
    VectorRetrieveMemoryOp,
)
from reme_core.tools.base import parameters_of, read_arguments
from tests.support.toolbox import NotingAgent, every_tool

TARGET = ["memory_type", "memory_target"]
TIMES = ["valid_from", "valid_to"]
AGENTS: dict[str, Any] = {"agents": [NotingAgent()]}
# Tool, options, name, arguments of an item (an asterisk: required), name of the list in multiple mode.
TABLE: list[tuple[Any, dict[str, Any], str, list[str], str | None]] = [
    (AddMemoryOp, {}, "add_memory", ["memory_content*", *TIMES, "metadata"], "memories"),
    (
        AddMemoryOp,
        {"add_when_to_use": True},
        "add_memory",
        ["when_to_use", "memory_content*", *TIMES, "metadata"],
        "memories",
    ),
    (AddMemoryOp, {"add_metadata": False}, "add_memory", ["memory_content*", *TIMES], "memories"),
    (UpdateMemoryOp, {}, "update_memory", ["memory_id*", "memory_content*", *TIMES, "metadata"], "memories"),
    (
        UpdateMemoryOp,
        {"keep_past": True, "add_metadata": False},
        "update_memory",
        ["memory_id*", "memory_content*", "changed", *TIMES],
        "memories",
    ),
    (DeleteMemoryOp, {}, "delete_memory", ["memory_id*"], "memory_ids"),
    (VectorRetrieveMemoryOp, {}, "vector_retrieve_memory", ["query*"], "query_items"),
    (
        VectorRetrieveMemoryOp,
        {"add_memory_type_target": True},
        "vector_retrieve_memory",
        ["query*", *TARGET],
        "query_items",
    ),
    (AddMetaMemoryOp, {}, "add_meta_memory", ["memory_type*", "memory_target*"], "meta_memories"),
    (ReadMetaMemoryOp, {}, "read_meta_memory", [], None),
    (AddHistoryMemoryOp, {}, "add_history_memory", ["messages*"], None),
    (ReadHistoryMemoryOp, {}, "read_history_memory", ["memory_id*"], "memory_ids"),
    (AddSummaryMemoryOp, {}, "add_summary_memory", ["summary_memory*", "metadata"], None),
    (ReadIdentityMemoryOp, {}, "read_identity_memory", [], None),
    (UpdateIdentityMemoryOp, {}, "update_identity_memory", ["identity_memory*"], None),
    (MemoryInsertOp, {}, "memory_insert", ["label*", "new_str*", "insert_line"], None),
    (MemoryReplaceOp, {}, "memory_replace", ["label*", "old_str*", "new_str*"], None),
    (MemoryRethinkOp, {}, "memory_rethink", ["label*", "new_memory*"], None),
    (ThinkToolOp, {}, "think_tool", ["reflection*"], None),
    (RetrieveBlockOp, {}, "retrieve_block", ["block_id*"], None),
    (RetrieveMessageOp, {}, "retrieve_message", ["key_word", "start_time", "end_time", "limit"], None),
    (TimeAwareRetrieveOp, {}, "time_aware_retrieve", ["start_time*", "end_time*"], None),
    (DatetimeToolOp, {}, "datetime_tool", [], None),
    (ReviseMemoryOp, {}, "revise_memory", [], None),
    (ReloadOp, {}, "reload", ["reference", "query", "start_line", "end_line", "offset"], None),
]
PLAIN = {"memory_ids"}


def told(schema: dict[str, Any]) -> list[str]:
    required = schema.get("required", [])
    return [f"{name}*" if name in required else name for name in schema["properties"]]


def function(tool: BaseMemoryToolOp[Any]) -> dict[str, Any]:
    schema: Any = tool.schema()
    assert schema["type"] == "function"
    found: dict[str, Any] = schema["function"]
    return found


@pytest.mark.parametrize(("make", "options", "name", "fields", "listed"), TABLE)
def test_single_arguments_are_those_of_the_design(
    make: Any, options: dict[str, Any], name: str, fields: list[str], listed: str | None
) -> None:
    tool = make(enable_multiple=False, **options)
    assert isinstance(tool, Tool)
    assert function(tool)["name"] == tool.name == tool.spec().name == name
    assert function(tool)["description"] == tool.description
    assert told(function(tool)["parameters"]) == fields


@pytest.mark.parametrize(("make", "options", "name", "fields", "listed"), TABLE)
def test_multiple_arguments_are_those_of_the_design(
    make: Any, options: dict[str, Any], name: str, fields: list[str], listed: str | None
) -> None:
    parameters = function(make(**options))["parameters"]
    if listed is None:
        assert told(parameters) == fields
        return
    assert told(parameters) == [f"{listed}*"]
    items = parameters["properties"][listed]["items"]
    assert items == {"type": "string"} if listed in PLAIN else told(items) == fields


@pytest.mark.parametrize(("make", "options", "name", "fields", "listed"), TABLE)
@pytest.mark.parametrize("multiple", [True, False])
def test_thinking_comes_first_and_is_required(
    make: Any, options: dict[str, Any], name: str, fields: list[str], listed: str | None, *, multiple: bool
) -> None:
    tool = make(enable_thinking_params=True, enable_multiple=multiple, **options)
    expected = [f"{listed}*"] if multiple and listed else fields
    assert told(function(tool)["parameters"]) == ["thinking*", *expected]


@pytest.mark.parametrize("thinking", [False, True])
def test_handing_on_takes_targets_or_a_reason_why_there_are_none(*, thinking: bool) -> None:
    first = ["thinking*"] * thinking
    single = HandsOffOp(enable_multiple=False, enable_thinking_params=thinking, **AGENTS)
    assert isinstance(single, Tool)
    assert told(function(single)["parameters"]) == [*first, *TARGET, "reason"]
    multiple = function(HandsOffOp(enable_thinking_params=thinking, **AGENTS))["parameters"]
    assert told(multiple) == [*first, "memory_tasks*", "reason"]
    assert "minItems" not in multiple["properties"]["memory_tasks"]
    assert told(multiple["properties"]["memory_tasks"]["items"]) == ["memory_type*", "memory_target*"]


@pytest.mark.parametrize("multiple", [True, False])
def test_handing_on_offers_only_the_types_that_somebody_keeps(*, multiple: bool) -> None:
    agents = [NotingAgent(MemoryType.TOOL), NotingAgent()]
    fields = function(HandsOffOp(agents=agents, enable_multiple=multiple))["parameters"]["properties"]
    fields = fields["memory_tasks"]["items"]["properties"] if multiple else fields
    assert fields["memory_type"]["enum"] == ["personal", "tool"]


def properties(schema: Any) -> list[dict[str, Any]]:
    found = []
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            found += list(schema["properties"].values())
        for value in schema.values():
            found += properties(value)
    return found


@pytest.mark.parametrize("make", every_tool([NotingAgent()]))
def test_schemas_need_no_references_and_tell_of_every_property(make: Any) -> None:
    for multiple in (True, False):
        schema = make(enable_multiple=multiple, enable_thinking_params=True).schema()
        text = json.dumps(schema)
        assert "$ref" not in text
        assert "$defs" not in text
        assert "anyOf" not in text
        assert all(item.get("description") for item in properties(schema))


class Inner(BaseModel):
    title: str = "x"
    default: int = 0


class Outer(BaseModel):
    first: Inner
    second: Inner | None = None
    either: int | str = 0


class Tree(BaseModel):
    children: list[Tree] = []


def test_definitions_are_inlined_and_names_of_properties_survive() -> None:
    found: Any = parameters_of(Outer)
    inner = {
        "properties": {"title": {"default": "x", "type": "string"}, "default": {"type": "integer"}},
        "type": "object",
    }
    assert found["properties"]["first"] == inner
    assert found["properties"]["second"] == inner
    assert found["properties"]["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def test_a_model_that_contains_itself_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Tree contains itself"):
        parameters_of(Tree)


class CountItem(ToolItem):
    word: str
    limit: int | None = None


class CountOp(BaseMemoryToolOp[CountItem]):
    name = "count"
    description = "Count."
    item = CountItem
    items_name = "words"

    async def execute(self, items: Any, context: Any) -> str:
        return ",".join(item.word for item in items)


@pytest.mark.parametrize(
    "arguments", ["", "nonsense", "[1]", '{"words": []}', {"words": [{"word": "a", "user_id": "b"}]}]
)
def test_wrong_arguments_are_answered_with_the_form_that_is_wanted(arguments: Any) -> None:
    with pytest.raises(ToolFeedback, match="write an object of this form"):
        read_arguments(CountOp(), arguments)


async def test_outside_a_loop_wrong_arguments_are_the_callers_error() -> None:
    with pytest.raises(InvalidInputError, match="count: "):
        await CountOp()({"words": [{"nothing": 1}]}, None)  # type: ignore[arg-type]  # never looked at


@pytest.mark.parametrize("make", [DeleteMemoryOp, ReadHistoryMemoryOp])
@pytest.mark.parametrize("bad", ["", "a\x00b", "x" * 10_000])
async def test_what_a_list_holds_is_checked_as_the_field_is(make: Any, bad: str) -> None:
    arguments = {"memory_ids": ["right", bad]}
    with pytest.raises(ToolFeedback, match=r"memory_ids\[1\].*write an object of this form"):
        read_arguments(make(), arguments)
    with pytest.raises(InvalidInputError, match="memory_ids"):
        await make()(arguments, None)  # never looked at


class EvenItem(ToolItem):
    number: int = Field(description="A number.")

    @field_validator("number")
    @classmethod
    def _check(cls, value: int) -> int:
        if value % 2:
            msg = "is odd"
            raise ValueError(msg)
        return value


class EvenOp(BaseMemoryToolOp[EvenItem]):
    name = "even"
    description = "Take even numbers."
    item = EvenItem
    items_name = "numbers"
    plain_items = True

    async def execute(self, items: Any, context: Any) -> str:
        return ",".join(str(item.number) for item in items)


async def test_what_only_the_item_refuses_is_feedback_too() -> None:
    tool = EvenOp()
    arguments = read_arguments(tool, {"numbers": [2, 3]})
    with pytest.raises(ToolFeedback, match=r"is odd.*write an object of this form"):
        await tool.run(arguments, None)  # type: ignore[arg-type]  # never looked at
    with pytest.raises(InvalidInputError, match="is odd"):
        await tool({"numbers": [2, 3]}, None)  # type: ignore[arg-type]  # the same
    assert await tool({"numbers": [2, 4]}, None) == "2,4"  # type: ignore[arg-type]  # the same


async def test_null_means_left_out_where_something_may_be_left_out() -> None:
    single = CountOp(enable_multiple=False)
    assert await single({"word": "a", "limit": None}, None) == "a"  # type: ignore[arg-type]  # never looked at
    assert await CountOp()('{"words": [{"word": "a", "limit": null}]}', None) == "a"  # type: ignore[arg-type]  # the same
    with pytest.raises(ToolFeedback, match="word"):
        read_arguments(single, {"word": None})
