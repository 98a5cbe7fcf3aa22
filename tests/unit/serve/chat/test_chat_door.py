"""The chat door with the real `openai` client: what passes is untouched, a turn is on disk, memory never fails it."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx2
import openai
import pytest
from pydantic import BaseModel

from reme_core import ReMe
from reme_core.errors import StorageFullError
from reme_core.schema import make_scope
from reme_core.serve.access import Principal
from reme_core.serve.chat.door import chat_routes
from reme_core.serve.chat.talk import read_talk
from reme_core.serve.chat.upstream import Upstream
from reme_core.serve.guard import GuardRules
from reme_core.serve.service import make_app, make_service
from tests.support.openai_server import Call, Completion, HangUp, OpenAIServer, Raw, Status
from tests.support.served import served

ALICE = Principal(scope=make_scope("space", "alice"))
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def model():
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def memory(tmp_path):
    return ReMe("space", tmp_path, llm=None, embedding=None)


@pytest.fixture
def app(model, memory):
    service, upstream = make_service(memory), Upstream(model.base_url, "sk-of-the-model")
    return make_app(service, GuardRules(anonymous=ALICE), chat_routes(service, upstream), [upstream])


@pytest.fixture
def address(app):
    with served(app) as url:
        yield f"{url}/v1"


@pytest.fixture
def client(address):
    with openai.OpenAI(base_url=address, api_key="anything", max_retries=0) as client:
        yield client


def user(text):
    return {"role": "user", "content": text}


def ask(client, *messages, headers=None, **options):
    return client.chat.completions.with_raw_response.create(
        model="m", messages=list(messages), extra_headers=headers, **options
    )


def said(tmp_path, user_id="alice", session_id=None):
    with ReMe.sync("space", tmp_path, llm=None, embedding=None) as memory:
        page = memory.find_messages(user_id=user_id, session_id=session_id)
        return [(item.message.role, item.message.text) for item in page.messages]


def test_a_turn_is_kept_and_recalled_in_another_session(client, model, tmp_path):
    model.replies(Completion(text="Noted."), Completion(text="In Berlin."))
    first = ask(client, user("My sister Ada lives in Berlin."))
    assert first.headers["x-reme-memory"] == "none"
    second = ask(client, {"role": "system", "content": "Be short."}, user("Where does my sister Ada live?"))
    assert second.headers["x-reme-memory"] == "notes"
    assert second.parse().choices[0].message.content == "In Berlin."
    system, notes, question = model.bodies[1]["messages"]
    assert (system["content"], question["content"]) == ("Be short.", "Where does my sister Ada live?")
    assert notes["role"] == "user"
    assert "My sister Ada lives in Berlin." in notes["content"]
    assert notes["content"].startswith("<notes>")
    assert first.headers["x-reme-session"] != second.headers["x-reme-session"]
    assert said(tmp_path, session_id=first.headers["x-reme-session"]) == [
        ("user", "My sister Ada lives in Berlin."),
        ("assistant", "Noted."),
    ]


def test_memory_blocks_stand_behind_the_instructions_and_notes_before_the_question(client, model, tmp_path):
    with ReMe.sync("space", tmp_path, llm=None, embedding=None) as other:  # of another process
        other.set_memory_block("persona", "I am Friday.", user_id="alice")
        other.set_memory_block("human", "Is called Alice.", user_id="alice")
        other.set_memory_block("human", "Is called Bob.", user_id="bob")
        other.add_memory("Alice has a boat called Rosa.", user_id="alice")
    talk = [{"role": "system", "content": "Be short."}, user("Hi"), {"role": "assistant", "content": "Hello."}]
    model.replies(*(Completion(text="Rosa.") for _ in range(3)))
    asked = [*talk, user("What is my boat called?")]
    assert ask(client, *asked).headers["x-reme-memory"] == "notes"
    system, blocks, *between, notes, question = model.bodies[0]["messages"]
    assert [system, *between, question] == asked
    assert blocks["role"] == notes["role"] == "user"
    assert "I am Friday." in blocks["content"]
    assert "Is called Alice." in blocks["content"]
    assert "Bob" not in blocks["content"]
    assert "Rosa" in notes["content"]
    with ReMe.sync("space", tmp_path, llm=None, embedding=None) as other:
        other.set_memory_block("human", "Is called Ally.", user_id="alice")
        said_before = said(tmp_path)
    ask(client, *asked, headers={"X-Reme-Blocks": "human", "X-Reme-Budget": "0"})
    assert "Is called Ally." in model.bodies[1]["messages"][1]["content"]
    assert "Friday" not in model.bodies[1]["messages"][1]["content"]
    ask(client, *asked, headers={"X-Reme-Blocks": "off", "X-Reme-Budget": "0"})
    assert model.bodies[2]["messages"] == asked
    assert not any("memory_block" in text for _, text in said_before)


def test_memory_blocks_that_cannot_be_read_do_not_fail_the_chat(client, model, memory, monkeypatch):
    async def fail(**_):
        raise StorageFullError("the disk is gone")

    monkeypatch.setattr(memory, "memory_blocks", fail)
    model.replies(Completion(text="Hello."))
    answer = ask(client, user("Hi"))
    assert answer.headers["x-reme-memory"] == "degraded; reason=StorageFullError"
    assert answer.parse().choices[0].message.content == "Hello."
    assert model.bodies[0]["messages"] == [user("Hi")]


def test_a_talk_that_goes_on_is_kept_once_and_not_shown_again(client, model, tmp_path):
    talk = [user("My boat is called Rosa.")]
    for turn, answer in enumerate(("A fine name.", "Rosa it is.", "Yes.")):
        model.replies(Completion(text=answer))
        reply = ask(client, *talk)
        assert reply.headers["x-reme-memory"] == "none"
        talk += [{"role": "assistant", "content": answer}, user(f"What is my boat called? {turn}")]
    assert [body["messages"] for body in model.bodies] == [talk[:1], talk[:3], talk[:5]]
    assert said(tmp_path) == [(message["role"], message["content"]) for message in talk[:-1]]


def test_the_header_names_the_session(client, model, tmp_path):
    model.replies(Completion(text="Hello."), Completion(text="Hello again."))
    for name in ("one", "two"):
        assert ask(client, user("Hi"), headers={"X-Reme-Session": name}).headers["x-reme-session"] == name
    assert said(tmp_path, session_id="one") == [("user", "Hi"), ("assistant", "Hello.")]
    assert said(tmp_path, session_id="two") == [("user", "Hi"), ("assistant", "Hello again.")]
    with pytest.raises(openai.UnprocessableEntityError, match="X-Reme-Session"):
        ask(client, user("Hi"), headers={"X-Reme-Session": "x" * 2000})


def test_a_stream_passes_piece_by_piece_with_its_tool_calls_and_its_usage(client, model, tmp_path):
    model.replies(Completion(text="Let me look.", calls=[Call("call_1", "weather", '{"city": "Rome"}')]))
    stream = client.chat.completions.create(
        model="m",
        messages=[user("What is the weather in Rome?")],
        tools=[WEATHER],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert chunks[-1].usage.total_tokens > 0
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == "Let me look."
    arguments = [call.function.arguments for c in chunks[:-1] for call in c.choices[0].delta.tool_calls or ()]
    assert "".join(arguments) == '{"city": "Rome"}'
    assert model.bodies[0]["tools"] == [WEATHER]
    with ReMe.sync("space", tmp_path, llm=None, embedding=None) as memory:
        _, answer = memory.find_messages(user_id="alice").messages
        assert answer.message.call_ids == ("call_1",)
        assert answer.message.metadata == {}
    model.replies(Completion(text="Sunny."))
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    ask(
        client,
        user("What is the weather in Rome?"),
        {"role": "assistant", "content": "Let me look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "23 degrees"},
    )
    assert [role for role, _ in said(tmp_path)] == ["user", "assistant", "tool", "assistant"]


def test_what_the_model_says_that_it_took_is_the_callers_cost(client, model, tmp_path):
    took = {"prompt_tokens": 7, "completion_tokens": 3}
    for told in (took, took, {"prompt_tokens": -1, "completion_tokens": 10**40}, {"prompt_tokens": "many"}, None):
        choice = {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
        model.replies(Raw(json.dumps({"object": "chat.completion", "choices": [choice], "usage": told}).encode()))
        assert ask(client, user("Is it so?")).headers["x-reme-memory"] == "none"
    with ReMe.sync("space", tmp_path, llm=None, embedding=None) as memory:
        [cost] = memory.costs(user_id="alice")
    assert (cost.purpose, cost.model_calls, cost.prompt_tokens, cost.completion_tokens) == ("chat door", 5, 14, 6)


def test_a_span_tells_which_model_was_asked_and_what_it_took(app, model, monkeypatch):
    pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    model.replies(Completion(text="Noted."))
    with served(app) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="anything") as client:
        usage = ask(client, user("My sister lives in Berlin.")).parse().usage
    spans = {span.name: dict(span.attributes) for span in exporter.get_finished_spans()}
    assert spans.keys() == {"search_memory", "chat m", "upsert_memory"}
    assert spans["chat m"]["gen_ai.usage.input_tokens"] == usage.prompt_tokens
    assert spans["chat m"]["gen_ai.usage.output_tokens"] == usage.completion_tokens
    assert "Berlin" not in str(spans)


def test_structured_output_and_fields_that_we_do_not_know_pass_through(client, model):
    class City(BaseModel):
        name: str

    model.replies(Completion(text='{"name": "Rome"}'))
    answer = client.chat.completions.parse(
        model="m", messages=[user("Which city?")], response_format=City, extra_body={"vendor_option": [1, {"a": None}]}
    )
    assert answer.choices[0].message.parsed == City(name="Rome")
    assert model.bodies[0]["vendor_option"] == [1, {"a": None}]
    assert model.bodies[0]["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("is_stream", [False, True])
def test_without_memory_the_bytes_are_those_of_the_model(address, model, is_stream, tmp_path):
    body = json.dumps({"model": "m", "stream": is_stream, "messages": [user("Hello, é")], "n": 1}, indent=1).encode()
    headers = {"Content-Type": "application/json"}
    direct = httpx2.post(f"{model.base_url}/chat/completions", content=body, headers=headers)
    through = httpx2.post(f"{address}/chat/completions", content=body, headers={**headers, "X-Reme-Memory": "off"})
    assert through.content == direct.content
    assert through.headers["content-type"] == direct.headers["content-type"]
    assert model.requests[0].body == model.requests[1].body
    assert "x-reme-memory" not in through.headers
    assert said(tmp_path) == []


def test_errors_of_the_model_are_the_callers_untouched(client, model, tmp_path):
    model.replies(Status(429, "slow down", code="rate", retry_after="7"))
    with pytest.raises(openai.RateLimitError, match="slow down") as refused:
        ask(client, user("Hello"))
    assert refused.value.response.headers["retry-after"] == "7"
    assert said(tmp_path) == [("user", "Hello")]


def test_a_model_that_is_not_there_is_told_in_openai_form(client, model):
    model.replies(HangUp())
    with pytest.raises(openai.InternalServerError, match="gives no answer") as failed:
        ask(client, user("Hello"))
    assert failed.value.response.json()["error"]["code"] == "ModelUnavailableError"


def test_a_stream_that_breaks_off_is_an_error_and_its_part_is_kept_as_such(client, model, tmp_path):
    model.replies(Completion(text="The whole long story", cut_after=3))
    with pytest.raises(openai.APIError, match="broke off"):
        list(client.chat.completions.create(model="m", messages=[user("Tell me")], stream=True))
    with ReMe.sync("space", tmp_path, llm=None, embedding=None) as memory:
        _, part = memory.find_messages(user_id="alice").messages
        assert "The whole long story".startswith(part.message.text)
        assert part.message.metadata == {"reme_partial": True}


class Endless:
    """A stream whose answer goes on until its reader has gone."""

    def __init__(self):
        self.gone = threading.Event()

    def send(self, http, request):
        http.send_response(200)
        http.send_header("Content-Type", "text/event-stream")
        http.send_header("Connection", "close")
        http.end_headers()
        http.wfile.write(b'data: {"choices": [{"index": 0, "delta": {"content": "Once upon"}}]}\n\n')
        try:
            while True:
                http.wfile.write(b": more\n\n" * 1000)
        except OSError:
            self.gone.set()


async def test_a_caller_who_leaves_ends_the_request_and_leaves_a_partial_answer(address, model, memory):
    model.replies(endless := Endless())
    async with openai.AsyncOpenAI(base_url=address, api_key="x", max_retries=0) as client:
        stream = await client.chat.completions.create(model="m", messages=[user("Long?")], stream=True)
        assert (await anext(aiter(stream))).choices[0].delta.content == "Once upon"
        await stream.close()
    assert await asyncio.to_thread(endless.gone.wait, 20)
    page = await kept(memory, 2)
    assert [(item.message.text, item.message.metadata) for item in page] == [
        ("Long?", {}),
        ("Once upon", {"reme_partial": True}),
    ]


async def kept(memory, count):
    """Wait until so many messages are on disk: who has left is told nothing."""
    page = ()
    while len(page) < count:
        page = (await memory.find_messages(user_id="alice")).messages
    return page


def test_a_silent_stream_carries_comments(model, memory):
    model.replies(hold := Silent())
    service, upstream = make_service(memory), Upstream(model.base_url)
    app = make_app(service, GuardRules(anonymous=ALICE), chat_routes(service, upstream, keep_alive_s=0.01), [upstream])
    body = {"model": "m", "stream": True, "messages": [user("Hello")]}
    with served(app) as url, httpx2.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": keep-alive"
        hold.release.set()
        assert "data: [DONE]" in lines


class Silent:
    """A stream that begins and says nothing until it is released."""

    def __init__(self):
        self.release = threading.Event()

    def send(self, http, request):
        http.send_response(200)
        http.send_header("Content-Type", "text/event-stream")
        http.send_header("Connection", "close")
        http.end_headers()
        http.wfile.flush()
        self.release.wait(20)
        http.wfile.write(b"data: [DONE]\n\n")


def test_memory_that_fails_never_fails_the_chat(client, model, memory, monkeypatch):
    async def full(*_):
        raise StorageFullError("the disk is full")

    monkeypatch.setattr(memory.store, "append", full)
    model.replies(Completion(text="Fine."))
    answer = ask(client, user("How are you?"))
    assert answer.parse().choices[0].message.content == "Fine."
    assert answer.headers["x-reme-memory"] == "degraded; reason=StorageFullError"


@pytest.mark.parametrize("messages", [None, "hello", [1], [{"role": "user"}], [{"content": "x"}], [["a"]]])
def test_messages_that_we_can_not_read_are_the_models_affair(address, model, messages):
    model.replies(Status(400, "messages are wrong"))
    answer = httpx2.post(f"{address}/chat/completions", json={"model": "m", "messages": messages})
    assert answer.status_code == 400
    assert model.bodies[0]["messages"] == messages


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b'"x"'])
def test_a_body_that_is_no_request_is_refused(address, body):
    answer = httpx2.post(f"{address}/chat/completions", content=body)
    assert answer.status_code == 422
    assert "JSON object" in answer.json()["error"]["message"]


@pytest.mark.parametrize("budget", ["-1", "many", "9999999999"])
def test_a_budget_that_is_none_is_refused(client, budget):
    with pytest.raises(openai.UnprocessableEntityError, match="X-Reme-Budget"):
        ask(client, user("Hello"), headers={"X-Reme-Budget": budget})


def test_notes_stay_within_the_budget(client, model, memory, tmp_path):
    with ReMe.sync("space", tmp_path, llm=None, embedding=None) as other:
        for number in range(40):
            other.summary([("user", f"Apples of sort {number} are best in week {number}.")], user_id="alice")
    for budget in (0, 40, 100, 800):
        model.replies(Completion(text="ok"))
        ask(client, user("What did I say of apples?"), headers={"X-Reme-Budget": str(budget), "X-Reme-Session": "x"})
    sizes = [
        sum(memory.token_counter.count(m["content"]) for m in body["messages"] if m["content"].startswith("<notes>"))
        for body in model.bodies
    ]
    assert sizes[0] == 0
    assert all(size <= budget for size, budget in zip(sizes, (0, 40, 100, 800), strict=True))
    assert sizes[3] > sizes[2] > 0


def test_ids_follow_from_what_was_said():
    one = read_talk([user("Hi"), {"role": "assistant", "content": "Hello"}, user("A")], None)
    same = read_talk([{"role": "system", "content": "Today is Monday"}, user(" Hi "), *_turn("Hello", "A")], None)
    other = read_talk([user("Hi"), *_turn("Hello", "B")], None)
    assert [m.message_id for m in one.messages] == [m.message_id for m in same.messages]
    assert one.messages[1] == one.messages[1]
    assert [a.message_id == b.message_id for a, b in zip(one.messages, other.messages, strict=True)] == [
        True,
        True,
        False,
    ]
    assert one.question == "A"


def _turn(answer, question):
    return [{"role": "assistant", "content": answer}, user(question)]


def look(url):
    return {
        "role": "user",
        "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}],
    }


@pytest.mark.parametrize("url", ["sha256:" + "0" * 64, "data:image/png;base64,*"])
def test_an_image_that_no_store_takes_costs_no_turn_of_its_talk(client, model, tmp_path, url):
    model.replies(Completion(text="A door."), Completion(text="Red."))
    first = ask(client, look(url))
    ask(client, look(url), {"role": "assistant", "content": "A door."}, user("which colour?"))
    assert first.headers["x-reme-memory"] == "none"
    assert said(tmp_path) == [
        ("user", "look\n[image]"),
        ("assistant", "A door."),
        ("user", "which colour?"),
        ("assistant", "Red."),
    ]


def test_two_images_with_the_same_words_are_two_talks(client, model, tmp_path):
    model.replies(*[Completion(text=text) for text in ("A door.", "A cat.", "Red.")])
    door, cat = (look(f"data:image/png;base64,{data}") for data in ("ZG9vcg==", "Y2F0"))
    sessions = [
        ask(client, *talk).headers["x-reme-session"]
        for talk in ((door,), (cat,), (door, {"role": "assistant", "content": "A door."}, user("which colour?")))
    ]
    assert sessions[0] == sessions[2] != sessions[1]
    assert len(said(tmp_path, session_id=sessions[0])) == 4
    assert said(tmp_path, session_id=sessions[1]) == [("user", "look"), ("assistant", "A cat.")]
