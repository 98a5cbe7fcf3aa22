"""The jobs behind learning: who does them, what becomes of them, and what is said of that."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import ConfigurationError, ConflictError, PartialFailureError
from reme_core.ports import ChatRequest, ChatResult, SettleJob, SummaryRequest, WriteBatch
from reme_core.schema import JobState, Memory, Scope, Source, SummaryResult
from reme_core.steps.flow import FlowContext, stage
from reme_core.stores import LocalStore
from reme_core.tasks import Attempts, Experience, Experiences, preprocess, success_extraction, task_flow
from reme_core.testing import HashedEmbedder, ScriptedChatModel
from tests.support.lesson_model import TASK_NAME, LessonModel, attempt
from tests.support.rule_model import RuleModel

USER = "cook"
GOOD, BAD = attempt("soup", "It was tasty.", 1.0), attempt("soup", "It burnt.", 0.0)


class WaitingModel(LessonModel):
    """A model that answers once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def chat(self, request: ChatRequest) -> ChatResult:
        self.asked.set()
        await self.may.wait()
        return await super().chat(request)


class WaitingRules(RuleModel):
    """The same for facts."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def chat(self, request: ChatRequest) -> ChatResult:
        self.asked.set()
        await self.may.wait()
        return await super().chat(request)


class OwnSummarizer:
    """A summarizer of a user's own, which does nothing."""

    async def summarize(self, scope: Scope, request: SummaryRequest) -> SummaryResult:
        return SummaryResult(session_id=request.session_id)


def open_in(folder: Path, model: Any = None, **settings: Any) -> ReMe:
    return ReMe("kitchen", folder, llm=model, embedding=None, **settings)


async def test_a_summary_whose_jobs_nobody_does_any_more_ends_and_says_so(tmp_path: Path) -> None:
    model = WaitingRules()
    async with open_in(tmp_path, model) as memory:
        said = [("user", f"Alice owns thing {number}") for number in range(130)]  # more than one job
        summary = asyncio.create_task(memory.summary(said, user_id=USER))
        await model.asked.wait()
        memory.set_summarizer(OwnSummarizer())
        model.may.set()
        with pytest.raises(PartialFailureError, match="summary") as failure:
            await summary
        jobs = await memory.list_jobs(user_id=USER)
        assert len(failure.value.done.memories) == 60  # those of the job that was being done
        assert failure.value.done.job_ids == tuple(job.job_id for job in jobs)
        assert {(job.state, job.attempts) for job in jobs} == {(JobState.PENDING, 0)}


async def test_a_run_whose_write_was_cancelled_is_done_again_and_written_once(tmp_path: Path) -> None:
    class CancelledAtTheEnd(LocalStore):
        """The first write of an outcome is cancelled before it begins."""

        ends = 0

        async def put_and_settle(self, scope: Scope, batch: WriteBatch, settle: SettleJob) -> list[Memory]:
            self.ends += 1
            if self.ends == 1:
                raise asyncio.CancelledError
            return await super().put_and_settle(scope, batch, settle)

    store = CancelledAtTheEnd(tmp_path / "memory.db")
    async with open_in(tmp_path, LessonModel(), vector_store=store) as memory:
        with pytest.raises(PartialFailureError):
            await memory.summary_task([GOOD], user_id=USER, task_name=TASK_NAME)
        assert (await memory.stats(user_id=USER)).memories == 0
        await memory.flush()
        assert (await memory.stats(user_id=USER)).memories == 1
        assert await memory.list_jobs(user_id=USER) == []
    await store.close()


async def test_a_flow_that_needs_a_model_waits_for_one_and_keeps_nothing_else_waiting(tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        memory.set_task_flow(task_flow(min_score=0.6))
        for _ in range(7):  # more often than a job is tried
            with pytest.raises(PartialFailureError, match="chat model"):
                await memory.summary_task([{**GOOD, "trajectory_id": "a"}], user_id=USER, task_name=TASK_NAME)
        [job] = await memory.list_jobs(user_id=USER)
        assert (job.state, job.attempts) == (JobState.PENDING, 0)
        memory.set_task_flow(nothing_learnt)
        await memory.summary_task([BAD], user_id=USER, task_name=TASK_NAME)
        assert await memory.list_jobs(user_id=USER) == []


@stage
async def nothing_learnt(attempts: Attempts, context: FlowContext) -> Experiences:
    return ()


@stage
async def cancelled(attempts: Attempts, context: FlowContext) -> Experiences:
    raise asyncio.CancelledError


async def test_a_stage_that_cancels_itself_fails_its_job_and_not_its_caller(tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        memory.set_task_flow(cancelled)
        with pytest.raises(PartialFailureError, match="cancelled from within"):
            await memory.summary_task([GOOD], user_id=USER, task_name=TASK_NAME)
        [job] = await memory.list_jobs(user_id=USER)
        assert job.attempts == 1
        memory.set_task_flow(nothing_learnt)
        await memory.flush()


async def test_cancelling_a_call_gives_its_job_back(tmp_path: Path) -> None:
    model = WaitingModel()
    async with open_in(tmp_path, model) as memory:
        call = asyncio.create_task(memory.summary_task([GOOD], user_id=USER, task_name=TASK_NAME))
        await model.asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        [job] = await memory.list_jobs(user_id=USER)
        assert (job.state, job.attempts) == (JobState.PENDING, 0)
        model.may.set()
        await memory.flush()
        assert len((await memory.list_memories(user_id=USER)).memories) == 1


async def test_what_is_there_already_is_left_out_and_is_no_run(tmp_path: Path) -> None:
    async with open_in(tmp_path, LessonModel()) as memory:
        memory.set_task_flow(preprocess() >> success_extraction())  # nothing looks for duplicates
        first = await memory.summary_task([GOOD], user_id=USER, task_name=TASK_NAME)
        second = await memory.summary_task([GOOD], user_id=USER, task_name=TASK_NAME)
        assert (len(first.memories), len(first.run_ids)) == (1, 1)
        assert (second.memories, second.run_ids) == ((), ())
        [rejected] = second.rejected
        assert rejected.kind == "duplicate"
        assert first.memories[0].memory_id in rejected.reason


async def test_a_user_deleted_while_attempts_are_learnt_from_is_told_so(tmp_path: Path) -> None:
    model = WaitingModel()
    async with open_in(tmp_path, model) as memory:
        call = asyncio.create_task(memory.summary_task([GOOD], user_id=USER, task_name=TASK_NAME))
        await model.asked.wait()
        await memory.delete_all_memories(user_id=USER)
        model.may.set()
        with pytest.raises(PartialFailureError, match="deleted") as failure:
            await call
        assert failure.value.done.job_ids == ()
        counts = await memory.stats(user_id=USER)
        assert (counts.memories, counts.events, counts.jobs, counts.messages) == (0, 0, 0, 0)


async def test_every_job_of_many_attempts_has_a_best_one_to_compare_with(tmp_path: Path) -> None:
    model = LessonModel()
    async with open_in(tmp_path, model) as memory:
        attempts = [attempt("soup", f"It burnt in pot {number}.", 0.0) for number in range(18)]
        attempts += [attempt("soup", f"Pot {number} was tasty.", 1.0) for number in range(2)]
        await memory.summary_task(attempts, user_id=USER, task_name=TASK_NAME)
        shown = [request.messages[1].text for request in model.requests]
        assert sum("<better>" in text for text in shown) == 2
        assert sum("<attempt" in text or "<conversation>" in text for text in shown) <= len(shown)


async def test_an_attempt_that_waits_is_finished_by_whoever_hands_it_in_again(tmp_path: Path) -> None:
    named = {**GOOD, "trajectory_id": "first"}
    model = LessonModel()
    async with open_in(tmp_path, model) as memory:
        kept = await memory.summary_task([named], user_id=USER, task_name=TASK_NAME, background=True)
        again = await memory.summary_task([named], user_id=USER, task_name=TASK_NAME)
        assert again.known_block_ids == ("first",)
        assert again.job_ids == ()
        assert await memory.list_jobs(user_id=USER) == []
        assert len(kept.job_ids) == 1
        assert len((await memory.list_memories(user_id=USER)).memories) == 1


@pytest.mark.parametrize("change", [{"score": 0.0}, {"metadata": {"a": 1}}, {"task_id": "stew"}, {}])
async def test_an_attempt_that_waits_with_another_score_or_task_is_refused(change: Any, tmp_path: Path) -> None:
    named = {**GOOD, "trajectory_id": "first"}
    async with open_in(tmp_path) as memory:
        kept = await memory.summary_task([named], user_id=USER, task_name=TASK_NAME)
        same = await memory.summary_task([named], user_id=USER, task_name=TASK_NAME)
        assert same.job_ids == kept.job_ids
        name = TASK_NAME if change else "another kitchen"
        with pytest.raises(ConflictError, match="first"):
            await memory.summary_task([{**named, **change}], user_id=USER, task_name=name)
        assert len(await memory.list_jobs(user_id=USER)) == 1


def sourced(*sources: Source) -> Any:
    async def run(attempts: Attempts, context: FlowContext) -> Experiences:
        made = Experience(
            when_to_use="always",
            content="Trust me.",
            origin="success",  # type: ignore[arg-type]
            attempts=attempts,
            evidence=(),
            sources=sources,
        )
        return (made,)

    return stage(run)


@stage
async def untyped(attempts: Attempts, context: FlowContext) -> Any:
    return "a lesson"


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (sourced(Source(block_id="of another", message_ids=("m",))), "of another"),
        (sourced(), "without sources"),
        (untyped, "wanted a tuple"),
        (preprocess(), "wanted a tuple"),
    ],
)
async def test_a_flow_whose_result_cannot_be_written_is_named_and_its_job_waits(
    flow: Any, said: str, tmp_path: Path
) -> None:
    async with open_in(tmp_path) as memory:
        memory.set_task_flow(flow)
        with pytest.raises(PartialFailureError, match=said) as failure:
            await memory.summary_task([GOOD], user_id=USER, task_name=TASK_NAME)
        assert isinstance(failure.value.failures[0], ConfigurationError)
        [job] = await memory.list_jobs(user_id=USER)
        assert (job.state, job.attempts) == (JobState.PENDING, 0)
        assert (await memory.stats(user_id=USER)).memories == 0
        memory.set_task_flow(nothing_learnt)
        await memory.flush()
        assert await memory.list_jobs(user_id=USER) == []


async def test_a_deep_metadata_is_refused_and_a_full_one_is_kept(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(28):
        deep = {"a": deep}
    full = {"text": "x" * ((1 << 20) - 30)}
    async with open_in(tmp_path) as memory:
        with pytest.raises(ValueError, match=r"trajectories\[0\].metadata"):
            await memory.summary_task([{**GOOD, "metadata": deep}], user_id=USER, task_name=TASK_NAME)
        message = {"role": "user", "content": "hello", "id": "m", "metadata": full}
        await memory.summary([message], user_id=USER)
        result = await memory.summary_task([{"messages": [message], "score": 1}], user_id=USER, task_name=TASK_NAME)
        [block] = result.block_ids
        [name] = (await memory.get_block(block, user_id=USER)).message_ids
        [stored] = await memory.get_messages([name], user_id=USER)
        assert stored.message.metadata == full


def test_what_is_no_async_function_is_no_stage() -> None:
    def plain(attempts: Attempts, context: FlowContext) -> Experiences:
        return ()

    with pytest.raises(TypeError, match="async function"):
        stage(plain)  # type: ignore[arg-type]


async def test_vectors_of_a_deduplication_are_those_that_are_written(tmp_path: Path) -> None:
    class Counting(HashedEmbedder):
        texts: list[str]

        async def embed(self, texts: Any) -> Any:
            self.texts += texts
            return await super().embed(texts)

    embedder = Counting(32)
    embedder.texts = []
    memory = ReMe("kitchen", tmp_path, llm=LessonModel(), embedding=embedder, embed_messages=False)
    async with memory:
        result = await memory.summary_task([GOOD, BAD], user_id=USER, task_name=TASK_NAME)
        assert sorted(embedder.texts) == sorted(made.index_text for made in result.memories)


@pytest.mark.parametrize("action", ["update", "supersede", "delete", "ended"])
async def test_what_is_said_of_a_tool_changes_nothing_of_its_guideline(action: str, tmp_path: Path) -> None:
    said: dict[str, Any] = {
        "type": "tool",
        "target": "oven",
        "content": "The oven works in 99 % of calls",
        "messages": [1],
    }
    async with open_in(tmp_path, LessonModel()) as memory:
        await memory.add_tool_call_results([{"tool_name": "oven", "output": "warm"}], user_id=USER)
        [before] = (await memory.summarize_tool_memory("oven", user_id=USER)).memories
    if action == "ended":
        said |= {"content": before.content, "valid_to": "2020-01-01", "valid_from": "2019-01-01"}
    decision = {"decisions": [{"fact": 1, "action": action, "memory": [1], "content": "The oven never fails"}]}
    model = ScriptedChatModel([json.dumps({"facts": [said]}), json.dumps(decision)])
    async with open_in(tmp_path, model) as memory:
        await memory.summary([("user", "The oven works in 99 % of calls")], user_id=USER)
        assert await memory.get_memory(before.memory_id, user_id=USER) == before
        [known] = (await memory.retrieve_tool_memory("oven", user_id=USER)).results
        assert known.guideline == before.content
        assert len(known.notes) == (0 if action == "ended" else 1)
    assert len(model.requests) == 1  # nothing had to be reconciled
