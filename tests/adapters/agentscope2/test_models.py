"""Models of AgentScope 2.x keep the contracts of the core."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agentscope.embedding import EmbeddingResponse
from agentscope.message import TextBlock as Text
from agentscope.message import ThinkingBlock
from agentscope.message import ToolCallBlock as Call
from agentscope.model import ChatResponse, ChatUsage

from reme_agentscope._shared.model_calls import AgentScopeOptions
from reme_agentscope.v2.models import as_chat_model, as_embedder
from reme_core import ReMe
from reme_core.errors import (
    ConfigurationError,
    ContextTooLongError,
    InvalidInputError,
    ModelError,
    ModelOutputError,
    ModelRejectedError,
    ModelUnavailableError,
)
from reme_core.ports import ChatModel, ChatRequest, Embedder
from reme_core.schema import Message, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.testing.chat_model_contract import SCHEMA, WEATHER, Answer, ChatModelContract, asking
from reme_core.testing.embedder_contract import EmbedderContract
from tests.adapters.agentscope2.scripted import ScriptedEmbedding, ScriptedModel, call


class ProviderError(Exception):
    def __init__(self, status: int, words: str = "no") -> None:
        super().__init__(words)
        self.status_code = status


def in_its_words(answer: Answer) -> Any:
    """Say in AgentScope's words what the contract wants said."""
    match answer:
        case ModelUnavailableError():
            return ProviderError(503)
        case ModelRejectedError():
            return ProviderError(401)
        case ContextTooLongError():
            return ProviderError(400, "context_length_exceeded")
        case ModelError():
            return []
    blocks: list[Any] = []
    for block in answer.content:
        if isinstance(block, TextBlock):
            blocks.append(Text(text=block.text))
        elif isinstance(block, ToolCallBlock):
            given = block.arguments if isinstance(block.arguments, str) else json.dumps(block.arguments)
            blocks.append(Call(id=block.call_id, name=block.name, input=given))
    return blocks


class RawModel(ScriptedModel):
    """Gives its chunks as they are, without AgentScope's own loop around them."""

    def __init__(self, chunks: Sequence[ChatResponse | BaseException]) -> None:
        super().__init__(stream=True)
        self.chunks = chunks
        self.closed = False

    async def __call__(self, *args: Any, **kwargs: Any) -> AsyncGenerator[ChatResponse, None]:
        async def given() -> AsyncGenerator[ChatResponse, None]:
            try:
                for chunk in self.chunks:
                    if isinstance(chunk, BaseException):
                        raise chunk
                    yield chunk
            finally:
                self.closed = True

        return given()


def delta(*blocks: Any, usage: ChatUsage | None = None) -> ChatResponse:
    return ChatResponse(content=list(blocks), is_last=False, usage=usage)


@pytest.mark.requirement("AS-MODEL-01")
@pytest.mark.parametrize("manner", ["whole", "streamed", "deltas"])
class TestChatContract(ChatModelContract):
    @pytest.fixture
    def answering(self, manner: str) -> Callable[[Sequence[Answer]], ChatModel]:
        return lambda answers: as_chat_model(
            ScriptedModel(
                [in_its_words(one) for one in answers], stream=manner != "whole", ends_whole=manner == "streamed"
            )
        )


@pytest.mark.requirement("AS-MODEL-06")
class TestEmbedderContract(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return as_embedder(ScriptedEmbedding())


@pytest.mark.requirement("AS-MODEL-01")
async def test_deltas_are_not_added_to_the_last_chunk() -> None:
    model = ScriptedModel([[Text(text="once upon"), call("weather", town="Rome")]], stream=True)
    result = await as_chat_model(model).chat(ChatRequest(messages=asking().messages, tools=(WEATHER,)))
    assert result.message.text == "once upon"
    calls = [block for block in result.message.content if isinstance(block, ToolCallBlock)]
    assert [block.arguments for block in calls] == [{"town": "Rome"}]
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (7, 3)


@pytest.mark.requirement("AS-MODEL-01")
async def test_a_stream_without_a_last_chunk_is_put_together_by_block_id() -> None:
    usage = ChatUsage(input_tokens=5, output_tokens=2, time=0.1)
    model = RawModel(
        [
            delta(Text(id="t", text="once ")),
            delta(Call(id="c", name="weather", input='{"town"'), ThinkingBlock(id="h", thinking="h")),
            delta(Text(id="t", text="upon"), ThinkingBlock(id="h", thinking="m"), usage=usage),
            delta(Call(id="c", name="weather", input=': "Rome"}')),
        ]
    )
    result = await as_chat_model(model).chat(asking())
    assert result.message.text == "once upon"
    assert result.message.content[0].data == "hm"
    assert result.message.content[-1] == ToolCallBlock(call_id="c", name="weather", arguments={"town": "Rome"})
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (5, 2)


@pytest.mark.requirement("AS-MODEL-01")
async def test_an_empty_stream_is_a_model_error() -> None:
    with pytest.raises(ModelOutputError, match="without an answer"):
        await as_chat_model(RawModel([])).chat(asking())


@pytest.mark.requirement("AS-MODEL-05")
async def test_a_stream_that_breaks_is_a_model_error_and_is_closed() -> None:
    model = RawModel([delta(Text(text="half")), ProviderError(503)])
    with pytest.raises(ModelUnavailableError):
        await as_chat_model(model).chat(asking())
    assert model.closed


@pytest.mark.requirement("AS-MODEL-02")
async def test_the_model_object_is_used_as_it_is() -> None:
    model = ScriptedModel(stream=True)
    before = {key: value for key, value in vars(model).items() if key != "asked"}
    await as_chat_model(model).chat(asking())
    assert len(model.asked) == 1
    assert {key: value for key, value in vars(model).items() if key != "asked"} == before


@pytest.mark.requirement("AS-MODEL-03")
async def test_json_is_asked_for_in_words_and_never_as_structured_output() -> None:
    class Model(ScriptedModel):
        async def generate_structured_output(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError

    model = Model(['{"colour": "blue"}'])
    result = await as_chat_model(model).chat(ChatRequest(messages=asking().messages, response_schema=SCHEMA))
    assert result.parsed == {"colour": "blue"}
    assert "colour" in model.asked[0].texts[0]
    assert model.asked[0].roles == ["system", "user"]


@pytest.mark.requirement("AS-MODEL-04")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_cancelled_call_is_cancelled_though_the_model_swallows_it(stream: bool) -> None:
    called = asyncio.Event()

    class Slow(ScriptedModel):
        async def _call_api(self, *args: Any, **kwargs: Any) -> Any:
            if not stream:
                called.set()
                await asyncio.Event().wait()
            return self._slow()

        async def _slow(self) -> AsyncGenerator[ChatResponse, None]:
            yield delta(Text(text="half"))
            called.set()
            await asyncio.Event().wait()

    went_on = []

    async def work() -> None:
        await as_chat_model(Slow(stream=stream)).chat(asking())
        went_on.append(True)

    task = asyncio.create_task(work())
    await called.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not went_on


@pytest.mark.requirement("AS-MODEL-04")
async def test_a_time_out_is_told_as_one_though_the_model_swallows_it() -> None:
    model = ScriptedModel()
    model.hold = asyncio.Event()
    with pytest.raises(ModelUnavailableError, match="in time"):
        await as_chat_model(model).chat(ChatRequest(messages=asking().messages, timeout_s=0.01))


@pytest.mark.requirement("AS-MODEL-05")
@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ProviderError(429), ModelUnavailableError),
        (ProviderError(500), ModelUnavailableError),
        (ConnectionError("secret prompt"), ModelUnavailableError),
        (ProviderError(401), ModelRejectedError),
        (ProviderError(400, "maximum context length is 8192"), ContextTooLongError),
        (KeyError("x"), ModelRejectedError),
    ],
)
async def test_errors_of_providers_become_the_cores_with_their_cause(
    raised: Exception, error: type[ModelError]
) -> None:
    with pytest.raises(error) as caught:
        await as_chat_model(ScriptedModel([raised])).chat(asking())
    assert caught.value.__cause__ is raised
    assert "secret" not in str(caught.value)
    assert "scripted" in str(caught.value)


@pytest.mark.requirement("AS-MODEL-02")
async def test_messages_go_as_agentscopes_own_with_results_beside_their_calls() -> None:
    conversation = (
        Message(role="system", content=(TextBlock(text="Be short."),)),
        Message(role="user", content=(TextBlock(text="Rome?"),)),
        Message(role="assistant", content=(ToolCallBlock(call_id="c1", name="weather", arguments='{"town'),)),
        Message(role="tool", content=(ToolResultBlock(call_id="c1", output="sunny"),)),
    )
    model = ScriptedModel()
    await as_chat_model(model).chat(ChatRequest(messages=conversation, tools=(WEATHER,), tool_choice="weather"))
    [asked] = model.asked
    assert asked.roles == ["system", "user", "assistant"]
    assert [block.type for block in asked.messages[2].content] == ["tool_call", "tool_result"]
    assert json.loads(asked.messages[2].content[0].input) == {"malformed": '{"town'}
    assert asked.tools is not None
    assert asked.tools[0]["function"]["name"] == "weather"
    assert asked.tool_choice is not None
    assert asked.tool_choice.mode == "weather"


@pytest.mark.requirement("AS-MODEL-03")
async def test_a_choice_that_names_no_tool_is_refused_before_the_call() -> None:
    model = ScriptedModel()
    for choice in ("unknown", "required"):
        with pytest.raises(InvalidInputError):
            await as_chat_model(model).chat(ChatRequest(messages=asking().messages, tool_choice=choice))
    assert model.asked == []


@pytest.mark.requirement("AS-MODEL-02")
def test_what_is_no_model_is_refused() -> None:
    for bad in (None, "gpt", object(), ScriptedEmbedding()):
        with pytest.raises(ConfigurationError):
            as_chat_model(bad)
    for bad in (None, "ada", object(), ScriptedModel()):
        with pytest.raises(ConfigurationError):
            as_embedder(bad)


@pytest.mark.requirement("AS-MODEL-06")
async def test_the_model_batches_itself_and_an_empty_list_makes_no_call() -> None:
    model = ScriptedEmbedding(batch_size=10)
    embedder = as_embedder(model)
    assert (await embedder.embed([])).shape == (0, 64)
    assert model.asked == []
    assert (await embedder.embed([f"text {n}" for n in range(25)])).shape == (25, 64)
    assert sorted(len(batch) for batch in model.asked) == [5, 10, 10]


@pytest.mark.requirement("AS-MODEL-06")
@pytest.mark.parametrize("rows", [[], [[1.0] * 64] * 2, [[1.0] * 63], [[float("nan")] * 64], [["x"]]])
async def test_count_and_dimension_of_the_answer_are_checked(rows: list[Any]) -> None:
    class Wrong(ScriptedEmbedding):
        async def _call_api(self, inputs: list[Any], **kwargs: Any) -> EmbeddingResponse:
            return EmbeddingResponse(embeddings=rows)

    with pytest.raises(ModelOutputError):
        await as_embedder(Wrong()).embed(["a"])


@pytest.mark.requirement("AS-MODEL-06")
async def test_a_text_in_which_the_model_finds_nothing_fails_none_of_its_batch() -> None:
    class Counting(ScriptedEmbedding):
        async def _call_api(self, inputs: list[Any], **kwargs: Any) -> EmbeddingResponse:
            return EmbeddingResponse(embeddings=[[3.0] + [0.0] * 63, [0.0] * 64])

    matrix = await as_embedder(Counting()).embed(["a", "?"])
    assert matrix.sum(axis=1).tolist() == [1.0, 0.0]


@pytest.mark.requirement("AS-MODEL-06")
async def test_over_long_texts_are_cut_and_cut_again_where_the_model_still_refuses() -> None:
    class Small(ScriptedEmbedding):
        async def _call_api(self, inputs: list[Any], **kwargs: Any) -> EmbeddingResponse:
            if max(map(len, inputs)) > 2500:
                raise ProviderError(400, "this model's maximum context length is 2500 tokens")
            return await super()._call_api(inputs)

    model = Small(context_size=8000)
    assert (await as_embedder(model).embed(["x" * 100_000, "short"])).shape == (2, 64)
    assert [len(text) for text in model.asked[0]] == [2000, 5]
    model.failure = ProviderError(503)
    with pytest.raises(ModelUnavailableError):
        await as_embedder(model).embed(["a"])


class Picky(ScriptedModel):
    """Refuses options by name, as endpoints do."""

    def __init__(self, *refused: str) -> None:
        super().__init__(["yes"] * 9)
        self.refused = refused

    async def _call_api(self, *args: Any, **kwargs: Any) -> Any:
        for name in self.refused:
            if name in kwargs:
                raise ProviderError(400, f"Unsupported parameter: '{name}' is not supported; use another one")
        return await super()._call_api(*args, **kwargs)


@pytest.mark.parametrize(
    ("refused", "sent"),
    [
        ((), {"temperature": 0.0, "max_tokens": 300}),
        (("temperature",), {"max_tokens": 300}),
        (("max_tokens",), {"temperature": 0.0, "max_completion_tokens": 300}),
        (("max_tokens", "max_completion_tokens", "temperature"), {}),
    ],
)
async def test_temperature_and_bound_go_with_a_request_unless_they_are_refused(
    refused: tuple[str, ...], sent: dict[str, Any]
) -> None:
    model = Picky(*refused)
    chat = as_chat_model(model)
    for _ in range(2):
        await chat.chat(replace(asking(), temperature=0.0, max_tokens=300))
    assert [asked.kwargs for asked in model.asked] == [sent, sent]
    await chat.chat(asking())
    assert model.asked[-1].kwargs == {}


async def test_an_extraction_asks_for_no_temperature_and_bounds_its_answer(tmp_path: Path) -> None:
    model = ScriptedModel([json.dumps({"facts": []})])
    async with ReMe("space", tmp_path, llm=as_chat_model(model), embedding=None) as memory:
        await memory.summary([("user", "My rabbit is called Flopsy")], user_id="ann")
    assert model.asked[0].kwargs["temperature"] == 0.0
    assert 0 < model.asked[0].kwargs["max_tokens"] < 10_000


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("GeminiChatModel", {"temperature": 0.0, "max_output_tokens": 300}),
        ("OpenAIResponseModel", {"temperature": 0.0, "max_output_tokens": 300}),
        ("OllamaChatModel", {"options": {"top_k": 1, "temperature": 0.0, "num_predict": 300}}),
        ("AnthropicChatModel", {"temperature": 0.0, "max_tokens": 300}),
    ],
)
def test_options_have_the_words_of_the_class_of_a_model(name: str, sent: dict[str, Any]) -> None:
    model = type(name, (), {"__module__": "agentscope.model", "options": {"top_k": 1}})()
    options = AgentScopeOptions(model)
    request = replace(asking(), temperature=0.0, max_tokens=300)
    assert options.of(request) == sent
    assert not options.refuse(options.of(request), ValueError("no such model"))
    assert options.refuse(options.of(request), ValueError("temperature is not supported"))
    assert "temperature" not in str(options.of(request))
