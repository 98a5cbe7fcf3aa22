"""Chat models and embeddings of LangChain stand behind the core's ports."""

import asyncio
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.store.base.embed import ensure_embeddings
from pydantic import Field

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
from reme_core.ports import ChatModel, ChatRequest, Embedder, EmbedsQueries, NamedEmbedder, ResponseSchema, ToolSpec
from reme_core.schema import ImageBlock, Message, OtherBlock, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.testing.chat_model_contract import Answer, ChatModelContract, asking
from reme_core.testing.embedder_contract import EmbedderContract
from reme_core.testing.hashed_embedder import HashedEmbedder
from reme_langchain import as_chat_model, as_embedder
from tests.adapters.langchain.scripted import ScriptedChat, calling

WEATHER = ToolSpec(name="weather", description="The weather.", parameters={"type": "object", "properties": {}})
USAGE = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


class StatusError(Exception):
    """What the clients of providers raise, in their usual form."""

    def __init__(self, status_code: int, message: str = "refused", body: object = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.body = body


class RateLimitError(Exception):
    pass


class BusyModelError(Exception):
    is_retryable = True


def theirs(answer: Answer) -> AIMessage | BaseException:
    """Say in LangChain's words what the contract wants said."""
    match answer:
        case ModelOutputError():
            return AIMessage("")
        case ContextTooLongError():
            return StatusError(400, "maximum context length is 8192 tokens")
        case ModelUnavailableError():
            return StatusError(503)
        case ModelError():
            return StatusError(401)
    calls = [block for block in answer.content if block.type == "tool_call"]
    return AIMessage(
        answer.text,
        usage_metadata=USAGE,
        response_metadata={"finish_reason": "tool_calls" if calls else "stop"},
        tool_calls=[
            {"name": c.name, "args": c.arguments, "id": c.call_id} for c in calls if isinstance(c.arguments, dict)
        ],
        invalid_tool_calls=[
            {"name": c.name, "args": c.arguments, "id": c.call_id, "error": None}
            for c in calls
            if isinstance(c.arguments, str)
        ],
    )


@pytest.mark.requirement("LC-MODEL-01")
class TestChatContract(ChatModelContract):
    @pytest.fixture
    def answering(self) -> Callable[[Sequence[Answer]], ChatModel]:
        return lambda answers: as_chat_model(ScriptedChat([theirs(answer) for answer in answers], strict=True))


@pytest.mark.requirement("LC-MODEL-02")
class TestEmbedderContract(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        hashed = HashedEmbedder()

        async def embed(texts: list[str]) -> list[list[float]]:
            return [[float(x) * 3 for x in row] for row in await hashed.embed(texts)]

        return as_embedder(embed, dims=hashed.dimension)


class WithoutOptions(FakeListChatModel):
    """Takes no options at call time, as some providers' clients don't, and says so in their words."""

    seen: list[dict] = Field(default_factory=list)

    def _call(self, messages, stop=None, run_manager=None, **kwargs):
        self.seen.append(kwargs)
        for name in kwargs:
            msg = f"chat() got an unexpected keyword argument '{name}'"
            raise TypeError(msg)
        return super()._call(messages, stop, run_manager)


@pytest.mark.requirement("LC-MODEL-01")
async def test_options_that_a_model_refuses_are_left_out_from_then_on():
    model = WithoutOptions(responses=["Hi!"])
    chat = as_chat_model(model)
    request = ChatRequest(messages=asking("Hi").messages, temperature=0.0, max_tokens=9)
    for _ in range(2):
        assert (await chat.chat(request)).message.text == "Hi!"
    assert [sorted(options) for options in model.seen] == [["max_tokens", "temperature"], ["max_tokens"], [], []]


def said_by(kind: str) -> object:
    async def asynchronous(messages):
        return AIMessage(f"{messages[-1].text}!")

    def synchronous(messages):
        assert threading.current_thread() is not threading.main_thread()
        return f"{messages[-1].text}!"

    class AsynchronousObject:
        async def __call__(self, messages):
            return f"{messages[-1].text}!"

    return {
        "chat model": FakeListChatModel(responses=["Hi!"]),
        "bound model": FakeListChatModel(responses=["Hi!"]).bind(stop=["x"]),
        "runnable": RunnableLambda(lambda messages: AIMessage(f"{messages[-1].text}!")),
        "function": synchronous,
        "async function": asynchronous,
        "async object": AsynchronousObject(),
    }[kind]


@pytest.mark.requirement("LC-MODEL-01")
@pytest.mark.parametrize(
    "kind", ["chat model", "bound model", "runnable", "function", "async function", "async object"]
)
async def test_whatever_answers_messages_is_a_chat_model(kind):
    result = await as_chat_model(said_by(kind)).chat(asking("Hi"))
    assert result.message.text == "Hi!"
    assert result.finish_reason == "stop"
    assert result.usage.model_calls == 1


@pytest.mark.requirement("LC-MODEL-01")
@pytest.mark.parametrize(
    ("choice", "bound"), [("auto", None), ("required", "any"), ("weather", "weather"), ("none", None)]
)
async def test_tools_and_options_are_bound(choice, bound):
    model = ScriptedChat([calling("weather", {"town": "Bern"})])
    request = ChatRequest(
        messages=asking().messages, tools=(WEATHER,), tool_choice=choice, temperature=0.5, max_tokens=9
    )
    result = await as_chat_model(model).chat(request)
    sent = model.asked[0].bound
    assert sent["tools"][0]["function"] == {
        "name": "weather",
        "description": "The weather.",
        "parameters": {"type": "object", "properties": {}},
    }
    assert sent.get("tool_choice") == bound
    assert (sent["temperature"], sent["max_tokens"]) == (0.5, 9)
    assert result.finish_reason == "tool_calls"


@pytest.mark.requirement("LC-MODEL-01")
async def test_calls_usage_thoughts_and_the_reason_reach_the_core():
    answer = AIMessage(
        [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "so"}],
        tool_calls=[{"name": "a", "args": {"x": 1}, "id": "1"}, {"name": "a", "args": {"y": "\0"}, "id": "1"}],
        invalid_tool_calls=[{"name": "b", "args": "{", "id": None, "error": "bad"}],
        usage_metadata=USAGE,
        response_metadata={"stop_reason": "max_tokens"},
    )
    result = await as_chat_model(ScriptedChat([answer])).chat(ChatRequest(messages=asking().messages, tools=(WEATHER,)))
    thought, text, first, second, third = result.message.content
    assert thought == OtherBlock(kind="thinking", data="hm")
    assert text == TextBlock(text="so")
    assert (first.call_id, first.arguments) == ("1", {"x": 1})
    assert second.arguments == {"y": "\ufffd"}
    assert (third.name, third.arguments) == ("b", "{")
    assert len({first.call_id, second.call_id, third.call_id}) == 3
    assert result.finish_reason == "length"
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (7, 3)


@pytest.mark.requirement("LC-MODEL-01")
async def test_the_conversation_is_sent_without_what_only_we_understand():
    model = ScriptedChat(["ok"])
    messages = (
        Message(role="system", content=(TextBlock(text="Be brief."),)),
        Message(role="user", name="Ann Lee", content=(TextBlock(text="See"), ImageBlock(url="file:///x.png"))),
        Message(role="user", content=(ImageBlock(url="https://example.org/a.png"),)),
        Message(role="assistant", content=(OtherBlock(kind="thinking", data="hm"),)),
        Message(role="assistant", content=(ToolCallBlock(call_id="c", name="weather", arguments='{"t'),)),
        Message(role="tool", content=(ToolResultBlock(call_id="c", output="bad arguments", is_error=True),)),
    )
    await as_chat_model(model).chat(ChatRequest(messages=messages, tools=(WEATHER,)))
    system, user, image, call, result = model.asked[0].messages
    assert system == SystemMessage("Be brief.", id=system.id)
    assert (user.content, user.name) == ("See\n[image: file:///x.png]", "Ann_Lee")
    assert image.content == [{"type": "image", "url": "https://example.org/a.png"}]
    assert call.tool_calls[0]["args"] == {"malformed": '{"t'}
    assert result == ToolMessage("bad arguments", tool_call_id="c", status="error", id=result.id)


@pytest.mark.requirement("LC-MODEL-01")
async def test_json_is_asked_for_in_the_system_message():
    model = ScriptedChat(['{"a": 1}'])
    schema = ResponseSchema(name="answer", schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    result = await as_chat_model(model).chat(ChatRequest(messages=asking().messages, response_schema=schema))
    assert result.parsed == {"a": 1}
    assert '"integer"' in model.asked[0].messages[0].text
    assert isinstance(model.asked[0].messages[-1], HumanMessage)


FAILURES = [
    (StatusError(429), ModelUnavailableError),
    (StatusError(500), ModelUnavailableError),
    (StatusError(429, body={"code": "insufficient_quota"}), ModelRejectedError),
    (StatusError(400), ModelRejectedError),
    (StatusError(404), ModelRejectedError),
    (StatusError(400, "prompt is too long: 210000 tokens"), ContextTooLongError),
    (RateLimitError("slow down"), ModelUnavailableError),
    (BusyModelError("later"), ModelUnavailableError),
    (ConnectionResetError("gone"), ModelUnavailableError),
    (TimeoutError("late"), ModelUnavailableError),
    (ValueError("a bug"), ModelRejectedError),
    (NotImplementedError("no"), ModelRejectedError),
]


@pytest.mark.requirement("LC-MODEL-01")
@pytest.mark.parametrize(("failure", "wanted"), FAILURES, ids=lambda value: repr(value)[:40])
async def test_failures_of_providers_become_ours_with_the_original_as_cause(failure, wanted):
    with pytest.raises(wanted) as caught:
        await as_chat_model(ScriptedChat([failure])).chat(asking("secret words"))
    assert type(caught.value) is wanted
    assert repr(caught.value.__cause__) == repr(failure)  # a TimeoutError is copied on its way out of a thread
    assert "secret" not in str(caught.value)
    assert caught.value.retryable is (wanted is ModelUnavailableError)


@pytest.mark.requirement("LC-MODEL-01")
async def test_a_model_that_does_not_answer_in_time_is_unavailable():
    async def silent(_messages):
        await asyncio.Event().wait()

    request = ChatRequest(messages=asking().messages, timeout_s=0.01)
    with pytest.raises(ModelUnavailableError, match="in time"):
        await as_chat_model(silent).chat(request)


@pytest.mark.requirement("LC-MODEL-01")
@pytest.mark.parametrize("model", [lambda _m: "x", FakeListChatModel(responses=["x"]), RunnableLambda(lambda _m: "x")])
async def test_a_model_without_tools_says_so(model):
    request = ChatRequest(messages=asking().messages, tools=(WEATHER,))
    with pytest.raises(ModelRejectedError, match="takes no tools"):
        await as_chat_model(model).chat(request)


@pytest.mark.requirement("LC-MODEL-01")
async def test_a_function_that_has_run_out_of_answers_fails_and_does_not_hang():
    answers = iter(["one"])
    model = as_chat_model(lambda _m: next(answers))
    assert (await model.chat(asking())).message.text == "one"
    with pytest.raises(ModelRejectedError, match="RuntimeError"):
        await model.chat(asking())


async def test_requests_and_answers_of_a_wrong_form_are_refused():
    with pytest.raises(InvalidInputError, match="tool_choice"):
        await as_chat_model(ScriptedChat()).chat(ChatRequest(messages=asking().messages, tool_choice="other"))
    thinking = Message(role="assistant", content=(OtherBlock(kind="thinking", data="hm"),))
    with pytest.raises(InvalidInputError, match="nothing to send"):
        await as_chat_model(ScriptedChat()).chat(ChatRequest(messages=(thinking,)))
    with pytest.raises(ModelOutputError, match="wanted a message"):
        await as_chat_model(lambda _m: 7).chat(asking())
    with pytest.raises(ModelOutputError, match="said nothing"):
        await as_chat_model(lambda _m: AIMessage(" ", response_metadata={"finish_reason": "length"})).chat(asking())
    with pytest.raises(ConfigurationError, match="found 7"):
        as_chat_model(7)


async def test_calls_carry_the_metadata_that_tells_them_apart():
    seen = []

    def answer(messages, config):
        seen.append(config["metadata"])
        return AIMessage("ok")

    await as_chat_model(RunnableLambda(answer), metadata={"lc_internal_call": "x"}).chat(asking())
    assert seen[0]["lc_internal_call"] == "x"


@pytest.mark.requirement("LC-MODEL-01")
async def test_a_memory_distils_with_a_model_of_langchain(tmp_path):
    fact = '{"type": "personal", "target": "ann", "content": "Ann lives in Bern.", "messages": [1]}'
    model = ScriptedChat([f'{{"facts": [{fact}]}}'])
    async with ReMe(working_dir=tmp_path, llm=as_chat_model(model), embedding=None) as memory:
        result = await memory.summary([("user", "I live in Bern.")], user_id="ann")
    assert [memory.content for memory in result.memories] == ["Ann lives in Bern."]
    assert "I live in Bern." in model.asked[0].text


class Recording(Embeddings):
    """Embeddings whose queries differ from documents, and which count their calls."""

    dimensions = 3

    def __init__(self, rows: list[list[float]] | None = None) -> None:
        self.calls: list[object] = []
        self.rows = rows

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(texts)
        return self.rows if self.rows is not None else [[float(len(text)), 1.0, 0.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.calls.append(text)
        return [0.0, 0.0, 5.0]


@pytest.mark.requirement("LC-MODEL-02")
async def test_stored_texts_and_queries_are_embedded_each_in_its_way():
    source = Recording()
    embedder = as_embedder(source)
    assert isinstance(embedder, EmbedsQueries)
    assert isinstance(embedder, NamedEmbedder)
    matrix = await embedder.embed(["a", "bbb"])
    assert matrix.dtype == np.float32
    assert np.allclose(matrix[:, 0] / matrix[:, 1], [1, 3])
    assert np.allclose(await embedder.embed_query("q"), [0, 0, 1])
    assert source.calls == [["a", "bbb"], "q"]


@pytest.mark.requirement("LC-MODEL-02")
async def test_no_texts_make_no_call():
    source = Recording()
    assert (await as_embedder(source).embed([])).shape == (0, 3)
    assert source.calls == []


@pytest.mark.requirement("LC-MODEL-02")
@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([[1.0, 0.0, 0.0]], "shape"),
        ([[1.0, 0.0], [1.0, 0.0]], "3 dimensions"),
        ([[1.0, 0.0, 0.0], [1.0]], "one length"),
        ([[1.0, 0.0, 0.0], [float("nan"), 0.0, 0.0]], "not finite"),
        ([[1.0, 0.0, 0.0], ["a", 0.0, 0.0]], "numbers"),
        (5, "shape"),
    ],
)
async def test_vectors_that_cannot_be_used_are_refused(rows, named):
    with pytest.raises(ModelOutputError, match=named):
        await as_embedder(Recording(rows)).embed(["a", "b"])


@pytest.mark.requirement("LC-MODEL-02")
async def test_a_text_in_which_the_model_finds_nothing_keeps_a_row_of_zeros():
    matrix = await as_embedder(Recording([[0.0, 3.0, 4.0], [0.0, 0.0, 0.0]])).embed(["a", "?"])
    assert np.allclose(matrix, [[0, 0.6, 0.8], [0, 0, 0]])


@pytest.mark.requirement("LC-MODEL-02")
async def test_functions_embed_too_and_synchronous_ones_in_a_thread():
    def synchronous(texts):
        assert threading.current_thread() is not threading.main_thread()
        return [[1.0, 0.0] for _ in texts]

    async def asynchronous(texts):
        return [[0.0, 1.0] for _ in texts]

    assert (await as_embedder(synchronous, dims=2).embed(["a"])).tolist() == [[1.0, 0.0]]
    assert (await as_embedder(asynchronous, dims=2).embed_query("a")).tolist() == [0.0, 1.0]
    assert (await as_embedder(lambda texts: asynchronous(texts), dims=2).embed(["a"])).tolist() == [[0.0, 1.0]]
    assert (await as_embedder(ensure_embeddings(asynchronous), dims=2).embed(["a"])).tolist() == [[0.0, 1.0]]


@pytest.mark.requirement("LC-MODEL-02")
def test_the_length_of_the_vectors_is_told_or_asked_for():
    assert as_embedder(DeterministicFakeEmbedding(size=5)).dimension == 5
    assert as_embedder(Recording(), dims=4).dimension == 4
    with pytest.raises(ConfigurationError, match="dims="):
        as_embedder(lambda texts: [[1.0] for _ in texts])
    for wrong in (0, -1, True, 1.5, "3"):
        with pytest.raises(ConfigurationError, match="dims"):
            as_embedder(Recording(), dims=wrong)
    with pytest.raises(ConfigurationError, match="found 7"):
        as_embedder(7, dims=2)


@pytest.mark.requirement("LC-MODEL-02")
def test_the_name_of_an_embedder_tells_models_apart():
    class Named(Recording):
        def __init__(self, model: str) -> None:
            super().__init__()
            self.model = model
            self.api_key = "sk-secret"

    assert as_embedder(Named("small")).model == "Named:small"
    assert as_embedder(Named("large")).model != as_embedder(Named("small")).model
    assert "secret" not in repr(as_embedder(Named("small")))
    functions = [lambda texts: [[1.0] for _ in texts], print]
    wrapped = [as_embedder(ensure_embeddings(function), dims=1).model for function in functions]
    assert wrapped[0] != wrapped[1]
    assert as_embedder("openai:text-embedding-3-small", dims=2).model == "openai:text-embedding-3-small"


@pytest.mark.requirement("LC-MODEL-02")
async def test_failures_of_embeddings_become_ours():
    def failing(_texts):
        raise StatusError(503)

    embedder = as_embedder(failing, dims=2)
    for call in (embedder.embed(["a"]), embedder.embed_query("a")):
        with pytest.raises(ModelUnavailableError):
            await call


@pytest.mark.requirement("LC-MODEL-03")
async def test_a_name_is_resolved_at_the_first_use_and_a_missing_package_named():
    model = as_chat_model("openai:gpt-5")
    with pytest.raises(ConfigurationError, match="langchain-openai"):
        await model.chat(asking())
    embedder = as_embedder("cohere:embed-v4", dims=3)
    with pytest.raises(ConfigurationError, match="langchain-cohere"):
        await embedder.embed(["a"])
    with pytest.raises(ConfigurationError, match="can't be made"):
        await as_chat_model("nobody:x").chat(asking())


@pytest.mark.requirement("LC-MODEL-03")
@pytest.mark.parametrize("name", ["", "gpt-5", ":x", "openai:", " : "])
def test_there_is_no_default_model(name):
    with pytest.raises(ConfigurationError, match="provider:model"):
        as_chat_model(name)
    with pytest.raises(ConfigurationError, match="provider:model"):
        as_embedder(name, dims=2)


@pytest.mark.requirement("LC-MODEL-03")
async def test_what_needs_no_model_works_without_one(tmp_path):
    async with ReMe(working_dir=tmp_path, llm=None, embedding=as_embedder("openai:none", dims=4)) as memory:
        assert (await memory.list_memories(user_id="ann")).memories == ()
