"""An embedder that rests while it fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from reme_core.errors import CorruptDataError, ModelError, ModelRejectedError, ModelUnavailableError
from reme_core.ports import Matrix, Vector
from reme_core.retrieval.embedding import embed_one, try_embedding, try_question
from reme_core.retrieval.resting_embedder import LONGEST_PAUSE_S, CircuitBreaker, RestingEmbedder
from reme_core.testing import FixedClock, HashedEmbedder

DOWN = ModelUnavailableError("the model is away")


def failing(times: int, error: ModelError = DOWN) -> HashedEmbedder:
    return HashedEmbedder(16, failures=[error] * times)


class Hanging(HashedEmbedder):
    """Answers nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__(16)
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        self.calls.append(tuple(texts))
        self.asked.set()
        await self.gate.wait()
        return await super().embed(texts)


async def test_after_a_failure_nothing_is_asked_before_the_pause_is_over() -> None:
    clock, down = FixedClock(), failing(1)
    embedder = RestingEmbedder(down, clock)
    for _ in range(3):
        with pytest.raises(ModelUnavailableError, match="the model is away"):
            await embedder.embed(["a"])
    assert len(down.calls) == 1
    clock.advance(seconds=1)
    assert (await embedder.embed(["a"])).shape == (1, 16)


async def test_the_pause_doubles_from_a_second_to_a_minute_and_begins_anew_after_a_success() -> None:
    clock, down = FixedClock(), failing(9)
    embedder = RestingEmbedder(down, clock)
    pauses = []
    while (asked := len(down.calls)) < 9:
        assert isinstance(await try_question(embedder, "q"), str)
        assert len(down.calls) == asked + 1
        waited = 0.0
        while embedder.is_resting:
            waited += 0.5
            clock.advance(seconds=0.5)
        pauses.append(waited)
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert not isinstance(await try_question(embedder, "q"), str)
    down._failures.append(DOWN)
    assert isinstance(await try_question(embedder, "another"), str)
    clock.advance(seconds=1)
    assert not embedder.is_resting


async def test_an_outage_is_one_line_of_the_log_and_its_end_another(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "reme")
    clock = FixedClock()
    embedder = RestingEmbedder(failing(3), clock)
    for _ in range(20):
        await try_question(embedder, "q")
        await try_embedding(embedder, ["a"])
        clock.advance(seconds=1)
    [begun, ended] = caplog.messages
    assert begun.startswith("embedding: the model is away; texts are found by their words")
    assert ended == "embedding: 'hashed-16' answers again"


async def test_a_question_waits_no_longer_than_its_time_and_the_next_one_not_at_all() -> None:
    hanging = Hanging()
    embedder = RestingEmbedder(hanging, FixedClock(), question_timeout_s=0.01)
    for _ in range(2):
        said = await try_question(embedder, "q")
        assert said == "embedding: 'hashed-16': no answer within 0.01 s; words alone were compared"
    assert len(hanging.calls) == 1


async def test_one_call_tries_again_while_others_go_on_without() -> None:
    clock, hanging = FixedClock(), Hanging()
    embedder = RestingEmbedder(hanging, clock)
    embedder.rest(DOWN)
    clock.advance(seconds=1)
    trying = asyncio.create_task(embedder.embed(["a"]))
    await hanging.asked.wait()
    assert embedder.is_resting
    assert await try_embedding(embedder, ["b"]) == "embedding: the model is away; words alone were compared"
    hanging.gate.set()
    await trying
    assert not isinstance(await try_embedding(embedder, ["b"]), str)
    assert hanging.calls[:2] == [("a",), ("a",)]  # noted when asked, and when answered
    assert ("b",) in hanging.calls


async def test_calls_that_fail_together_are_one_failure() -> None:
    clock = FixedClock()
    embedder = RestingEmbedder(failing(20), clock)
    await asyncio.gather(*(try_question(embedder, "q") for _ in range(20)))
    clock.advance(seconds=1)
    assert not embedder.is_resting


async def test_who_is_cancelled_at_once_says_nothing_and_who_waited_says_that_it_hangs() -> None:
    clock, hanging = FixedClock(), Hanging()
    embedder = RestingEmbedder(hanging, clock)
    for waited, rests in ((0.1, False), (0.6, True)):
        hanging.asked.clear()
        call = asyncio.create_task(embedder.embed_query("q"))
        await hanging.asked.wait()
        clock.advance(seconds=waited)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert embedder.is_resting is rests


async def test_a_call_that_tries_again_and_is_cancelled_leaves_the_place_to_the_next() -> None:
    clock, hanging = FixedClock(), Hanging()
    embedder = RestingEmbedder(hanging, clock)
    embedder.rest(DOWN)
    clock.advance(seconds=1)
    call = asyncio.create_task(embedder.embed(["a"]))
    await hanging.asked.wait()
    call.cancel()
    await asyncio.wait({call})
    hanging.gate.set()
    assert not isinstance(await try_embedding(embedder, ["b"]), str)


async def test_a_wrong_key_is_named_and_not_tried_at_each_call() -> None:
    refused = ModelRejectedError("401: the key was refused: set REME_EMBEDDING_API_KEY")
    embedder = RestingEmbedder(inner := failing(5, refused), FixedClock())
    for _ in range(3):
        said = await try_question(embedder, "q")
        assert isinstance(said, str)
        assert "the key was refused" in said
    assert len(inner.calls) == 1


async def test_what_is_refused_as_a_text_is_the_callers_to_judge() -> None:
    embedder = RestingEmbedder(failing(1, ModelRejectedError("such words")), FixedClock())
    with pytest.raises(ModelRejectedError):
        await embedder.embed(["a"])
    assert not embedder.is_resting


async def test_an_embedder_that_maps_no_errors_is_away_when_its_connection_is() -> None:
    class Bare(HashedEmbedder):
        async def embed(self, texts: Sequence[str]) -> Matrix:
            raise ConnectionRefusedError(111)

    said = await try_question(RestingEmbedder(Bare(16), FixedClock()), "q")
    assert said == "embedding: 'hashed-16': ConnectionRefusedError; words alone were compared"


@pytest.mark.parametrize("error", [CorruptDataError("the cache is damaged"), RuntimeError("a mistake")])
async def test_other_errors_are_raised_and_say_nothing_about_the_model(error: Exception) -> None:
    class Broken(HashedEmbedder):
        async def embed(self, texts: Sequence[str]) -> Matrix:
            raise error

    embedder = RestingEmbedder(Broken(16), FixedClock())
    with pytest.raises(type(error)):
        await try_question(embedder, "q")
    assert not embedder.is_resting


async def test_a_recovery_is_told_once() -> None:
    clock, told = FixedClock(), list[int]()
    embedder = RestingEmbedder(failing(1), clock, on_recovery=lambda: told.append(1))
    for _ in range(4):
        await try_question(embedder, "q")
        clock.advance(seconds=1)
    assert told == [1]


async def test_questions_go_to_an_embedder_that_treats_them_otherwise() -> None:
    class Asking(HashedEmbedder):
        async def embed_query(self, text: str) -> Vector:
            [row] = await self.embed([f"query: {text}"])
            return row

    inner = Asking(16)
    embedder = RestingEmbedder(inner, FixedClock())
    assert np.array_equal(await embed_one(embedder, "q"), await inner.embed_query("q"))
    assert np.array_equal(await embedder.embed_query("q"), await inner.embed_query("q"))


async def test_no_texts_are_no_call_even_while_it_rests() -> None:
    embedder = RestingEmbedder(failing(1), FixedClock())
    embedder.rest(DOWN)
    assert (await embedder.embed([])).shape == (0, 16)


def test_a_clock_that_was_put_back_makes_no_pause_longer() -> None:
    clock = FixedClock()
    circuit = CircuitBreaker(clock)
    circuit.rest(DOWN)
    clock.advance(seconds=-3600)
    assert not circuit.is_resting


def test_of_many_threads_one_tries_again() -> None:
    clock = FixedClock()
    circuit = CircuitBreaker(clock)
    circuit.rest(DOWN)
    clock.advance(seconds=1)
    let_in: list[int] = []
    barrier = threading.Barrier(16)

    def enter(_: Any = None) -> None:
        barrier.wait()
        with contextlib.suppress(ModelUnavailableError):
            let_in.append(circuit.enter())

    threads = [threading.Thread(target=enter) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(let_in) == 1
    assert circuit.succeed(let_in[0])
    assert not circuit.succeed(let_in[0])
