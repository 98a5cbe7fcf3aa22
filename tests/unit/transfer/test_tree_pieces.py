"""Items and paragraphs of a page of any kind stand where they say."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.files.markdown import MarkdownPage
from reme_core.transfer.trees.pieces import pieces

_LINES = st.lists(
    st.sampled_from(
        ["# A", "## B", "- item", "  - inner", "  more", "1. first", "text", "", "```", "---", "<!-- x -->"]
    )
)


@given(st.one_of(_LINES.map("\n".join), st.text()), st.booleans())
@settings(deadline=None)
def test_pieces_stand_in_their_order_where_they_say(text: str, nested: bool) -> None:
    page = MarkdownPage.parse(text.encode("utf-8", "ignore"))
    found = list(pieces(page, nested=nested))
    assert [piece.line for piece in found] == sorted({piece.line for piece in found})
    for piece in found:
        assert piece.text.strip()
        assert piece.text.partition("\n")[0].strip() in page.lines[piece.line - 1]


def test_inner_items_belong_to_the_outer_one_unless_they_are_asked_for() -> None:
    page = MarkdownPage.parse(
        b"# A\n\n- outer\n  - inner\n  goes on\n* other\n2) last\n\nPara\ngraph\n***\n## B\n- below\n"
    )
    told = [(piece.line, piece.text, piece.above, piece.is_item) for piece in pieces(page)]
    assert told == [
        (3, "outer\n  - inner\ngoes on", ("A",), True),
        (6, "other", ("A",), True),
        (7, "last", ("A",), True),
        (9, "Para\ngraph", ("A",), False),
        (13, "below", ("A", "B"), True),
    ]
    inner = [(piece.line, piece.text) for piece in pieces(page, nested=True)][:2]
    assert inner == [(3, "outer"), (4, "inner\ngoes on")]


def test_code_is_one_piece_with_what_stands_before_it_and_holds_no_headings() -> None:
    page = MarkdownPage.parse(b"Run:\n```sh\n# no heading\n- no item\n\nlast\n```\nafter\n")
    [piece] = pieces(page)
    assert piece.text == "Run:\n```sh\n# no heading\n- no item\n\nlast\n```\nafter"
