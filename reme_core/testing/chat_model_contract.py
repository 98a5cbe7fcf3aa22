"""Contract of every chat model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest

from reme_core.errors import (
    ContextTooLongError,
    ModelError,
    ModelOutputError,
    ModelRejectedError,
    ModelUnavailableError,
)
from reme_core.ports import ChatModel, ChatRequest, ChatResult, ResponseSchema, ToolSpec
from reme_core.schema import ImageBlock, Message, TextBlock, ToolCallBlock, ToolResultBlock

Answer: TypeAlias = Message | ModelError
"""What the model behind is to say, or the failure that it is to have."""

SCHEMA = ResponseSchema(
    name="colour",
    schema={
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    },
)
WEATHER = ToolSpec(
    name="weather",
    description="The weather of a town.",
    parameters={"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
)


def said(text: str) -> Message:
    """Make an assistant's message."""
    return Message(role="assistant", content=(TextBlock(text=text),))


def asking(text: str = "What colour is the sky?") -> ChatRequest:
    """Make a request of one message."""
    return ChatRequest(messages=(Message(role="user", content=(TextBlock(text=text),)),))


class ChatModelContract:
    """Subclass it, and give the fixture `answering`.

    `answering(answers)` makes a model whose next calls bring these answers, in order, each used once. A failure is what
    the caller must get, whatever causes it behind; for a `ModelUnavailableError`, retries included.
    """

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def answering(self) -> Callable[[Sequence[Answer]], ChatModel]:
        """Give a function that makes the model to be tested."""
        raise NotImplementedError

    async def test_an_answer_is_the_assistants_message(
        self, answering: Callable[[Sequence[Answer]], ChatModel]
    ) -> None:
        """Role, text, reason and cost."""
        result = await answering([said("Blue, 蓝色 🎉")]).chat(asking())
        assert result.message.role == "assistant"
        assert result.message.text == "Blue, 蓝色 🎉"
        assert result.finish_reason == "stop"
        assert result.parsed is None
        assert result.usage.model_calls == 1
        assert result.usage.prompt_tokens > 0
        assert result.usage.completion_tokens > 0
        assert result.usage.milliseconds >= 0

    async def test_parallel_tool_calls_come_in_order_with_their_arguments(
        self, answering: Callable[[Sequence[Answer]], ChatModel]
    ) -> None:
        """Each with its id."""
        calls = tuple(
            ToolCallBlock(call_id=f"call-{town}", name="weather", arguments={"town": town, "days": [1, 2]})
            for town in ("Rome", "北京")
        )
        request = ChatRequest(messages=asking("Compare the weather.").messages, tools=(WEATHER,))
        result = await answering([Message(role="assistant", content=calls)]).chat(request)
        assert [block for block in result.message.content if block.type == "tool_call"] == list(calls)
        assert result.finish_reason == "tool_calls"

    async def test_malformed_arguments_are_kept_as_text(
        self, answering: Callable[[Sequence[Answer]], ChatModel]
    ) -> None:
        """The loop can then tell the model what is wrong with them."""
        call = ToolCallBlock(call_id="call-1", name="weather", arguments='{"town": "Ro')
        request = ChatRequest(messages=asking().messages, tools=(WEATHER,))
        result = await answering([Message(role="assistant", content=(call,))]).chat(request)
        assert result.message.content[-1] == call

    async def test_a_conversation_with_tools_and_images_is_taken(
        self, answering: Callable[[Sequence[Answer]], ChatModel]
    ) -> None:
        """Every kind of block, in the order of a real conversation."""
        conversation = (
            Message(role="system", content=(TextBlock(text="Be short."),)),
            Message(
                role="user",
                name="Alice Smith",
                content=(TextBlock(text="Where is this?"), ImageBlock(url="https://example.org/rome.png")),
            ),
            Message(
                role="assistant", content=(ToolCallBlock(call_id="c1", name="weather", arguments={"town": "Rome"}),)
            ),
            Message(role="tool", content=(ToolResultBlock(call_id="c1", output="sunny"),)),
        )
        result = await answering([said("In Rome.")]).chat(ChatRequest(messages=conversation, tools=(WEATHER,)))
        assert result.message.text == "In Rome."

    async def test_json_that_was_asked_for_is_parsed(self, answering: Callable[[Sequence[Answer]], ChatModel]) -> None:
        """Also where the model puts it into a code fence."""
        model = answering([said('{"colour": "blue"}'), said('Here:\n```json\n{"colour": "grün"}\n```')])
        request = ChatRequest(messages=asking().messages, response_schema=SCHEMA)
        assert (await model.chat(request)).parsed == {"colour": "blue"}
        assert (await model.chat(request)).parsed == {"colour": "grün"}

    @pytest.mark.parametrize("text", ["The sky is blue.", '["blue"]', '{"colour": "bl', '{"a": [{"colour": "blue"}, '])
    async def test_an_answer_without_the_json_is_an_error_that_keeps_it(
        self, answering: Callable[[Sequence[Answer]], ChatModel], text: str
    ) -> None:
        """Prose, another type, JSON that was cut off."""
        request = ChatRequest(messages=asking().messages, response_schema=SCHEMA)
        with pytest.raises(ModelOutputError) as caught:
            await answering([said(text)]).chat(request)
        assert text in caught.value.raw

    @pytest.mark.parametrize(
        "failure",
        [
            ModelUnavailableError("busy"),
            ModelRejectedError("wrong key"),
            ContextTooLongError("too long"),
            ModelOutputError("nothing said", raw=""),
        ],
        ids=lambda failure: type(failure).__name__,
    )
    async def test_a_failure_is_raised_and_the_model_goes_on(
        self, answering: Callable[[Sequence[Answer]], ChatModel], failure: ModelError
    ) -> None:
        """Each kind as itself, and the next call works."""
        model = answering([failure, said("Blue.")])
        with pytest.raises(type(failure)) as caught:
            await model.chat(asking())
        assert caught.value.retryable is failure.retryable
        assert (await model.chat(asking())).message.text == "Blue."

    async def test_each_answer_is_a_message_of_its_own(
        self, answering: Callable[[Sequence[Answer]], ChatModel]
    ) -> None:
        """Two answers of one text have two ids, and neither is one of the request's."""
        model = answering([said("Blue."), said("Blue.")])
        request = asking()
        ids = [(await model.chat(request)).message.message_id for _ in range(2)]
        assert len({*ids, request.messages[0].message_id}) == 3

    async def test_calls_at_once_are_all_answered(self, answering: Callable[[Sequence[Answer]], ChatModel]) -> None:
        """Each answer is given once."""
        texts = {f"Answer {number}." for number in range(12)}
        model = answering([said(text) for text in sorted(texts)])
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(model.chat(asking(f"Question {number}"))) for number in range(12)]
        assert {task.result().message.text for task in tasks} == texts

    async def test_another_event_loop_in_another_thread_is_served(
        self, answering: Callable[[Sequence[Answer]], ChatModel]
    ) -> None:
        """One object serves the whole process."""
        model = answering([said("Here."), said("There."), said("Here again.")])
        texts = [(await model.chat(asking())).message.text]
        texts.append((await asyncio.to_thread(lambda: asyncio.run(_chat(model)))).message.text)
        texts.append((await model.chat(asking())).message.text)
        assert texts == ["Here.", "There.", "Here again."]


async def _chat(model: ChatModel) -> ChatResult:
    return await model.chat(asking())
