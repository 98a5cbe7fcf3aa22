"""Messages of other libraries: what is read as it comes, and which converter an error names for the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from openai.types.chat import ChatCompletionMessage

from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_langchain import from_langchain

PHOTO = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
ANSWER = ChatCompletionMessage(role="assistant", content="Green it is.")


class AnthropicMessage:
    """What an answer of Anthropic's client is known by."""

    __module__ = "anthropic.types.message"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        yield memory


@pytest.mark.parametrize(
    ("messages", "converter"),
    [
        ([HumanMessage("hi")], "reme_langchain.from_langchain"),
        (HumanMessage("hi"), "wanted a list of messages, found HumanMessage: hand in reme_langchain.from_langchain"),
        ([("user", "hi"), AIMessage("hi")], r"messages\[1\].*reme_langchain.from_langchain"),
        ([{"role": "user", "content": ["look", PHOTO]}], "reme_langchain.from_langchain"),
        ([HumanMessage("hi").model_dump()], "reme_langchain.from_langchain"),
        ([ANSWER], r"message.model_dump\(\)"),
        ([AnthropicMessage()], r"\[part.model_dump\(\) for part in message.content\]"),
    ],
)
async def test_a_message_of_another_library_is_refused_by_the_name_of_its_converter(
    memory: ReMe, messages: Any, converter: str
) -> None:
    with pytest.raises(InvalidInputError, match=converter):
        await memory.summary(messages, user_id="ann")
    with pytest.raises(InvalidInputError, match=converter):
        await memory.pre_reasoning_hook(messages, user_id="ann", session_id="s")


async def test_where_a_text_is_wanted_the_error_says_which_part_of_a_message_is_one(memory: ReMe) -> None:
    with pytest.raises(InvalidInputError, match=r"query: .* found HumanMessage: hand in message\.text$"):
        await memory.retrieve(HumanMessage("tea"), user_id="ann")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"content: .*: hand in message\.text$"):
        await memory.add_memory(HumanMessage("tea"), user_id="ann")  # type: ignore[arg-type]


async def test_nothing_is_named_for_what_is_nobodys_message(memory: ReMe) -> None:
    with pytest.raises(InvalidInputError, match=r"found object$"):
        await memory.summary([object()], user_id="ann")


class Nameless:
    """Of no module, as classes are that a program makes up."""

    def __repr__(self) -> str:
        msg = "can't be shown"
        raise RuntimeError(msg)


Nameless.__module__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"type": ["human"], "content": "hi"}, r"messages\[0\].role: is missing"),
        ({"role": "user", "content": [{"type": {}, "base64": "aGk="}]}, r"part of type \{\} is not known"),
        ({"role": "tool", "tool_call_id": "c", "content": [{"type": "text"}]}, "wants a text under 'text', found None"),
        ({"role": "user", "content": [5]}, r"content\[0\]: wanted an object with a type \(found 5\)"),
        ({"role": "user", "content": "hi", "created_at": Nameless()}, "not Nameless"),
        ({"role": "user", "content": "hi", "created_at": 10**5_000}, "a time is a datetime or .*, not int"),
        (Nameless(), "found Nameless$"),
    ],
)
async def test_whatever_stands_in_a_message_is_told_in_an_error_of_ours(memory: ReMe, message: Any, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        await memory.summary([message], user_id="ann")
    with pytest.raises(InvalidInputError, match=told):
        await memory.pre_reasoning_hook([message], user_id="ann", session_id="s")


async def test_what_the_errors_name_is_read(memory: ReMe) -> None:
    said = [HumanMessage([{"type": "text", "text": "look"}, PHOTO]), AIMessage("nice")]
    await memory.summary(from_langchain(said), user_id="ann", session_id="langchain")
    await memory.summary([ANSWER.model_dump()], user_id="ann", session_id="openai")
    use = {"type": "tool_use", "id": "t", "name": "look", "input": {"at": "door"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "text", "text": "blue"}],
        "is_error": True,
    }
    anthropic = [
        {"role": "assistant", "content": [{"type": "text", "text": "I look.", "citations": None}, use]},
        {"role": "user", "content": [result, {"type": "text", "text": "and?"}]},
    ]
    await memory.summary(anthropic, user_id="ann", session_id="anthropic")
    page = await memory.find_messages(user_id="ann", session_id="anthropic")
    [asked, answered] = [item.message for item in page.messages]
    assert (asked.call_ids, answered.result_ids, answered.text) == (("t",), ("t",), "and?")
    assert answered.content[0].is_error  # type: ignore[union-attr]
    page = await memory.find_messages(user_id="ann")
    assert [item.message.text for item in page.messages] == ["look", "nice", "Green it is.", "I look.", "and?"]


async def test_an_image_in_a_tools_result_in_anthropics_form_stands_beside_its_text(memory: ReMe) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    shown = [{"type": "image", "source": source}, {"type": "text", "text": "a door"}]
    result = {"type": "tool_result", "tool_use_id": "t", "content": shown}
    await memory.summary([{"role": "user", "content": [result]}], user_id="ann")
    [stored] = (await memory.find_messages(user_id="ann")).messages
    assert [block.type for block in stored.message.content] == ["tool_result", "image"]
    assert stored.message.content[0].output == "a door"  # type: ignore[union-attr]
    assert (await memory.stats(user_id="ann")).blobs == 1


async def test_a_tools_result_inside_of_another_is_refused_however_deep_it_is(memory: ReMe) -> None:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    for _ in range(3_000):
        result = {"type": "tool_result", "tool_use_id": "t", "content": [result]}
    with pytest.raises(InvalidInputError, match=r"messages\[0\]\.content"):
        await memory.summary([{"role": "user", "content": [result]}], user_id="ann")
