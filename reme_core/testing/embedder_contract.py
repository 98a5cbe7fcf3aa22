"""Contract of every embedder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from reme_core.ports import Embedder, Matrix

TEXTS = (
    "Alice moved to Lisbon in March.",
    "The deploy failed because the disk was full.",
    "请帮我预订周五晚上七点的位子",
    "来週の会議は何時からですか",
    "👩‍👩‍👧 🎉",
    "x",
)


def same(left: Matrix, right: Matrix) -> bool:
    """Tell whether vectors are equal, as near as an endpoint computes them twice."""
    return left.shape == right.shape and bool(np.allclose(left, right, atol=1e-4))


class EmbedderContract:
    """Subclass it, and give the fixture `embedder`. A model of your own need not be a good one to pass."""

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def embedder(self) -> Iterator[Embedder]:
        """Give the embedder to be tested."""
        raise NotImplementedError

    async def test_vectors_are_float32_rows_of_unit_norm(self, embedder: Embedder) -> None:
        """Shape, type and norm."""
        vectors = await embedder.embed(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32
        assert np.isfinite(vectors).all()
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-4)

    async def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        """The shape says the dimension all the same."""
        vectors = await embedder.embed([])
        assert vectors.shape == (0, embedder.dimension)
        assert vectors.dtype == np.float32

    async def test_vectors_come_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        """Alone or with others, a text has one vector."""
        together = await embedder.embed(TEXTS)
        alone = np.concatenate([await embedder.embed([text]) for text in TEXTS])
        assert same(together, alone)

    async def test_more_texts_than_a_batch_holds_keep_their_order(self, embedder: Embedder) -> None:
        """Batches are put together again."""
        texts = [f"note number {number} about {number * 7}" for number in range(53)]
        forward = await embedder.embed(texts)
        backward = await embedder.embed(texts[::-1])
        assert same(forward, backward[::-1])

    async def test_different_texts_are_told_apart(self, embedder: Embedder) -> None:
        """No two of them have the same vector."""
        vectors = await embedder.embed(TEXTS)
        cosines = vectors @ vectors.T - np.eye(len(TEXTS))
        assert cosines.max() < 0.999

    async def test_a_text_given_twice_has_the_same_vector_twice(self, embedder: Embedder) -> None:
        """Also within one call."""
        vectors = await embedder.embed([TEXTS[0], TEXTS[1], TEXTS[0]])
        assert same(vectors[:1], vectors[2:])
        assert not same(vectors[:1], vectors[1:2])

    @pytest.mark.parametrize("text", ["", "   \n"])
    async def test_a_blank_text_has_a_vector_of_unit_norm(self, embedder: Embedder, text: str) -> None:
        """A message may hold an image alone; its batch must not fail."""
        vectors = await embedder.embed([TEXTS[0], text])
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-4)

    async def test_a_long_text_is_embedded(self, embedder: Embedder) -> None:
        """Longer than most models take."""
        vectors = await embedder.embed(["Alice and Bob went to the lake. " * 3000])
        assert vectors.shape == (1, embedder.dimension)

    async def test_the_texts_are_left_as_they_were(self, embedder: Embedder) -> None:
        """The list is the caller's."""
        texts = list(TEXTS)
        await embedder.embed(texts)
        assert texts == list(TEXTS)

    async def test_changing_a_result_changes_no_later_one(self, embedder: Embedder) -> None:
        """What is returned is the caller's."""
        first = await embedder.embed(TEXTS[:1])
        kept = first.copy()
        first[:] = 0.0
        assert same(await embedder.embed(TEXTS[:1]), kept)

    async def test_calls_at_once_each_get_their_own_vectors(self, embedder: Embedder) -> None:
        """Twenty tasks on one object."""
        texts = [f"task {number}" for number in range(20)]
        expected = await embedder.embed(texts)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(embedder.embed([text])) for text in texts]
        assert same(np.concatenate([task.result() for task in tasks]), expected)

    async def test_a_cancelled_call_leaves_the_embedder_working(self, embedder: Embedder) -> None:
        """Cancelled before it began to wait, and after."""
        for turns in range(4):
            task = asyncio.ensure_future(embedder.embed(TEXTS))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        assert (await embedder.embed(TEXTS)).shape == (len(TEXTS), embedder.dimension)

    async def test_another_event_loop_in_another_thread_gets_the_same_vectors(self, embedder: Embedder) -> None:
        """One object serves the whole process."""
        here = await embedder.embed(TEXTS)
        there = await asyncio.to_thread(lambda: asyncio.run(_embed(embedder)))
        assert same(here, there)


async def _embed(embedder: Embedder) -> Matrix:
    return await embedder.embed(TEXTS)
