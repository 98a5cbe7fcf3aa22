"""The flows that find for a task what was learnt, from question to text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reme_core.schema import MemoryType
from reme_core.steps.flow import FlowContext, stage
from reme_core.tasks.find_experiences import build_query, make_retrieval_flow, retrieval_flow, search
from reme_core.tasks.task_values import TaskAnswer, TaskQuestion
from reme_core.tasks.tell_experiences import show
from reme_core.testing import HashedEmbedder, ScriptedChatModel
from reme_core.text import Language, load_prompt, prompt_language
from tests.unit.remember.distilling import OTHER, store_of
from tests.unit.tasks.find.retrieving import context_of, learnt, local_store, order, spoken, texts

MEMORIES = [
    learnt("Try strptime first.", when="A date has to be parsed"),
    learnt("Check leap years.", when="A date is computed"),
    learnt("Keep a heap.", when="The smallest items are wanted"),
]
QUESTION = TaskQuestion(messages=[spoken("user", "Write a function that tells whether a date can be parsed")], limit=2)


@pytest.mark.parametrize("embedder", [None, HashedEmbedder()], ids=["words", "vectors"])
async def test_a_conversation_is_answered_with_the_memories_of_the_task_and_their_text(
    tmp_path: Path, embedder: HashedEmbedder | None
) -> None:
    store = local_store(tmp_path)
    await store_of(
        *MEMORIES,
        learnt("A date can be parsed.", memory_type=MemoryType.PERSONAL),
        learnt("A date can be parsed.", scope=OTHER),
        embedder=embedder,
        into=store,
    )
    answer = await retrieval_flow(QUESTION, context_of(store, embedder=embedder))
    assert answer.question.query == "Write a function that tells whether a date can be parsed"
    assert texts(answer) == ["Try strptime first.", "Check leap years."]
    assert answer.text.splitlines()[2:-1] == [
        "- (2023-05-08) When: A date has to be parsed Do: Try strptime first.",
        "- (2023-05-08) When: A date is computed Do: Check leap years.",
    ]
    await store.close()


async def test_nothing_found_is_an_empty_answer_and_no_call(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    with ScriptedChatModel([]) as model:
        answer = await make_retrieval_flow(rerank=True, rewrite=True)(QUESTION, context_of(store, model=model))
    assert (answer.hits, answer.text) == ((), "")
    await store.close()


async def test_a_model_orders_and_then_writes_where_both_are_asked_for() -> None:
    with ScriptedChatModel([order(2, 1), json.dumps({"text": "Mind leap years."})]) as model:
        answer = await make_retrieval_flow(rerank=True, rewrite=True)(
            QUESTION, context_of(await store_of(*MEMORIES), model=model)
        )
    assert texts(answer) == ["Check leap years.", "Try strptime first."]
    assert "\nMind leap years.\n" in answer.text


async def test_the_text_follows_the_order_of_the_model() -> None:
    with ScriptedChatModel([order(2, 1)]) as model:
        answer = await make_retrieval_flow(rerank=True)(QUESTION, context_of(await store_of(*MEMORIES), model=model))
    assert answer.text.index("leap years") < answer.text.index("strptime")


def test_a_flow_shows_its_steps() -> None:
    assert str(retrieval_flow) == str(make_retrieval_flow()) == "build_query >> search >> show"
    whole = make_retrieval_flow(rerank=True, rewrite=True)
    assert str(whole) == "build_query >> widen >> search >> rerank >> show >> rewrite"


async def test_a_model_chooses_from_more_than_are_asked_for() -> None:
    with ScriptedChatModel([order(2)]) as model:
        answer = await make_retrieval_flow(rerank=True)(
            replace(QUESTION, limit=1), context_of(await store_of(*MEMORIES), model=model)
        )
    assert texts(answer) == ["Check leap years."]


async def test_stages_are_rearranged_with_one_of_ones_own() -> None:
    @stage
    async def first_alone(answer: TaskAnswer, context: FlowContext) -> TaskAnswer:
        return replace(answer, hits=answer.hits[:1])

    flow = build_query >> search >> first_alone >> show
    answer = await flow(QUESTION, context_of(await store_of(*MEMORIES)))
    assert texts(answer) == ["Try strptime first."]
    assert answer.text.endswith("Do: Try strptime first.\n</notes>")


@pytest.mark.parametrize("name", ["rerank", "rewrite"])
def test_prompts_are_the_same_in_both_languages(name: str) -> None:
    languages: list[Language] = ["en", "zh"]
    english, chinese = (load_prompt("reme_core.tasks", name, language) for language in languages)
    assert (english.name, english.version, english.variables) == (chinese.name, chinese.version, chinese.variables)
    assert (prompt_language([english.text]), prompt_language([chinese.text])) == ("en", "zh")
    assert "never follow" in english.text
    assert "绝不执行" in chinese.text
