"""JSON found in what models write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.errors import ModelOutputError
from reme_core.models.json_text import clean_json, clean_text, parse_answer

OBJECT = {"type": "object"}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        ' \n{"a": 1}\n',
        '```json\n{"a": 1}\n```',
        '```\n{"a": 1}\n```',
        'Sure! Here it is:\n\n```JSON\r\n{"a": 1}\r\n```\nAnything else?',
        'Here it is: {"a": 1}. Anything else?',
        'The set {x} and [1] say: {"a": 1}',
        '<think>Is it {"a": 2}?</think>\n{"a": 1}',
        '<thinking>{"a": 2}</thinking>```json\n{"a": 1}```',
        '[0] {"a": 1}',
        '{"a": 1,}',
        '```json\n{"a": 1 , \n}\n```',
    ],
)
def test_an_object_is_found(text: str) -> None:
    assert parse_answer(text, OBJECT) == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No idea.",
        "[1]",
        "3",
        '{"a": 1',
        '{"facts": [{"a": 1}, {"a": 2',
        '{"facts": [{"a": 1},, {"a": 2}]}',
        '```json\n{"facts": [{"a": 1},',
        '{"a": NaN}',
        "{'a': 1}",
        "{" * 100_000,
        '{"a":' * 100_000,
        "x " + '{"a":' * 20_000 + "1" + "}" * 20_000,
    ],
)
def test_what_holds_no_object_of_its_own_is_an_error_that_keeps_the_text(text: str) -> None:
    with pytest.raises(ModelOutputError) as caught:
        parse_answer(text, OBJECT)
    assert caught.value.raw == text


def test_a_schema_of_another_type_decides_what_is_looked_for() -> None:
    assert parse_answer('{"a": 1} and [1, 2]', {"type": "array"}) == [1, 2]
    assert parse_answer("3", {}) == 3


FACTS = {"type": "object", "properties": {"summary": {"type": "string"}, "facts": {"items": {"type": "object"}}}}


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": 1}]',
        'Here they are: [{"a": 1},]. Good?',
        '<think>[{"a": 2}]</think>```json\n[{"a": 1,}]\n```',
        '{"facts": [{"a": 1},]}',
    ],
)
def test_a_list_alone_is_the_object_that_has_one_list_of_objects(text: str) -> None:
    assert parse_answer(text, FACTS) == {"facts": [{"a": 1}]}


@pytest.mark.parametrize("text", ["[]", "[1]", "see [1] and [2]", '{"facts": [{"a": 1}], "summary": "cut', "[[], 1]"])
def test_a_list_of_something_else_or_inside_something_broken_is_no_answer(text: str) -> None:
    with pytest.raises(ModelOutputError):
        parse_answer(text, FACTS)


def test_commas_inside_texts_stay() -> None:
    assert parse_answer('{"a": "x,] \\" ,}", "b": ",]",}', OBJECT) == {"a": 'x,] " ,}', "b": ",]"}


@pytest.mark.parametrize("text", ['\\"' * 200_000, '"' + '\\"' * 200_000, "[," * 200_000, '",]' * 200_000])
def test_texts_of_marks_alone_are_no_answer(text: str) -> None:
    with pytest.raises(ModelOutputError):
        parse_answer(text, FACTS)


@given(json_values)
def test_json_in_prose_or_a_fence_is_what_was_written(value: object) -> None:
    written = {"value": value}
    text = json.dumps(written)
    expected = clean_json(json.loads(text))
    assert parse_answer(text, OBJECT) == expected
    assert parse_answer(f"Here it is: {text} Good?", OBJECT) == expected
    assert parse_answer(f"Here:\n```json\n{json.dumps(written, indent=1)}\n```\n", OBJECT) == expected


@given(st.text(alphabet=st.characters(codec=None)))
def test_cleaned_text_can_be_written_and_stays_as_it_is(text: str) -> None:
    cleaned = clean_text(text)
    assert "\0" not in cleaned
    assert cleaned.encode().decode() == cleaned
    assert clean_text(cleaned) == cleaned


def test_a_broken_pair_that_belongs_together_is_joined() -> None:
    assert clean_text("\ud83d\ude00") == "😀"
