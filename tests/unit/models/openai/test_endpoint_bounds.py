"""Bounds of a call: its time with all retries, the bytes of its answer, and where it goes."""

from __future__ import annotations

import pytest

from reme_core.errors import ModelOutputError, ModelRejectedError, ModelUnavailableError
from reme_core.models.endpoint import ANSWER_BYTES
from tests.support.openai_server import Completion, OpenAIServer, Raw, Status
from tests.unit.models.chatting import ask, chat_at


async def test_the_pause_that_an_endpoint_asks_for_counts_into_the_time_of_the_call(server: OpenAIServer) -> None:
    server.replies(Status(429, retry_after="50"))
    with pytest.raises(ModelUnavailableError, match="no answer in time after 1 attempt"):
        await chat_at(server, timeout_s=0.3).chat(ask())


async def test_an_answer_without_end_is_read_to_a_bound_and_not_tried_again(server: OpenAIServer) -> None:
    server.replies(Raw(b" " * (ANSWER_BYTES + 1)))
    with pytest.raises(ModelOutputError, match="more than 8388608 bytes"):
        await chat_at(server).chat(ask())
    assert len(server.requests) == 1


async def test_a_stream_without_end_is_read_to_a_bound(server: OpenAIServer) -> None:
    server.replies(Raw(b": nothing\n\n" * (ANSWER_BYTES // 10), content_type="text/event-stream"))
    with pytest.raises(ModelOutputError, match="more than 8388608 bytes"):
        _ = [piece async for piece in chat_at(server).stream(ask())]


async def test_a_failure_without_end_may_still_be_tried_again(server: OpenAIServer) -> None:
    server.replies(Raw(b"x" * (ANSWER_BYTES + 1), status=500), Completion(text="Blue."))
    assert (await chat_at(server).chat(ask())).message.text == "Blue."


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(server: OpenAIServer, status: int) -> None:
    with OpenAIServer() as other:
        server.replies(Raw(b"", status=status, location=f"{other.base_url}/chat/completions"))
        with pytest.raises(ModelRejectedError, match="redirects are not followed"):
            await chat_at(server).chat(ask())
        assert other.requests == []
