"""An embedding endpoint that fails, over the wire, and a memory that goes on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.models import OpenAIEmbedder
from reme_core.retrieval.embedding import try_question
from reme_core.retrieval.resting_embedder import RestingEmbedder
from reme_core.testing import FixedClock
from tests.support.openai_server import KEY, HangUp, Hold, OpenAIServer, Status

U: dict[str, Any] = {"user_id": "u"}


@pytest.mark.parametrize(
    ("reply", "cause"),
    [(Status(503), "503"), (HangUp(), "no connection"), (Status(401), "the key was refused")],
    ids=["unavailable", "no connection", "a wrong key"],
)
async def test_an_outage_costs_one_request_and_vectors_follow(
    tmp_path: Path, reply: Any, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FixedClock()
    with OpenAIServer() as server:
        server.replies(reply)
        async with (
            OpenAIEmbedder("any", dimension=64, base_url=server.base_url, api_key=KEY, max_retries=0) as embedder,
            ReMe("space", tmp_path, llm=None, embedding=embedder, clock=clock) as memory,
        ):
            await memory.add_memory("Ana keeps bees", **U)
            for _ in range(3):
                found = await memory.retrieve("bees", **U)
                assert found.results[0].memory == "Ana keeps bees"
                assert cause in found.degraded[0]
            assert len(server.requests) == 1
            clock.advance(seconds=1)
            assert (await memory.retrieve("bees", **U)).degraded == ()
            await memory.flush()
            assert (await memory.stats(**U)).waiting_for_vectors == 0
    [line] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert KEY not in line.getMessage()


async def test_an_endpoint_that_hangs_is_not_waited_for_twice(tmp_path: Path) -> None:
    with OpenAIServer() as server:
        server.replies(Hold())
        async with OpenAIEmbedder("any", dimension=64, base_url=server.base_url, api_key=KEY) as inner:
            embedder = RestingEmbedder(inner, FixedClock(), question_timeout_s=0.2)
            for _ in range(3):
                said = await try_question(embedder, "bees")
                assert said == "embedding: 'any': no answer within 0.2 s; words alone were compared"
        assert len(server.requests) == 1
