"""The search for a task: what it finds, in which order, and what it never finds."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reme_core.errors import InvalidInputError, ModelUnavailableError
from reme_core.ports import MemorySearch, PutMemory, ScoredMemory, WriteBatch
from reme_core.schema import Memory, MemoryType, Scope
from reme_core.tasks.find_experiences import search, weighed
from reme_core.tasks.task_values import TaskAnswer
from reme_core.testing import HashedEmbedder
from tests.support.temporary_store import TemporaryStore
from tests.unit.remember.distilling import NOW, OTHER, SAID, SCOPE, store_of
from tests.unit.tasks.find.retrieving import TASK, asked, context_of, learnt, local_store, texts

SHARED = Scope(memory_space="space", user_id="")
ELSEWHERE = Scope(memory_space="elsewhere", user_id="alice")
EMBEDDERS = pytest.mark.parametrize("embedder", [None, HashedEmbedder()], ids=["words", "vectors"])
SHARES = st.floats(0, 1)


@dataclass(frozen=True)
class FoundBy:
    """A store that finds what it was given, with the scores that it was given, whatever is asked for."""

    found: list[ScoredMemory]
    searches: list[tuple[Scope, MemorySearch]] = field(default_factory=list)

    async def search(self, scope: Scope, wanted: MemorySearch) -> list[ScoredMemory]:
        self.searches.append((scope, wanted))
        return self.found[: wanted.limit]


def scored(score: float, content: str, **fields: Any) -> ScoredMemory:
    return ScoredMemory(memory=learnt(content, **fields), score=score)


async def found_by(*items: ScoredMemory, **options: Any) -> TaskAnswer:
    return await search(asked(**options), context_of(FoundBy(list(items))))


KINDS = [kind for kind in MemoryType if kind is not MemoryType.BLOCK]  # whose target is a label, with rules of its own
RANDOM_MEMORIES = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from([TASK, "Coding", "coding ", "writing"]),
        st.sampled_from([SCOPE, OTHER, SHARED, ELSEWHERE]),
        st.booleans(),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RANDOM_MEMORIES, st.sampled_from([TASK, "writing", None]), st.booleans(), st.booleans())
@example([(kind, TASK, scope, True) for kind in KINDS for scope in (SCOPE, OTHER, SHARED)], TASK, True, True)
def test_only_procedural_memories_of_the_scope_and_the_target_come_back_and_all_of_them_do(
    mix: list[tuple[MemoryType, str, Scope, bool]], target: str | None, with_shared: bool, with_vectors: bool
) -> None:
    memories = [
        learnt(
            f"parse a date in way {number}",
            memory_type=kind,
            memory_target=about,
            memory_space=scope.memory_space,
            user_id=scope.user_id,
            superseded_by=None if current else "another",
        )
        for number, (kind, about, scope, current) in enumerate(mix)
    ]
    embedder = HashedEmbedder() if with_vectors else None

    async def run() -> set[str | None]:
        with tempfile.TemporaryDirectory() as folder:
            store = local_store(Path(folder))
            await store_of(*memories, embedder=embedder, into=store)
            question = asked(limit=100, include_shared=with_shared)
            answer = await search(question, context_of(store, target=target, embedder=embedder))
            await store.close()
        return {hit.memory_id for hit in answer.hits}

    scopes = {SCOPE, SHARED} if with_shared else {SCOPE}
    assert asyncio.run(run()) == {
        memory.memory_id
        for memory in memories
        if memory.memory_type is MemoryType.PROCEDURAL
        and memory.scope in scopes
        and target in {None, memory.memory_target}
        and memory.is_current
    }


async def test_what_a_store_finds_beyond_what_it_was_asked_for_is_left_out() -> None:
    answer = await found_by(
        scored(0.9, "personal", memory_type=MemoryType.PERSONAL),
        scored(0.9, "a block", memory_type=MemoryType.HISTORY),
        scored(0.9, "of another user", scope=OTHER),
        scored(0.9, "of the shared scope", scope=SHARED),
        scored(0.9, "of another task", memory_target="writing"),
        scored(0.9, "replaced", superseded_by="another"),
        scored(0.1, "meant"),
    )
    assert texts(answer) == ["meant"]


async def test_however_many_other_memories_fit_better_those_of_the_task_are_found(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    near = [learnt(f"parse a date {number}", memory_type=MemoryType.PERSONAL) for number in range(30)]
    near += [learnt(f"parse a date {number}", memory_target="writing") for number in range(30)]
    await store_of(*near, learnt("a date may hold a year of two digits"), into=store)
    assert texts(await search(asked(), context_of(store))) == ["a date may hold a year of two digits"]
    await store.close()


async def test_the_shared_scope_is_read_only_when_asked_for_and_never_the_other_way_round(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    await store_of(learnt("parse a date by hand"), learnt("parse a date at once", scope=SHARED), into=store)
    assert texts(await search(asked(), context_of(store))) == ["parse a date by hand"]
    both = await search(asked(include_shared=True), context_of(store))
    assert {(hit.memory, hit.user_id) for hit in both.hits} == {
        ("parse a date by hand", "alice"),
        ("parse a date at once", ""),
    }
    shared = await search(asked(include_shared=True), context_of(store, scope=SHARED))
    assert texts(shared) == ["parse a date at once"]
    await store.close()


async def test_own_and_shared_memories_stand_in_one_order_and_what_both_say_is_told_once_as_the_own() -> None:
    embedder = HashedEmbedder()
    store = await store_of(
        learnt("parse a date", scope=SHARED),
        learnt("parse a number", scope=SHARED),
        learnt("parse a date"),
        learnt("fold a napkin"),
        embedder=embedder,
    )
    answer = await search(asked(include_shared=True), context_of(store, embedder=embedder))
    assert [(hit.memory, hit.user_id) for hit in answer.hits[:2]] == [("parse a date", "alice"), ("parse a number", "")]
    assert [hit.memory for hit in answer.hits].count("parse a date") == 1
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)


async def test_the_best_of_bad_matches_does_not_pass_good_ones_of_the_other_scope() -> None:
    store = await store_of(
        learnt("parse a leap year date with strptime"),
        learnt("parse a date of a leap year"),
        learnt("never fold a date", scope=SHARED),
        learnt("use a heap", scope=SHARED),
    )
    question = asked("parse a leap year date", include_shared=True)
    answer = await search(question, context_of(store))
    assert [hit.user_id for hit in answer.hits] == ["alice", "alice", ""]
    alone = await search(asked(question.query), context_of(store))
    assert alone.hits == answer.hits[:2]


@EMBEDDERS
async def test_the_query_is_embedded_once_or_not_at_all(embedder: HashedEmbedder | None) -> None:
    store = await store_of(learnt("parse a date by hand"), embedder=embedder)
    before = 0 if embedder is None else len(embedder.calls)
    context = context_of(store, embedder=embedder)
    answer = await search(asked(include_shared=True), context)
    assert texts(answer) == ["parse a date by hand"]
    assert context.trace.usage.embedding_calls == (0 if embedder is None else 1)
    assert embedder is None or embedder.calls[before:] == [("parse a date",)]


async def test_a_memory_is_found_by_when_it_is_used(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    await store_of(learnt("try strptime", when="a date has to be parsed"), learnt("use a heap"), into=store)
    [hit] = (await search(asked("date parsed"), context_of(store))).hits
    assert (hit.memory, hit.layer, hit.memory_type, hit.memory_target) == (
        "try strptime",
        "memory",
        MemoryType.PROCEDURAL,
        TASK,
    )
    await store.close()


async def test_an_embedder_that_fails_leaves_words() -> None:
    store = await store_of(learnt("parse a date"))
    run = context_of(store, embedder=HashedEmbedder(failures=[ModelUnavailableError("gone")]))
    assert [hit.memory for hit in (await search(asked("parse"), run)).hits] == ["parse a date"]
    assert list(run.trace.degraded) == ["embedding: gone; words alone were compared"]


@pytest.mark.parametrize(("query", "limit", "named"), [("parse", 0, "limit"), (" ", 5, "query")])
async def test_a_question_that_asks_for_nothing_is_refused(query: str, limit: int, named: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{named}: "):
        await search(asked(query, limit=limit), context_of(TemporaryStore()))


@pytest.mark.parametrize(("limit", "fetched"), [(1, 20), (5, 20), (30, 120)])
async def test_more_than_is_wanted_is_weighed(limit: int, fetched: int) -> None:
    doubted = [scored(0.9, f"doubted {number}", confidence=0.0) for number in range(limit)]
    store = FoundBy([*doubted, scored(0.8, "believed")])
    answer = await search(asked(limit=limit), context_of(store))
    assert texts(answer)[0] == "believed"
    assert len(answer.hits) == limit
    assert [wanted.limit for _, wanted in store.searches] == [fetched]


async def test_memories_at_their_defaults_keep_score_and_order_and_what_has_nothing_to_do_with_it_is_left_out() -> None:
    answer = await found_by(scored(0.9, "a"), scored(0.5, "b"), scored(0.5, "c"), scored(-0.2, "d"), scored(-0.3, "e"))
    assert [(hit.memory, hit.score) for hit in answer.hits] == [("a", 0.9), ("b", 0.5), ("c", 0.5)]


async def test_without_a_shared_word_the_best_of_the_task_are_the_answer() -> None:
    helped, vain = learnt("Ask the owner first.", freq=9, utility=9.0), learnt("Wait a day.", freq=9, utility=0.0)
    best, doubted = learnt("Write a test.", importance=1.0), learnt("Guess.", confidence=0.1)
    plain, newer = learnt("Read the log."), learnt("Read the manual.", at=SAID + timedelta(days=1))
    others = [
        learnt("Sharpen the knife.", memory_target="cooking"),
        learnt("Ann codes.", memory_type=MemoryType.PERSONAL),
    ]
    store = await store_of(doubted, vain, plain, newer, helped, best, *others)
    answer = await search(asked("zzyzx quux", limit=9), context_of(store))
    assert texts(answer)[:2] == ["Write a test.", "Ask the owner first."]
    assert texts(answer)[2:4] == ["Read the manual.", "Read the log."]
    assert texts(answer)[4:] == ["Wait a day.", "Guess."]
    assert all(0 < hit.score < 0.3 for hit in answer.hits)
    assert len((await search(asked("zzyzx", limit=2), context_of(store))).hits) == 2
    assert texts(await search(asked("zzyzx", min_score=0.5), context_of(store))) == []
    assert texts(await search(asked("zzyzx"), context_of(store, target=None))) == []
    assert texts(await search(asked("zzyzx"), context_of(store, target="sewing"))) == []
    assert texts(await search(asked("Which log?"), context_of(store))) == ["Read the log."]


async def test_the_best_of_the_task_come_from_the_shared_scope_only_where_asked(tmp_path: Path) -> None:
    own, shared = learnt("Ask first."), learnt("Write a test.", user_id="", importance=0.9)
    store = local_store(tmp_path)
    for memory in (own, shared, learnt("Bob's own.", user_id="bob")):
        await store.put(memory.scope, WriteBatch(puts=[PutMemory(memory=memory)], at=NOW))
    assert texts(await search(asked("zzyzx"), context_of(store))) == ["Ask first."]
    both = await search(asked("zzyzx", include_shared=True), context_of(store))
    assert texts(both) == ["Write a test.", "Ask first."]
    await store.close()


async def test_a_refuted_memory_sinks_and_is_still_found() -> None:
    answer = await found_by(scored(1.0, "refuted", confidence=0.0), scored(0.6, "believed"), scored(0.4, "further off"))
    assert texts(answer) == ["believed", "refuted", "further off"]
    assert texts(await found_by(scored(1.0, "refuted", confidence=0.0))) == ["refuted"]


async def test_what_has_helped_can_pass_the_best_match_and_no_score_is_above_one() -> None:
    answer = await found_by(scored(1.0, "nearest"), scored(0.9, "helpful", importance=1.0))
    assert [(hit.memory, hit.score) for hit in answer.hits] == [("helpful", 1.0), ("nearest", 1.0)]


async def test_the_least_score_is_one_of_the_answer_and_not_of_the_store() -> None:
    items = [scored(0.55, "helpful", importance=1.0), scored(0.7, "doubted", confidence=0.0), scored(0.6, "plain")]
    assert set(texts(await found_by(*items, min_score=0.6))) == {"helpful", "plain"}


@settings(max_examples=80, deadline=None)
@given(st.floats(-1, 1), SHARES, SHARES, SHARES)
def test_weighing_keeps_the_defaults_grows_with_both_and_takes_nothing_away_altogether(
    score: float, importance: float, confidence: float, more: float
) -> None:
    assert weighed(score, importance=0.5, confidence=1.0) == max(score, 0.0)
    value = weighed(score, importance=importance, confidence=confidence)
    assert 0.4 * max(score, 0.0) <= value + 1e-12
    assert value <= 1.2 * max(score, 0.0) + 1e-12
    assert weighed(score, importance=max(importance, more), confidence=confidence) >= value
    assert weighed(score, importance=importance, confidence=max(confidence, more)) >= value
    assert weighed(max(score, more), importance=importance, confidence=confidence) >= value


def test_hits_carry_where_they_come_from() -> None:
    memory: Memory = learnt("x", at=NOW - timedelta(days=1), metadata={"tags": ["a"]})
    answer = asyncio.run(search(asked(), context_of(FoundBy([ScoredMemory(memory=memory, score=0.5)]))))
    [hit] = answer.hits
    assert (hit.memory_id, hit.metadata, hit.observed_at) == (memory.memory_id, {"tags": ["a"]}, memory.observed_at)
