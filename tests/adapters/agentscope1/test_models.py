"""Models of AgentScope 1.x keep the contracts of the core."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from agentscope.embedding import EmbeddingResponse
from agentscope.model import AnthropicChatModel, ChatResponse, OllamaChatModel, OpenAIChatModel

from reme_agentscope._shared.model_calls import AgentScopeOptions
from reme_agentscope.v1.models import as_chat_model, as_embedder
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
from tests.adapters.agentscope1.scripted import ScriptedEmbedding, ScriptedModel, call, response_of


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
    blocks: list[dict[str, Any]] = []
    for block in answer.content:
        if isinstance(block, TextBlock):
            blocks.append({"type": "text", "text": block.text})
        elif isinstance(block, ToolCallBlock):
            given = (
                {"input": {}, "raw_input": block.arguments}
                if isinstance(block.arguments, str)
                else {"input": block.arguments}
            )
            blocks.append({"type": "tool_use", "id": block.call_id, "name": block.name, **given})
    return blocks


@pytest.mark.requirement("AS-MODEL-01")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
class TestChatContract(ChatModelContract):
    @pytest.fixture
    def answering(self, stream: bool) -> Callable[[Sequence[Answer]], ChatModel]:
        return lambda answers: as_chat_model(ScriptedModel([in_its_words(one) for one in answers], stream=stream))


@pytest.mark.requirement("AS-MODEL-06")
class TestEmbedderContract(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return as_embedder(ScriptedEmbedding(batch=32))


@pytest.mark.requirement("AS-MODEL-01")
async def test_chunks_are_not_joined_and_the_last_one_counts() -> None:
    model = ScriptedModel([[{"type": "text", "text": "once upon"}, call("weather", town="Rome")]], stream=True)
    result = await as_chat_model(model).chat(ChatRequest(messages=asking().messages, tools=(WEATHER,)))
    assert result.message.text == "once upon"
    assert [block.arguments for block in result.message.content if isinstance(block, ToolCallBlock)] == [
        {"town": "Rome"}
    ]
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (7, 3)


@pytest.mark.requirement("AS-MODEL-01")
async def test_the_blocks_of_an_answer_may_be_any_sequence() -> None:
    said = ChatResponse(content=({"type": "text", "text": "once upon"},))
    assert (await as_chat_model(ScriptedModel([said])).chat(asking())).message.text == "once upon"


@pytest.mark.requirement("AS-MODEL-01")
async def test_an_empty_stream_is_a_model_error() -> None:
    class Empty(ScriptedModel):
        async def __call__(self, *args: Any, **kwargs: Any) -> AsyncGenerator[ChatResponse, None]:
            async def nothing() -> AsyncGenerator[ChatResponse, None]:
                return
                yield

            return nothing()

    with pytest.raises(ModelOutputError, match="without an answer"):
        await as_chat_model(Empty()).chat(asking())


@pytest.mark.requirement("AS-MODEL-05")
async def test_a_stream_that_breaks_is_a_model_error_and_is_closed() -> None:
    closed = []

    class Breaking(ScriptedModel):
        async def __call__(self, *args: Any, **kwargs: Any) -> AsyncGenerator[ChatResponse, None]:
            async def broken() -> AsyncGenerator[ChatResponse, None]:
                try:
                    yield response_of("half")
                    raise ProviderError(503)
                finally:
                    closed.append(True)

            return broken()

    with pytest.raises(ModelUnavailableError):
        await as_chat_model(Breaking()).chat(asking())
    assert closed == [True]


@pytest.mark.requirement("AS-MODEL-02")
async def test_the_model_object_is_used_as_it_is() -> None:
    model = ScriptedModel(stream=True)
    before = {key: value for key, value in vars(model).items() if key != "asked"}
    await as_chat_model(model).chat(asking())
    assert len(model.asked) == 1
    assert {key: value for key, value in vars(model).items() if key != "asked"} == before


@pytest.mark.requirement("AS-MODEL-03")
async def test_json_is_asked_for_in_words_and_never_as_structured_output() -> None:
    model = ScriptedModel(['{"colour": "blue"}'])
    result = await as_chat_model(model).chat(ChatRequest(messages=asking().messages, response_schema=SCHEMA))
    assert result.parsed == {"colour": "blue"}
    [asked] = model.asked
    assert asked.structured_model is None
    assert "colour" in asked.texts[0]
    assert asked.roles == ["system", "user"]


@pytest.mark.requirement("AS-MODEL-05")
@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ProviderError(429), ModelUnavailableError),
        (ProviderError(500), ModelUnavailableError),
        (TimeoutError(), ModelUnavailableError),
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


@pytest.mark.requirement("AS-MODEL-05")
async def test_a_model_that_takes_too_long_is_unavailable_and_a_cancelled_one_is_cancelled() -> None:
    called = asyncio.Event()

    class Silent(ScriptedModel):
        async def __call__(self, *args: Any, **kwargs: Any) -> ChatResponse:
            called.set()
            await asyncio.Event().wait()
            raise AssertionError

    request = ChatRequest(messages=asking().messages, timeout_s=0.01)
    with pytest.raises(ModelUnavailableError, match="in time"):
        await as_chat_model(Silent()).chat(request)
    called.clear()
    task = asyncio.create_task(as_chat_model(Silent()).chat(asking()))
    await called.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.requirement("AS-MODEL-02")
async def test_messages_go_as_plain_dictionaries_in_openais_form() -> None:
    conversation = (
        Message(role="system", content=(TextBlock(text="Be short."),)),
        Message(role="user", content=(TextBlock(text="Rome?"),)),
        Message(role="assistant", content=(ToolCallBlock(call_id="c1", name="weather", arguments={"town": "Rome"}),)),
        Message(role="tool", content=(ToolResultBlock(call_id="c1", output="sunny"),)),
    )
    model = ScriptedModel()
    await as_chat_model(model).chat(ChatRequest(messages=conversation, tools=(WEATHER,), tool_choice="required"))
    [asked] = model.asked
    function = {"name": "weather", "arguments": '{"town": "Rome"}'}
    assert asked.messages == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Rome?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    assert asked.tools is not None
    assert asked.tools[0]["function"]["name"] == "weather"
    assert asked.tool_choice == "required"
    assert json.dumps(asked.tools)


@pytest.mark.requirement("AS-MODEL-02")
async def test_models_with_a_form_of_their_own_get_their_formatter() -> None:
    class Anthropic(AnthropicChatModel):
        def __init__(self) -> None:
            self.model_name, self.stream, self.asked = "claude", False, []

        async def __call__(self, messages: Any, **kwargs: Any) -> ChatResponse:
            self.asked.append(messages)
            return response_of("ok")

    model = Anthropic()
    result = ToolResultBlock(call_id="c1", output="sunny")
    use = ToolCallBlock(call_id="c1", name="weather", arguments={"town": "Rome"})
    talk = (*asking().messages, Message(role="assistant", content=(use,)), Message(role="tool", content=(result,)))
    await as_chat_model(model).chat(ChatRequest(messages=talk))
    assert [message["role"] for message in model.asked[0]] == ["user", "assistant", "user"]
    assert model.asked[0][2]["content"][0]["type"] == "tool_result"
    assert model.asked[0][2]["content"][0]["tool_use_id"] == "c1"
    from reme_agentscope.v1.models import _usual_formatter

    assert type(_usual_formatter(OllamaChatModel.__new__(OllamaChatModel))).__name__ == "OllamaChatFormatter"
    assert _usual_formatter(OpenAIChatModel.__new__(OpenAIChatModel)) is None


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
    with pytest.raises(ConfigurationError, match="dimensions"):
        as_embedder(ScriptedEmbedding(dimensions=0))


@pytest.mark.requirement("AS-MODEL-06")
async def test_the_adapter_batches_and_an_empty_list_makes_no_call() -> None:
    model = ScriptedEmbedding()
    embedder = as_embedder(model)
    assert (await embedder.embed([])).shape == (0, 64)
    assert model.asked == []
    assert (await embedder.embed([f"text {n}" for n in range(70)])).shape == (70, 64)
    assert [len(batch) for batch in model.asked] == [32, 32, 6]
    model.batch_size_limit = 1
    model.asked.clear()
    await as_embedder(model).embed(["a", "b"])
    assert model.asked == [["a"], ["b"]]


@pytest.mark.requirement("AS-MODEL-06")
async def test_multimodal_models_get_blocks() -> None:
    class Multimodal(ScriptedEmbedding):
        supported_modalities = ["text", "image"]  # noqa: RUF012

        async def __call__(self, inputs: list[Any], **kwargs: Any) -> EmbeddingResponse:
            return await super().__call__(inputs)

    model = Multimodal()
    await as_embedder(model).embed(["a"])
    assert model.asked == [[{"type": "text", "text": "a"}]]


@pytest.mark.requirement("AS-MODEL-06")
@pytest.mark.parametrize("rows", [[], [[1.0] * 64] * 2, [[1.0] * 63], [[float("nan")] * 64], [["x"]]])
async def test_count_and_dimension_of_the_answer_are_checked(rows: list[Any]) -> None:
    class Wrong(ScriptedEmbedding):
        async def __call__(self, text: list[Any], **kwargs: Any) -> EmbeddingResponse:
            return EmbeddingResponse(embeddings=rows)

    with pytest.raises(ModelOutputError):
        await as_embedder(Wrong()).embed(["a"])


@pytest.mark.requirement("AS-MODEL-06")
async def test_a_text_in_which_the_model_finds_nothing_fails_none_of_its_batch() -> None:
    class Counting(ScriptedEmbedding):
        async def __call__(self, text: list[Any], **kwargs: Any) -> EmbeddingResponse:
            return EmbeddingResponse(embeddings=[[3.0] + [0.0] * 63, [0.0] * 64])

    matrix = await as_embedder(Counting()).embed(["a", "?"])
    assert matrix.sum(axis=1).tolist() == [1.0, 0.0]


@pytest.mark.requirement("AS-MODEL-06")
async def test_over_long_texts_are_cut_and_cut_again_where_the_model_still_refuses() -> None:
    class Small(ScriptedEmbedding):
        async def __call__(self, text: list[Any], **kwargs: Any) -> EmbeddingResponse:
            if max(map(len, text)) > 2500:
                raise ProviderError(400, "this model's maximum context length is 2500 tokens")
            return await super().__call__(text)

    model = Small()
    assert (await as_embedder(model).embed(["x" * 100_000, "short"])).shape == (2, 64)
    assert [len(text) for text in model.asked[0]] == [2000, 5]
    model.failure = ProviderError(503)
    with pytest.raises(ModelUnavailableError):
        await as_embedder(model).embed(["a"])


@pytest.mark.requirement("AS-MODEL-01")
@pytest.mark.parametrize("said", ["text", None, ChatResponse(content=cast("Any", None))], ids=["text", "none", "empty"])
async def test_an_answer_of_an_odd_kind_is_a_model_error(said: Any) -> None:
    class Odd(ScriptedModel):
        async def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return said

    with pytest.raises(ModelOutputError):
        await as_chat_model(Odd()).chat(asking())
    with pytest.raises(ModelOutputError, match="said nothing"):
        await as_chat_model(ScriptedModel([[{"type": "thinking", "thinking": "hm"}]])).chat(asking())


class Picky(ScriptedModel):
    """Refuses options by name, as endpoints do."""

    def __init__(self, *refused: str) -> None:
        super().__init__(["yes"] * 9)
        self.refused = refused

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for name in self.refused:
            if name in kwargs:
                raise ProviderError(400, f"Unsupported parameter: '{name}' is not supported; use another one")
        return await super().__call__(*args, **kwargs)


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
