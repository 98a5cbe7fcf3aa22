"""Procedural and tool memory on the facade: what goes in, what is refused, and what can be exchanged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reme_core import Feedback, ReMe, ToolCallResult, Trajectory, Verdict
from reme_core.errors import (
    ConfigurationError,
    InvalidInputError,
    MemoryNotFoundError,
    PartialFailureError,
)
from reme_core.schema import Source, parse_messages
from reme_core.steps.flow import FlowContext, stage
from reme_core.tasks import (
    Attempts,
    Experience,
    Experiences,
    Origin,
    deduplication,
    failure_extraction,
    preprocess,
    success_extraction,
)
from reme_core.testing import ScriptedChatModel
from tests.support.lesson_model import TASK_NAME, LessonModel, attempt

USER = "cook"
GOOD, BAD = attempt("soup", "It was tasty.", 1.0), attempt("soup", "It burnt.", 0.0)


def files_of(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def open_in(folder: Path, model: Any = None) -> ReMe:
    return ReMe("kitchen", folder, llm=model, embedding=None)


@stage
async def note_the_score(attempts: Attempts, context: FlowContext) -> Experiences:
    """Learn without a model: what was asked, and how it went."""
    return tuple(
        Experience(
            when_to_use=item.trajectory.messages[0].text,
            content=f"This was tried with the score {item.trajectory.score}.",
            origin=Origin.SUCCESS,
            attempts=(item,),
            evidence=item.trajectory.messages[:1],
            sources=(Source(block_id=item.block_id, message_ids=(item.trajectory.messages[0].message_id,)),),
        )
        for item in attempts
    )


async def test_a_flow_of_ones_own_needs_no_model(tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        memory.set_task_flow(note_the_score >> deduplication())
        result = await memory.summary_task([GOOD, BAD], user_id=USER, task_name=TASK_NAME)
        assert {made.content[-4:] for made in result.memories} == {"1.0.", "0.0."}
        assert result.job_ids == ()
        assert [block for made in result.memories for block in made.sources]


async def test_stages_can_be_put_together_in_another_way(tmp_path: Path) -> None:
    model = LessonModel()
    async with open_in(tmp_path, model) as memory:
        flow = preprocess() >> (success_extraction() | failure_extraction() | note_the_score) >> deduplication()
        memory.set_task_flow(flow)
        result = await memory.summary_task([GOOD, BAD], user_id=USER, task_name=TASK_NAME)
        assert len(model.requests) == 2
        assert len(result.memories) == 4
        assert all(made.importance == 0.5 for made in result.memories)  # nobody has validated them


async def test_a_stage_that_fails_with_an_error_of_its_own_leaves_the_attempts_pending(tmp_path: Path) -> None:
    @stage
    async def broken(attempts: Attempts, context: FlowContext) -> Experiences:
        raise ZeroDivisionError

    async with open_in(tmp_path) as memory:
        memory.set_task_flow(note_the_score | broken)
        with pytest.raises(PartialFailureError, match="ZeroDivisionError"):
            await memory.summary_task([GOOD], user_id=USER, task_name=TASK_NAME)
        assert len(await memory.list_jobs(user_id=USER)) == 1
        memory.set_task_flow(note_the_score)
        await memory.flush()
        assert len((await memory.list_memories(user_id=USER)).memories) == 1


async def test_what_is_no_flow_is_refused(tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        for flow in (None, "preprocess >> write", note_the_score.run):
            with pytest.raises(ConfigurationError, match="flow"):
                memory.set_task_flow(flow)  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match="flow"):
                memory.set_task_retrieval(flow)  # type: ignore[arg-type]


async def test_in_the_background_attempts_are_on_disk_and_learnt_from_later(tmp_path: Path) -> None:
    async with open_in(tmp_path, LessonModel()) as memory:
        kept = await memory.summary_task([GOOD, BAD], user_id=USER, task_name=TASK_NAME, background=True)
        assert (kept.memories, len(kept.job_ids), len(kept.block_ids)) == ((), 1, 2)
        await memory.flush()
        assert len((await memory.list_memories(user_id=USER, memory_type="procedural")).memories) == 3


async def test_attempts_at_two_tasks_are_two_jobs_and_not_compared(tmp_path: Path) -> None:
    model = LessonModel()
    async with open_in(tmp_path, model) as memory:
        attempts = [GOOD, attempt("stew", "It was salty.", 0.0)]
        result = await memory.summary_task(attempts, user_id=USER, task_name=TASK_NAME)
        assert {made.metadata["learnt_from"] for made in result.memories} == {"success", "failure"}
        assert len(result.run_ids) == 2


@pytest.mark.parametrize(
    ("trajectories", "said"),
    [
        ([{"messages": [("user", "x")]}], r"trajectories\[0\].score"),
        ([{"messages": [("user", "x")], "score": 1.5}], r"trajectories\[0\].score"),
        ([{"messages": [("user", "x")], "score": float("nan")}], r"trajectories\[0\].score"),
        ([{"messages": [], "score": 1}], r"trajectories\[0\].messages"),
        ([{"messages": "x", "score": 1}], r"trajectories\[0\].messages"),
        ([{"messages": [("user", "")], "score": 1}], r"trajectories\[0\].messages\[0\]"),
        ([{"messages": [("user", "x")], "score": 1, "reward": 2}], r"trajectories\[0\].reward"),
        ([GOOD, 7], r"trajectories\[1\]"),
        (GOOD, "wanted a list"),
        ([{**GOOD, "trajectory_id": "a"}, {**BAD, "trajectory_id": "a"}], "stands twice"),
        ([{"messages": [{"role": "user", "content": "x", "created_at": "2099-01-01"}], "score": 1}], "future"),
    ],
)
async def test_a_bad_trajectory_is_named_and_nothing_is_kept(trajectories: Any, said: str, tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        with pytest.raises(InvalidInputError, match=said):
            await memory.summary_task(trajectories, user_id=USER, task_name=TASK_NAME)
        assert (await memory.stats(user_id=USER)).messages == 0


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 257, None, 7, ["a"]])
async def test_a_bad_name_of_a_task_is_refused(name: Any, tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        with pytest.raises(InvalidInputError, match="task_name"):
            await memory.summary_task([GOOD], user_id=USER, task_name=name)


async def test_no_attempts_are_no_work(tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        result = await memory.summary_task([], user_id=USER, task_name=TASK_NAME)
        assert (result.block_ids, result.job_ids) == ((), ())


async def test_a_task_asks_with_its_conversation(tmp_path: Path) -> None:
    async with open_in(tmp_path, LessonModel()) as memory:
        await memory.summary_task([GOOD], user_id=USER, task_name=TASK_NAME)
        found = await memory.retrieve_task_memory(messages=[("user", "Please cook soup.")], user_id=USER)
        assert len(found.results) == 1
        assert found.results[0].when_to_use.startswith("When asked so")
        assert "soup" in found.query
        with pytest.raises(InvalidInputError, match="query"):
            await memory.retrieve_task_memory(user_id=USER)


async def test_ordering_and_rewriting_need_a_model(tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        for number in range(2):
            await memory.add_memory(f"Stir the soup {number} times.", user_id=USER, memory_type="procedural")
        for option in ("rerank", "rewrite"):
            options: dict[str, Any] = {option: True}
            with pytest.raises(ConfigurationError, match="chat model"):
                await memory.retrieve_task_memory("soup", user_id=USER, **options)


async def test_a_model_orders_and_rewrites_what_was_found(tmp_path: Path) -> None:
    model = ScriptedChatModel(['{"order": [2, 1]}', '{"text": "Stir once, then twice."}'])
    async with open_in(tmp_path, model) as memory:
        for number in range(2):
            await memory.add_memory(f"Stir the soup {number} times.", user_id=USER, memory_type="procedural")
        plain = await memory.retrieve_task_memory("soup", user_id=USER)
        found = await memory.retrieve_task_memory("soup", user_id=USER, rerank=True, rewrite=True)
        assert [hit.memory_id for hit in found.results] == [hit.memory_id for hit in reversed(plain.results)]
        assert "\nStir once, then twice.\n" in found.text
        assert found.usage.model_calls == 2
    model.assert_done()


async def test_uses_are_counted_and_what_never_helps_is_forgotten(tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        good = await memory.add_memory("Stir the soup.", user_id=USER, memory_type="procedural")
        vain = await memory.add_memory("Sing to the soup.", user_id=USER, memory_type="procedural")
        for _ in range(5):
            await memory.record_use([good.memory_id, vain.memory_id], user_id=USER)
            await memory.record_use(good.memory_id, user_id=USER, uses=0, helpful=True)
        before = await memory.forget_memories(user_id=USER, dry_run=True)
        assert [item.memory_id for item in before.memories] == [vain.memory_id]
        gone = await memory.forget_memories(user_id=USER)
        assert [item.memory_id for item in gone.memories] == [vain.memory_id]
        kept = await memory.get_memory(good.memory_id, user_id=USER)
        assert (kept.freq, kept.utility, kept.revision) == (5, 5.0, 1)
        assert gone.run_id is not None
        await memory.undo(gone.run_id, user_id=USER)
        assert (await memory.get_memory(vain.memory_id, user_id=USER)).freq == 5


async def test_a_use_of_what_another_user_has_is_not_found_and_nothing_is_counted(tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        mine = await memory.add_memory("Stir the soup.", user_id=USER, memory_type="procedural")
        other = await memory.add_memory("Stir the soup.", user_id="guest", memory_type="procedural")
        with pytest.raises(MemoryNotFoundError, match=other.memory_id):
            await memory.record_use([mine.memory_id, other.memory_id], user_id=USER)
        assert (await memory.get_memory(mine.memory_id, user_id=USER)).freq == 0


async def test_feedback_moves_a_memory_and_can_be_undone_after_it_was_used(tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        made = await memory.add_memory("Stir the soup.", user_id=USER, memory_type="procedural")
        feedback = Feedback(memory_id=made.memory_id, verdict=Verdict.REFUTED, weight=0.5, reason="it burnt")
        [moved] = await memory.observe(feedback, user_id=USER)
        assert (moved.confidence, moved.importance) == (0.5, 0.5)
        [again] = await memory.observe({"memory_id": made.memory_id, "verdict": "helpful"}, user_id=USER)
        assert again.importance == pytest.approx(0.6)
        await memory.record_use([made.memory_id], user_id=USER, helpful=True)
        events = await memory.history(made.memory_id, user_id=USER)
        assert [event.reason for event in events][1] == "it burnt"
        for event in reversed(events[1:]):
            assert event.run_id is not None
            await memory.undo(event.run_id, user_id=USER)
        undone = await memory.get_memory(made.memory_id, user_id=USER)
        assert (undone.confidence, undone.importance, undone.freq, undone.utility) == (1.0, 0.5, 1, 1.0)
        with pytest.raises(MemoryNotFoundError):
            await memory.observe(feedback, user_id="guest")


async def test_calls_are_recorded_by_hand_and_from_messages_each_once(tmp_path: Path) -> None:
    call = ToolCallResult(tool_name="oven", input={"heat": 180}, output="warm", time_cost=1.5, token_cost=7)
    messages = parse_messages(GOOD["messages"])
    async with open_in(tmp_path) as memory:
        for known in ((), None):
            done = await memory.add_tool_call_results([call], user_id=USER, messages=messages)
            assert done.tool_names == ("oven",)
            assert done.known_call_ids == (known if known is not None else done.call_ids)
        assert (await memory.list_tools(user_id=USER)).tools == (("oven", 2),)
        page = await memory.list_tool_calls(user_id=USER, tool_name="oven", success=True)
        assert {item.output for item in page.calls} == {"warm", "It was tasty."}
        known_tool = await memory.retrieve_tool_memory([" oven", "Oven"], user_id=USER)
        assert known_tool.missing == ("Oven",)
        assert known_tool.results[0].statistics.calls == 2
        assert "It was tasty." in known_tool.text
        assert (await memory.stats(user_id=USER)).tool_calls == 2


async def test_a_compacted_conversation_is_handed_in_again_with_its_new_calls_only(tmp_path: Path) -> None:
    def turn(number: int, output: str, name: str = "oven") -> list[dict[str, Any]]:
        asked = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        said: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [asked], "message_id": f"a{number}"}
        return [said, {"role": "tool", "tool_call_id": f"c{number}", "content": output, "message_id": f"r{number}"}]

    async with open_in(tmp_path) as memory:
        first = await memory.add_tool_call_results(user_id=USER, messages=turn(1, "warm " * 100))
        later = [*turn(1, "warm …"), *turn(2, "Error: cold"), *turn(3, "x", "n" * 300)]
        done = await memory.add_tool_call_results(user_id=USER, messages=later)
        assert done.known_call_ids == first.call_ids
        assert (len(done.call_ids), done.tool_names, done.skipped_call_ids) == (2, ("oven",), ("c3",))
        page = await memory.list_tool_calls(user_id=USER)
        assert {(call.output, call.success) for call in page.calls} == {("warm " * 100, True), ("Error: cold", False)}


async def test_calls_and_messages_are_not_read_on_the_loop(tmp_path: Path) -> None:
    threads: list[int] = []

    class NotingList(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            threads.append(threading.get_ident())
            return super().__iter__()

    async with open_in(tmp_path) as memory:
        for options in (
            {"tool_call_results": NotingList([{"tool_name": "oven"}])},
            {"messages": NotingList([("user", "x")])},
        ):
            threads.clear()
            await memory.add_tool_call_results(user_id=USER, **options)
            assert threads
            assert threading.get_ident() not in threads


async def test_dictionaries_and_objects_without_success_are_judged_alike(tmp_path: Path) -> None:
    output = "Traceback (most recent call last):\nValueError: x"
    calls = [{"tool_name": "oven", "output": output}, ToolCallResult(tool_name="oven", output=output)]
    async with open_in(tmp_path) as memory:
        await memory.add_tool_call_results([*calls, {"tool_name": "oven", "output": "warm"}], user_id=USER)
        [known] = (await memory.retrieve_tool_memory("oven", user_id=USER)).results
        assert (known.statistics.successes, known.statistics.errors[0].error) == (1, "ValueError")


async def test_without_a_model_a_summary_of_tools_says_what_the_calls_add_up_to(tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        await memory.add_tool_call_results(
            [{"tool_name": "oven", "success": False, "output": "TimeoutError: cold", "time_cost": 3}], user_id=USER
        )
        done = await memory.summarize_tool_memory(["oven", "rocket"], user_id=USER)
        assert (done.memories, done.missing, done.job_ids) == ((), ("rocket",), ())
        assert "TimeoutError" in done.results[0].text
        assert (await memory.list_memories(user_id=USER)).memories == ()


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([{"output": "x"}], r"results\[0\].tool_name"),
        ([{"tool_name": "a", "time_cost": -1}], r"results\[0\].time_cost"),
        ([{"tool_name": "a", "token_cost": 1.5}], r"results\[0\].token_cost"),
        ([{"tool_name": "a", "score": 1}], r"results\[0\].score"),
        ([{"tool_name": "a"}, "x"], r"results\[1\]"),
        ([{"tool_name": "a", "create_time": "2090-01-01"}], r"results\[0\].create_time: .* future"),
        ({"tool_name": "a"}, "wanted a list"),
        ([{"tool_name": "a", "call_id": "1"}, {"tool_name": "b", "call_id": "1"}], "stands twice"),
    ],
)
async def test_a_bad_call_is_named_and_nothing_is_recorded(results: Any, said: str, tmp_path: Path) -> None:
    async with open_in(tmp_path) as memory:
        with pytest.raises(InvalidInputError, match=said):
            await memory.add_tool_call_results(results, user_id=USER)
        assert (await memory.list_tools(user_id=USER)).tools == ()


async def test_deleting_a_user_takes_attempts_and_calls_along(tmp_path: Path) -> None:
    async with open_in(tmp_path, LessonModel()) as memory:
        await memory.summary_task([GOOD, BAD], user_id=USER, task_name=TASK_NAME)
        await memory.add_tool_call_results([{"tool_name": "oven", "output": "the secret of the tart"}], user_id=USER)
        erased = await memory.delete_all_memories(user_id=USER)
        assert (erased.tool_calls, erased.blocks, erased.memories) == (1, 2, 3)
        assert (await memory.retrieve_tool_memory("oven", user_id=USER)).missing == ("oven",)
    assert not [path for path in files_of(tmp_path) if b"secret of the tart" in path.read_bytes()]


async def test_a_library_goes_from_one_user_to_another(tmp_path: Path) -> None:
    async with open_in(tmp_path, LessonModel()) as memory:
        await memory.summary_task([GOOD, BAD], user_id=USER, task_name=TASK_NAME)
        path = tmp_path / "library.jsonl"
        assert (await memory.dump(path, user_id=USER)).memories == 3
        loaded = await memory.load(path, user_id="guest")
        assert len(loaded.memory_ids) == 3
        found = await memory.retrieve_task_memory("Please cook soup.", user_id="guest", task_name=TASK_NAME)
        assert len(found.results) == 3
        assert (await memory.load(path, user_id="guest")).memory_ids == ()
        assert loaded.run_id is not None
        await memory.undo(loaded.run_id, user_id="guest")
        assert (await memory.list_memories(user_id="guest")).memories == ()


def test_a_trajectory_knows_the_attempts_at_its_task() -> None:
    one, other = (
        Trajectory.model_validate({**made, "messages": parse_messages(made["messages"])}) for made in (GOOD, BAD)
    )
    assert one.task_key == other.task_key
    named = one.model_copy(update={"task_id": ""})
    assert named.task_key == other.model_copy(update={"task_id": ""}).task_key == "said:Please cook soup."
