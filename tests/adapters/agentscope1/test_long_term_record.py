"""`record`, `retrieve` and the state of the long-term memories, without an agent."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agentscope.message import Msg
from pydantic import BaseModel

from reme_agentscope._shared import opening
from reme_agentscope._shared.recorded_text import SUMMARY_METADATA
from reme_agentscope.v1.long_term.long_term_memory import (
    ReMePersonalLongTermMemory,
    ReMeTaskLongTermMemory,
    ReMeToolLongTermMemory,
)
from reme_core import ReMe, adapting
from reme_core.errors import InvalidInputError, ModelUnavailableError, StoreError
from reme_core.testing import HashedEmbedder, ScriptedChatModel

TALKING = [ReMePersonalLongTermMemory, ReMeTaskLongTermMemory]
CLASSES = [*TALKING, ReMeToolLongTermMemory]
FACT = {"type": "personal", "target": "Ann", "content": "Ann keeps a rabbit named Flopsy", "messages": [1]}
FACTS = json.dumps({"facts": [FACT]})
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def memory_of(path: Path, **kwargs: Any) -> ReMe:
    return ReMe("space", path, **{"llm": None, "embedding": None, **kwargs})


def broken(path: Path) -> ReMe:
    """Return a memory whose folder is a file: every call of its store fails."""
    (path / "file").write_text("not a folder", encoding="utf-8")
    return memory_of(path / "file")


def said(text: str, role: Any = "user") -> Msg:
    return Msg(role, text, role)


def use(call_id: str, name: str = "search", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, output: Any, name: str = "search") -> dict[str, Any]:
    return {"type": "tool_result", "id": call_id, "name": name, "output": output}


async def texts_in(reme: ReMe, user_id: str = "default") -> list[str]:
    """Return what is kept word for word, in order."""
    return [item.message.full_text for item in (await reme.find_messages(user_id=user_id)).messages]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a write may take longer than a reply waits for it."""
    monkeypatch.setattr(adapting, "PATIENCE_S", 10)


@pytest.fixture
async def reme(tmp_path: Path):
    async with memory_of(tmp_path) as made:
        yield made


@pytest.mark.requirement("AS1-LTM-11")
@pytest.mark.parametrize("embedding", [None, HashedEmbedder(32)], ids=["words", "vectors"])
async def test_a_question_about_a_time_finds_what_was_said_then(tmp_path: Path, embedding: Any) -> None:
    async with memory_of(tmp_path, embedding=embedding) as reme:
        memory = ReMePersonalLongTermMemory(user_name="ann", reme=reme)
        for content, day in (("The bakery gave me the job!", "2024-05-05"), ("I slept badly.", "2024-03-05")):
            told = {"role": "user", "content": content, "created_at": day}
            await reme.summary([told], user_id="ann", session_id=day)
        found = await memory.retrieve(said("What happened on 5 May 2024?"))
        assert "bakery" in found
        assert "slept" not in found
        answer = await memory.retrieve_from_memory(["May 2024"])
        assert "bakery" in answer.content[0]["text"]


@pytest.mark.requirement("AS1-LTM-11")
async def test_records_of_the_applications_own_classes_are_made_and_found(tmp_path: Path) -> None:
    class Profile(BaseModel):
        pet: str

    setting = {"schema": "Profile", "n": None, "set": [{"field": "pet", "value": "Flopsy"}], "messages": [1]}
    model = ScriptedChatModel([json.dumps({"facts": [], "records": [setting]})])
    async with memory_of(tmp_path, llm=model, schemas=[Profile]) as reme:
        memory = ReMePersonalLongTermMemory(user_name="ann", reme=reme)
        await memory.record_to_memory("a pet", ["My rabbit is called Flopsy"])
        assert [record.value for record in await reme.records(Profile, user_id="ann")] == [Profile(pet="Flopsy")]
        assert "Profile: pet: Flopsy" in await memory.retrieve(said("Flopsy"))


@pytest.mark.requirement("AS1-LTM-11")
@pytest.mark.parametrize("kind", TALKING)
async def test_recorded_talk_is_found_by_another_object(kind: type, reme: ReMe) -> None:
    assert await kind(reme=reme).record([said("My rabbit is called Flopsy"), said("Nice.", "assistant")]) is None
    assert "Flopsy" in await kind(reme=reme).retrieve(said("What is my rabbit called?"))


@pytest.mark.requirement("AS1-LTM-11")
@pytest.mark.parametrize("kind", CLASSES)
async def test_lists_single_messages_and_none_are_taken(kind: type, reme: ReMe) -> None:
    memory = kind(reme=reme)
    for given in ([], [None], None, said("one"), [said("two"), None, said("three")]):
        assert await memory.record(given) is None
    if kind in TALKING:
        assert await texts_in(reme) == ["one", "two", "three"]


@pytest.mark.requirement("AS1-LTM-12")
@pytest.mark.parametrize("kind", CLASSES)
async def test_every_block_is_taken_and_the_text_beside_an_image_is_found(kind: type, reme: ReMe) -> None:
    talk = [
        Msg("ann", [{"type": "text", "text": "This is my rabbit Flopsy"}, IMAGE], "user"),
        Msg(
            "bot",
            [{"type": "thinking", "thinking": "zebra"}, use("c1", q="x"), use("c2", q={"n": [1, None]})],
            "assistant",
        ),
        Msg("system", [result("c1", "found it"), result("c2", [{"type": "text", "text": "two"}, IMAGE])], "system"),
        Msg("bot", [], "assistant"),
        Msg("bot", "", "assistant"),
        Msg("bot", [{"type": "audio", "source": {"type": "url", "url": "http://x/y.wav"}}], "assistant"),
        Msg("bot", [{"type": "strange", "of": 1}], "assistant"),
    ]
    memory = kind(reme=reme)
    await memory.record(talk)
    assert await memory.retrieve(said("zebra")) == ""
    if kind in TALKING:
        assert "Flopsy" in await memory.retrieve(said("my rabbit?"))
        assert "AAAA" not in await memory.retrieve(said("my rabbit?"))


@pytest.mark.requirement("AS1-LTM-13")
@pytest.mark.requirement("AS1-DROPIN-14")
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("embedder", [None, HashedEmbedder()])
async def test_nothing_asked_or_nothing_found_is_an_empty_text(kind: type, embedder: Any, tmp_path: Path) -> None:
    async with memory_of(tmp_path, embedding=embedder) as reme:
        memory = kind(reme=reme)
        await memory.record([said("My rabbit is called Flopsy"), said("What a nice name.", "assistant")])
        await memory.flush()
        for question in (None, [], said(""), said(" \n"), Msg("a", [], "user"), Msg("a", [IMAGE], "user")):
            assert await memory.retrieve(question) == ""
        assert await memory.retrieve(said("Tell me about quantum chromodynamics")) == ""
        assert await memory.retrieve(said("给我讲讲量子力学")) == ""


@pytest.mark.requirement("AS1-LTM-13")
async def test_with_an_embedding_model_what_fits_is_found(tmp_path: Path) -> None:
    async with memory_of(tmp_path, embedding=HashedEmbedder()) as reme:
        memory = ReMePersonalLongTermMemory(reme=reme)
        await memory.record([said("My rabbit is called Flopsy")])
        await memory.record([said("我家的兔子叫小白")])
        assert "Flopsy" in await memory.retrieve(said("Who are my rabbits?"))
        chinese = await memory.retrieve(said("兔子"))
        assert "小白" in chinese
        assert "Flopsy" not in chinese


@pytest.mark.requirement("AS1-LTM-13")
async def test_what_is_near_is_found_without_a_word_in_common(tmp_path: Path) -> None:
    class AllAlike(HashedEmbedder):
        async def embed(self, texts: Any) -> Any:
            return await super().embed(["the same"] * len(texts))

    async with memory_of(tmp_path, embedding=AllAlike()) as reme:
        memory = ReMePersonalLongTermMemory(reme=reme)
        await memory.record([said("Flopsy hops")])
        await memory.flush()  # vectors follow what is on disk
        assert "Flopsy" in await memory.retrieve(said("a leaping animal"))


@pytest.mark.requirement("AS1-LTM-14")
@pytest.mark.requirement("AS1-DROPIN-15")
@pytest.mark.parametrize("kind", CLASSES)
async def test_texts_in_place_of_messages_are_a_type_error(kind: type, reme: ReMe) -> None:
    memory = kind(reme=reme)
    for given in ("text", [said("one"), "text"]):
        with pytest.raises(TypeError, match=r"^The input message must be a Msg or a list of Msg objects\.$"):
            await memory.retrieve(given)
        with pytest.raises(TypeError, match=r"^The input messages must be a list of Msg objects\.$"):
            await memory.record(given)
    assert await texts_in(reme) == []


@pytest.mark.requirement("AS1-LTM-15")
async def test_the_question_is_the_text_of_all_messages_without_thinking(reme: ReMe) -> None:
    memory = ReMePersonalLongTermMemory(reme=reme)
    await memory.record([said("Flopsy is a rabbit")])
    await ReMePersonalLongTermMemory(reme=reme).record([said("Zebras have stripes")])
    thinking = Msg("a", [{"type": "thinking", "thinking": "zebras"}, {"type": "text", "text": "well"}], "assistant")
    found = await memory.retrieve([said("a rabbit?"), thinking])
    assert "Flopsy" in found
    assert "Zebras" not in found


@pytest.mark.requirement("AS1-LTM-16")
@pytest.mark.requirement("AS1-DROPIN-08")
@pytest.mark.requirement("AS1-DROPIN-09")
@pytest.mark.parametrize(
    ("kind", "recording", "retrieving"),
    [
        (ReMePersonalLongTermMemory, "Error recording messages to memory: ", "Error retrieving memory: "),
        (ReMeTaskLongTermMemory, "Error recording messages to task memory: ", "Error retrieving memory: "),
        (ReMeToolLongTermMemory, "Error recording tool messages to memory: ", "Error retrieving tool guidelines: "),
    ],
)
async def test_a_broken_store_is_logged_and_warned_of_and_raises_nothing(
    kind: type, recording: str, retrieving: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = kind(reme=broken(tmp_path))
    talk = [said("secret words"), Msg("b", [use("c1")], "assistant"), Msg("s", [result("c1", "ok")], "system")]
    with pytest.warns(UserWarning, match=f"^{recording}"):
        assert await memory.record(talk) is None
    with pytest.warns(UserWarning, match=f"^{retrieving}"):
        assert await memory.retrieve(said("secret words")) == ""
    assert [record.levelname for record in caplog.records].count("ERROR") >= 2
    assert "secret words" not in caplog.text


@pytest.mark.requirement("AS1-LTM-16")
async def test_a_search_ends_in_time(tmp_path: Path) -> None:
    class Hanging(HashedEmbedder):
        async def embed(self, texts: Any) -> Any:
            await asyncio.Event().wait()

    memory = ReMePersonalLongTermMemory(reme=memory_of(tmp_path, embedding=Hanging()), retrieve_timeout=0.05)
    with pytest.warns(UserWarning, match="Error retrieving memory: nothing was found within 0.05 seconds"):
        async with asyncio.timeout(5):
            assert await memory.retrieve(said("anything")) == ""


@pytest.mark.requirement("AS1-LTM-17")
@pytest.mark.parametrize("kind", TALKING)
async def test_users_are_apart_and_objects_of_one_user_are_not(kind: type, reme: ReMe) -> None:
    await kind(user_name="ann", reme=reme).record([said("My rabbit is called Flopsy")])
    await kind(user_name="ann", reme=reme).record_to_memory(thinking="", content=["The rabbit eats figs"])
    for other in ("bob", None, "Ann"):
        stranger = kind(user_name=other, reme=reme)
        assert await stranger.retrieve(said("my rabbit")) == ""
        assert "rabbit eats" not in str((await stranger.retrieve_from_memory(keywords=["rabbit"])).content)
    again = await kind(user_name="ann", reme=reme).retrieve(said("my rabbit"))
    assert "Flopsy" in again
    assert "figs" in again


@pytest.mark.requirement("AS1-LTM-17")
async def test_tools_of_users_are_apart(reme: ReMe) -> None:
    await ReMeToolLongTermMemory(user_name="ann", reme=reme).record(
        [Msg("b", [use("c1")], "assistant"), Msg("s", [result("c1", "ok")], "system")]
    )
    assert await ReMeToolLongTermMemory(user_name="bob", reme=reme).retrieve(said("use search")) == ""
    assert "search" in await ReMeToolLongTermMemory(user_name="ann", reme=reme).retrieve(said("use search"))


@pytest.mark.requirement("AS1-LTM-18")
async def test_record_asks_no_model_and_no_search_waits_for_one(tmp_path: Path) -> None:
    answered = asyncio.Event()

    async def slowly(_: Any) -> str:
        await answered.wait()
        return FACTS

    async with memory_of(tmp_path, llm=ScriptedChatModel([slowly])) as reme:
        memory = ReMePersonalLongTermMemory(reme=reme)
        await memory.record([said("My rabbit Flopsy bites")])  # returns, though the model doesn't answer
        assert await texts_in(reme) == ["My rabbit Flopsy bites"]
        assert "Flopsy bites" in await memory.retrieve(said("Ann's rabbit?"))
        assert "Flopsy bites" in str((await memory.retrieve_from_memory(["rabbit"])).content)
        assert "Flopsy bites" in (await reme.retrieve("rabbit", user_id="default")).text
        answered.set()
        await memory.flush()
        assert "Ann keeps a rabbit named Flopsy" in await memory.retrieve(said("Ann's rabbit?"))
        await memory.close()


@pytest.mark.requirement("AS1-LTM-18")
async def test_a_search_waits_a_moment_for_an_append_and_then_searches_what_is_there(
    reme: ReMe, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk, summary = asyncio.Event(), reme.summary

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        await on_disk.wait()
        return await summary(*args, **kwargs)

    memory = ReMePersonalLongTermMemory(reme=reme)
    await memory.record([said("My rabbit is old")])
    with monkeypatch.context() as patch:
        patch.setattr(adapting, "PATIENCE_S", 0.01)
        patch.setattr(reme, "summary", slowly)
        await memory.record([said("My rabbit Flopsy bites")])
        assert "bites" not in await memory.retrieve(said("rabbit"))
    asked = asyncio.create_task(memory.retrieve(said("rabbit")))
    await asyncio.sleep(0)
    on_disk.set()
    assert "Flopsy bites" in await asked


@pytest.mark.requirement("AS1-LTM-18")
async def test_flush_and_close_finish_and_await_write_waits(tmp_path: Path) -> None:
    model = ScriptedChatModel([FACTS, json.dumps({"facts": []}), json.dumps({"facts": []})])
    async with memory_of(tmp_path, llm=model) as reme:
        waiting = ReMePersonalLongTermMemory(reme=reme, await_write=True)
        await waiting.record([said("Flopsy is mine")])
        assert len((await reme.list_memories(user_id="default")).memories) == 1
        async with ReMePersonalLongTermMemory(user_name="b", reme=reme) as memory:
            await memory.record([said("something")])
        assert await reme.list_jobs(user_id="b") == []
        await memory.record([said("something else")])  # works after close
        await memory.flush()
        assert await reme.users_with_jobs() == []
        await memory.close()
        await waiting.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.requirement("AS1-LTM-18")
async def test_a_slow_disk_does_not_hold_the_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with memory_of(tmp_path) as reme:
        memory = ReMePersonalLongTermMemory(reme=reme)
        await memory.record([said("first")])
        lock = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(adapting, "PATIENCE_S", 0.01)
        await memory.record([said("second")])
        assert await texts_in(reme) == ["first"]
        lock.execute("ROLLBACK")
        lock.close()
        await memory.flush()
        assert await texts_in(reme) == ["first", "second"]


@pytest.mark.requirement("AS1-LTM-18")
async def test_a_model_is_told_how_many_memories_were_made(tmp_path: Path) -> None:
    async with memory_of(tmp_path, llm=ScriptedChatModel([FACTS, json.dumps({"facts": []})])) as reme:
        memory = ReMePersonalLongTermMemory(reme=reme)
        answer = await memory.record_to_memory(thinking="zebra", content=["Flopsy is Ann's rabbit"])
        assert answer.content[0]["text"] == "Successfully recorded 1 memory/memories to personal memory."
        assert len(answer.metadata["result"]["memory_ids"]) == 1
        answer = await memory.record_to_memory(thinking="zebra", content=["Hm"])
        assert answer.content[0]["text"] == "Memory recording completed."
        assert await memory.retrieve(said("zebra")) == ""


@pytest.mark.requirement("AS1-LTM-18")
@pytest.mark.requirement("AS1-DROPIN-15")
async def test_a_model_that_fails_in_the_background_is_warned_of_by_the_next_call(tmp_path: Path) -> None:
    down = ModelUnavailableError("no answer from the model")
    async with memory_of(tmp_path, llm=ScriptedChatModel([down, FACTS])) as reme:
        memory = ReMePersonalLongTermMemory(reme=reme)
        await memory.record([said("Flopsy the rabbit")])
        while not any(job.error for job in await reme.list_jobs(user_id="default")):  # noqa: ASYNC110  # another task does the job
            await asyncio.sleep(0)
        with pytest.warns(UserWarning, match="^Error recording messages to memory: .*no answer from the model"):
            assert "Flopsy" in await memory.retrieve(said("rabbit"))
        assert "Flopsy" in await memory.retrieve(said("rabbit"))  # without a warning: it was told
        await memory.flush()
        assert "Ann keeps" in await memory.retrieve(said("rabbit"))


@pytest.mark.requirement("AS1-LTM-16")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [*TALKING, ReMeToolLongTermMemory])
async def test_a_filter_that_makes_errors_of_warnings_ends_no_reply(
    kind: type, reme: ReMe, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise OSError

    memory = kind(reme=reme)
    await memory.retrieve(said("opens it"))
    for name in ("summary", "summary_task", "add_tool_call_results", "retrieve", "list_tools", "flush"):
        monkeypatch.setattr(reme, name, fails)
    await memory.record([Msg("b", [use("c1")], "assistant"), Msg("s", [result("c1", "ok")], "system")])
    assert await memory.retrieve(said("search")) == ""
    await memory.flush()
    with pytest.raises(StoreError, match="not on disk"):  # the program is told what it loses
        await memory.close()
    told = [record.getMessage() for record in caplog.records]
    for words in (memory.kind.words.record_failed, memory.kind.words.retrieve_failed):
        assert any(line.startswith(words) for line in told)


@pytest.mark.requirement("AS1-DROPIN-15")
@pytest.mark.parametrize("method", ["flush", "close"])
async def test_flush_and_close_warn_of_what_failed_and_raise_nothing(method: str, tmp_path: Path) -> None:
    down = ModelUnavailableError("no answer from the model")
    reme = memory_of(tmp_path, llm=ScriptedChatModel([down, down, down]))
    memory = ReMePersonalLongTermMemory(reme=reme)
    await memory.record([said("Flopsy the rabbit")])
    with pytest.warns(UserWarning, match="^Error recording messages to memory: .*no answer from the model"):
        await getattr(memory, method)()
    await reme.close()


@pytest.mark.requirement("AS1-LTM-19")
@pytest.mark.parametrize("kind", TALKING)
async def test_a_message_is_recorded_once_however_often_it_is_handed_over(kind: type, reme: ReMe) -> None:
    memory = kind(reme=reme)
    talk = [said(f"number {n}") for n in range(10)]
    for end in range(1, 11):
        await memory.record(talk[:end])
        await memory.record(talk[:end])
    await asyncio.gather(*(memory.record(talk) for _ in range(5)))
    assert await texts_in(reme) == [f"number {n}" for n in range(10)]


@pytest.mark.requirement("AS1-LTM-19")
@pytest.mark.parametrize("kind", TALKING)
async def test_a_resumed_chat_is_not_recorded_again_even_without_its_state(kind: type, reme: ReMe) -> None:
    talk = [said("one"), said("two")]
    memory = kind(reme=reme)
    await memory.record(talk)
    resumed, stranger = kind(reme=reme), kind(reme=reme)
    resumed.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    await resumed.record([*talk, said("three")])
    await stranger.record([*talk, said("four")])
    assert sorted(await texts_in(reme)) == sorted(["one", "two", "three", "four"])


@pytest.mark.requirement("AS1-LTM-19")
async def test_ids_are_released_when_their_write_fails(tmp_path: Path) -> None:
    reme = memory_of(tmp_path)
    memory = ReMePersonalLongTermMemory(reme=reme)
    first, second = said("one"), said("two")
    await memory.record([first])
    await reme.close()  # from now on each write fails
    with pytest.warns(UserWarning, match="Error recording"):
        await memory.record([first, second])
    assert memory.state_dict()["recorded"] == [first.id]
    async with memory_of(tmp_path) as again:
        resumed = ReMePersonalLongTermMemory(reme=again)
        resumed.load_state_dict(memory.state_dict())
        await resumed.record([first, second])
        assert await texts_in(again) == ["one", "two"]


@pytest.mark.requirement("AS1-LTM-20")
@pytest.mark.parametrize("kind", TALKING)
async def test_what_memory_and_agentscope_wrote_is_not_recorded(kind: type, reme: ReMe) -> None:
    tags = ["long_term_memory", "retrieved_knowledge", "system-hint", "system-info", "system-reminder"]
    own = [said(f"<{tag}>injected</{tag}>") for tag in tags]
    own += [
        Msg("long_term_memory", "injected", "user"),
        Msg("user", "injected", "user", metadata=dict(SUMMARY_METADATA)),
    ]
    own += [Msg("user", [{"type": "text", "text": "<retrieved_knowledge>injected"}, IMAGE], "user")]
    own += [
        Msg("b", [use("c1", "retrieve_from_memory", keywords=["injected"])], "assistant"),
        Msg("s", [result("c1", "injected", "retrieve_from_memory")], "system"),
    ]
    await kind(reme=reme).record([*own, said("what does <system-hint> mean?")])
    assert await texts_in(reme) == ["what does <system-hint> mean?"]


@pytest.mark.requirement("AS1-LTM-21")
@pytest.mark.requirement("AS1-DROPIN-13")
async def test_calls_are_paired_with_results_across_messages_and_hand_overs(reme: ReMe) -> None:
    memory = ReMeToolLongTermMemory(reme=reme)
    both = Msg("b", [use("c1", q="a"), use("c2", "fetch", q="b")], "assistant")
    first, second = Msg("s", [result("c1", "A")], "system"), Msg("s", [result("c2", "B", "fetch")], "system")
    await memory.record([both, first])
    assert (await reme.list_tool_calls(user_id="default")).calls == ()
    resumed = ReMeToolLongTermMemory(reme=reme)
    resumed.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    await resumed.record([second])
    await resumed.record([both, first, second])
    calls = (await reme.list_tool_calls(user_id="default")).calls
    assert {(call.tool_name, call.input["q"], call.output) for call in calls} == {
        ("search", "a", "A"),
        ("fetch", "b", "B"),
    }
    assert len(calls) == 2


@pytest.mark.requirement("AS1-LTM-03")
@pytest.mark.parametrize("kind", CLASSES)
async def test_the_state_is_json_and_loads_anywhere(kind: type, reme: ReMe) -> None:
    memory = kind(reme=reme)
    await memory.record([said("one"), Msg("b", [use("c1")], "assistant")])
    state = json.loads(json.dumps(memory.state_dict()))
    other = kind(reme=reme)
    other.load_state_dict(state)
    assert other.state_dict() == state
    other.load_state_dict({})
    other.load_state_dict({}, strict=True)
    assert other.state_dict() == state
    other.load_state_dict({"recorded": 5, "waiting": [{"odd": 1}], "session_id": None})
    await other.record([said("two")])


@pytest.mark.requirement("AS-PKG-06")
def test_it_works_again_under_a_second_event_loop(tmp_path: Path) -> None:
    memory = ReMePersonalLongTermMemory(reme=memory_of(tmp_path))
    for number in range(3):
        asyncio.run(memory.record([said(f"rabbit number {number}")]))
    assert "number 2" in asyncio.run(memory.retrieve(said("rabbit")))
    asyncio.run(memory.close())


@pytest.mark.requirement("AS-PKG-06")
def test_memories_are_made_under_a_second_event_loop(tmp_path: Path) -> None:
    memory = ReMePersonalLongTermMemory(reme=memory_of(tmp_path, llm=ScriptedChatModel([FACTS, FACTS])))
    asyncio.run(memory.record([said("Flopsy")]))  # the loop ends before the model was asked
    assert "Flopsy" in asyncio.run(memory.retrieve(said("Flopsy?")))
    asyncio.run(memory.flush())
    assert "Ann keeps" in asyncio.run(memory.retrieve(said("Ann's rabbit")))
    asyncio.run(memory.close())


RECORD_AND_DIE = """
import asyncio, os, sys
from agentscope.message import Msg
from pydantic import BaseModel
from reme_agentscope import ReMePersonalLongTermMemory
from reme_core import adapting

adapting.PATIENCE_S = 10

async def main():
    memory = ReMePersonalLongTermMemory()
    await memory.record([Msg("ann", "My rabbit is called Flopsy", "user")])
    os._exit(0)

asyncio.run(main())
"""


@pytest.mark.requirement("AS1-LTM-18")
async def test_a_process_that_is_killed_after_record_has_lost_nothing(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", RECORD_AND_DIE], cwd=tmp_path, env={"PYTHONPATH": str(root)}, check=True
    )
    async with ReMe("default", tmp_path / ".reme", llm=None, embedding=None) as reme:
        assert "Flopsy" in await ReMePersonalLongTermMemory(reme=reme).retrieve(said("my rabbit"))


async def test_task_memory_and_personal_memory_keep_the_same_talk_side_by_side(reme: ReMe) -> None:
    talk = [said("The rabbit hutch needs a new lock"), said("I fitted a brass lock.", "assistant")]
    task, personal = ReMeTaskLongTermMemory(reme=reme), ReMePersonalLongTermMemory(reme=reme)
    await task.record(talk)
    await personal.record(talk)
    assert "brass" in await task.retrieve(said("rabbit hutch"))
    assert "brass" in await personal.retrieve(said("rabbit hutch"))
    assert len(await texts_in(reme)) == 4


async def test_task_memory_does_not_show_talk_that_is_no_attempt(reme: ReMe) -> None:
    await ReMePersonalLongTermMemory(reme=reme).record([said("My rabbit is called Flopsy")])
    assert await ReMeTaskLongTermMemory(reme=reme).retrieve(said("my rabbit")) == ""


@pytest.mark.requirement("AS1-LTM-18")
async def test_a_message_that_cannot_be_kept_does_not_keep_the_others_from_it(reme: ReMe) -> None:
    memory = ReMePersonalLongTermMemory(reme=reme)
    bad = Msg("ann", "said in a far future", "user", timestamp="2999-01-01 00:00:00.000")
    talk = [said("one"), bad, said("two")]
    with pytest.warns(UserWarning, match="^Error recording messages to memory: "):
        await memory.record(talk)
    await memory.record([*talk, said("three")])  # without a warning: it was told
    assert await texts_in(reme) == ["one", "two", "three"]


@pytest.mark.requirement("AS-PKG-06")
async def test_closing_what_was_never_used_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with ReMePersonalLongTermMemory() as memory:
        await memory.flush()
    assert not (tmp_path / ".reme").exists()  # nothing else is running


@pytest.mark.requirement("AS1-LTM-19")
async def test_a_message_that_was_cut_since_is_not_kept_again(reme: ReMe, caplog: pytest.LogCaptureFixture) -> None:
    msg = said("a long result")
    await ReMePersonalLongTermMemory(reme=reme).record([msg])
    msg.content = "cut"
    await ReMePersonalLongTermMemory(reme=reme).record([msg, said("next")])
    assert await texts_in(reme) == ["a long result", "next"]
    assert "1 messages are kept already" in caplog.text


def changed(**fields: Any) -> Msg:
    """Return a message that a client has changed after it was made."""
    msg = said("odd")
    for name, value in fields.items():
        setattr(msg, name, value)
    return msg


@pytest.mark.requirement("AS1-LTM-12")
@pytest.mark.parametrize("kind", TALKING)
@pytest.mark.parametrize(
    "odd",
    [
        changed(content=["no block", None]),
        changed(content=[{"type": ["text"]}]),
        changed(content=None),
        changed(content=5),
        changed(id=["x"]),
        changed(id=7),
        changed(metadata="text"),
        changed(name=None, timestamp="some day"),
        changed(content=[{"type": "text", "text": 7}, {"type": "tool_use"}, {"type": "tool_result", "output": 5}]),
    ],
)
async def test_a_message_of_any_form_costs_no_other_one(kind: type, odd: Msg, reme: ReMe) -> None:
    memory = kind(reme=reme)
    await memory.record([odd, said("Flopsy is a rabbit")])
    await memory.record([odd, said("Flopsy is a rabbit")])
    assert "Flopsy" in await memory.retrieve([said("rabbit?"), odd])
    again = kind(reme=reme)
    again.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert "Flopsy is a rabbit" in await texts_in(reme)


@pytest.mark.requirement("AS1-LTM-19")
async def test_a_state_saved_in_the_midst_of_a_write_does_not_count_it(
    reme: ReMe, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk, summary = asyncio.Event(), reme.summary

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        await on_disk.wait()
        return await summary(*args, **kwargs)

    monkeypatch.setattr(reme, "summary", slowly)
    monkeypatch.setattr(adapting, "PATIENCE_S", 0.01)
    memory, talk = ReMePersonalLongTermMemory(reme=reme), [said("Flopsy is a rabbit")]
    await memory.record(talk)
    saved = memory.state_dict()  # and the process ends here: the resumed chat hands the message in again
    on_disk.set()
    await memory.flush()
    assert saved["recorded"] == []
    assert memory.state_dict()["recorded"] == [talk[0].id]
    assert await texts_in(reme) == ["Flopsy is a rabbit"]


@pytest.mark.requirement("AS1-LTM-18")
@pytest.mark.parametrize("method", ["flush", "close"])
async def test_a_store_that_takes_long_holds_no_reply_and_what_is_made_of_the_talk_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with memory_of(tmp_path, llm=ScriptedChatModel([FACTS])) as reme:
        opened, summary = asyncio.Event(), reme.summary

        async def slowly(*args: Any, **kwargs: Any) -> Any:
            await opened.wait()
            return await summary(*args, **kwargs)

        monkeypatch.setattr(reme, "summary", slowly)
        monkeypatch.setattr(adapting, "PATIENCE_S", 0.01)
        memory = ReMePersonalLongTermMemory(reme=reme)
        await memory.record([said("Flopsy is a rabbit")])
        assert await texts_in(reme) == []
        opened.set()
        await getattr(memory, method)()
        assert await texts_in(reme) == ["Flopsy is a rabbit"]
        assert [memory.content for memory in (await reme.list_memories(user_id="default")).memories] == [
            FACT["content"]
        ]


@pytest.mark.requirement("AS1-LTM-18")
async def test_an_embedding_model_that_fails_is_warned_of_once(tmp_path: Path) -> None:
    down = ModelUnavailableError("no vectors")
    async with memory_of(tmp_path, embedding=HashedEmbedder(failures=[down, down])) as reme:
        memory = ReMePersonalLongTermMemory(reme=reme)
        await memory.record([said("Flopsy is a rabbit")])
        assert "Flopsy" in await memory.retrieve(said("rabbit?"))
        with pytest.warns(UserWarning, match="^Error recording messages to memory: .*no vectors"):
            await memory.flush()
        assert "Flopsy" in await memory.retrieve(said("rabbit?"))


@pytest.mark.requirement("AS1-LTM-17")
@pytest.mark.parametrize("name", ["", " ", "../ann", "a\0b", "ann/agent:bot"])
@pytest.mark.parametrize("kind", CLASSES)
def test_a_blank_or_impossible_user_name_is_refused_at_construction(kind: type, name: str, reme: ReMe) -> None:
    with pytest.raises(InvalidInputError, match=r"user_id|user_name"):
        kind(user_name=name, reme=reme)


@pytest.mark.requirement("AS1-LTM-17")
async def test_no_user_name_is_the_user_default_and_the_log_says_so_once(
    reme: ReMe, caplog: pytest.LogCaptureFixture
) -> None:
    opening.say_default.cache_clear()
    for _ in range(3):
        await ReMePersonalLongTermMemory(reme=reme).record([said("Flopsy is a rabbit")])
    assert "Flopsy" in await ReMePersonalLongTermMemory(user_name="default", reme=reme).retrieve(said("rabbit"))
    assert [record.levelname for record in caplog.records if "user_name" in record.getMessage()] == ["WARNING"]


async def test_what_waits_stays_with_its_session_where_a_host_loads_another(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as reme:
        memory = ReMePersonalLongTermMemory(user_name="ann", reme=reme)
        memory.load_state_dict({"session_id": "first"})
        go = asyncio.Event()
        keep = reme.summary

        async def slow(*args: Any, **kwargs: Any) -> Any:
            await go.wait()
            return await keep(*args, **kwargs)

        reme.summary = slow  # type: ignore[method-assign]
        await memory.record([Msg("ann", "said in the first session", "user")])
        memory.load_state_dict({"session_id": "second"})
        go.set()
        await memory.flush()
        found = await reme.find_messages(user_id="ann", session_id="first")
        assert [item.message.text for item in found.messages] == ["said in the first session"]
        assert not (await reme.find_messages(user_id="ann", session_id="second")).messages
