"""Attempts are never lost and never half learnt, whatever fails, whoever else works, and whenever the process dies."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import ConflictError, ModelUnavailableError, PartialFailureError
from reme_core.models import OpenAIChat
from reme_core.ports import ChatRequest, ChatResult, ResponseSchema
from reme_core.schema import JobState, Memory
from reme_core.testing import HashedEmbedder
from reme_core.text import error_class
from tests.support.lesson_model import TASK_NAME, LessonModel, attempt
from tests.support.openai_server import KEY, Completion, OpenAIServer, Status
from tests.support.wire_model import answering

USER = "cook"
ATTEMPTS = [attempt("soup", "It was done and tasty.", 1.0), attempt("soup", "It burnt to coal.", 0.0)]
CALLS = 4
"""One for the success, one for the failure, one to compare them, one to validate."""

BAD: dict[str, Any] = {
    "out": ModelUnavailableError("out"),
    "prose": "Sure, here you go!",
    "empty": " ",
    "error text": "Error code: 429 - quota exceeded",
    "a list": "[]",
    "null": "null",
    "wrong key": '{"answers": []}',
    "wrong type": '{"experiences": "none", "verdicts": 7}',
    "cut off": '{"experiences": [{"when_to_use": "x", "verdicts": [',
    "unknown messages": '{"experiences": [{"when_to_use": "x", "content": "y", "confidence": 1, "step_type": "action",'
    ' "messages": [99]}], "verdicts": null}',
}


def open_in(folder: Path, model: LessonModel | None) -> ReMe:
    return ReMe("kitchen", folder, llm=model, embedding=HashedEmbedder(32))


def told(memory: Memory) -> tuple[object, ...]:
    """What doesn't depend on ids and clocks."""
    return (
        memory.when_to_use,
        memory.content,
        memory.memory_target,
        memory.importance,
        memory.confidence,
        len(memory.sources),
        memory.metadata["learnt_from"],
        memory.metadata["tools_used"],
    )


async def learnt(memory: ReMe) -> list[tuple[object, ...]]:
    page = await memory.list_memories(user_id=USER, memory_type="procedural")
    return sorted(map(told, page.memories), key=str)


async def undisturbed(folder: Path) -> list[tuple[object, ...]]:
    async with open_in(folder, LessonModel()) as memory:
        await memory.summary_task(ATTEMPTS, user_id=USER, task_name=TASK_NAME)
        return await learnt(memory)


async def test_attempts_teach_what_worked_what_failed_and_what_made_the_difference(tmp_path: Path) -> None:
    model = LessonModel()
    async with open_in(tmp_path, model) as memory:
        result = await memory.summary_task(ATTEMPTS, user_id=USER, task_name=TASK_NAME)
        assert len(model.requests) == CALLS == result.usage.model_calls
        assert Counter(made.metadata["learnt_from"] for made in result.memories) == {
            "success": 1,
            "failure": 1,
            "comparison": 1,
        }
        for made in result.memories:
            assert made.memory_target == TASK_NAME
            assert made.metadata["tools_used"] == ["oven"]  # the other one was never called
            assert {source.block_id for source in made.sources} <= set(result.block_ids)
            for source in made.sources:
                block = await memory.get_block(source.block_id or "", user_id=USER)
                assert set(source.message_ids) <= set(block.message_ids)
        found = await memory.retrieve_task_memory("Please cook soup.", user_id=USER, task_name=TASK_NAME)
        assert {hit.memory_id for hit in found.results} == {made.memory_id for made in result.memories}
        assert all(hit.memory in found.text for hit in found.results)
        [run] = result.run_ids
        await memory.undo(run, user_id=USER)
        assert await learnt(memory) == []


@pytest.mark.parametrize("call", range(CALLS))
@pytest.mark.parametrize("bad", BAD)
async def test_a_model_that_fails_in_any_stage_leaves_a_pending_job_and_nothing_half(
    bad: str, call: int, tmp_path: Path
) -> None:
    model = LessonModel(lambda number: BAD[bad] if number == call or number >= CALLS else None)
    async with open_in(tmp_path / "memory", model) as memory:
        with pytest.raises(PartialFailureError) as failure:
            await memory.summary_task(ATTEMPTS, user_id=USER, task_name=TASK_NAME)
        done = failure.value.done
        assert await learnt(memory) == []
        [job] = await memory.list_jobs(user_id=USER)
        assert job.state is JobState.PENDING
        assert done.job_ids == (job.job_id,)
        assert (await memory.stats(user_id=USER)).messages == 6
        model.bad = lambda _: None
        await memory.flush()
        assert await memory.list_jobs(user_id=USER) == []
        after = await learnt(memory)
    assert after == await undisturbed(tmp_path / "other")


@pytest.mark.parametrize("formats", [{"json_schema", "json_object"}, set()], ids=["with schemas", "without"])
async def test_a_real_client_learns_the_same_and_its_failures_leave_the_attempts_pending(
    formats: set[str], tmp_path: Path
) -> None:
    with OpenAIServer() as server:
        server.formats = formats
        server.otherwise = Status(500)
        chat = OpenAIChat("any", base_url=server.base_url, api_key=KEY, max_retries=0)
        memory = ReMe("kitchen", tmp_path / "memory", llm=chat, embedding=HashedEmbedder(32))
        async with memory:
            with pytest.raises(PartialFailureError) as failure:
                await memory.summary_task(ATTEMPTS, user_id=USER, task_name=TASK_NAME)
            assert isinstance(failure.value.failures[0], ModelUnavailableError)
            assert await learnt(memory) == []
            server.otherwise = Completion(text="I am sorry, I can't do that.")
            with pytest.raises(PartialFailureError):
                await memory.flush()
            assert await learnt(memory) == []
            server.otherwise = answering(Rules())
            await memory.flush()
            after = await learnt(memory)
        await chat.close()
    assert after == await undisturbed(tmp_path / "other")


class Rules(LessonModel):
    """Answers by the rules also where the form of the answer is told in words alone."""

    async def chat(self, request: ChatRequest) -> ChatResult:
        if request.response_schema is None:
            shown = request.messages[1].text
            name = "verdicts" if "<experiences>" in shown else "experiences"
            request = replace(
                request, messages=request.messages[:2], response_schema=ResponseSchema(name=name, schema={})
            )
        return await super().chat(request)


async def test_without_a_model_attempts_wait_until_there_is_one(tmp_path: Path) -> None:
    async with open_in(tmp_path / "memory", None) as memory:
        kept = await memory.summary_task(ATTEMPTS, user_id=USER, task_name=TASK_NAME)
        assert kept.memories == ()
        assert len(kept.job_ids) == 1
        assert (await memory.retrieve_task_memory("soup", user_id=USER)).results == ()
    async with open_in(tmp_path / "memory", LessonModel()) as memory:
        await memory.flush()
        after = await learnt(memory)
    assert after == await undisturbed(tmp_path / "other")


async def test_handing_in_an_attempt_again_changes_nothing(tmp_path: Path) -> None:
    attempts = [attempt("soup", "It was tasty.", 1.0, "first"), attempt("soup", "It burnt.", 0.0, "second")]
    model = LessonModel()
    async with open_in(tmp_path, model) as memory:
        once = await memory.summary_task(attempts, user_id=USER, task_name=TASK_NAME)
        before = await memory.stats(user_id=USER)
        again = await memory.summary_task(attempts, user_id=USER, task_name=TASK_NAME)
        assert again.known_block_ids == once.block_ids == ("first", "second")
        assert again.memories == again.run_ids == again.job_ids == ()
        assert await memory.stats(user_id=USER) == before
        assert len(model.requests) == CALLS
        with pytest.raises(ConflictError, match="first"):
            await memory.summary_task([attempt("soup", "Other.", 1.0, "first")], user_id=USER, task_name=TASK_NAME)
        assert await memory.stats(user_id=USER) == before


async def test_messages_that_are_kept_already_stay_where_they_are(tmp_path: Path) -> None:
    messages = [{**message, "id": f"m{n}"} for n, message in enumerate(ATTEMPTS[0]["messages"])]
    async with open_in(tmp_path, None) as memory:
        await memory.summary(messages, user_id=USER, session_id="talk")
        same = {"messages": messages, "score": 1.0}
        result = await memory.summary_task([same, {**same, "score": 0.5}], user_id=USER, task_name=TASK_NAME)
        blocks = [await memory.get_block(name, user_id=USER) for name in result.block_ids]
        ids = [name for block in blocks for name in block.message_ids]
        assert len(set(ids)) == 6
        assert not {"m0", "m1", "m2"} & set(ids)
        kept = await memory.get_messages(["m0", "m1", "m2"], user_id=USER)
        assert {item.session_id for item in kept} == {"talk"}
        [first] = await memory.get_messages(ids[:1], user_id=USER)
        assert first.message.metadata == {"reme_original_id": "m0"}
        assert first.message.text == "Please cook soup."


async def test_another_user_meets_none_of_it(tmp_path: Path) -> None:
    async with open_in(tmp_path, LessonModel()) as memory:
        await memory.summary_task([attempt("soup", "It was tasty.", 1.0, "first")], user_id=USER, task_name=TASK_NAME)
        await memory.add_tool_call_results(user_id=USER, messages=ATTEMPTS[0]["messages"])
        await memory.summarize_tool_memory("oven", user_id=USER)
        for whose in ({"user_id": "guest"}, {"shared": True}):
            assert (await memory.retrieve_task_memory("Please cook soup.", **whose)).results == ()
            assert (await memory.retrieve_tool_memory("oven", **whose)).missing == ("oven",)
            again = await memory.summary_task([attempt("stew", "Nice.", 1.0, "first")], **whose, task_name=TASK_NAME)
            assert again.known_block_ids == ()


async def test_a_task_finds_neither_what_is_personal_nor_what_was_said(tmp_path: Path) -> None:
    async with open_in(tmp_path, LessonModel()) as memory:
        await memory.add_memory("Please cook soup for Ann.", user_id=USER, memory_type="personal")
        await memory.add_memory("Please cook soup, said the history.", user_id=USER, memory_type="history")
        await memory.summary_task(ATTEMPTS, user_id=USER, task_name=TASK_NAME)
        await memory.summary_task(
            [attempt("soup", "It was done and tasty.", 1.0)], user_id=USER, task_name="other kitchen"
        )
        found = await memory.retrieve_task_memory("Please cook soup.", user_id=USER, task_name=TASK_NAME, limit=50)
        assert found.results
        assert {(hit.memory_type, hit.memory_target) for hit in found.results} == {("procedural", TASK_NAME)}


async def test_statistics_of_ten_thousand_calls_of_fifty_tools_are_exact(tmp_path: Path) -> None:
    rng = random.Random(7)
    outputs = ["ok", "TimeoutError: slow", "HTTP 404 not found", "KeyError: 'a'", "Error: no such file /a/b/c"]
    calls = []
    for number in range(10_000):
        output = rng.choice(outputs)
        calls.append(
            {
                "call_id": f"call-{number}",
                "tool_name": f"tool-{number % 50}",
                "output": output,
                "success": output == "ok",
                "time_cost": rng.choice([None, rng.expovariate(1.0)]),
                "token_cost": rng.choice([None, rng.randrange(2000)]),
                "create_time": f"2026-01-01 00:{number // 60 % 60:02}:{number % 60:02}",
            }
        )
    async with ReMe("kitchen", tmp_path, llm=None, embedding=None) as memory:
        for start in range(0, len(calls), 500):
            await memory.add_tool_call_results(calls[start : start + 500], user_id=USER)
        names = [f"tool-{number}" for number in range(50)]
        known = await memory.retrieve_tool_memory(names, user_id=USER)
    assert [item.tool_name for item in known.results] == names
    for item in known.results:
        own = [call for call in calls if call["tool_name"] == item.tool_name]
        times = sorted(float(str(call["time_cost"])) for call in own if call["time_cost"] is not None)
        tokens = [int(str(call["token_cost"])) for call in own if call["token_cost"] is not None]
        errors = Counter(error_class(str(call["output"])) for call in own if not call["success"])
        found = item.statistics
        assert (found.calls, found.successes) == (len(own), sum(bool(call["success"]) for call in own))
        assert found.success_rate == found.successes / found.calls
        assert (found.timed_calls, found.mean_time_s) == (len(times), math.fsum(times) / len(times))
        assert found.p95_time_s == times[math.ceil(0.95 * len(times)) - 1]
        assert (found.token_calls, found.tokens, found.mean_tokens) == (
            len(tokens),
            sum(tokens),
            sum(tokens) / len(tokens),
        )
        assert {error.error: error.count for error in found.errors} == errors


async def test_a_guideline_that_fails_leaves_a_pending_job_and_the_old_guideline(tmp_path: Path) -> None:
    model = LessonModel()
    async with open_in(tmp_path, model) as memory:
        await memory.add_tool_call_results(user_id=USER, messages=ATTEMPTS[0]["messages"])
        first = await memory.summarize_tool_memory("oven", user_id=USER)
        assert len(first.memories) == 1
        assert "Heats food." in first.results[0].text
        unchanged = await memory.summarize_tool_memory(["oven", "rocket"], user_id=USER)
        assert (unchanged.unchanged, unchanged.missing, len(model.requests)) == (("oven",), ("rocket",), 1)
        await memory.add_tool_call_results(user_id=USER, messages=ATTEMPTS[1]["messages"])
        model.bad = lambda _: "no JSON at all"
        with pytest.raises(PartialFailureError) as failure:
            await memory.summarize_tool_memory("oven", user_id=USER)
        [job] = await memory.list_jobs(user_id=USER)
        assert failure.value.done.job_ids == (job.job_id,)
        [known] = (await memory.retrieve_tool_memory("oven", user_id=USER)).results
        assert (known.guideline, known.new_calls) == (first.results[0].guideline, 1)
        model.bad = lambda _: None
        await memory.flush()
        [known] = (await memory.retrieve_tool_memory("oven", user_id=USER)).results
        assert (known.memory_id, known.new_calls) == (first.memories[0].memory_id, 0)
        assert await memory.list_jobs(user_id=USER) == []


async def test_two_memories_that_are_handed_one_attempt_at_once_keep_it_once(tmp_path: Path) -> None:
    attempts = [attempt("soup", "It was tasty.", 1.0, "first"), attempt("soup", "It burnt.", 0.0, "second")]
    models = [LessonModel() for _ in range(4)]
    memories = [open_in(tmp_path, model) for model in models]
    await asyncio.gather(*(m.summary_task(attempts, user_id=USER, task_name=TASK_NAME) for m in memories))
    counts = await memories[0].stats(user_id=USER)
    assert (counts.messages, counts.blocks, counts.memories, counts.jobs) == (6, 2, 3, 0)
    assert sum(len(model.requests) for model in models) == CALLS
    for memory in memories:
        await memory.close()
