"""Failures of the endpoint: what is tried again, after how long, and what the caller gets."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from reme_core.errors import ContextTooLongError, ModelError, ModelRejectedError, ModelUnavailableError
from reme_core.models import BackOff, OpenAIChat
from tests.support.openai_server import Completion, HangUp, Hold, OpenAIServer, Raw, Reply, Status
from tests.unit.models.chatting import Waits, ask, chat_at


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_passing_failure_is_tried_again(server: OpenAIServer, status: int) -> None:
    chat = chat_at(server)
    server.replies(Status(status), Completion(text="Blue."))
    result = await chat.chat(ask())
    assert result.message.text == "Blue."
    assert result.usage.model_calls == 2
    assert len(server.requests) == 2


@pytest.mark.parametrize("reply", [HangUp(), Raw(b'{"choices"', promised=500)], ids=["no answer", "half an answer"])
async def test_a_dropped_connection_is_tried_again(server: OpenAIServer, reply: Reply) -> None:
    server.replies(reply, Completion(text="Blue."))
    result = await chat_at(server).chat(ask())
    assert result.message.text == "Blue."
    assert result.usage.model_calls == 2


async def test_an_answer_that_does_not_come_in_time_is_tried_again(server: OpenAIServer) -> None:
    server.replies(Hold())
    result = await chat_at(server, timeout_s=0.5).chat(ask(("user", "Hello")))
    assert result.message.text == "You said: Hello"
    assert result.usage.model_calls == len(server.requests) >= 2


async def test_the_requests_own_time_out_goes_first(server: OpenAIServer) -> None:
    server.replies(Hold())
    with pytest.raises(ModelUnavailableError, match="no answer in time after 1 attempt"):
        await chat_at(server, max_retries=0).chat(ask(timeout_s=0.05))


@pytest.mark.parametrize("reply", [Status(503, code="overloaded"), HangUp()])
async def test_retries_are_bounded(server: OpenAIServer, reply: Reply) -> None:
    chat = chat_at(server, max_retries=2)
    server.replies(*[reply] * 5)
    with pytest.raises(ModelUnavailableError, match="after 3 attempts") as caught:
        await chat.chat(ask())
    assert caught.value.retryable
    assert caught.value.__cause__ is not None
    assert len(server.requests) == 3
    assert chat.usage.model_calls == 3


async def test_a_server_that_is_not_there_is_unavailable_and_costs_no_call() -> None:
    with OpenAIServer() as server:
        url = server.base_url
    waits = Waits()
    chat = OpenAIChat("a-model", base_url=url, max_retries=2, back_off=waits.back_off())
    with pytest.raises(ModelUnavailableError, match="REME_LLM_BASE_URL"):
        await chat.chat(ask())
    assert len(waits.seconds) == 2
    assert chat.usage.model_calls == 0


async def test_waits_grow_with_full_jitter(server: OpenAIServer) -> None:
    waits = Waits()
    server.replies(*[Status(500)] * 8)
    with pytest.raises(ModelUnavailableError):
        await chat_at(server, max_retries=7, back_off=waits.back_off(0.5)).chat(ask())
    assert waits.seconds == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0]


@pytest.mark.parametrize(
    ("asked", "waited"),
    [("3", 3.0), ("0", 0.0), ("2.5", 2.5), ("86400", 60.0), ("-1", 0.25), ("nan", 0.25), ("soon", 0.25)],
)
async def test_the_wait_that_the_endpoint_asks_for_is_honoured_up_to_a_limit(
    server: OpenAIServer, asked: str, waited: float
) -> None:
    waits = Waits()
    server.replies(Status(429, retry_after=asked))
    await chat_at(server, back_off=waits.back_off(0.0 if waited != 0.25 else 0.5)).chat(ask())
    assert waits.seconds == [waited]


def test_callers_told_the_same_wait_do_not_come_back_at_once() -> None:
    early = BackOff(jitter=lambda: 0.0).seconds(1, 3.0)
    late = BackOff(jitter=lambda: 0.9).seconds(1, 3.0)
    assert early == 3.0
    assert late > early


@pytest.mark.parametrize(
    ("reply", "kind", "hint"),
    [
        (Status(401, code="invalid_api_key"), ModelRejectedError, "401.*'invalid_api_key'.*REME_LLM_API_KEY"),
        (Status(403), ModelRejectedError, "403.*may not use"),
        (Status(404, code="model_not_found"), ModelRejectedError, "404.*'model_not_found'.*REME_LLM_BASE_URL"),
        (Status(400, param="tools[0].name"), ModelRejectedError, r"400.*'tools\[0\].name'"),
        (Status(422), ModelRejectedError, "422"),
        (Status(429, code="insufficient_quota"), ModelRejectedError, "quota"),
        (Raw(b"<html>no</html>", status=404, content_type="text/html"), ModelRejectedError, "404"),
        (
            Status(400, "maximum context length is 8192 tokens", code="context_length_exceeded"),
            ContextTooLongError,
            "longer than",
        ),
        (Status(400, "This model's maximum context length is 8192 tokens."), ContextTooLongError, "shorten"),
        (Status(400, "Range of input length should be [1, 8192]"), ContextTooLongError, "longer than"),
        (
            Status(400, "the request exceeds the available context size, try increasing it"),
            ContextTooLongError,
            "longer than",
        ),
        (Status(413, "prompt is too long: 300000 tokens > 200000 maximum"), ContextTooLongError, "longer than"),
    ],
)
async def test_a_refusal_is_not_tried_again_and_says_what_to_do(
    server: OpenAIServer, reply: Reply, kind: type[ModelError], hint: str
) -> None:
    server.replies(reply)
    with pytest.raises(kind, match=hint) as caught:
        await chat_at(server).chat(ask())
    assert not caught.value.retryable
    assert "'a-model' at" in str(caught.value)
    assert len(server.requests) == 1


async def test_an_error_says_nothing_that_the_endpoint_wrote(server: OpenAIServer) -> None:
    private = "the patient's name is Alice"
    server.replies(Status(400, f"bad prompt: {private}", code=private, param=private))
    with pytest.raises(ModelRejectedError) as caught:
        await chat_at(server).chat(ask(("user", private)))
    assert "Alice" not in str(caught.value) + repr(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # our own bytes
    assert str(again) == str(caught.value)


async def test_a_url_with_a_password_is_told_without_it(server: OpenAIServer) -> None:
    url = server.base_url.replace("http://", "http://alice:pass-word@")
    chat = OpenAIChat("a-model", base_url=url, max_retries=0)
    server.replies(Status(500))
    with pytest.raises(ModelUnavailableError) as caught:
        await chat.chat(ask())
    assert "pass-word" not in f"{caught.value} {chat!r} {vars(chat)} {vars(chat._endpoint)}"


async def test_a_cancelled_call_hangs_up_and_the_model_goes_on(server: OpenAIServer) -> None:
    chat = chat_at(server, max_concurrency=1)
    hold = Hold()
    server.replies(hold)
    task = asyncio.ensure_future(chat.chat(ask()))
    await asyncio.to_thread(server.wait_for_requests, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await chat.chat(ask(("user", "Hello")))).message.text == "You said: Hello"


async def test_cancelling_during_a_wait_ends_it(server: OpenAIServer) -> None:
    waiting = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    server.replies(Status(500))
    task = asyncio.ensure_future(chat_at(server, back_off=BackOff(sleep=sleep)).chat(ask()))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
