"""Pages keep every byte, know their statements, and cut the rest into passages that together are all of it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.files.markdown import (
    PASSAGE_TOKENS,
    MarkdownPage,
    passages,
    read_content,
    shown_content,
    statement_line,
)
from reme_core.text import estimate_tokens

PIECES = [
    "- tea ^mem-ab12",
    "- ",
    "---",
    "```",
    "# Title",
    "\ufeff",
    "\r\n",
    "\n",
    " ",
    "^mem-x",
    "<br>",
    "café",
    "你好",
    "\x0b",
    "\u2028",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(st.characters(codec="utf-8"), max_size=12), max_size=30).map("".join)


@settings(deadline=None)
@given(TEXTS)
def test_print_of_parse_is_the_identity(text: str) -> None:
    data = text.encode()
    assert MarkdownPage.parse(data).print() == data


@settings(deadline=None)
@given(TEXTS)
def test_a_page_keeps_all_other_bytes_when_its_statements_get_ids(text: str) -> None:
    page = MarkdownPage.parse(text.encode())
    marked = page.with_ids({statement.line: f"n{statement.line}" for statement in page.statements})
    assert [s.shown for s in marked.statements] == [s.shown for s in page.statements]
    assert [s.memory_id for s in marked.statements] == [f"n{s.line}" for s in page.statements]
    touched = {statement.line for statement in page.statements}
    assert all(marked.lines[n] == line for n, line in enumerate(page.lines) if n not in touched)


@settings(deadline=None)
@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip),
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1),
)
def test_a_statement_of_any_memory_is_one_line_that_is_read_back_with_its_id(content: str, memory_id: str) -> None:
    line = statement_line(memory_id, content)
    [statement] = MarkdownPage.parse(f"{line}\n".encode()).statements
    assert statement.memory_id == memory_id
    assert statement.shown == shown_content(content).strip()


@settings(deadline=None)
@given(TEXTS, st.booleans())
def test_passages_and_statements_hold_every_line_that_is_not_blank(text: str, keep: bool) -> None:
    page = MarkdownPage.parse(text.encode())
    held = {
        n for item in passages(page, estimate_tokens, keep_statements=keep) for n in range(item.first, item.last + 1)
    }
    held |= {statement.line for statement in page.statements if keep}
    assert {n for n, line in enumerate(page.lines) if line.strip()} <= held


def test_frontmatter_and_fenced_code_hold_no_statements() -> None:
    page = MarkdownPage.parse(b"---\ntype: tool\ntags:\n- a\n---\n- one\n```\n- two\n```\n- three ^mem-3\n")
    assert [(s.shown, s.memory_id) for s in page.statements] == [("one", None), ("three", "3")]
    assert page.field("type") == "tool"
    assert page.field("target") is None


def test_the_fields_of_frontmatter_are_read_with_and_without_quotes() -> None:
    page = MarkdownPage.parse(b"\xef\xbb\xbf---\r\ntarget: \"a/b \\\"c\\\"\"\r\ntype: 'it''s'\r\n---\r\n")
    assert (page.field("target"), page.field("type")) == ('a/b "c"', "it's")


def test_a_statement_of_several_lines_is_read_back_as_it_was() -> None:
    assert read_content(shown_content("first\nsecond\r\nthird")) == "first\nsecond\nthird"


def test_passages_have_at_most_200_tokens_and_say_what_stands_above_them() -> None:
    text = "# Trip\n\n## Lisbon\n\n" + "\n\n".join(
        f"On day {n} " + "we walked along the river. " * 12 for n in range(9)
    )
    found = passages(MarkdownPage.parse(text.encode()), estimate_tokens, keep_statements=False)
    assert all(estimate_tokens(item.text) <= PASSAGE_TOKENS for item in found)
    assert len(found) > 4
    assert found[-1].above == "Trip › Lisbon"


def test_a_line_longer_than_a_passage_is_cut_and_together_still_the_line() -> None:
    line = "word " * 5000
    found = passages(MarkdownPage.parse(line.encode()), estimate_tokens, keep_statements=False)
    assert "".join(item.text for item in found) == line
    assert all(estimate_tokens(item.text) <= PASSAGE_TOKENS for item in found)


def test_lines_that_are_put_in_end_as_those_of_the_page() -> None:
    page = MarkdownPage.parse(b"a\r\nb").spliced(2, 2, ["- c"])
    assert page.print() == b"a\r\nb\r\n- c\r\n"


def test_lists_of_frontmatter_are_read_in_each_of_their_forms() -> None:
    head = "---\ntags: [a, 'b c' ,]\naliases:\n  - x\n  - y z\nother:\nplain: one, two\n---\n- z\n"
    page = MarkdownPage.parse(head.encode())
    assert {name: page.list_field(name) for name in ("tags", "aliases", "other", "plain", "none")} == {
        "tags": ["a", "b c"],
        "aliases": ["x", "y z"],
        "other": [],
        "plain": ["one", "two"],
        "none": [],
    }
