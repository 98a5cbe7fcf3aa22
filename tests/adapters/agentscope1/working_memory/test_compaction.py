"""Our own compaction: within the budget, nothing lost, nothing torn apart, whatever the model does."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from agentscope.memory import LongTermMemoryBase
from agentscope.message import Msg
from agentscope.token import TokenCounterBase
from agentscope.tool import Toolkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_agentscope.v1.long_term.long_term_memory import ReMePersonalLongTermMemory
from reme_agentscope.v1.working_memory._context import MessageForms
from reme_agentscope.v1.working_memory.memory import ReMeMemory
from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_core.testing import ScriptedChatModel
from tests.adapters.agentscope1.scripted import ScriptedModel, make_agent, user
from tests.adapters.agentscope1.working_memory.memory_rules import ids, said

SUMMARY = """## Goal
- Paint the house green.
## Constraints
- Never paint at night.
## Progress
- {progress}
## Key Decisions
- Green for the door of the house.
## Next Steps
- Order paint.
## Critical Context
- none"""


def summary(progress: str = "The door of the house is green.") -> str:
    return SUMMARY.format(progress=progress)


def talk(count: int, words: int = 60) -> list[Msg]:
    text = "Paint the door of the house green, never at night. Order paint. "
    return [
        said(f"m{n}", f"{n}: {text * (words // 12)}", role="user" if n % 2 == 0 else "assistant") for n in range(count)
    ]


def use(name: str, *calls: str) -> Msg:
    blocks: Any = [{"type": "tool_use", "id": call, "name": "look", "input": {"q": call}} for call in calls]
    return said(name, blocks, role="assistant")


def result(name: str, call: str, output: Any) -> Msg:
    return said(name, [{"type": "tool_result", "id": call, "name": "look", "output": output}], role="system")


def call_ids(msgs: list[Msg], kind: Any) -> set[str]:
    return {block["id"] for msg in msgs for block in msg.get_content_blocks(kind)}


def tokens(msgs: list[Msg]) -> int:
    forms = MessageForms(None)
    return sum(forms.count(forms.read(msgs), "")[0])


class Recorder(LongTermMemoryBase):
    def __init__(self, memory: list[ReMeMemory], failures: int = 0) -> None:
        super().__init__()
        self.records: list[list[str]] = []
        self.compressed_then: list[list[str]] = []
        self.memory = memory
        self.failures = failures

    async def record(self, msgs: list[Msg | None], **kwargs: Any) -> None:
        self.records.append([msg.id for msg in msgs if msg is not None])
        self.compressed_then.append([msg.id for msg, marks in self.memory[0].content if "compressed" in marks])
        if self.failures:
            self.failures -= 1
            raise RuntimeError


@pytest.mark.requirement("AS1-MEM-33")
@pytest.mark.parametrize("has_model", [True, False])
async def test_an_unfiltered_view_is_brought_within_the_budget(tmp_path: Path, has_model: bool) -> None:
    model = ScriptedModel([summary()]) if has_model else None
    async with ReMeMemory(max_tokens=1000, model=model, location=tmp_path) as memory:
        await memory.add(talk(20))
        for filtered in ({"mark": "compressed"}, {"exclude_mark": "compressed"}):
            assert "compressed" not in {mark for _, marks in memory.content for mark in marks}
            await memory.get_memory(**filtered)  # type: ignore[arg-type]
        shown = await memory.get_memory()
        assert tokens(shown) <= 1000
        assert shown[0].metadata == {"reme": "summary"}
        assert [msg.id for msg in shown[1:]] == ["m17", "m18", "m19"]
        assert await memory.size() == 20
        assert await ids(memory, mark="compressed", prepend_summary=False) == [f"m{n}" for n in range(17)]
        assert len(memory.state_dict()["content"]) == 20
        assert [msg.id for msg in await memory.get_memory()] == [msg.id for msg in shown]
    async with ReMeMemory(max_tokens=1000, location=tmp_path) as again:
        assert [msg.to_dict() for msg in await again.get_memory()] == [msg.to_dict() for msg in shown]
    async with ReMeMemory(location=tmp_path) as without:
        assert len(await without.get_memory(prepend_summary=False)) == 20


@pytest.mark.requirement("AS1-MEM-33")
async def test_hints_are_never_compacted() -> None:
    memory = ReMeMemory(max_tokens=600)
    await memory.add(said("hint", "<system-hint>go on</system-hint>"), marks="hint")
    await memory.add(talk(12))
    shown = [msg.id for msg in await memory.get_memory()]
    assert "hint" in shown
    assert "m0" not in shown
    await memory.close()


class Letters(TokenCounterBase):
    def __init__(self) -> None:
        self.asked = 0

    async def count(self, messages: list[dict], **kwargs: Any) -> int:  # type: ignore[type-arg]
        self.asked += 1
        return sum(len(message["content"]) for message in messages)


class Broken(TokenCounterBase):
    async def count(self, messages: list[dict], **kwargs: Any) -> int:  # type: ignore[type-arg]
        raise ValueError


@pytest.mark.requirement("AS1-MEM-33")
@pytest.mark.parametrize(("counter", "is_compacted"), [(None, False), (Letters(), True), (Broken(), False)])
async def test_a_token_counter_decides_what_is_too_long(counter: Any, is_compacted: bool) -> None:
    memory = ReMeMemory(max_tokens=1000, token_counter=counter)
    await memory.add([said(str(n), "a" * 180) for n in range(8)])
    await memory.get_memory()
    assert bool(await memory.get_memory(mark="compressed", prepend_summary=False)) is is_compacted
    await memory.close()


async def test_the_counter_counts_for_clients_too_whatever_the_budget() -> None:
    memory = ReMeMemory(token_counter=Letters())
    await memory.add([said("0", "abc"), said("1", "defgh")])
    await memory.update_compressed_summary("so far")
    use = await memory.estimate_tokens(max_input_length=136)
    around = 4 + 1 + len(memory.content[0][0].name)  # of a message, its name and that it has one
    assert [detail["total_tokens"] for detail in use["messages_detail"]] == [3 + around, 5 + around]
    assert (use["messages_tokens"], use["compressed_summary_tokens"], use["context_usage_ratio"]) == (28, 6, 25)


@pytest.mark.requirement("AS1-MEM-34")
@pytest.mark.requirement("AS1-MEM-33")
@pytest.mark.parametrize("output", ["str", "blocks"])
async def test_a_huge_result_among_the_recent_ones_is_shortened_and_can_be_loaded_again(
    tmp_path: Path, output: str
) -> None:
    lines = [f"line {n}" for n in range(25_000)]
    lines[12_000] = "the code is 4711"
    whole = "\n".join(lines)
    image = {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}
    given: Any = whole if output == "str" else [{"type": "text", "text": whole}, image]
    async with ReMeMemory(max_tokens=4000, location=tmp_path) as memory:
        await memory.add([said("q", "look"), use("u", "c1"), result("r", "c1", given)])
        shown = await memory.get_memory()
        assert [msg.id for msg in shown] == ["q", "u", "r"]
        assert tokens(shown) <= 4000
        [block] = shown[2].get_content_blocks("tool_result")
        text = block["output"] if isinstance(block["output"], str) else block["output"][0]["text"]  # type: ignore[typeddict-item]
        assert text.startswith("line 0\n")
        assert "line 24999" in text.splitlines()[-2:]
        if output == "blocks":
            assert block["output"][1] == image
        [reference] = re.findall(r"reload ([0-9a-f]{16})", text)
        toolkit = Toolkit()
        toolkit.register_tool_function(memory.reload)
        assert toolkit.get_json_schemas()[0]["function"]["parameters"]["required"] == ["reference"]
        loaded = await memory.reload(reference, query="code")
        assert "the code is 4711" in loaded.content[0]["text"]  # type: ignore[typeddict-item]
        assert "Error" in (await memory.reload("0" * 16)).content[0]["text"]  # type: ignore[typeddict-item]
        kept = (await memory.get_memory(exclude_mark="x"))[2]
        assert kept.content[0]["output"] == given  # type: ignore[index]
        assert await memory.get_memory(mark="compressed") == []
    async with ReMeMemory(max_tokens=4000, location=tmp_path) as again:
        assert [msg.to_dict() for msg in await again.get_memory()] == [msg.to_dict() for msg in shown]


@pytest.mark.requirement("AS1-MEM-33")
async def test_images_in_the_results_of_tools_count(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}
    async with ReMeMemory(max_tokens=8_000, location=tmp_path) as memory:
        for n in range(10):
            await memory.add([use(f"u{n}", f"c{n}"), result(f"r{n}", f"c{n}", [image])])
        assert (await memory.estimate_tokens())["messages_tokens"] > 10 * 1_000
        await memory.add(said("q", "what do you see"))
        shown = await memory.get_memory(prepend_summary=False)
        assert "q" in [msg.id for msg in shown]
        assert sum(msg.id.startswith("r") for msg in shown) < 6
        assert call_ids(shown, "tool_use") == call_ids(shown, "tool_result")


@pytest.mark.requirement("AS1-MEM-34")
@pytest.mark.parametrize("letter", ["x", "兔"])
async def test_what_is_loaded_again_fits_the_budget(tmp_path: Path, letter: str) -> None:
    async with ReMeMemory(max_tokens=1_000, location=tmp_path) as memory:
        await memory.add([said("q", "look"), use("u", "c1"), result("r", "c1", letter * 50_000)])
        [block] = (await memory.get_memory())[2].get_content_blocks("tool_result")
        [reference] = re.findall(r"reload ([0-9a-f]{16})", str(block["output"]))
        [loaded] = (await memory.reload(reference)).content
        assert letter * 100 in str(loaded["text"])  # type: ignore[typeddict-item]
        assert len(str(loaded["text"]).encode()) <= 900  # type: ignore[typeddict-item]
        assert "goes on at offset=" in str(loaded["text"])  # type: ignore[typeddict-item]


@pytest.mark.requirement("AS1-MEM-34")
async def test_question_waiting_calls_and_pairs_stay_together() -> None:
    memory = ReMeMemory(max_tokens=500, keep_recent=1)
    await memory.add(talk(10))
    await memory.add(said("q", "the question"))
    for n in range(8):
        await memory.add([use(f"u{n}", f"c{n}"), result(f"r{n}", f"c{n}", "long " * 60)])
    await memory.add(use("waiting", "w1", "w2"))
    await memory.add(result("w1r", "w1", "half"))
    shown = await memory.get_memory(prepend_summary=False)
    names = [msg.id for msg in shown]
    assert names[0] == "q"
    assert names[-2:] == ["waiting", "w1r"]
    assert call_ids(shown, "tool_use") - call_ids(shown, "tool_result") == {"w2"}
    assert call_ids(shown, "tool_result") <= call_ids(shown, "tool_use")
    await memory.close()


pieces = st.lists(
    st.tuples(st.sampled_from(["user", "say", "call", "two", "inject"]), st.integers(1, 300)), max_size=25
)


@pytest.mark.requirement("AS1-MEM-34")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pieces=pieces, keep_recent=st.integers(0, 6))
def test_in_every_view_uses_and_results_are_the_same(pieces: list[tuple[str, int]], keep_recent: int) -> None:
    async def run() -> None:
        memory = ReMeMemory(max_tokens=800, keep_recent=keep_recent)
        question = None
        for number, (kind, size) in enumerate(pieces):
            text = "word " * size
            if kind in {"user", "say"}:
                await memory.add(said(f"{number}", text, role="user" if kind == "user" else "assistant"))
                question = f"{number}" if kind == "user" else question
            elif kind == "inject":
                await memory.add(said(f"{number}", f"<long_term_memory>{text}</long_term_memory>"))
            else:
                calls = [f"{number}.{n}" for n in range(1 if kind == "call" else 2)]
                await memory.add([use(f"u{number}", *calls), *(result(f"r{call}", call, text) for call in calls)])
            shown = await memory.get_memory()
            assert call_ids(shown, "tool_use") == call_ids(shown, "tool_result")
            assert question is None or question in {msg.id for msg in shown}
        every = [msg.id for msg, _ in memory.content]
        hidden = await ids(memory, mark="compressed", prepend_summary=False)
        assert sorted(every) == sorted([*hidden, *[m.id for m in await memory.get_memory(prepend_summary=False)]])
        await memory.close()

    asyncio.run(run())


@pytest.mark.requirement("AS1-MEM-35")
@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("secret words"),
        "",
        "Error: 429 too many requests",
        "The door service is overloaded, try again later.",
        "I am sorry, I can not help with that.",
        "The house gets a green door.\n\n* Paint is to be ordered, and nobody paints at night.",
        '{"summary": "The door of the house is green."}',
        [],
    ],
)
async def test_a_failing_model_keeps_summary_and_messages(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    memory = ReMeMemory(max_tokens=1000, model=ScriptedModel([answer] * 20))
    await memory.add(talk(20))
    await memory.update_compressed_summary("the summary so far")
    with caplog.at_level(logging.ERROR):
        shown = await memory.get_memory()
    assert [msg.content for msg in shown[:1]] == ["the summary so far"]
    assert len(shown) == 21
    assert await memory.get_memory(mark="compressed", prepend_summary=False) == []
    assert "stay as they are" in caplog.text
    assert "secret words" not in "".join(record.getMessage() for record in caplog.records)
    await memory.close()


@pytest.mark.requirement("AS1-MEM-35")
async def test_a_second_summary_covers_the_first() -> None:
    model = ScriptedModel([summary("The cellar was painted."), summary("The roof was painted.")] + [summary()] * 5)
    memory = ReMeMemory(max_tokens=1000, model=model)
    await memory.add(talk(20))
    await memory.get_memory()
    assert "cellar" in memory.get_compressed_summary()
    await memory.add([said(f"n{n}", "The roof of the house was painted green. " * 12) for n in range(10)])
    await memory.get_memory()
    assert "The cellar was painted." in model.asked[1].text
    assert "Never paint at night" in memory.get_compressed_summary()
    assert "roof" in memory.get_compressed_summary()
    await memory.close()


@pytest.mark.requirement("AS1-MEM-35")
async def test_a_store_that_fails_leaves_everything_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with ReMeMemory(max_tokens=1000, location=tmp_path) as memory:
        await memory.add(talk(20))

        def broken(*args: object, **kwargs: object) -> Any:
            raise OSError

        with monkeypatch.context() as patched:
            patched.setattr("reme_core.LocalStore.put_offloads", broken)
            assert len(await memory.get_memory()) == 20
        assert "OSError" in caplog.text
        assert len(await memory.get_memory()) < 20


@pytest.mark.requirement("AS1-MEM-35")
async def test_what_is_deleted_while_the_model_writes_is_in_no_summary() -> None:
    is_asked = asyncio.Event()
    hold = asyncio.Event()

    class Slow(ScriptedModel):
        async def __call__(self, *args: Any, **kwargs: Any) -> Any:
            is_asked.set()
            await hold.wait()
            return await super().__call__(*args, **kwargs)

    model = Slow([summary()] * 3)
    memory = ReMeMemory(max_tokens=1000, model=model)
    await memory.add(talk(20))
    reading = asyncio.create_task(memory.get_memory())
    await is_asked.wait()
    await memory.clear()
    await memory.add(said("new"))
    hold.set()
    assert [msg.id for msg in await reading] == ["new"]
    assert memory.get_compressed_summary() == ""
    await memory.close()


@pytest.mark.requirement("AS1-MEM-36")
@pytest.mark.parametrize("failures", [0, 1])
async def test_what_leaves_is_handed_to_the_long_term_memory_first(failures: int) -> None:
    holder: list[ReMeMemory] = []
    recorder = Recorder(holder, failures)
    memory = ReMeMemory(max_tokens=1000, long_term_memory=recorder)
    holder.append(memory)
    await memory.add(talk(20))
    await memory.get_memory()
    assert recorder.compressed_then == [[]]
    assert recorder.records == [await ids(memory, mark="compressed", prepend_summary=False)]
    if failures:
        await memory.add([said(f"n{n}", "more words " * 40) for n in range(10)])
        await memory.get_memory()
        assert recorder.records[1][: len(recorder.records[0])] == recorder.records[0]
    assert set(memory.state_dict()) == {"_compressed_summary", "content"}
    assert "long_term_memory" not in json.dumps(make_agent(ScriptedModel(), memory=memory).state_dict()["memory"])
    await memory.close()


@pytest.mark.requirement("AS1-MEM-36")
async def test_what_was_to_leave_and_stayed_is_handed_over_once() -> None:
    holder: list[ReMeMemory] = []
    recorder = Recorder(holder)
    memory = ReMeMemory(max_tokens=1000, model=ScriptedModel([ValueError()] * 9), long_term_memory=recorder)
    holder.append(memory)
    await memory.add(talk(20))
    for _ in range(2):
        await memory.get_memory()
    assert await memory.get_memory(mark="compressed") == []
    assert len(recorder.records) == 1
    await memory.close()


@pytest.mark.requirement("AS1-MEM-36")
async def test_what_was_not_handed_over_as_the_reply_was_interrupted_is_handed_over_by_the_next() -> None:
    class Hangs(Recorder):
        async def record(self, msgs: list[Msg | None], **kwargs: Any) -> None:
            await super().record(msgs, **kwargs)
            if len(self.records) == 1:
                begun.set()
                await asyncio.Event().wait()

    holder: list[ReMeMemory] = []
    begun, recorder = asyncio.Event(), Hangs(holder)
    memory = ReMeMemory(max_tokens=1000, long_term_memory=recorder)
    holder.append(memory)
    await memory.add(talk(20))
    reply = asyncio.create_task(memory.get_memory())
    await begun.wait()
    reply.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reply
    await memory.get_memory()
    assert recorder.records == [await ids(memory, mark="compressed", prepend_summary=False)] * 2
    await memory.close()


@pytest.mark.requirement("AS1-MEM-36")
@pytest.mark.parametrize("failures", [0, 1])
async def test_what_others_mark_compressed_is_handed_over_first_and_once(failures: int) -> None:
    holder: list[ReMeMemory] = []
    recorder = Recorder(holder, failures)
    memory = ReMeMemory(long_term_memory=recorder)
    holder.append(memory)
    given = talk(4)
    await memory.add(given)
    assert await memory.update_messages_mark("compressed", msg_ids=["m0", "m1", "unknown"]) == 2
    assert recorder.compressed_then == [[]]
    await memory.flush()
    assert recorder.records == [["m0", "m1"]] * (1 + failures)
    assert await memory.mark_messages_compressed(given[:3]) == 1
    assert await memory.update_messages_mark("compressed", msg_ids=["m0"]) == 0
    await memory.close()
    assert recorder.records[1 + failures :] == [["m2"]]


@pytest.mark.requirement("AS1-MEM-34")
@pytest.mark.parametrize("text", ["word " * 1_800_000, "a\0b \ud83d " * 10_000, ""], ids=["9 MB", "broken", "empty"])
async def test_no_message_is_too_large_or_too_odd_to_leave(tmp_path: Path, text: str) -> None:
    async with ReMeMemory(max_tokens=1000, location=tmp_path) as memory:
        output = text[-100_000:]
        await memory.add([said("big", text), use("u", "c"), result("r", "c", output), *talk(12)])
        assert "big" not in [msg.id for msg in await memory.get_memory()]
    async with ReMeMemory(location=tmp_path) as again:
        kept = await again.get_memory(prepend_summary=False)
        assert kept[0].content == text
        assert kept[2].content[0]["output"] == output  # type: ignore[index]


@pytest.mark.parametrize("numbers", [{"max_tokens": 0}, {"max_tokens": True}, {"max_tokens": 9, "keep_recent": -1}])
def test_numbers_that_make_no_sense_are_refused(numbers: Any) -> None:
    with pytest.raises(InvalidInputError):
        ReMeMemory(**numbers)


@pytest.mark.requirement("AS1-MEM-33")
async def test_an_agent_with_a_small_budget_goes_on_for_many_turns() -> None:
    model = ScriptedModel()
    memory = ReMeMemory(max_tokens=1500)
    agent = make_agent(model, memory=memory)
    for turn in range(30):
        await agent(user(f"turn {turn}: " + "many words " * 30))
    assert await memory.size() == 60
    for asked in model.asked:
        assert len(asked.text) / 4 < 2000
        assert asked.texts[-1].startswith("turn ")
    await memory.close()


@pytest.mark.requirement("AS1-MEM-36")
@pytest.mark.requirement("AS1-LTM-25")
async def test_what_leaves_is_learnt_from_and_kept_once_where_both_memories_lie_in_one_file(tmp_path: Path) -> None:
    fact = {"type": "personal", "target": "Ann", "content": "Ann likes green doors", "messages": [1]}
    async with ReMe(
        "default", tmp_path, llm=ScriptedChatModel([json.dumps({"facts": [fact]})]), embedding=None
    ) as reme:
        long_term = ReMePersonalLongTermMemory(run_name="s", reme=reme)
        memory = ReMeMemory(max_tokens=1000, location=tmp_path, session_id="s", long_term_memory=long_term)
        await memory.add(talk(20))
        await memory.get_memory()
        left = await ids(memory, mark="compressed", prepend_summary=False)
        await long_term.flush()
        kept = (await reme.find_messages(user_id="default")).messages
        assert [item.message.message_id for item in kept] == left != []
        assert "Ann likes green doors" in await long_term.retrieve(user("Ann's doors"))
        await memory.close()


@pytest.mark.requirement("AS1-MEM-34")
@pytest.mark.parametrize("is_written", [True, False])
async def test_a_result_whose_call_has_left_is_told_in_words(tmp_path: Path, is_written: bool) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/plan.png"}}
    late = [{"type": "text", "text": "the door is blue"}, image]
    memory = ReMeMemory(max_tokens=6000, location=tmp_path)
    await memory.add([said("q", "Look at the door."), use("a", "c1"), *talk(20, words=500)])
    await memory.get_memory()
    assert "a" in await ids(memory, mark="compressed", prepend_summary=False)
    await memory.add([said("go", "And now?"), result("r", "c1", late)])
    if not is_written:
        memory.__dict__["_context"]._scope = None  # what a store that fails comes to
    told = (await memory.get_memory())[-1]
    assert (told.id, told.role, told.get_content_blocks("tool_result")) == ("r", "user", [])
    text, shown = told.get_content_blocks()
    assert "nobody's request]\nthe door is blue\n" in str(text["text"])  # type: ignore[typeddict-item]
    assert shown == image
    assert memory.content[-1][0].get_content_blocks("tool_result")[0]["output"] == late
    await memory.close()
