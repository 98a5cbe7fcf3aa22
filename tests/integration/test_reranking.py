"""Reranking over the wire: one request, whatever the endpoint makes of it, and always an answer of the search."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe, RerankingRetriever
from reme_core.models import OpenAIChat
from tests.support.openai_server import KEY, Completion, HangUp, Hold, OpenAIServer, Raw, Status

U: dict[str, Any] = {"user_id": "u"}
QUESTION = "Which tea does Ana like?"
LONG = "We spoke of boats and the weather, and of nothing else all day. " * 40
SAID = [
    {"role": "user", "name": "Ana", "content": f"{LONG}I like tea number {n}. {LONG}", "message_id": f"m{n}"}
    for n in range(60)
]


@asynccontextmanager
async def opened(folder: Path, *replies: Any, **options: Any) -> AsyncIterator[tuple[ReMe, OpenAIServer]]:
    """A memory of long messages, whose reranking model is behind a server that gives these replies."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(OpenAIServer())
        chat = OpenAIChat("any", base_url=server.base_url, api_key=KEY, max_retries=0)
        await stack.enter_async_context(chat)
        memory = await stack.enter_async_context(ReMe("space", folder, llm=None, embedding=None))
        await memory.summary(SAID, **U)
        server.replies(*replies)
        memory.set_retriever(RerankingRetriever(chat, **options))
        yield memory, server


async def test_the_order_of_an_endpoint_is_taken_for_one_request_with_a_strict_schema(tmp_path: Path) -> None:
    async with opened(tmp_path, Completion(text='{"order": [50, 2]}')) as (memory, server):
        found = await memory.retrieve(QUESTION, **U, limit=50)
        [request] = server.requests
        assert request.body["response_format"]["json_schema"]["strict"] is True
        assert 5000 < request.prompt_tokens <= 6000
        assert found.usage.model_calls == 1
        assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (request.prompt_tokens, 5)
        assert found.degraded == ()
        memory.set_retriever(RerankingRetriever(OpenAIChat("any", base_url="http://127.0.0.1:1/v1", max_retries=0)))
        plain = await memory.retrieve(QUESTION, **U, limit=50)
        assert [hit.message_ids for hit in found.results[:3]] == [
            plain.results[place].message_ids for place in (49, 1, 0)
        ]


async def test_an_endpoint_without_schemas_gets_it_in_a_prompt_that_still_fits(tmp_path: Path) -> None:
    async with opened(tmp_path, Completion(text="```json\n[2]\n```")) as (memory, server):
        server.formats = set()
        found = await memory.retrieve(QUESTION, **U)
        assert "JSON schema" in server.bodies[-1]["messages"][0]["content"]
        assert server.requests[-1].prompt_tokens <= 6000
        assert found.degraded == ()


WRONG: dict[str, tuple[Any, str]] = {
    "prose": (Completion(text="The second one."), "gave no order"),
    "a refusal": (Completion(text=None, extra={"refusal": "I can't help with that."}), "gave no order"),
    "a filter": (Completion(text=None, finish_reason="content_filter"), "gave no order"),
    "nothing": (Completion(text=None), "gave no order"),
    "cut off": (Completion(text='{"order": [3, 1', finish_reason="length"), "gave no order"),
    "no number of ours": (Completion(text=json.dumps({"order": list(range(51, 5051))})), "gave no order"),
    "no completion": (Raw(b'{"choices": [1, 2]}'), "gave no order"),
    "no JSON": (Raw(b"<html>502</html>", content_type="text/html"), "gave no order"),
    "hung up": (HangUp(), "failed (ModelUnavailableError)"),
    "in mid-body": (Raw(b'{"choices"', promised=1000), "failed (ModelUnavailableError)"),
    "a 500": (Status(500), "failed (ModelUnavailableError)"),
    "a 429": (Status(429, retry_after="60"), "failed (ModelUnavailableError)"),
    "a 401": (Status(401, "wrong key"), "failed (ModelRejectedError)"),
    "too long": (Status(400, "maximum context length", code="context_length_exceeded"), "failed (ContextTooLongError)"),
}


@pytest.mark.parametrize(("reply", "problem"), WRONG.values(), ids=WRONG)
async def test_whatever_goes_wrong_the_search_answers_and_says_so(tmp_path: Path, reply: Any, problem: str) -> None:
    async with opened(tmp_path, reply) as (memory, server):
        found = await memory.retrieve(QUESTION, **U)
        assert len(server.requests) == 1
        assert found.degraded == (f"reranking: the model {problem}; the order is that of the search",)
        assert len(found.results) == 10
        assert [hit.score for hit in found.results] == sorted((hit.score for hit in found.results), reverse=True)


async def test_an_endpoint_that_is_silent_is_given_up(tmp_path: Path) -> None:
    async with opened(tmp_path, Hold(), timeout_s=0.2) as (memory, _):
        found = await memory.retrieve(QUESTION, **U)
        assert found.degraded == ("reranking: the model did not answer in time; the order is that of the search",)
        assert len(found.results) == 10
