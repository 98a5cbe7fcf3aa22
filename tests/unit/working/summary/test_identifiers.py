"""Identifiers: what can't be said in other words is found, and found again."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.working.summary.identifiers import IdentifierKind, identifiers, is_used, occurs, words_in

TEXT = (
    "The Berlin office opened src/app/main.py and /etc/hosts at 2023-05-08. Ada Lovelace called foo_bar() and "
    "CamelCase for $1,234.50 with gpt-4 v1.2.3. See https://a.b/c?d=1, mail ada@acme.org, notes.md or `do it`; "
    'she named it "Blue Whale Ltd".'
)


def names(text: str) -> set[str]:
    return {item.text for item in identifiers(text)}


def test_paths_code_numbers_and_names_are_found() -> None:
    wanted = (
        "Berlin|src/app/main.py|/etc/hosts|2023-05-08|Ada Lovelace|foo_bar|CamelCase|$1,234.50|gpt-4|v1.2.3|"
        "https://a.b/c?d=1|ada@acme.org|notes.md|do it|Blue Whale Ltd"
    )
    assert set(wanted.split("|")) <= names(TEXT)


def test_plain_words_beginnings_of_sentences_and_keys_of_json_are_none() -> None:
    text = 'Yesterday he said and/or meant it. Then she left; e.g. at 5. The end. {"status": "done", "Label": "ok"}'
    assert names(text) == set()


def test_quantities_are_numbers_and_what_abbreviates_is_nothing() -> None:
    kinds = {item.text: item.kind for item in identifiers("OK, it took 0.41s. I asked Dr. She said OK and saw Ada.")}
    assert kinds == {"0.41s": IdentifierKind.NUMBER, "Ada": IdentifierKind.NAME}


@pytest.mark.parametrize("phone", ["+49 30 5557788", "+1-202-555-0171"])
def test_a_phone_number_is_found_whole(phone: str) -> None:
    assert phone in names(f"Call {phone}, please.")
    assert occurs(phone, f"It is {phone}.", words_in(f"It is {phone}."))


@given(
    st.text(st.sampled_from(list("ab1. /_,")), max_size=60),
    st.text(st.sampled_from(list("ab1. /_")), min_size=1, max_size=4),
)
def test_looking_where_a_name_stands_finds_the_same_as_reading_all(text: str, name: str) -> None:
    assert is_used(name.strip() or "a", text) == occurs(name.strip() or "a", text, words_in(text))


def test_a_name_behind_many_longer_ones_is_found_in_a_long_text() -> None:
    longer = "/srv/a.py.bak and more of it, " * 40
    assert not is_used("/srv/a.py", longer)
    assert is_used("/srv/a.py", f"{longer} /srv/a.py {longer}")


def test_identifiers_between_chinese_characters_are_found() -> None:
    assert {"src/x.py", "120", "红楼梦", "v2.0"} <= names("打开src/x.py文件，《红楼梦》共120页，版本v2.0。")


def test_paths_are_told_from_numbers() -> None:
    kinds = {item.text: item.kind for item in identifiers(TEXT)}
    assert (kinds["/etc/hosts"], kinds["foo_bar"], kinds["2023-05-08"]) == (
        IdentifierKind.PATH,
        IdentifierKind.CODE,
        IdentifierKind.NUMBER,
    )


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("42", "in 1942 and 420", False),
        ("42", "it is 42.", True),
        ("main.py", "src/main.py.bak", False),
        ("Ada Lovelace", "Lovelace, Ada", False),
        ("Ada Lovelace", "by Ada Lovelace.", True),
        ("红楼梦", "读红楼梦吧", True),
    ],
)
def test_a_part_of_another_identifier_is_no_use_of_it(name: str, text: str, found: bool) -> None:
    assert occurs(name, text, words_in(text)) is found


@given(st.text(st.characters(codec=None), max_size=200))
def test_every_identifier_stands_in_its_text_once(text: str) -> None:
    found = [item.text for item in identifiers(text)]
    assert len(found) == len(set(found))
    for name in found:
        assert name in text
        assert occurs(name, text, words_in(text))


def work(action: Callable[[], object]) -> int:
    """Count the lines of Python that an action runs."""
    lines = 0

    def trace(frame: object, event: str, arg: object) -> object:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        action()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize(
    "piece", ['"', "a.", "A", "Ab ", "1,", "/a", "#", "- ", '"a', " ", "Ab\n", "?a=", "`", "《", "a?"]
)
def test_ten_times_the_text_is_about_ten_times_the_work(piece: str) -> None:
    short, long = (work(lambda n=n: identifiers(piece * n)) for n in (200, 2000))  # type: ignore[misc]
    assert long <= 12 * short + 100
    identifiers(piece * 100_000)  # a pattern that looks back further and further would not come to an end
