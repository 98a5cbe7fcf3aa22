"""The chat door before a model that misbehaves: the caller gets its bytes, and what was said is kept."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field

import httpx2
import pytest

from reme_core import ReMe
from reme_core.schema import make_scope
from reme_core.serve.access import Principal
from reme_core.serve.chat.answer import MAX_BYTES, AnswerReader
from reme_core.serve.chat.door import chat_routes
from reme_core.serve.chat.talk import MAX_MESSAGES
from reme_core.serve.chat.upstream import Upstream
from reme_core.serve.guard import GuardRules
from reme_core.serve.service import make_app, make_service
from tests.support.openai_server import Completion, HangUp, OpenAIServer
from tests.support.served import served

ALICE = Principal(scope=make_scope("space", "alice"))


@pytest.fixture
def model():
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def address(model, tmp_path):
    memory = ReMe("space", tmp_path, llm=None, embedding=None)
    service, upstream = make_service(memory), Upstream(model.base_url)
    with served(make_app(service, GuardRules(anonymous=ALICE), chat_routes(service, upstream), [upstream])) as url:
        yield f"{url}/v1"


@dataclass
class Bytes:
    """An answer as these pieces, with these headers."""

    pieces: list[bytes]
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, http, request):
        http.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", "Connection": "close", **self.headers}.items():
            http.send_header(name, value)
        http.end_headers()
        for piece in self.pieces:
            http.wfile.write(piece)
            http.wfile.flush()
        http.close_connection = True


def events(*deltas):
    whole = [json.dumps({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas]
    return [f"data: {event}\n\n".encode() for event in (*whole, "[DONE]")]


def ask(address, content="Hello", **headers):
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": content}]}
    return httpx2.post(f"{address}/chat/completions", json=body, headers=headers, timeout=20)


def answers(tmp_path):
    with ReMe.sync("space", tmp_path, llm=None, embedding=None) as memory:
        page = memory.find_messages(user_id="alice")
        return [item.message for item in page.messages if item.message.role == "assistant"]


def test_an_answer_that_speaks_of_its_end_goes_on(address, model, tmp_path):
    first, *rest = events({"content": "A stream ends with [DONE]"}, {"content": ", as it says."})
    model.replies(Bytes([first, *rest]))
    ask(address)
    [answer] = answers(tmp_path)
    assert (answer.text, answer.metadata) == ("A stream ends with [DONE], as it says.", {})


def test_calls_without_an_index_are_told_apart_by_their_ids(address, model, tmp_path):
    deltas = [
        {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": '{"x":'}}]},
        {"tool_calls": [{"function": {"arguments": " 1}"}}]},
        {"tool_calls": [{"id": "b", "function": {"name": "g", "arguments": "{}"}}]},
    ]
    model.replies(Bytes(events(*deltas)))
    ask(address)
    [answer] = answers(tmp_path)
    assert [(call.call_id, call.name, call.arguments) for call in answer.content] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {}),
    ]


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "identity"])
def test_an_answer_compressed_against_what_was_asked_is_kept(address, model, tmp_path, encoding):
    said = b"".join(events({"content": "packed"}))
    data = said if encoding == "identity" else gzip.compress(said)
    model.replies(Bytes([data[:20], data[20:]], {"Content-Encoding": encoding}))
    assert ask(address).content == said
    [answer] = answers(tmp_path)
    assert (answer.text, answer.metadata) == ("packed", {})


def test_an_answer_in_an_encoding_that_nobody_knows_passes(address, model, tmp_path):
    model.replies(Bytes([b"\0\1\2"], {"Content-Encoding": "zebra"}))
    assert ask(address).content == b"\0\1\2"
    assert answers(tmp_path) == []


def test_a_stream_that_promised_more_bytes_ends_with_an_error(address, model, tmp_path):
    whole, _ = events({"content": "half"})
    model.replies(Bytes([whole], {"Content-Length": "9999"}))
    last = ask(address).content.removeprefix(whole)
    assert "broke off" in json.loads(last.removeprefix(b"data: "))["error"]["message"]
    [answer] = answers(tmp_path)
    assert answer.metadata == {"reme_partial": True}


def test_an_answer_above_the_bound_passes_as_it_comes(address, model, tmp_path):
    piece = b" " * (1 << 20)
    model.replies(Bytes([piece] * 10, {"Content-Type": "application/json"}))
    assert len(ask(address).content) == 10 << 20 > MAX_BYTES
    assert answers(tmp_path) == []


def test_half_of_a_character_costs_that_character_alone(address, model, tmp_path):
    model.replies(Bytes(events({"content": "ends \ud83d"})), Bytes(events({"content": "a\0b"})))
    ask(address)
    body = '{"model": "m", "messages": [{"role": "user", "content": "My dog is \\ud83d Rex\\u0000"}]}'
    model.replies(Completion(text="Good dog."))
    again = httpx2.post(f"{address}/chat/completions", content=body)
    assert again.headers["x-reme-memory"] in {"none", "notes"}
    assert [answer.text for answer in answers(tmp_path)] == ["ends \ufffd", "a\ufffdb"]


def test_half_of_a_character_elsewhere_passes_beside_notes(address, model):
    model.replies(Completion(text="Noted."), Completion(text="Rosa."))
    ask(address, "My boat is called Rosa.")
    body = json.dumps(
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be short \ud83d"},
                {"role": "user", "content": "What is my boat called?"},
            ],
        }
    )
    answer = httpx2.post(f"{address}/chat/completions", content=body)
    assert (answer.status_code, answer.headers["x-reme-memory"]) == (200, "notes")
    assert model.bodies[1]["messages"][0]["content"] == "Be short \ud83d"


def test_a_model_speaks_for_itself_alone(address, model):
    theirs = {
        "X-Reme-Memory": "none",
        "Location": "http://evil.example",
        "Access-Control-Allow-Origin": "*",
        "X-Request-Id": "7",
    }
    model.replies(Bytes(events({"content": "Hi"}), theirs))
    headers = ask(address, **{"X-Reme-Session": "one"}).headers
    assert headers.get_list("x-reme-memory") == ["none"]
    assert "access-control-allow-origin" not in headers
    assert "location" not in headers
    assert headers["x-request-id"] == "7"


def test_a_failure_tells_nothing_of_where_the_model_is(address, model):
    model.replies(HangUp())
    told = ask(address)
    assert told.status_code == 503
    assert model.base_url not in told.text
    assert "Error" not in told.json()["error"]["message"]


@pytest.mark.parametrize("authorization", ["reme_secret", "Token reme_secret", "Bearer\treme_secret"])
def test_a_key_of_ours_never_goes_to_the_model(address, model, authorization):
    assert ask(address, Authorization=authorization).status_code == 401
    assert model.requests == []


def test_more_messages_than_a_talk_has_pass_without_memory(address, model):
    model.replies(Completion(text="So much."))
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}] * (MAX_MESSAGES + 1)}
    answer = httpx2.post(f"{address}/chat/completions", json=body, timeout=20)
    assert answer.status_code == 200
    assert answer.headers["x-reme-memory"] == "degraded; reason=messages that the memory can't read"


def test_a_request_that_lies_as_deep_as_json_is_read_passes(address, model):
    ask(address, "My boat is called Rosa.")
    for depth in range(900, 1000, 4):
        deep = "[" * depth + "]" * depth
        body = f'{{"messages": [{{"role": "user", "content": "My boat is called?"}}], "tools": {deep}}}'
        answer = httpx2.post(f"{address}/chat/completions", content=body)
        assert answer.status_code in {200, 422}, depth


@pytest.mark.parametrize(
    ("told", "kept"), [(-5, 0), (True, 0), (10**30, 0), ("7", 0), (7, 7)], ids=["less", "bool", "huge", "text", "good"]
)
async def test_tokens_that_can_be_none_count_as_nothing(address, model, tmp_path, told, kept):
    body = {"choices": [{"index": 0, "message": {"content": "Hi"}}], "usage": {"prompt_tokens": told}}
    model.replies(Bytes([json.dumps(body).encode()], {"Content-Type": "application/json"}))
    assert ask(address).json() == body
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        [cost] = await memory.costs(user_id="alice")
    assert cost.prompt_tokens == kept


def test_a_comment_falls_between_events_alone():
    reader = AnswerReader(is_stream=True)
    assert reader.is_between_events
    for piece, is_between in (
        (b"data: a", False),
        (b"\n", False),
        (b"\n", True),
        (b"data: b\r\n", False),
        (b"\r\n", True),
    ):
        reader.feed(piece)
        assert reader.is_between_events is is_between
    assert not AnswerReader(is_stream=True, encoding="gzip").is_between_events
