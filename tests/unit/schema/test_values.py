"""Values of the schema: times, names, messages of other forms, and round trips."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.errors import InvalidInputError
from reme_core.schema import Memory, Message, format_time, make_scope, parse_messages, parse_time, shown
from reme_core.testing.store_values import LOOKALIKES, memory

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=zones) | st.datetimes())
def test_a_time_that_is_accepted_is_accepted_again_when_read_back(moment: datetime) -> None:
    try:
        read = parse_time(moment)
    except ValueError:
        return
    assert read.tzinfo is UTC
    assert parse_time(format_time(read)) == read
    assert parse_time(read.isoformat()) == read


@given(st.datetimes(min_value=datetime(1900, 1, 2), max_value=datetime(9998, 12, 30), timezones=zones))  # noqa: DTZ001  # hypothesis wants naive bounds
def test_a_memory_of_any_time_can_be_read_back(moment: datetime) -> None:
    value = Memory.model_validate({**memory("x").model_dump(), "valid_from": moment, "observed_at": moment})
    assert Memory.model_validate_json(value.model_dump_json()) == value


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    text=st.text(min_size=1, max_size=30),
    arguments=st.dictionaries(st.text(max_size=4), json_values, max_size=3),
    data=json_values,
    metadata=st.dictionaries(st.text(max_size=4), json_values, max_size=3),
)
def test_a_message_that_is_accepted_is_equal_when_read_back(
    text: str, arguments: dict[str, object], data: object, metadata: dict[str, object]
) -> None:
    content = [
        {"type": "text", "text": text},
        {"type": "tool_call", "call_id": "c", "name": "n", "arguments": arguments},
        {"type": "other", "kind": "k", "data": data},
    ]
    try:
        [value] = parse_messages([{"role": "user", "content": content, "metadata": metadata}])
    except InvalidInputError:
        return
    assert Message.model_validate_json(value.model_dump_json()) == value
    assert Message.model_validate(value.model_dump()) == value


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": "\\ud800"}', "[" * 5000, "not json", "5", '{"a": 1e999}'])
def test_arguments_that_are_no_good_json_stay_as_they_came(text: str) -> None:
    call = {"id": "c", "function": {"name": "n", "arguments": text}}
    [value] = parse_messages([{"role": "assistant", "tool_calls": [call]}])
    assert value.content[0].type == "tool_call"
    assert value.content[0].arguments == text


def test_names_that_look_alike_are_different_scopes() -> None:
    made = [make_scope(scope.memory_space, scope.user_id or None, shared=scope.is_shared) for scope in LOOKALIKES]
    assert len(set(made)) == len(LOOKALIKES)


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000_000, 10**5000, [[[[[1]]]]], {"a": {"b": {"c": {}}}}, object()],
    ids=lambda value: type(value).__name__,
)
def test_any_value_is_shown_in_few_characters(value: object) -> None:
    assert 0 < len(shown(value)) <= 60
