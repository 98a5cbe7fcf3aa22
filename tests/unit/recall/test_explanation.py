"""Explanations of `retrieve`: parts that add up, what was left out and by which rule, and why one id is no result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.schema import Explanation, LeftOut, RetrieveResult, WhyNot
from reme_core.testing import HashedEmbedder, ScriptedChatModel

TALK = [
    {"role": "user", "name": "Ana", "content": "We flew to Lisbon in May and ate far too many custard tarts there."},
    {"role": "assistant", "content": "Which bakery in Lisbon did you like best?"},
    {"role": "user", "name": "Ana", "content": "The one near the river, of course. My sister Eva lives in Lisbon."},
    {"role": "user", "name": "Ana", "content": "My dog Bruno stayed at home with a neighbour and ate her slippers."},
]


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder()) as opened:
        for place, message in enumerate(TALK):
            turn = {**message, "message_id": f"m{place}", "created_at": f"2024-05-0{place + 1}"}
            await opened.summary([turn], user_id="ana", session_id="s")
        await opened.add_memories(
            [
                {"content": "Ana likes the custard tarts of Lisbon.", "memory_id": "tarts"},
                {"content": "Ana's sister Eva lives in Lisbon.", "memory_id": "sister", "valid_from": "2020"},
                {"content": "Bruno is a dog.", "memory_id": "dog"},
            ],
            user_id="ana",
        )
        await opened.flush()
        yield opened


def told(found: RetrieveResult) -> Explanation:
    assert found.explanation is not None
    return found.explanation


async def why(memory: ReMe, name: str, query: str = "Where in Lisbon does the sister live?", **given: object) -> WhyNot:
    arguments = {"limit": 10, **given}
    answer = told(await memory.retrieve(query, user_id="ana", why_not=name, **arguments)).why_not  # type: ignore[arg-type]
    assert answer is not None
    return answer


QUESTIONS = ["Where in Lisbon did Ana eat custard tarts in May?", "Who lives in Lisbon?", "what happened in May 2024?"]


@pytest.mark.parametrize("query", QUESTIONS)
@pytest.mark.parametrize("given", [{"limit": 2}, {"token_budget": 40}, {"layers": ["summary"]}, {"min_score": 0.4}])
async def test_an_explained_answer_is_the_same_and_its_parts_add_up(
    memory: ReMe, query: str, given: dict[str, object]
) -> None:
    plain = await memory.retrieve(query, user_id="ana", **given)  # type: ignore[arg-type]
    found = await memory.retrieve(query, user_id="ana", explain=True, **given)  # type: ignore[arg-type]
    assert plain.explanation is None
    assert found.results == plain.results
    explained = told(found)
    assert [item.rank for item in explained.candidates] == list(range(1, len(explained.candidates) + 1))
    for item in explained.candidates:
        assert sum(item.parts.values()) == pytest.approx(item.hit.score)
    taken = {item.hit.memory for item in explained.candidates if item.left_out is None}
    assert len([item for item in explained.candidates if item.left_out is None]) == len(found.results)
    assert given.get("token_budget") or taken == {hit.memory for hit in found.results}
    assert explained.steps.keys() >= {"cut"}
    assert all(milliseconds >= 0 for milliseconds in explained.steps.values())


async def test_what_was_left_out_names_its_rule(memory: ReMe) -> None:
    await memory.add_memory("Lisbon, in: lives Eva, Ana's sister.", user_id="ana", memory_target="Eva")
    question = "Where does Ana's sister Eva live?"
    few = told(await memory.retrieve(question, user_id="ana", limit=1, explain=True))
    many = told(await memory.retrieve(question, user_id="ana", limit=50, explain=True))
    tight = told(await memory.retrieve(question, user_id="ana", token_budget=15, explain=True))
    strict = told(await memory.retrieve(question, user_id="ana", min_score=0.9, explain=True))
    assert {item.left_out for item in few.candidates} == {None, LeftOut.LIMIT}
    assert [item.hit.memory_target for item in many.candidates if item.left_out is LeftOut.REPETITION]
    assert LeftOut.BUDGET in {item.left_out for item in tight.candidates}
    assert 0 < tight.tokens <= 15 == tight.token_budget
    assert LeftOut.MIN_SCORE in {item.left_out for item in strict.candidates}


async def test_why_something_is_no_result(memory: ReMe) -> None:
    assert (await why(memory, "sister")).left_out is None
    assert (await why(memory, "dog", limit=3)).left_out is LeftOut.LIMIT
    assert (await why(memory, "dog", memory_target="Eva")).left_out is LeftOut.FILTER
    assert (await why(memory, "m3", session_id="other")).left_out is LeftOut.FILTER
    assert (await why(memory, "m3", layers=["memory"])).left_out is LeftOut.LAYER
    assert (await why(memory, "nothing")).left_out is LeftOut.UNKNOWN


async def test_why_a_replaced_or_deleted_memory_is_no_result(memory: ReMe) -> None:
    newer = await memory.supersede_memory("sister", "Ana's sister Eva lives in Porto.", user_id="ana")
    await memory.delete_memory("dog", user_id="ana")
    replaced, deleted = await why(memory, "sister"), await why(memory, "dog")
    assert (replaced.left_out, deleted.left_out) == (LeftOut.FILTER, LeftOut.UNKNOWN)
    assert newer.memory_id in replaced.reason
    assert "was deleted on" in deleted.reason


async def test_what_ranks_behind_the_candidates_is_told_with_place_and_parts(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        for number in range(20):
            content = f"Lisbon, day {number}: " + "we walked and ate " * number
            await memory.add_memory(content, user_id="ana", memory_target=f"t{number}")
        page = await memory.list_memories(user_id="ana")
        dull = page.memories[0].memory_id
        unlike = await memory.add_memory("Bruno the dog.", user_id="ana")
        found = await why(memory, dull, "Lisbon", limit=2)
        assert found.left_out is LeftOut.CANDIDATES
        assert found.place == 20
        assert found.found is not None
        assert sum(found.found.parts.values()) == pytest.approx(found.found.hit.score)
        assert (await why(memory, unlike.memory_id, "Lisbon", limit=2)).left_out is LeftOut.NO_MATCH
        assert (await why(memory, unlike.memory_id, "Lisbon", limit=2)).found is None


async def test_another_users_memory_is_unknown(memory: ReMe) -> None:
    theirs = await memory.add_memory("Bob's sister lives in Lisbon.", user_id="bob")
    answer = await why(memory, theirs.memory_id)
    assert answer.left_out is LeftOut.UNKNOWN
    assert "Bob" not in str(answer.model_dump())


async def test_a_model_that_orders_is_a_part_of_the_score(tmp_path: Path) -> None:
    from reme_core import RerankingRetriever

    model = ScriptedChatModel(['{"order": [2]}'])
    async with ReMe("space", tmp_path, llm=model, embedding=None) as memory:
        memory.set_retriever(RerankingRetriever())
        await memory.add_memory("Lisbon has the best tarts.", user_id="ana")
        await memory.add_memory("Lisbon is where Eva lives.", user_id="ana")
        found = await memory.retrieve("Lisbon tarts?", user_id="ana", explain=True)
        explained = told(found)
        assert [item.hit for item in explained.candidates] == list(found.results)
        assert any(item.parts.get("reranked") for item in explained.candidates)
        for item in explained.candidates:
            assert sum(item.parts.values()) == pytest.approx(item.hit.score)


async def test_what_a_model_put_behind_others_says_so(tmp_path: Path) -> None:
    from reme_core import RerankingRetriever

    async with ReMe("space", tmp_path, llm=ScriptedChatModel(['{"order": [2]}']), embedding=None) as memory:
        memory.set_retriever(RerankingRetriever())
        best = await memory.add_memory("Lisbon has the best tarts.", user_id="ana")
        await memory.add_memory("Lisbon is where Eva lives.", user_id="ana")
        answer = await why(memory, best.memory_id, "Lisbon tarts?", limit=1)
        assert answer.left_out is LeftOut.LIMIT
        assert "number 2 of 2" in answer.reason


async def test_the_parts_of_what_is_unlike_the_question_add_up_too(tmp_path: Path) -> None:
    """A vector may point the other way: as a score that is nothing, not less."""
    async with ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(32)) as memory:
        drafts = [
            {"content": f"Lisbon fact {number} about tarts", "memory_target": f"t{number}"} for number in range(30)
        ]
        ids = [item.memory_id for item in await memory.add_memories(drafts, user_id="ana")]
        unlike = 0
        for limit in (2, 40):
            for name in ids:
                answer = await memory.retrieve("Who? " * 300, user_id="ana", limit=limit, why_not=name)
                explained = told(answer)
                found = explained.why_not.found if explained.why_not else None
                for item in (*explained.candidates, *([found] if found else [])):
                    assert sum(item.parts.values()) == pytest.approx(item.hit.score)
                    unlike += "bounded" in item.parts
        assert unlike
