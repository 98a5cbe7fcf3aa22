"""Batches, order and checks of embeddings."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import numpy as np
import pytest

from reme_core.errors import (
    ConfigurationError,
    ContextTooLongError,
    ModelOutputError,
    ModelRejectedError,
    ModelUnavailableError,
)
from reme_core.models import OpenAIEmbedder
from reme_core.testing.hashed_embedder import hashed_vector
from tests.support.openai_server import KEY, Hold, OpenAIServer, Raw, Reply, Status, Vectors
from tests.unit.models.chatting import embedder_at

TEXTS = [f"note {number}" for number in range(25)]


def right(vectors: Any, texts: list[str]) -> bool:
    return np.allclose(vectors, np.stack([hashed_vector(text, 64) for text in texts]), atol=1e-6)


async def test_texts_go_in_batches_and_come_back_in_order(server: OpenAIServer) -> None:
    embedder = embedder_at(server)
    vectors = await embedder.embed(TEXTS)
    assert right(vectors, TEXTS)
    assert sorted(len(body["input"]) for body in server.bodies) == [5, 10, 10]
    assert {body["dimensions"] for body in server.bodies} == {64}
    assert {body["encoding_format"] for body in server.bodies} == {"float"}
    assert embedder.usage.embedding_calls == 3
    assert embedder.usage.prompt_tokens == server.prompt_tokens > 0
    assert embedder.usage.model_calls == 0


async def test_the_size_of_a_batch_is_an_option(server: OpenAIServer) -> None:
    await embedder_at(server, batch_size=100).embed(TEXTS)
    assert len(server.requests) == 1


async def test_no_texts_make_no_call(server: OpenAIServer) -> None:
    assert (await embedder_at(server).embed([])).shape == (0, 64)
    assert server.requests == []


async def test_vectors_in_another_order_are_sorted_by_their_index(server: OpenAIServer) -> None:
    server.replies(Vectors(lambda data: data[::-1]))
    assert right(await embedder_at(server).embed(TEXTS[:7]), TEXTS[:7])


async def test_vectors_without_index_are_taken_in_their_order(server: OpenAIServer) -> None:
    server.replies(Vectors(lambda data: [{"embedding": item["embedding"]} for item in data]))
    assert right(await embedder_at(server).embed(TEXTS[:7]), TEXTS[:7])


async def test_base64_is_read_although_numbers_were_asked_for(server: OpenAIServer) -> None:
    def pack(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        import base64

        packed = [base64.b64encode(np.asarray(item["embedding"], "<f4").tobytes()).decode() for item in data]
        return [{**item, "embedding": text} for item, text in zip(data, packed, strict=True)]

    server.replies(Vectors(pack))
    assert right(await embedder_at(server).embed(TEXTS[:3]), TEXTS[:3])


def _set(data: list[dict[str, Any]], at: int, **changes: Any) -> list[dict[str, Any]]:
    return [{**item, **changes} if number == at else item for number, item in enumerate(data)]


@pytest.mark.parametrize(
    ("reply", "hint"),
    [
        (Vectors(lambda data: data[:-1]), "wanted 3 vectors, found 2"),
        (Vectors(lambda data: [*data, data[0]]), "wanted 3 vectors, found 4"),
        (Vectors(lambda data: []), "found 0"),
        (Vectors(lambda data: _set(data, 1, index=0)), "each index"),
        (Vectors(lambda data: _set(data, 1, index=None)), "each index"),
        (Vectors(dimension=32), "wanted vectors of 64 dimensions, found 32"),
        (Vectors(lambda data: _set(data, 1, embedding=[0.1] * 63)), "found 63"),
        (Vectors(lambda data: _set(data, 1, embedding=[float("nan")] * 64)), "not finite"),
        (Vectors(lambda data: _set(data, 1, embedding=[float("inf")] * 64)), "not finite"),
        (Vectors(lambda data: _set(data, 1, embedding=[1e308] * 64)), "not finite"),
        (Vectors(lambda data: _set(data, 1, embedding=[0.0] * 64)), "all zeros"),
        (Vectors(lambda data: _set(data, 1, embedding=["a"] * 64)), "no list of embeddings"),
        (Vectors(lambda data: _set(data, 1, embedding="%%%")), "base64"),
        (Vectors(lambda data: _set(data, 1, embedding=None)), "no list of embeddings"),
        (Raw(b"<html></html>", content_type="text/html"), "base URL"),
        (Raw(b'{"data": [{"emb'), "base URL"),
        (Raw(b'{"data": null}'), "base URL"),
        (Raw(b"[" * 100_000), "base URL"),
    ],
)
async def test_an_answer_that_is_not_what_was_asked_for_is_an_error(
    server: OpenAIServer, reply: Reply, hint: str
) -> None:
    server.replies(reply)
    with pytest.raises(ModelOutputError, match=hint) as caught:
        await embedder_at(server).embed(TEXTS[:3])
    assert caught.value.raw
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Status(503), ModelUnavailableError),
        (Status(401), ModelRejectedError),
        (Status(400, "This model's maximum context length is 8192 tokens"), ContextTooLongError),
    ],
)
async def test_one_batch_that_fails_fails_the_call_with_its_own_error(
    server: OpenAIServer, reply: Reply, kind: type[Exception]
) -> None:
    server.replies(reply)
    with pytest.raises(kind) as caught:
        await embedder_at(server, max_retries=0).embed(TEXTS)
    assert not isinstance(caught.value, BaseExceptionGroup)


async def test_a_wrong_key_names_the_variable_of_embeddings(server: OpenAIServer) -> None:
    server.replies(Status(401))
    with pytest.raises(ModelRejectedError, match="REME_EMBEDDING_API_KEY"):
        await embedder_at(server).embed(["a"])


async def test_a_batch_is_tried_again(server: OpenAIServer) -> None:
    embedder = embedder_at(server)
    server.replies(Status(429, retry_after="1"))
    assert right(await embedder.embed(TEXTS), TEXTS)
    assert embedder.usage.embedding_calls == 4


async def test_an_endpoint_that_refuses_dimensions_is_not_asked_again(server: OpenAIServer) -> None:
    server.refused_options = {"dimensions": "This model does not support matryoshka representation"}
    embedder = embedder_at(server)
    for _ in range(2):
        assert right(await embedder.embed(TEXTS[:2]), TEXTS[:2])
    assert ["dimensions" in body for body in server.bodies] == [True, False, False]


async def test_the_dimension_need_not_be_sent(server: OpenAIServer) -> None:
    await embedder_at(server, ask_for_dimension=False).embed(["a"])
    assert "dimensions" not in server.bodies[0]


async def test_a_long_text_is_embedded_by_its_beginning_and_a_blank_one_as_a_full_stop(server: OpenAIServer) -> None:
    await embedder_at(server, max_chars=5).embed(["abcdefgh", "", " \n", "ab\0c\ud83d"])
    assert server.bodies[0]["input"] == ["abcde", ".", ".", "abc\ufffd"]


async def test_no_more_batches_are_under_way_than_allowed(server: OpenAIServer) -> None:
    embedder = embedder_at(server, batch_size=1, max_concurrency=4)
    holds = [Hold() for _ in TEXTS]
    server.replies(*holds)
    task = asyncio.ensure_future(embedder.embed(TEXTS))
    await asyncio.to_thread(server.wait_for_requests, 4, at_once=True)
    for hold in holds:
        hold.release()
    assert right(await task, TEXTS)
    assert server.most_at_once == 4


async def test_a_cancelled_call_ends_all_its_batches(server: OpenAIServer) -> None:
    embedder = embedder_at(server, batch_size=1, max_concurrency=2)
    server.replies(Hold(), Hold())
    task = asyncio.ensure_future(embedder.embed(TEXTS))
    await asyncio.to_thread(server.wait_for_requests, 2, at_once=True)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert right(await embedder.embed(TEXTS), TEXTS)


@pytest.mark.parametrize("option", ["dimension", "batch_size", "max_chars", "timeout_s", "max_concurrency"])
def test_an_option_out_of_range_is_named(option: str) -> None:
    options: dict[str, Any] = {"dimension": 64, option: 0}
    with pytest.raises(ConfigurationError, match=option):
        OpenAIEmbedder("a-model", **options)


def test_an_embedder_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="build it anew"):
        pickle.dumps(OpenAIEmbedder("a-model", dimension=64, api_key=KEY))
