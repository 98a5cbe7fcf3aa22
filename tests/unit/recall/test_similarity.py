"""The cosine that a hit tells, from the stored vectors, and one embedding of a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import ModelUnavailableError
from reme_core.retrieval.embedding import message_text
from reme_core.testing import FixedClock, HashedEmbedder

TEXTS = ("Flopsy the rabbit eats figs", "The boat leaks", "Rabbits need hay and figs")


@pytest.mark.parametrize("long", [False, True])
async def test_a_hit_tells_the_cosine_of_its_stored_vector(tmp_path: Path, *, long: bool) -> None:
    embedder = HashedEmbedder(64)
    async with ReMe("space", tmp_path, llm=None, embedding=embedder) as memory:
        for text in TEXTS:
            await memory.summary([("user", text + " and so on" * 2_000 * long)], user_id="ann")
        await memory.add_memory(TEXTS[0], user_id="ann")
        await memory.flush()
        before = len(embedder.calls)
        found = await memory.retrieve("rabbit figs", user_id="ann")
        assert len(embedder.calls) == before + 1
        question = await embedder.embed(["rabbit figs"])
        rows = await embedder.embed([message_text("user", text) for text in TEXTS])
        [fact] = [hit for hit in found.results if hit.layer == "memory"]
        assert fact.similarity == pytest.approx(float((await embedder.embed([TEXTS[0]]))[0] @ question[0]), abs=1e-5)
        said = {hit.memory: hit.similarity for hit in found.results if hit.layer == "message"}
        assert said
        assert all(value is not None for value in said.values())
        if not long:
            wanted = {text: float(row @ question[0]) for text, row in zip(TEXTS, rows, strict=True)}
            assert said == pytest.approx({text: wanted[text] for text in said}, abs=1e-5)


async def test_where_words_alone_are_compared_no_cosine_is_told(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.add_memory(TEXTS[0], user_id="ann")
        assert [hit.similarity for hit in (await memory.retrieve("rabbit", user_id="ann")).results] == [None]


async def test_a_question_asked_again_is_embedded_once_and_a_failure_is_still_seen(tmp_path: Path) -> None:
    embedder = HashedEmbedder(64)
    memory = ReMe("space", tmp_path, llm=None, embedding=embedder, embed_messages=False, clock=FixedClock())
    async with memory:
        await memory.summary([("user", TEXTS[0])], user_id="ann")
        for _ in range(3):
            await memory.retrieve("rabbit", user_id="ann")
        assert len(embedder.calls) == 1
        await memory.retrieve("boat", user_id="ann")
        assert len(embedder.calls) == 2
        assert memory.resting_embedder is not None
        memory.resting_embedder.rest(ModelUnavailableError("away"))
        assert (await memory.retrieve("boat", user_id="ann")).degraded
