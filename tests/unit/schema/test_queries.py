"""The bound of queries: the beginning of a pasted text decides, whoever asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core import ReMe
from reme_core.ports import MemorySearch, MessageSearch, OffloadSearch, RetrieveRequest
from reme_core.retrieval.embedding import embed_one
from reme_core.schema import QUERY_CHARS, bounded_query, utc_now
from reme_core.testing import HashedEmbedder

PASTED = "zebra crossing " + "of the road and so on " * 250_000
"""5.5 MB."""
LATE = "of the road and so on " * 250_000 + "zebra crossing"


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(1, 100))
def test_what_is_in_bounds_stays_as_it_is_and_the_rest_is_a_beginning(text: str, times: int) -> None:
    query = text * times
    bounded = bounded_query(query)
    assert len(bounded) <= QUERY_CHARS
    assert bounded == query if len(query) <= QUERY_CHARS else query.lstrip().startswith(bounded)
    assert bounded_query(bounded) == bounded


def test_no_word_is_cut_in_two_where_a_blank_is_near() -> None:
    assert bounded_query("a" * 3_990 + " " + "b" * 64) == "a" * 3_990
    assert bounded_query("a" * 4_000 + " b") == "a" * 4_000
    assert bounded_query("茶" * 5_000) == "茶" * 4_000
    assert bounded_query("\n" * 5_000 + "tea") == "tea"
    assert bounded_query(" " * 5_000) == ""


def test_every_request_takes_the_beginning() -> None:
    request = RetrieveRequest(query=PASTED, now=utc_now())
    texts = [kind(text=PASTED).text for kind in (MemorySearch, MessageSearch, OffloadSearch)]
    assert {request.query, *texts} == {bounded_query(PASTED)}
    assert replace(request, limit=3).query == request.query


async def test_an_embedder_is_given_the_beginning() -> None:
    embedder = HashedEmbedder()
    await embed_one(embedder, PASTED)
    assert embedder.calls == [(bounded_query(PASTED),)]


@pytest.mark.parametrize("with_vectors", [False, True])
async def test_a_pasted_text_finds_what_its_beginning_finds(tmp_path: Path, with_vectors: bool) -> None:
    embedder = HashedEmbedder() if with_vectors else None
    async with ReMe("space", tmp_path, llm=None, embedding=embedder) as reme:
        said = [{"role": "user", "content": text} for text in ("A zebra ran past", "I like tea", "The river is long")]
        await reme.summary(said, user_id="alice")
        await reme.add_memory("The zebra lives in Kenya", user_id="alice")
        found = await reme.retrieve(PASTED, user_id="alice")
        assert {hit.memory for hit in found.results[:2]} == {"The zebra lives in Kenya", "A zebra ran past"}
        again = await reme.retrieve(bounded_query(PASTED), user_id="alice")
        assert again.results == found.results
        late = await reme.retrieve(LATE, user_id="alice")
        early = await reme.retrieve(bounded_query(LATE), user_id="alice")
        assert late.results == early.results
        assert "zebra" not in bounded_query(LATE)
