"""What goes to the endpoint, and what is made of its answers."""

from __future__ import annotations

import copy
import gc
import json
import pickle
from typing import Any

import pytest

from reme_core.errors import ConfigurationError, ContextTooLongError, InvalidInputError, ModelOutputError
from reme_core.models import OpenAIChat
from reme_core.ports import ChatRequest, ResponseSchema
from reme_core.schema import FileBlock, ImageBlock, Message, OtherBlock, TextBlock, ToolCallBlock, ToolResultBlock
from tests.support.openai_server import KEY, Call, Completion, OpenAIServer, Raw, Status
from tests.unit.models.chatting import COLOUR, WEATHER, ask, chat_at


async def test_a_plain_request_holds_model_and_messages_alone(server: OpenAIServer) -> None:
    await chat_at(server).chat(ask())
    assert server.bodies == [{"model": "a-model", "messages": [{"role": "user", "content": "What colour is the sky?"}]}]
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_without_a_key_none_is_sent(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    await chat_at(server, api_key=None).chat(ask())
    sent = server.requests[0].headers
    assert "authorization" not in sent
    assert "from-the-environment" not in str(sent)


async def test_options_are_sent_and_the_requests_temperature_goes_first(server: OpenAIServer) -> None:
    chat = chat_at(server, temperature=0.6)
    await chat.chat(ask(max_tokens=7))
    await chat.chat(ask(temperature=0.0))
    assert [body["temperature"] for body in server.bodies] == [0.6, 0.0]
    assert server.bodies[0]["max_tokens"] == 7


async def test_every_kind_of_block_reaches_the_endpoint_in_order(server: OpenAIServer) -> None:
    conversation = [
        Message(role="system", content=(TextBlock(text="Be short."),)),
        Message(
            role="user",
            name="Alice Smith",
            content=(
                TextBlock(text="Look:"),
                ImageBlock(url="https://example.org/a.png", caption="a lake"),
                FileBlock(url="notes.txt"),
            ),
        ),
        Message(
            role="assistant",
            content=(
                OtherBlock(kind="thinking", data="hm"),
                TextBlock(text="I look it up."),
                ToolCallBlock(call_id="c1", name="weather", arguments={"town": "北京"}),
                ToolCallBlock(call_id="c2", name="weather", arguments='{"town": '),
            ),
        ),
        Message(
            role="tool",
            content=(ToolResultBlock(call_id="c1", output="sunny"), ToolResultBlock(call_id="c2", output="what?")),
        ),
        Message(role="assistant", content=(OtherBlock(kind="thinking", data="hm"),)),
    ]
    await chat_at(server).chat(ask(*conversation))
    assert server.bodies[0]["messages"] == [
        {"role": "system", "content": "Be short."},
        {
            "role": "user",
            "name": "Alice_Smith",
            "content": [
                {"type": "text", "text": "Look:\na lake"},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                {"type": "text", "text": "[file: notes.txt]"},
            ],
        },
        {
            "role": "assistant",
            "content": "I look it up.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"town": "北京"}'}},
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": "weather", "arguments": json.dumps({"malformed": '{"town": '})},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "c2", "content": "what?"},
    ]


async def test_a_call_and_its_result_in_one_message_are_sent_as_two(server: OpenAIServer) -> None:
    both = Message(
        role="assistant",
        content=(
            ToolCallBlock(call_id="c1", name="weather"),
            ToolResultBlock(call_id="c1", output="sunny"),
            TextBlock(text="Sunny."),
        ),
    )
    await chat_at(server).chat(ask(both))
    assert [message["role"] for message in server.bodies[0]["messages"]] == ["assistant", "tool", "assistant"]


@pytest.mark.parametrize("url", ["/home/alice/a.png", "data:image/png;base64,AAAA"])
async def test_an_image_that_cannot_be_shown_is_told_in_words(server: OpenAIServer, url: str) -> None:
    await chat_at(server).chat(ask(Message(role="assistant", content=(ImageBlock(url=url),))))
    content = server.bodies[0]["messages"][0]["content"]
    assert content in {"[image: /home/alice/a.png]", "[image: embedded data]"}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        ("weather", {"type": "function", "function": {"name": "weather"}}),
    ],
)
async def test_tools_and_the_choice_among_them_are_sent(server: OpenAIServer, choice: str, sent: object) -> None:
    await chat_at(server).chat(ask(tools=(WEATHER,), tool_choice=choice))
    function = {"name": "weather", "description": "Of a town.", "parameters": {"type": "object", "properties": {}}}
    assert server.bodies[0]["tools"] == [{"type": "function", "function": function}]
    assert server.bodies[0].get("tool_choice") == sent


@pytest.mark.parametrize("request_", [ask(tool_choice="rain", tools=(WEATHER,)), ask(tool_choice="required")])
async def test_a_choice_of_no_known_tool_is_refused_before_the_call(
    server: OpenAIServer, request_: ChatRequest
) -> None:
    with pytest.raises(InvalidInputError, match="tool_choice"):
        await chat_at(server).chat(request_)
    assert server.requests == []


async def test_a_request_with_nothing_to_say_is_refused_before_the_call(server: OpenAIServer) -> None:
    with pytest.raises(InvalidInputError, match="nothing to send"):
        await chat_at(server).chat(ask(Message(role="user", content=(OtherBlock(kind="audio"),))))
    assert server.requests == []


@pytest.mark.parametrize(
    ("reason", "read"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("function_call", "tool_calls"),
        ("eos_token", "other"),
        ("", "stop"),
    ],
)
async def test_finish_reasons_are_read(server: OpenAIServer, reason: str, read: str) -> None:
    server.replies(Completion(text="Blue.", finish_reason=reason))
    assert (await chat_at(server).chat(ask())).finish_reason == read


async def test_tool_calls_without_usable_ids_get_ids_of_their_own(server: OpenAIServer) -> None:
    calls = [Call(None, "a", "{}"), Call("", "b", None), Call("x", "c", {"ready": 1}), Call("x", "d", "[1]")]
    server.replies(Completion(calls=calls, finish_reason="stop"))
    result = await chat_at(server).chat(ask(tools=(WEATHER,)))
    assert result.finish_reason == "tool_calls"
    assert len(set(result.message.call_ids)) == 4
    arguments = [block.arguments for block in result.message.content if block.type == "tool_call"]
    assert arguments == [{}, {}, {"ready": 1}, "[1]"]


async def test_text_that_no_file_keeps_is_cleaned(server: OpenAIServer) -> None:
    broken = json.dumps({"colour": "a\0b\ud83d"})
    call = Call("c1", "note", broken)
    server.replies(Completion(text="a\0b\ud83dc", calls=[call], extra={"reasoning_content": "\ud83d"}))
    result = await chat_at(server).chat(ask())
    assert result.message.text == "ab\ufffdc"
    assert result.message.content[0] == OtherBlock(kind="thinking", data="\ufffd")
    assert result.message.content[2] == ToolCallBlock(call_id="c1", name="note", arguments={"colour": "ab\ufffd"})


async def test_text_in_parts_is_put_together(server: OpenAIServer) -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Bl"}, {"type": "text", "text": "ue."}]
    server.replies(Completion(extra={"content": parts}))
    assert (await chat_at(server).chat(ask())).message.text == "Blue."


@pytest.mark.parametrize(
    "reply",
    [
        Raw(b"<html><body>Welcome</body></html>", content_type="text/html"),
        Raw(b"<html><body>Welcome</body></html>"),
        Raw(b'{"choices": [{"message": {"content": "Bl'),
        Raw(b""),
        Raw(b"[]"),
        Raw(b"[" * 100_000),
        Raw(b'{"choices": []}'),
        Raw(b'{"choices": null}'),
        Raw(b'{"choices": [{"finish_reason": "stop"}]}'),
        Raw(b'{"choices": [{"message": 3}]}'),
        Raw(b'{"error": {"message": "no", "code": 5}}'),
        Completion(text=None),
        Completion(text=""),
        Completion(text=" \n", finish_reason="length"),
        Completion(text=None, finish_reason="content_filter"),
    ],
)
async def test_an_answer_that_says_nothing_is_an_error_that_keeps_it(server: OpenAIServer, reply: Raw) -> None:
    chat = chat_at(server)
    server.replies(reply)
    with pytest.raises(ModelOutputError) as caught:
        await chat.chat(ask())
    if isinstance(reply, Raw):
        assert caught.value.raw == reply.body.decode()
    assert len(server.requests) == 1
    assert chat.usage.model_calls == 1


async def test_usage_is_the_endpoints(server: OpenAIServer) -> None:
    chat = chat_at(server)
    first = await chat.chat(ask())
    second = await chat.chat(ask())
    total = first.usage + second.usage
    assert total.prompt_tokens == server.prompt_tokens
    assert total.completion_tokens == server.completion_tokens
    assert chat.usage == total
    assert total.model_calls == 2


async def test_an_endpoint_that_reports_no_usage_costs_no_tokens(server: OpenAIServer) -> None:
    server.replies(Completion(text="Blue.", with_usage=False))
    usage = (await chat_at(server).chat(ask())).usage
    assert (usage.model_calls, usage.prompt_tokens, usage.completion_tokens) == (1, 0, 0)


async def test_a_schema_that_strict_mode_takes_is_asked_for_strictly(server: OpenAIServer) -> None:
    server.replies(Completion(text='{"colour": "blue"}'))
    result = await chat_at(server).chat(ask(response_schema=COLOUR))
    assert result.parsed == {"colour": "blue"}
    assert server.bodies[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "a_colour", "schema": dict(COLOUR.schema), "strict": True},
    }


@pytest.mark.parametrize(
    "change",
    [{"required": []}, {"additionalProperties": True}, {"oneOf": []}, {"properties": {"colour": {"minLength": 1}}}],
)
async def test_another_schema_is_asked_for_without_strictness(server: OpenAIServer, change: dict[str, Any]) -> None:
    server.replies(Completion(text='{"colour": "blue"}'))
    schema = ResponseSchema(name="colour", schema={**COLOUR.schema, **change})
    await chat_at(server).chat(ask(response_schema=schema))
    assert server.bodies[0]["response_format"]["json_schema"]["strict"] is False


@pytest.mark.parametrize(("formats", "kinds"), [({"json_object"}, ["json_object"]), (set(), [None])])
async def test_an_endpoint_without_schemas_gets_the_schema_in_the_prompt_from_then_on(
    server: OpenAIServer, formats: set[str], kinds: list[str | None]
) -> None:
    server.formats = formats
    chat = chat_at(server)
    for _ in range(2):
        server.replies(Completion(text='{"colour": "blue"}'))
        assert (await chat.chat(ask(response_schema=COLOUR))).parsed == {"colour": "blue"}
    asked = [body.get("response_format", {}).get("type") for body in server.bodies]
    tried = ["json_schema", *(["json_object"] if not formats else [])]
    assert asked == [*tried, *kinds, *kinds]
    assert '"colour"' in server.bodies[-1]["messages"][0]["content"]
    assert server.bodies[-1]["messages"][0]["role"] == "system"
    assert chat.usage.model_calls == len(server.requests)


async def test_the_schema_joins_the_system_message_that_is_there(server: OpenAIServer) -> None:
    server.formats = set()
    server.replies(Completion(text='{"colour": "blue"}'))
    await chat_at(server).chat(ask(("system", "Be short."), ("user", "Hi"), response_schema=COLOUR))
    system, user = server.bodies[-1]["messages"]
    assert system["content"].startswith("Be short.\n\nAnswer with one JSON value")
    assert user["content"] == "Hi"


async def test_one_refused_schema_is_asked_for_more_loosely_and_spoils_nothing_for_others(server: OpenAIServer) -> None:
    chat = chat_at(server)
    server.replies(Status(400, "Invalid schema for response_format 'a_colour'"))
    for schema in (COLOUR, COLOUR, ResponseSchema(name="another", schema=COLOUR.schema)):
        server.replies(Completion(text='{"colour": "blue"}'))
        await chat.chat(ask(response_schema=schema))
    kinds = [body["response_format"]["type"] for body in server.bodies]
    assert kinds == ["json_schema", "json_object", "json_object", "json_schema"]
    assert '"colour"' in server.bodies[2]["messages"][0]["content"]


def options_sent(server: OpenAIServer) -> list[list[str]]:
    return [sorted(body.keys() - {"model", "messages"}) for body in server.bodies]


async def test_an_endpoint_that_calls_the_token_limit_otherwise_is_understood(server: OpenAIServer) -> None:
    server.refused_options = {"max_tokens": "Unsupported parameter: use 'max_completion_tokens' instead."}
    chat = chat_at(server)
    for _ in range(2):
        await chat.chat(ask(max_tokens=5))
    assert options_sent(server) == [["max_tokens"], ["max_completion_tokens"], ["max_completion_tokens"]]


async def test_a_limit_or_temperature_that_an_endpoint_does_not_know_is_left_out_from_then_on(
    server: OpenAIServer,
) -> None:
    server.refused_options = {
        "temperature": "Unsupported value: 'temperature' does not support 0 with this model.",
        "max_tokens": "Unsupported parameter: use 'max_completion_tokens' instead.",
        "max_completion_tokens": "Unknown parameter: 'max_completion_tokens'.",
    }
    chat = chat_at(server)
    for _ in range(2):
        await chat.chat(ask(temperature=0.0, max_tokens=5))
    assert options_sent(server)[-2:] == [[], []]
    assert len(server.requests) == 5


async def test_a_limit_above_the_endpoints_own_is_left_out_and_lower_ones_are_sent(server: OpenAIServer) -> None:
    chat = chat_at(server)
    server.replies(Status(400, "max_tokens is too large: 9000. This model supports at most 4096 completion tokens."))
    for limit in (9000, 9001, 4000):
        await chat.chat(ask(max_tokens=limit))
    assert [body.get("max_tokens") for body in server.bodies] == [9000, None, None, 4000]


async def test_a_limit_that_leaves_no_room_for_the_prompt_is_left_out_of_that_request(server: OpenAIServer) -> None:
    chat = chat_at(server)
    said = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (1000 in the "
    full = Status(400, said + "messages, 8000 in the completion).", code="context_length_exceeded")
    server.replies(full, Completion(text="Blue."))
    assert (await chat.chat(ask(max_tokens=8000))).message.text == "Blue."
    await chat.chat(ask(max_tokens=8000))
    assert [body.get("max_tokens") for body in server.bodies] == [8000, None, 8000]
    server.replies(full, Status(400, "too long", code="context_length_exceeded"))
    with pytest.raises(ContextTooLongError):
        await chat.chat(ask(max_tokens=8000))


async def test_what_is_learnt_of_an_endpoint_is_known_to_all_who_speak_to_it_and_forgotten_with_them(
    server: OpenAIServer,
) -> None:
    server.formats = {"json_object"}
    server.otherwise = Completion(text='{"colour": "blue"}')
    first, second = chat_at(server), chat_at(server)
    for chat in (first, second, chat_at(server)):
        await chat.chat(ask(response_schema=COLOUR))
    kinds = [body["response_format"]["type"] for body in server.bodies]
    assert kinds == ["json_schema", "json_object", "json_object", "json_object"]
    other = OpenAIChat("another-model", base_url=server.base_url, api_key=KEY)
    await other.chat(ask(response_schema=COLOUR))
    assert server.bodies[4]["response_format"]["type"] == "json_schema"
    del first, second, chat
    gc.collect()
    server.formats = {"json_schema"}
    await chat_at(server).chat(ask(response_schema=COLOUR))
    assert server.bodies[-1]["response_format"]["type"] == "json_schema"


async def test_tool_calls_may_come_before_the_json(server: OpenAIServer) -> None:
    server.replies(Completion(text="I look it up.", calls=[Call("c1", "weather", "{}")]))
    result = await chat_at(server).chat(ask(tools=(WEATHER,), response_schema=COLOUR))
    assert result.message.call_ids == ("c1",)
    assert result.parsed is None


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_s": 0},
        {"timeout_s": float("nan")},
        {"max_retries": -1},
        {"max_concurrency": 0},
    ],
)
def test_an_option_out_of_range_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        OpenAIChat("a-model", **options)


@pytest.mark.parametrize(
    ("model", "url", "named"), [("", "https://a/v1", "model"), ("m", "ftp://u:pw@a/v1", "base_url")]
)
def test_a_model_or_url_that_cannot_be_is_named(model: str, url: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named) as caught:
        OpenAIChat(model, base_url=url)
    assert "pw" not in str(caught.value)


def test_a_model_is_neither_pickled_nor_copied() -> None:
    chat = OpenAIChat("a-model", api_key=KEY)
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="build it anew"):
            attempt(chat)
