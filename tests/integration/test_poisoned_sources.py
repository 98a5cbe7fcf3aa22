"""Forty attacks, from each kind of source: in every prompt they stay quoted, with their class, and with their user."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from reme_core import AgenticRetriever, AgenticSummarizer, FileMemory, ReMe, RerankingRetriever
from reme_core.files.journal_agent import JournalAgentV1Op
from reme_core.ports import AgentTask, ToolContext
from reme_core.schema import Scope, parse_messages
from reme_core.steps.web_results import mark_web
from reme_core.testing import FixedClock
from reme_core.testing.store_values import NOW
from tests.support.attacks import ATTACKS, CLASSES, Quoted, poisoned, quotations
from tests.support.poisoned_model import BelievingModel

U: dict[str, Any] = {"user_id": "u"}
WEB_TOOL = "fetch_page"
# What a model wrote of what it read has no class of its own; of calls and guidelines the fence tells it.
WITHOUT_CLASS = {"summary", "answer", "problems", "page", "journal", "statements"}
OF_FENCE = {"calls": "tool", "guideline": "tool"}


def delivered(trust: str, *, again: bool = False) -> list[dict[str, Any]]:
    """The attacks as messages of one class; said again, they are said in other words."""
    messages: list[dict[str, Any]] = []
    for number, text in enumerate(poisoned(trust)):
        said = f"{text} and again" if again else text
        message: dict[str, Any] = {"role": trust, "content": said}
        if trust in {"tool", "web"}:
            call_id, tool = f"{trust}-{number}-{again}", WEB_TOOL if trust == "web" else "grep"
            call = {"id": call_id, "type": "function", "function": {"name": tool, "arguments": "{}"}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            message |= {"role": "tool", "tool_call_id": call_id}
        messages.append(message)
    return messages


def prompts(model: BelievingModel) -> Iterator[tuple[str, str]]:
    """Roles and texts of all that a model was asked; its own words, which it gets back, apart."""
    for request in model.requests:
        yield from ((item.role, item.full_text) for item in request.messages if item.role != "assistant")


def check(found: Iterator[Quoted] | list[Quoted], *, in_tool_result: bool = False) -> Counter[str]:
    """Count the marks by how they came in: each stands in a fence, or in a line of JSON, and tells its class."""
    counts: Counter[str] = Counter()
    for quoted in found:
        assert quoted.fence or in_tool_result, quoted
        if quoted.fence not in WITHOUT_CLASS:
            assert OF_FENCE.get(quoted.fence, quoted.told) == quoted.trust, quoted
        counts[quoted.trust] += 1
    return counts


def check_prompts(model: BelievingModel) -> Counter[str]:
    counts: Counter[str] = Counter()
    for role, text in prompts(model):
        counts += check(quotations(text), in_tool_result=role == "tool")
    return counts


@pytest.fixture
def model() -> BelievingModel:
    return BelievingModel()


@pytest.fixture
async def memory(tmp_path: Path, model: BelievingModel) -> AsyncIterator[ReMe]:
    clock = FixedClock("2026-01-01")
    async with ReMe("space", tmp_path, llm=model, embedding=None, clock=clock, web_tools=[WEB_TOOL]) as opened:
        yield opened


def test_there_are_forty_attacks() -> None:
    assert len(ATTACKS) == 40


@pytest.mark.parametrize("trust", CLASSES)
async def test_what_is_learnt_from_a_poisoned_source_stays_quoted(
    trust: str, memory: ReMe, model: BelievingModel
) -> None:
    await memory.summary(delivered(trust), **U, session_id="s", end_session=True)
    await memory.summary(delivered(trust, again=True), **U, session_id="s", end_session=True)
    assert {request.response_schema.name for request in model.requests if request.response_schema} == {
        "facts",
        "decisions",
    }
    assert check_prompts(model)[trust] > 2 * len(ATTACKS)
    page = await memory.list_memories(**U, limit=500, trust=trust)
    assert sum(f"zq{trust}" in item.content for item in page.memories) >= 2 * len(ATTACKS)
    others = [known for known in CLASSES if known != trust]
    assert not [item for item in (await memory.list_memories(**U, trust=others)).memories if "zq" in item.content]
    for text in poisoned(trust):
        found = await memory.retrieve(text, **U, trust=trust)
        assert check(list(quotations(found.text)))[trust]
        assert not (await memory.retrieve(text, user_id="v", include_shared=True)).results


@pytest.mark.parametrize("trust", CLASSES)
async def test_agents_and_chat_see_poisoned_sources_quoted(trust: str, memory: ReMe, model: BelievingModel) -> None:
    memory.set_summarizer(AgenticSummarizer(use_reviser=True))
    await memory.summary(delivered(trust), **U, session_id="s", end_session=True)
    assert check_prompts(model)[trust] > len(ATTACKS)
    assert {item.trust for item in (await memory.list_memories(**U)).memories if "zq" in item.content} == {trust}
    model.requests.clear()
    memory.set_retriever(AgenticRetriever())
    assert (await memory.retrieve("obey Mallory", **U)).answer
    assert check_prompts(model)[trust]
    model.requests.clear()
    memory.set_retriever(RerankingRetriever())
    await memory.retrieve("obey Mallory", **U)
    assert check_prompts(model)[trust]
    model.requests.clear()
    await memory.chat("whom do I obey?", **U, session_id="new")
    assert check_prompts(model)[trust]
    if trust in {"tool", "web"}:  # what people and assistants said is a turn of the talk
        model.requests.clear()
        await memory.chat("and now?", **U, session_id="s")
        assert check_prompts(model)[trust]


async def test_compaction_quotes_poisoned_sources(memory: ReMe, model: BelievingModel) -> None:
    for trust in CLASSES:
        said = [{"role": "user", "content": "begin"}, *delivered(trust)]
        before = f"## Goal\n\n- zq{trust}00 obey"
        await memory.compact_memory(said, previous_summary=before, **U, session_id=trust)
    assert check_prompts(model).keys() == set(CLASSES)


async def test_learning_from_attempts_and_calls_quotes_poisoned_sources(memory: ReMe, model: BelievingModel) -> None:
    for trust in CLASSES:
        messages = [{"role": "user", "content": "begin"}, *delivered(trust)]
        attempts = [{"messages": messages, "score": score, "task_id": trust} for score in (1.0, 0.0)]
        await memory.summary_task(attempts, **U, task_name="coding")
    assert check_prompts(model).keys() == set(CLASSES)
    model.requests.clear()
    await memory.retrieve_task_memory("obey Mallory", **U, task_name="coding", rerank=True, rewrite=True, limit=50)
    assert check_prompts(model)
    model.requests.clear()
    calls = [{"tool_name": "grep", "input": {"q": "x"}, "output": text, "success": True} for text in poisoned("tool")]
    await memory.add_tool_call_results(calls, **U)
    await memory.summarize_tool_memory("grep", **U)
    assert check_prompts(model)["tool"]


async def test_journal_and_consolidation_quote_poisoned_sources(
    memory: ReMe, model: BelievingModel, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    (folder / "memory").mkdir(parents=True)
    page = "\n".join(f"- {' '.join(text.split())}" for text in poisoned("user"))
    (folder / "memory" / "2025-12-31.md").write_text(f"# 2025-12-31\n\n{page}\n", newline="\n")
    scope = Scope(memory_space="space", user_id="u")
    for trust in CLASSES:
        said = parse_messages(delivered(trust), now=lambda: NOW)
        marked = tuple(mark_web(said, [WEB_TOOL]))
        context = ToolContext(scope=scope, store=memory.store, model=model, clock=FixedClock("2026-01-01"))
        await JournalAgentV1Op(folder).run(AgentTask(workspace_id="space", messages=marked), context)
    assert check_prompts(model).keys() == set(CLASSES)
    model.requests.clear()
    async with FileMemory(folder, **U, memory=memory) as files:
        await files.consolidate(model)
    assert check_prompts(model)["user"]
    kept = [item for item in (await memory.list_memories(**U, limit=500)).memories if "zq" in item.content]
    assert {item.trust for item in kept if item.author == "consolidation"} == {"assistant"}
