"""What summaries and questions cost over the wire: calls and prompt tokens as the endpoint sees them, and time."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.models import OpenAIChat
from reme_core.ports import ChatRequest
from reme_core.testing import HashedEmbedder
from tests.support.openai_server import KEY, WAIT_S, OpenAIServer, Request
from tests.support.rule_model import RuleModel, calls
from tests.support.virtual_clock import TimelessStore, VirtualLoop
from tests.support.wire_model import all_prompt_tokens, answering

MESSAGES, CHARS = 10, 850
MAX_PROMPT_TOKENS = 3000
U: dict[str, Any] = {"user_id": "u"}


@dataclass(frozen=True)
class Talk:
    """A conversation about one person, and memories about the same one."""

    person: str
    said: str
    answered: str
    known: str
    question: str

    @property
    def messages(self) -> list[dict[str, str]]:
        """Ten messages of 85 characters each, every one different from the others."""
        return [
            {
                "role": "assistant" if number % 2 else "user",
                "content": (self.answered if number % 2 else self.said).format(number)[: CHARS // MESSAGES],
                "created_at": f"2023-05-08T13:{number:02d}:00Z",
            }
            for number in range(MESSAGES)
        ]

    @property
    def memories(self) -> list[dict[str, Any]]:
        return [{"content": self.known.format(number), "memory_target": self.person} for number in range(10)]


ENGLISH = Talk(
    person="Alice",
    said="Alice began to learn song number {} last week, and sings it to Mia's two cats at night.",
    answered="That is song {} already! Shall I look for the notes of another one for the weekend, too?",
    known="Alice works as a nurse in the city hospital, ward {}",
    question="What does Alice sing?",
)
CHINESE = Talk(
    person="小王",
    said=(
        "小王 上周开始学第{}首新歌，每天晚上都唱给妹妹小美家的两只猫听，猫好像很喜欢，"
        "邻居倒是已经来敲过两次门了，所以现在只好改成早上七点以前起来练，练完再去医院上班，周末休息。"
    ),
    answered=(
        "这已经是第{}首新歌了！要不要我再找几份谱子，周末可以接着练？邻居那边也许可以先打个招呼，"
        "送一点水果过去，说明只练半个小时，他们多半会理解的，毕竟大家在这栋楼里都住了这么多年了。"
    ),
    known="小王在市立医院第{}病区当护士，每周值两次夜班",
    question="小王唱什么歌？",
)
TALKS = pytest.mark.parametrize("talk", [ENGLISH, CHINESE], ids=["en", "zh"])
HOLDING = pytest.mark.parametrize("holding", [False, True], ids=["an empty store", "ten memories"])


@dataclass
class Counting:
    """A memory over a counting endpoint."""

    memory: ReMe
    server: OpenAIServer

    @property
    def chats(self) -> list[Request]:
        return [request for request in self.server.requests if request.path.endswith("/chat/completions")]

    @property
    def prompt_tokens(self) -> int:
        return sum(map(all_prompt_tokens, self.chats))

    async def fill(self, talk: Talk) -> None:
        await self.memory.add_memories(talk.memories, **U)


@asynccontextmanager
async def counting(folder: Path, model: Any = None, *, agentic: bool = False) -> AsyncIterator[Counting]:
    with OpenAIServer() as server:
        server.otherwise = answering(model or RuleModel())
        async with (
            OpenAIChat("any", base_url=server.base_url, api_key=KEY, max_retries=0) as chat,
            ReMe("space", folder, llm=chat, embedding=HashedEmbedder(), use_agentic_mode=agentic) as memory,
        ):
            yield Counting(memory, server)


class Concise(RuleModel):
    """Takes one sentence from each message, as the prompt wants it; `RuleModel` copies the whole message."""

    def _facts(self, request: ChatRequest) -> Any:
        written = super()._facts(request)["facts"]
        return {"facts": [{**fact, "content": re.split("[,，]", fact["content"])[0]} for fact in written]}


class Restless(RuleModel):
    """Searches as long as it is allowed to."""

    def _act(self, request: ChatRequest) -> Any:
        if "vector_retrieve_memory" not in {tool.name for tool in request.tools} or request.tool_choice == "none":
            return super()._act(request)
        said = f"round {len(request.messages)}"
        return calls(("vector_retrieve_memory", {"query_items": [{"query": said}]}))


@TALKS
def test_the_conversations_are_those_of_the_bar(talk: Talk) -> None:
    assert len(talk.messages) == MESSAGES
    assert sum(len(message["content"]) for message in talk.messages) == CHARS
    assert len({message["content"] for message in talk.messages}) == MESSAGES


@TALKS
@HOLDING
async def test_a_simple_summary_takes_two_calls_and_three_thousand_prompt_tokens_at_most(
    tmp_path: Path, talk: Talk, holding: bool
) -> None:
    async with counting(tmp_path, Concise()) as counted:
        if holding:
            await counted.fill(talk)
        result = await counted.memory.summary(talk.messages, **U)
        assert len(result.memories) == MESSAGES // 2
        assert len(counted.chats) == result.usage.model_calls == (2 if holding else 1)
        assert counted.prompt_tokens <= MAX_PROMPT_TOKENS, counted.prompt_tokens
        assert result.usage.prompt_tokens == counted.server.prompt_tokens
        assert {memory.memory_target for memory in result.memories} == {talk.person}


@TALKS
async def test_the_texts_of_its_prompts_stay_below_that_even_where_every_fact_is_a_whole_message(
    tmp_path: Path, talk: Talk
) -> None:
    async with counting(tmp_path) as counted:
        await counted.fill(talk)
        await counted.memory.summary(talk.messages, **U)
        assert len(counted.chats) == 2
        assert counted.server.prompt_tokens <= MAX_PROMPT_TOKENS, counted.server.prompt_tokens


@TALKS
async def test_the_same_conversation_said_again_takes_two_calls_at_most(tmp_path: Path, talk: Talk) -> None:
    async with counting(tmp_path) as counted:
        await counted.memory.summary(talk.messages, **U)
        counted.server.requests.clear()
        again = await counted.memory.summary(talk.messages, **U)
        assert len(counted.chats) <= 2
        assert again.memories == ()
        assert counted.prompt_tokens <= MAX_PROMPT_TOKENS


@TALKS
async def test_a_simple_question_asks_no_model(tmp_path: Path, talk: Talk) -> None:
    async with counting(tmp_path) as counted:
        await counted.fill(talk)
        await counted.memory.summary(talk.messages, **U)
        counted.server.requests.clear()
        found = await counted.memory.retrieve(talk.question, **U)
        assert counted.server.requests == []
        assert any(talk.said.split("{}")[0] in hit.memory for hit in found.results)


@TALKS
@HOLDING
async def test_an_agentic_summary_of_one_target_takes_three_calls_at_most(
    tmp_path: Path, talk: Talk, holding: bool
) -> None:
    async with counting(tmp_path, agentic=True) as counted:
        if holding:
            await counted.fill(talk)
        result = await counted.memory.summary(talk.messages, **U)
        assert len(result.memories) == MESSAGES // 2
        assert len(counted.chats) == result.usage.model_calls <= 3


@TALKS
@pytest.mark.parametrize("kind", [RuleModel, Restless])
async def test_an_agentic_question_takes_three_calls_at_most_even_of_a_model_that_never_stops(
    tmp_path: Path, talk: Talk, kind: Callable[[], RuleModel]
) -> None:
    async with counting(tmp_path, kind(), agentic=True) as counted:
        await counted.fill(talk)
        found = await counted.memory.retrieve(talk.question, **U)
        assert len(counted.chats) == found.usage.model_calls <= 3
        assert found.answer
        assert found.results


@TALKS
async def test_a_chat_that_looks_things_up_streams_its_answer(tmp_path: Path, talk: Talk) -> None:
    async with counting(tmp_path) as counted:
        await counted.fill(talk)
        pieces: list[str] = []
        reply = await counted.memory.chat(talk.question, **U, on_text=pieces.append)
        streamed = [request for request in counted.chats if request.body.get("stream")]
        assert len(streamed) == reply.usage.model_calls == 2
        assert "tool" in {message["role"] for message in streamed[-1].body["messages"]}
        assert len(pieces) > 1 or len(reply.text) <= 5
        assert "".join(pieces).strip() == reply.text
        assert reply.results
        await counted.memory.flush()
        kept = await counted.memory.find_messages(**U, session_id=reply.session_id)
        assert [item.message.text for item in kept.messages] == [talk.question, reply.text]


# Sub-agents side by side

PEOPLE = ("Alice", "Bob", "Eve", "Zoe")
LATENCY_S = 2.0


def seconds_for(folder: Path, people: Sequence[str], *, agentic: bool = True) -> tuple[float, int]:
    """Return how long a summary about these people takes where each model call takes so long, and its calls."""

    async def measure() -> tuple[float, int]:
        loop, store = asyncio.get_running_loop(), TimelessStore(folder / "memory.db")
        model = RuleModel(before=lambda _: asyncio.sleep(LATENCY_S))
        async with ReMe(
            "space", folder, llm=model, embedding=HashedEmbedder(32), vector_store=store, use_agentic_mode=agentic
        ) as memory:
            begun = loop.time()
            result = await memory.summary([("user", f"{name} likes tea") for name in people], **U)
            took = loop.time() - begun
        await store.close()
        assert {item.memory_target for item in result.memories} == set(people)
        return took, len(model.requests)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(measure())


def test_four_sub_agents_take_at_most_one_and_a_half_times_as_long_as_one(tmp_path: Path) -> None:
    one, calls_of_one = seconds_for(tmp_path / "one", PEOPLE[:1])
    four, calls_of_four = seconds_for(tmp_path / "four", PEOPLE)
    assert one == pytest.approx(calls_of_one * LATENCY_S)
    assert calls_of_four == calls_of_one + 3  # one for each further agent
    assert four <= 1.5 * one


class Meeting(RuleModel):
    """Lets no sub-agent go on before four of them are under way."""

    def __init__(self) -> None:
        super().__init__()
        self.barrier = threading.Barrier(len(PEOPLE))

    def _act(self, request: ChatRequest) -> Any:
        if "add_memory" in {tool.name for tool in request.tools} and len(request.messages) == 2:
            self.barrier.wait(WAIT_S)
        return super()._act(request)


async def test_four_sub_agents_are_at_the_endpoint_together(tmp_path: Path) -> None:
    async with counting(tmp_path, Meeting(), agentic=True) as counted:
        result = await counted.memory.summary([("user", f"{name} likes tea") for name in PEOPLE], **U)
        assert len(result.memories) == len(PEOPLE)
        assert counted.server.most_at_once >= len(PEOPLE)
