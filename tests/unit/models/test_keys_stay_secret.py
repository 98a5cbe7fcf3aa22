"""No key in anything that is printed, logged or raised."""

from __future__ import annotations

import logging
import traceback

import pytest
from pydantic import SecretStr

from reme_core.errors import ModelError
from reme_core.models import OpenAIChat, OpenAIEmbedder
from tests.support.openai_server import KEY, Completion, HangUp, OpenAIServer, Raw, Reply, Status
from tests.unit.models.chatting import ask, chat_at, embedder_at


@pytest.mark.parametrize("key", [KEY, SecretStr(KEY), f" {KEY}\n"])
async def test_a_key_is_sent_and_not_shown(server: OpenAIServer, key: str | SecretStr) -> None:
    chat = OpenAIChat("a-model", api_key=key, base_url=server.base_url)
    embedder = OpenAIEmbedder("a-model", api_key=key, base_url=server.base_url, dimension=64)
    await chat.chat(ask())
    await embedder.embed(["a"])
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    for owner in (chat, embedder, chat._endpoint, chat._endpoint.place, chat._endpoint._clients):
        assert KEY not in f"{owner} {owner!r} {vars(owner) if hasattr(owner, '__dict__') else ''}"


@pytest.mark.parametrize(
    "reply",
    [
        Status(401, f"Incorrect API key provided: {KEY}", code=KEY, param=KEY),
        Status(500, f"proxy said: Bearer {KEY}"),
        Raw(f"<html>{KEY}</html>".encode(), status=403, content_type="text/html"),
        Raw(f'"{KEY}"'.encode(), status=400),
        HangUp(),
    ],
)
async def test_a_key_that_the_endpoint_repeats_is_in_no_traceback(server: OpenAIServer, reply: Reply) -> None:
    server.replies(reply, reply)
    for call in (chat_at(server, max_retries=0).chat(ask()), embedder_at(server, max_retries=0).embed(["a"])):
        with pytest.raises(ModelError) as caught:
            await call
        error = caught.value
        assert KEY not in "".join(traceback.format_exception(error))
        assert KEY not in f"{error!r} {vars(error)} {error.__cause__!r} {vars(error.__cause__)}"


async def test_a_key_is_in_no_log_at_the_most_talkative_level(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2", "asyncio", "reme_core"):
        caplog.set_level(logging.DEBUG, name)
    chat = chat_at(server)
    server.replies(Status(429), Completion(text="Blue."), Status(401, "Incorrect API key"))
    await chat.chat(ask())
    with pytest.raises(ModelError):
        await chat.chat(ask())
    assert caplog.records
    assert KEY not in caplog.text
    assert all(KEY not in str(record.args) + str(record.msg) for record in caplog.records)
    assert not [record for record in caplog.records if record.name.startswith("reme")]
