"""Answers in pieces."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from reme_core.errors import ModelOutputError, ModelRejectedError, ModelUnavailableError
from reme_core.models import OpenAIChat
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import ToolCallBlock
from tests.support.openai_server import Call, Completion, Hold, OpenAIServer, Raw, Reply, Status
from tests.unit.models.chatting import COLOUR, WEATHER, ask, chat_at


async def read(chat: OpenAIChat, request: ChatRequest) -> tuple[list[str], ChatResult]:
    async with aclosing(chat.stream(request)) as pieces:
        items = [item async for item in pieces]
    result = items.pop()
    assert isinstance(result, ChatResult)
    texts = [item for item in items if isinstance(item, str)]
    assert texts == items
    return texts, result


async def test_text_comes_in_pieces_and_then_as_a_whole(server: OpenAIServer) -> None:
    server.replies(Completion(text="The sky is blue, 蓝色的。"))
    chat = chat_at(server)
    texts, result = await read(chat, ask())
    assert len(texts) > 2
    assert "".join(texts) == result.message.text == "The sky is blue, 蓝色的。"
    assert result.usage.prompt_tokens == server.prompt_tokens > 0
    assert result.usage.completion_tokens == server.completion_tokens > 0
    assert chat.usage == result.usage


@pytest.mark.parametrize("indexed", [True, False])
async def test_parallel_tool_calls_are_put_together(server: OpenAIServer, *, indexed: bool) -> None:
    calls = [Call("c1", "weather", '{"town": "Rome"}'), Call("c2", "weather", '{"town": "北京')]
    server.replies(Completion(text="I look.", calls=calls, indexed=indexed))
    _, result = await read(chat_at(server), ask(tools=(WEATHER,)))
    assert result.message.content[1:] == (
        ToolCallBlock(call_id="c1", name="weather", arguments={"town": "Rome"}),
        ToolCallBlock(call_id="c2", name="weather", arguments='{"town": "北京'),
    )
    assert result.finish_reason == "tool_calls"


async def test_json_is_parsed_at_the_end_also_where_the_endpoint_lacks_schemas(server: OpenAIServer) -> None:
    server.formats = set()
    server.replies(Completion(text='{"colour": "blue"}'))
    _, result = await read(chat_at(server), ask(response_schema=COLOUR))
    assert result.parsed == {"colour": "blue"}
    assert result.usage.model_calls == 3


async def test_an_endpoint_that_reports_no_usage_in_streams_is_understood(server: OpenAIServer) -> None:
    server.refused_options = {"stream_options": "Unknown parameter: 'stream_options'."}
    chat = chat_at(server)
    for _ in range(2):
        texts, _ = await read(chat, ask())
        assert texts
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


async def test_the_beginning_is_tried_again(server: OpenAIServer) -> None:
    server.replies(Status(503), Completion(text="Blue."))
    _, result = await read(chat_at(server), ask())
    assert result.usage.model_calls == 2


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Completion(text="The sky is blue.", cut_after=2), ModelUnavailableError),
        (Completion(text="The sky is blue.", cut_after=0), ModelUnavailableError),
        (Raw(b"data: [DONE]\n\n", content_type="text/event-stream"), ModelUnavailableError),
        (Raw(b"<html></html>", content_type="text/html"), ModelUnavailableError),
        (Raw(b"data: {nope\n\n", content_type="text/event-stream"), ModelOutputError),
        (Raw(b"data: [1]\n\n", content_type="text/event-stream"), ModelOutputError),
        (
            Raw(b'data: {"error": {"message": "overloaded"}}\n\n', content_type="text/event-stream"),
            ModelUnavailableError,
        ),
        (Completion(text=""), ModelOutputError),
        (Status(401), ModelRejectedError),
    ],
)
async def test_a_stream_that_breaks_is_an_error(server: OpenAIServer, reply: Reply, kind: type[Exception]) -> None:
    server.replies(reply)
    chat = chat_at(server)
    with pytest.raises(kind):
        await read(chat, ask())
    assert len(server.requests) == 1
    assert (await chat.chat(ask(("user", "Hello")))).message.text == "You said: Hello"


async def test_a_silent_stream_times_out(server: OpenAIServer) -> None:
    server.replies(Hold())
    with pytest.raises(ModelUnavailableError, match="in time"):
        await read(chat_at(server, timeout_s=0.05, max_retries=0), ask())


async def test_a_stream_left_early_gives_its_place_back(server: OpenAIServer) -> None:
    chat = chat_at(server, max_concurrency=1)
    server.replies(Completion(text="word " * 1000))
    async with aclosing(chat.stream(ask())) as pieces:
        async for _ in pieces:
            break
    assert (await chat.chat(ask(("user", "Hello")))).message.text == "You said: Hello"


async def test_a_cancelled_stream_gives_its_place_back(server: OpenAIServer) -> None:
    chat = chat_at(server, max_concurrency=1)
    server.replies(Hold())
    task = asyncio.ensure_future(read(chat, ask()))
    await asyncio.to_thread(server.wait_for_requests, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await chat.chat(ask(("user", "Hello")))).message.text == "You said: Hello"
