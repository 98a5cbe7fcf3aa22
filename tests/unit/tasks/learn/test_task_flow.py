"""The default flow as a whole, and flows that users put together of its stages."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from reme_core.errors import ModelError, ModelOutputError, ModelUnavailableError
from reme_core.ports import ChatRequest
from reme_core.steps.flow import FlowContext, stage
from reme_core.tasks import (
    TASK_FLOW,
    Attempts,
    Experiences,
    TaskFlow,
    comparison,
    deduplication,
    failure_extraction,
    preprocess,
    segmentation,
    step_comparison,
    success_extraction,
    task_flow,
    validation,
)
from reme_core.testing import HashedEmbedder, ScriptedChatModel
from tests.unit.tasks.attempting import (
    answers,
    asked_for,
    attempt,
    context,
    experiences,
    known,
    learnt,
    store_of,
    verdict,
    verdicts,
    written,
)

SOLVED = attempt("Write fizz buzz", "I test first", name="solved", score=1.0)
FAILED = attempt("Write fizz buzz", "I guess", name="failed", score=0.0)
BOTH = (FAILED, SOLVED)

LESSONS = {
    "success": experiences(written("Run the tests before you say that you are done", 2)),
    "failure": experiences(written("Look at the limits of the range instead of guessing", 2)),
    "comparison": experiences(written("A test shows what a guess hides from you", 2, 4)),
}


def model_of(count: int, **by_kind: Any) -> ScriptedChatModel:
    return ScriptedChatModel([answers(**{**LESSONS, **by_kind})] * count)


def kinds(model: ScriptedChatModel) -> dict[str, int]:
    return dict(Counter(map(asked_for, model.requests)))


@pytest.mark.parametrize("embedder", [None, HashedEmbedder()], ids=["words", "vectors"])
async def test_a_success_and_a_failure_teach_in_four_calls(embedder: Any) -> None:
    async with model_of(4) as model:
        run = context(model, embedder=embedder)
        found = await TASK_FLOW(BOTH, run)
    assert kinds(model) == {"success": 1, "failure": 1, "comparison": 1, "verdicts": 1}
    assert sorted(item.origin for item in found) == ["comparison", "failure", "success"]
    assert {item.score for item in found} == {1.0}
    assert run.trace.rejected == []
    assert len(run.trace.vectors) == (0 if embedder is None else 3)


async def test_the_flow_says_what_it_is_made_of() -> None:
    learning = "(success_extraction | failure_extraction | comparison)"
    assert str(TASK_FLOW) == f"preprocess >> {learning} >> validation >> deduplication"


async def test_one_success_alone_takes_two_calls_and_a_lesson_learnt_nothing_more_than_one() -> None:
    async with model_of(2) as model:
        assert len(await TASK_FLOW((SOLVED,), context(model))) == 1
    async with model_of(1, success=experiences()) as model:
        assert await TASK_FLOW((SOLVED,), context(model)) == ()
    assert await TASK_FLOW((), context()) == ()


async def test_successes_failures_and_comparison_are_asked_about_side_by_side() -> None:
    together = asyncio.Barrier(3)

    async def answer(request: ChatRequest) -> str:
        await together.wait()  # passes only when all three calls are open
        return LESSONS[asked_for(request)]

    async with model_of(4, success=answer, failure=answer, comparison=answer) as model, asyncio.timeout(20):
        found = await TASK_FLOW(BOTH, context(model))
    assert len(found) == 3


async def test_what_is_known_and_what_is_not_borne_out_stays_out() -> None:
    store = await store_of(known("Run the tests before you say that you are done"))
    judged = verdicts(verdict(1, 1.0), verdict(2, 0.1, "a guess"), verdict(3, 0.9))
    async with model_of(4, verdicts=judged) as model:
        run = context(model, store=store)
        (found,) = await TASK_FLOW(BOTH, run)
    assert (found.origin, found.score) == ("comparison", 0.9)
    assert [(item.kind, item.content[:8]) for item in run.trace.rejected] == [
        ("invalid", "Look at "),
        ("duplicate", "Run the "),
    ]


async def test_the_options_of_the_flow_reach_its_stages() -> None:
    half = replace(FAILED, trajectory=FAILED.trajectory.model_copy(update={"score": 0.5}))
    low = verdicts(verdict(1, 0.2))
    async with ScriptedChatModel([experiences(written("a", 2)), low]) as model:
        (found,) = await task_flow(success_score=0.5, min_score=0.2)((half,), context(model))
    assert found.origin == "success"


@pytest.mark.parametrize("error", [ModelUnavailableError("gone"), ModelOutputError("nothing", raw="")])
@pytest.mark.parametrize("kind", ["success", "failure", "comparison", "verdicts"])
async def test_a_failure_in_any_stage_is_raised_as_it_is(kind: str, error: ModelError) -> None:
    model = model_of(8, **{kind: lambda _: _raise(error)})
    with pytest.raises(type(error)):
        await TASK_FLOW(BOTH, context(model))


@pytest.mark.parametrize("kind", ["success", "failure", "comparison"])
async def test_a_failing_stage_cancels_those_beside_it(kind: str) -> None:
    cancelled: list[str] = []
    together = asyncio.Barrier(3)

    async def waits(request: ChatRequest) -> str:
        await together.wait()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(asked_for(request))
        return experiences()

    async def fails(_: ChatRequest) -> str:
        await together.wait()
        return _raise(ModelUnavailableError("gone"))

    others = {"success", "failure", "comparison"} - {kind}
    async with model_of(3, **dict.fromkeys(others, waits), **{kind: fails}) as model, asyncio.timeout(20):
        with pytest.raises(ModelUnavailableError, match="gone"):
            await TASK_FLOW(BOTH, context(model))
    assert set(cancelled) == others


async def test_an_embedder_that_fails_leaves_a_flow_of_words() -> None:
    run = context(model_of(4), embedder=HashedEmbedder(failures=[ModelUnavailableError("no vectors")] * 9))
    assert len(await TASK_FLOW(BOTH, run)) == 3
    assert list(run.trace.degraded) == ["embedding: no vectors; words alone were compared"]


async def test_the_same_flow_serves_many_runs_at_once() -> None:
    async with asyncio.TaskGroup() as group:
        runs = [context(model_of(4)) for _ in range(5)]
        tasks = [group.create_task(TASK_FLOW(BOTH, run)) for run in runs]
    assert {len(task.result()) for task in tasks} == {3}
    assert all(run.trace.rejected == [] for run in runs)


async def test_a_stage_of_ones_own_takes_its_place_in_the_flow() -> None:
    @stage
    async def short_ones(found: Experiences, run: FlowContext) -> Experiences:
        assert run.memory_target == "coding"
        return tuple(item for item in found if len(item.content) < 45)

    @stage
    async def by_hand(_: Attempts, __: FlowContext) -> Experiences:
        return (learnt("Ask when the task has two readings"),)

    flow: TaskFlow = preprocess() >> (success_extraction() | by_hand) >> short_ones >> deduplication()
    async with model_of(1) as model:
        found = await flow(BOTH, context(model))
    assert [item.content for item in found] == ["Ask when the task has two readings"]
    assert str(flow) == "preprocess >> (success_extraction | by_hand) >> short_ones >> deduplication"


async def test_without_validation_there_is_no_call_for_it_and_no_score() -> None:
    flow: TaskFlow = preprocess() >> (failure_extraction() | comparison()) >> deduplication()
    async with model_of(2) as model:
        found = await flow(BOTH, context(model))
    assert [item.score for item in found] == [None, None]


async def test_with_segmentation_each_step_is_learnt_from() -> None:
    long = attempt(*(f"m{number}" for number in range(8)))
    lessons = iter(["Read first what is asked of you", "Check at the end what you wrote"])

    def lesson(_: ChatRequest) -> str:
        return experiences(written(next(lessons), 1))

    flow: TaskFlow = preprocess() >> segmentation() >> success_extraction() >> validation() >> deduplication()
    async with model_of(4, ends='{"ends": [3]}', success=lesson) as model:
        found = await flow((long,), context(model))
    assert kinds(model) == {"ends": 1, "success": 2, "verdicts": 1}
    assert sorted(item.sources[0].message_ids[0] for item in found) == ["t1-1", "t1-4"]


async def test_a_whole_flow_is_a_stage_of_a_larger_one() -> None:
    flow: TaskFlow = (TASK_FLOW.named("as always") | step_comparison()) >> deduplication()
    async with model_of(5) as model:
        found = await flow(BOTH, context(model))
    assert str(flow) == "(as always | step_comparison) >> deduplication"
    assert len(found) == 3


def _raise(error: Exception) -> str:
    raise error
