"""Items as values: their JSON, the memories they are, and the conditions on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.ports import FilterOperator, ItemCondition, ItemValue
from reme_core.rules import (
    check_key,
    meets,
    metadata_of,
    namespace_path,
    needle,
    overlaid,
    path_after,
    read_value,
    split_path,
    texts_of,
    value_of,
    write_value,
)
from reme_core.schema import Memory
from reme_core.testing.store_values import memory

TEXTS = st.text(st.characters(exclude_categories=()), max_size=5) | st.text(max_size=5)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
LABELS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters=".\0"), min_size=1, max_size=4)


def has_split_pair(text: str) -> bool:
    """Tell whether a text holds the two halves of one character, which JSON can't tell from that character."""
    return any("\ud800" <= one <= "\udbff" and "\udc00" <= two <= "\udfff" for one, two in pairwise(text))


def texts_in(value: JsonValue) -> Iterator[str]:
    """Return every text of a value, keys included."""
    match value:
        case str():
            yield value
        case list():
            for part in value:
                yield from texts_in(part)
        case dict():
            for key, part in value.items():
                yield key
                yield from texts_in(part)
        case _:
            return


@given(OBJECTS)
def test_a_value_is_read_as_it_was_written(value: ItemValue) -> None:
    if not any(map(has_split_pair, texts_in(value))):
        assert repr(read_value(write_value(value, "v"))) == repr(value)


@given(st.lists(LABELS, max_size=4).map(tuple), st.lists(LABELS, min_size=1, max_size=4).map(tuple))
def test_a_prefix_of_labels_is_a_range_of_paths(labels: tuple[str, ...], prefix: tuple[str, ...]) -> None:
    first = namespace_path(prefix)
    behind = path_after(first)
    for namespace in (labels, (*prefix, *labels), prefix):
        path = namespace_path(namespace)
        covered = namespace[: len(prefix)] == prefix
        assert (first.encode() <= path.encode() < behind.encode()) == covered
        if namespace:
            assert split_path(path) == namespace


@given(OBJECTS)
def test_every_value_makes_a_memory_that_gives_the_value_back(value: ItemValue) -> None:
    texts = texts_of(value)
    made = memory("x")
    made = Memory.model_validate(
        made.model_dump()
        | {"content": texts.content, "when_to_use": texts.when_to_use, "metadata": metadata_of(value, ("t",), texts)}
    )
    assert Memory.model_validate_json(made.model_dump_json()) == made
    assert repr(overlaid(read_value(write_value(value, "v")), made)) == repr(read_value(write_value(value, "v")))


OPERANDS = st.sampled_from([0, 1, 1.0, -1, True, False, None, "a", 'a"b', "é", "\ud800", "\n", 10**15, 123456, 2.5])


@given(OPERANDS, OPERANDS, st.sampled_from(["f", "", "a b", "é", '"', "\\u"]))
def test_what_meets_a_condition_has_its_needle(found: JsonValue, operand: JsonValue, field: str) -> None:
    condition = ItemCondition(field=field, operator=FilterOperator.EQ, operand=operand)
    sought = needle(condition)
    for value in ({field: found}, {field: -0.0}, {"z": "\ud800", field: found}, {field: 10.0**15}, {field: 123456.0}):
        if sought is not None and meets(value, [condition]):
            assert sought in write_value(value, "v")


def test_needles_are_of_short_texts_numbers_and_truths_alone() -> None:
    def sought(operand: JsonValue, operator: FilterOperator = FilterOperator.EQ) -> str | None:
        return needle(ItemCondition(field="f", operator=operator, operand=operand))

    assert [sought("a"), sought(7), sought(True)] == ['"f": "a"', '"f": 7', '"f": true']
    assert [sought(x) for x in ("é", 0, 1.0, None, [1], {}, 10**15)] == [None] * 7
    assert sought("a", FilterOperator.NE) is None


@given(VALUES, VALUES)
def test_no_pair_of_values_raises_and_ne_is_the_opposite_of_eq(found: JsonValue, operand: JsonValue) -> None:
    def holds(operator: FilterOperator) -> bool:
        return meets({"f": found}, [ItemCondition(field="f", operator=operator, operand=operand)])

    assert holds(FilterOperator.EQ) is not holds(FilterOperator.NE)
    assert holds(FilterOperator.LT) + holds(FilterOperator.GT) <= 1
    assert holds(FilterOperator.GTE) >= holds(FilterOperator.GT)


def test_metadata_leaves_out_what_it_cannot_hold() -> None:
    deep: JsonValue = 1
    for _ in range(40):
        deep = [deep]
    value: ItemValue = {
        "text": "said", "when_to_use": 7, "inf": math.inf, "lone": "\ud800", "nul\0": 1, "deep": deep,
        "ok": [1, {"a": None}], "large": "x" * (1 << 20),
    }  # fmt: skip
    assert metadata_of(value, ("a", "b"), texts_of(value)) == {
        "topic": ["a", "b"],
        "when_to_use": 7,
        "ok": [1, {"a": None}],
    }
    own: ItemValue = {"content": "said", "topic": "own"}
    assert metadata_of(own, ("a",), texts_of(own)) == {"topic": "own"}


def test_a_long_blank_beginning_does_not_make_a_blank_memory() -> None:
    assert texts_of({"text": " " * (1 << 18) + "said"}).content == "said"


def test_the_value_of_a_memory_is_a_copy() -> None:
    made = memory("said", metadata={"a": [1]})
    value = value_of(made)
    assert value == {"content": "said", "metadata": {"a": [1]}}
    value["metadata"] = None
    nested = value_of(made)["metadata"]
    assert nested is not made.metadata


def test_errors_name_what_was_wrong() -> None:
    with pytest.raises(InvalidInputError, match=r"v\['a'\]\[1\]: set is no JSON value"):
        write_value({"a": [1, {2}]}, "v")
    with pytest.raises(InvalidInputError, match="the key 1 is int"):
        write_value({1: 2}, "v")
    with pytest.raises(InvalidInputError, match="not list"):
        write_value([], "v")
    with pytest.raises(InvalidInputError, match="4300 digits"):
        write_value({"a": -(10**4300)}, "v")
    assert read_value(write_value({"a": 10**4300 - 1}, "v")) == {"a": 10**4300 - 1}
    with pytest.raises(InvalidInputError, match=r"'a\.b' is no label"):
        namespace_path(("a.b",))
    with pytest.raises(InvalidInputError, match="lone surrogates"):
        check_key("\ud800", ("a",))
    itself: dict[str, object] = {}
    itself["in"] = itself
    with pytest.raises(InvalidInputError, match="200 levels, or holds itself"):
        write_value(itself, "v")
