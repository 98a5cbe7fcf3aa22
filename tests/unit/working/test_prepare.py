"""A context is brought below its limit again and again, by whatever way it comes: nothing drifts, nothing doubles."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from reme_core import ContextLimits, Message, PreparedContext, ReMe
from reme_core.errors import ContextTooLongError, OffloadNotFoundError
from reme_core.models import CharacterTokenCounter
from reme_core.ports import ChatRequest
from reme_core.schema import OffloadKind, make_scope
from reme_core.testing import ScriptedChatModel
from reme_core.working import Asides, ContextRequest, pre_reasoning_hook

USER, SESSION = "alice", "talk"
LOG = "".join(f"line {number} of the log\n" for number in range(6_000))


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        yield memory


def said(name: str, text: str = "", role: str = "user") -> Message:
    data = {"id": name, "role": role, "content": text or f"this is {name}", "created_at": "2024-05-01T10:00:00Z"}
    return Message.model_validate(data)


def talk(count: int, *, start: int = 0) -> list[Message]:
    return [said(f"m{number}", f"Word{number} was said here. " * 30) for number in range(start, start + count)]


def tool_talk(output: str = LOG, name: str = "") -> list[Message]:
    call = {"id": f"c{name}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    items: list[dict[str, Any]] = [
        {"id": f"q{name}", "role": "user", "content": "Read the log."},
        {"id": f"a{name}", "role": "assistant", "tool_calls": [call]},
        {"id": f"r{name}", "role": "tool", "tool_call_id": f"c{name}", "content": output},
    ]
    return [Message.model_validate({**item, "created_at": "2024-05-01T10:00:00Z"}) for item in items]


async def hook(memory: ReMe, messages: list[Message], **options: Any) -> PreparedContext:
    return await memory.pre_reasoning_hook(messages, user_id=USER, session_id=SESSION, **options)


async def texts_on_disk(memory: ReMe) -> list[str]:
    page = await memory.find_messages(user_id=USER, limit=10_000)
    return [stored.message.text for stored in page.messages]


async def loaded(memory: ReMe, reference: str) -> str:
    found = await memory.reload_context(user_id=USER, reference=reference, limit_chars=10_000_000)
    return found.results[0].memory


async def test_a_result_whose_row_is_there_already_is_cut_all_the_same(memory: ReMe) -> None:
    first = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=16_000)
    first.add(tool_talk())
    state = first.state_dict()
    await first.prepare()
    again = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=16_000)
    again.load_state_dict(state)
    prepared = await again.prepare()
    assert prepared.has_changed
    assert again.estimate_tokens().tokens == prepared.tokens <= prepared.threshold
    assert again.messages() == first.messages()
    assert (await memory.stats(user_id=USER)).offloads == 1


async def test_a_message_that_is_cut_again_is_cut_from_the_whole(memory: ReMe) -> None:
    whole = "".join(f"item {number}\n" for number in range(4_000))
    messages = [said("u", whole)]
    for overhead in (0, 200, 400, 600, 700):
        prepared = await hook(memory, messages, max_input_length=2_000, overhead_tokens=overhead)
        assert prepared.tokens <= prepared.threshold
        messages = list(prepared.messages)
    assert await texts_on_disk(memory) == [whole]
    [info], _ = await memory.list_offloads(user_id=USER)
    assert f"reload {info.reference}" in messages[0].text
    assert await loaded(memory, info.reference) == whole


async def test_a_result_behind_a_dropped_thought_keeps_its_reference(memory: ReMe) -> None:
    call, waiting = ({"type": "tool_call", "call_id": name, "name": "read"} for name in "cw")
    content = [
        {"type": "thinking", "thinking": "hm " * 5_000},
        call,
        {"type": "tool_result", "call_id": "c", "output": LOG},
        waiting,
    ]
    message = {"id": "x", "role": "assistant", "content": content, "created_at": "2024-05-01T10:00:00Z"}
    messages = [said("u", "hi"), Message.model_validate(message)]
    for window in (6_000, 3_000, 2_000, 1_000):
        messages = list((await hook(memory, messages, max_input_length=window)).messages)
    infos, _ = await memory.list_offloads(user_id=USER)
    [row] = [info for info in infos if info.kind is OffloadKind.TOOL_RESULT]
    assert await loaded(memory, row.reference) == LOG
    assert f"reload {row.reference}" in messages[1].full_text


@pytest.mark.parametrize("overhead", [7_000, 8_600, 9_500])
async def test_a_session_goes_on_where_the_tools_take_most_of_the_window(memory: ReMe, overhead: int) -> None:
    context = memory.in_context_memory(
        user_id=USER, session_id=SESSION, max_input_length=16_000, overhead_tokens=overhead
    )
    for number in range(0, 120, 2):
        context.add(talk(2, start=number))
        prepared = await context.prepare()
        assert prepared.tokens <= prepared.threshold
    assert context.compressed_summary


async def test_a_long_request_does_not_make_every_turn_a_compaction(memory: ReMe) -> None:
    context = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=8_000)
    context.add(said("u", "Please look at this.\n" + "row of numbers 1 2 3\n" * 800))
    compactions = 0
    for number in range(60):
        context.add(said(f"a{number}", f"Step {number} is done now. " * 5, "assistant"))
        compactions += (await context.prepare()).compacted
    assert 0 < compactions <= 20


async def test_no_model_is_asked_and_nothing_written_where_there_is_no_room(tmp_path: Path) -> None:
    model = ScriptedChatModel()
    async with ReMe("space", tmp_path, llm=model, embedding=None) as memory:
        with pytest.raises(ContextTooLongError):
            await hook(memory, talk(20), max_input_length=2_000, overhead_tokens=1_400)
        assert model.requests == []
        assert (await memory.stats(user_id=USER)).messages == 0


async def test_the_same_messages_in_two_sessions_are_kept_once_in_each(memory: ReMe) -> None:
    contexts = [memory.in_context_memory(user_id=USER, session_id=name) for name in "st"]
    for context in contexts:
        context.add(talk(3))
    for context in (*contexts, *contexts, *contexts):
        await context.save()
    for name in "st":
        page = await memory.find_messages(user_id=USER, session_id=name)
        assert [stored.message.text for stored in page.messages] == [message.text for message in talk(3)]


async def test_a_message_that_has_grown_is_kept_besides_what_it_was(memory: ReMe) -> None:
    thought = {"type": "thinking", "thinking": "hm"}
    grown = [
        [thought],
        [thought, {"type": "text", "text": "THE REAL ANSWER"}],
        [{"type": "text", "text": "look: reload 0123456789abcdef"}],
    ]
    context = memory.in_context_memory(user_id=USER, session_id=SESSION)
    for content in grown:
        data = {"id": "x", "role": "assistant", "content": content, "created_at": "2024-05-01T10:00:00Z"}
        context.add(data)
        await context.save()
        await context.delete(["x"])
    assert await texts_on_disk(memory) == ["", "THE REAL ANSWER", "look: reload 0123456789abcdef"]


@pytest.mark.parametrize("way", ["closed", "another session"])
async def test_what_a_loaded_context_refers_to_is_not_cleaned_up(memory: ReMe, way: str) -> None:
    first = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=16_000)
    first.add(tool_talk())
    await first.prepare()
    state = first.state_dict()
    await first.close()
    session = SESSION if way == "closed" else "fork"
    again = memory.in_context_memory(user_id=USER, session_id=session, max_input_length=16_000)
    again.load_state_dict(state)
    await again.prepare()
    cleaned = await memory.clean_offloads(user_id=USER, older_than_days=0)
    assert (len(cleaned.removed), len(cleaned.held)) == (0, 1)


async def test_what_the_summary_leads_to_is_not_cleaned_up(memory: ReMe) -> None:
    context = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=16_000)
    context.add([*tool_talk(), *talk(60)])
    prepared = await context.prepare()
    assert "r" in prepared.removed_message_ids
    cleaned = await memory.clean_offloads(user_id=USER, older_than_days=0)
    assert [info.message_id for info in cleaned.held] == ["r"]


async def test_what_is_no_longer_referred_to_is_let_go(memory: ReMe) -> None:
    context = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=4_000)
    context.add(tool_talk())
    for number in range(0, 200, 10):
        context.add(talk(10, start=number))
        await context.prepare()
    cleaned = await memory.clean_offloads(user_id=USER, older_than_days=0)
    assert "r" in [info.message_id for info in cleaned.removed]


def waiting_model(reached: asyncio.Event, go_on: asyncio.Event) -> ScriptedChatModel:
    """Return a model that waits before it says something that is no summary."""

    async def answer(request: ChatRequest) -> str:
        reached.set()
        await go_on.wait()
        return "nothing of use"

    return ScriptedChatModel([answer] * 20)


async def compacting(tmp_path: Path, meanwhile: Callable[[ReMe, Any], Any]) -> tuple[ReMe, Any, PreparedContext]:
    """Prepare a context that is full, and do something while the model is asked."""
    reached, go_on = asyncio.Event(), asyncio.Event()
    memory = ReMe("space", tmp_path, llm=waiting_model(reached, go_on), embedding=None)
    context = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=2_000)
    context.add(talk(12))
    preparing = asyncio.create_task(context.prepare())
    await reached.wait()
    done = meanwhile(memory, context)
    if asyncio.iscoroutine(done):
        await done
    go_on.set()
    return memory, context, await preparing


async def test_what_is_offloaded_while_a_context_is_prepared_stays_held(tmp_path: Path) -> None:
    memory, _, _ = await compacting(
        tmp_path, lambda memory, _: memory.offload_text("a result", user_id=USER, session_id=SESSION)
    )
    cleaned = await memory.clean_offloads(user_id=USER, older_than_days=0)
    assert [info.chars for info in cleaned.held] == [len("a result")]
    await memory.close(finish_jobs=False)


async def test_a_summary_set_while_a_context_is_prepared_loses_nothing(tmp_path: Path) -> None:
    memory, context, prepared = await compacting(tmp_path, lambda _, context: context.set_summary("FROM THE USER"))
    infos, _ = await memory.list_offloads(user_id=USER)
    kept = [context.compressed_summary]
    kept += [await loaded(memory, info.reference) for info in infos if info.kind is OffloadKind.TEXT]
    assert any("FROM THE USER" in text for text in kept)
    pointed = {name for info in infos for name in info.message_ids}
    left = {message.message_id for message in context.messages(include_summary=False)}
    assert pointed | left == {f"m{number}" for number in range(12)}
    assert prepared.tokens <= prepared.threshold
    await memory.close(finish_jobs=False)


async def test_a_message_deleted_while_a_context_is_prepared_stays_deleted_at_no_further_cost(tmp_path: Path) -> None:
    memory, context, _ = await compacting(tmp_path, lambda _, context: context.delete(["m11"]))
    assert "m11" not in [message.message_id for message in context.messages()]
    infos, _ = await memory.list_offloads(user_id=USER)
    assert len([info for info in infos if info.kind is OffloadKind.MESSAGES]) == 1
    assert sorted(await texts_on_disk(memory)) == sorted(
        [*(message.text for message in talk(12) if message not in context.messages())]
    )
    await memory.close(finish_jobs=False)


async def test_a_context_prepared_unchanged_shows_what_is_not_recorded_as_well(memory: ReMe) -> None:
    context = memory.in_context_memory(user_id=USER, session_id=SESSION, unrecorded_marks=["hint"])
    context.add(said("a"))
    context.add(said("h"), marks="hint")
    assert [message.message_id for message in (await context.prepare()).messages] == ["a", "h"]


async def test_an_earlier_summary_handed_back_is_nobodys_words(memory: ReMe) -> None:
    context = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=2_000)
    await context.set_summary("one")
    earlier = context.messages()[0]
    await context.set_summary("two")
    assert context.add([earlier, said("a")]) == 1
    await context.save()
    assert await texts_on_disk(memory) == ["this is a"]


async def test_an_exported_context_loads_again_elsewhere(memory: ReMe, tmp_path: Path) -> None:
    context = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=16_000)
    context.add(tool_talk())
    await context.prepare()
    await context.save()
    [info], _ = await memory.list_offloads(user_id=USER)
    await memory.export(tmp_path / "alice.jsonl", user_id=USER)
    async with ReMe("other", tmp_path / "other", llm=None, embedding=None) as other:
        elsewhere = other.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=16_000)
        elsewhere.add(tool_talk())
        await elsewhere.prepare()  # the same text, under another reference
        await other.import_(tmp_path / "alice.jsonl", user_id=USER)
        assert await loaded(other, info.reference) == LOG
        with pytest.raises(OffloadNotFoundError):
            await loaded(other, "0" * 16)


async def test_preparing_at_once_never_leaves_a_result_without_its_call(memory: ReMe) -> None:
    for turn in range(10):
        context = memory.in_context_memory(user_id=USER, session_id=f"{SESSION}-{turn}", max_input_length=4_000)
        context.add([*tool_talk(name=f"-{turn}"), *tool_talk("short", name=f"-{turn}-s")])
        first = asyncio.create_task(context.prepare())
        for _ in range(turn):
            await asyncio.sleep(0)
        context.add([message.model_copy(update={"message_id": f"{turn}-{message.message_id}"}) for message in talk(12)])
        await asyncio.gather(first, context.prepare())
        shown = context.messages()
        called = {name for message in shown for name in message.call_ids}
        assert called == {name for message in shown for name in message.result_ids}
        assert context.estimate_tokens().tokens <= context.estimate_tokens().threshold


async def test_a_context_loaded_while_another_is_prepared_is_not_given_its_summary(tmp_path: Path) -> None:
    state: dict[str, Any] = {"version": 1, "compressed_summary": "", "messages": []}
    memory, context, _ = await compacting(tmp_path, lambda _, context: context.load_state_dict(state))
    assert (context.size(), context.compressed_summary) == (0, "")
    await memory.close(finish_jobs=False)


async def test_clearing_takes_what_was_there_and_leaves_what_comes(memory: ReMe) -> None:
    context = memory.in_context_memory(user_id=USER, session_id=SESSION)
    context.add([said("a"), said("b")])
    clearing = asyncio.create_task(context.clear())
    await asyncio.sleep(0)
    context.add(said("c"))
    assert await clearing == 2
    assert [message.message_id for message in context.messages()] == ["c"]


@pytest.mark.parametrize("way", ["hook", "another session", "add"])
async def test_views_handed_in_again_are_held_though_nothing_changes(memory: ReMe, way: str) -> None:
    prepared = await hook(memory, tool_talk(), max_input_length=16_000)
    await memory.close_context(SESSION, user_id=USER)
    session = SESSION if way == "hook" else "another"
    if way == "add":
        context = memory.in_context_memory(user_id=USER, session_id=session, max_input_length=16_000)
        context.add(prepared.messages)
        again = await context.prepare()
    else:
        again = await memory.pre_reasoning_hook(
            prepared.messages, user_id=USER, session_id=session, max_input_length=16_000
        )
    assert not again.has_changed
    cleaned = await memory.clean_offloads(user_id=USER, older_than_days=0)
    assert (len(cleaned.removed), len(cleaned.held)) == (0, 1)


async def test_a_view_whose_whole_was_cleaned_up_is_no_new_message(memory: ReMe) -> None:
    context = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=16_000)
    context.add(tool_talk())
    await context.save()
    await context.prepare()
    await memory.close_context(SESSION, user_id=USER)
    assert len((await memory.clean_offloads(user_id=USER, older_than_days=0)).removed) == 1
    await context.save()
    assert len(await texts_on_disk(memory)) == 3


async def test_a_summary_shown_as_a_message_is_taken_for_the_summary(memory: ReMe) -> None:
    context = memory.in_context_memory(user_id=USER, session_id=SESSION)
    context.add(said("a"))
    await context.set_summary("We set out on Monday.")
    prepared = await hook(memory, context.messages())
    assert (prepared.compressed_summary, [item.message_id for item in prepared.messages]) == (
        "We set out on Monday.", ["a"],
    )  # fmt: skip
    other = memory.in_context_memory(user_id=USER, session_id="other")
    other.add(context.messages())
    assert other.compressed_summary == "We set out on Monday."
    left = await memory.offload_context(context.messages(), user_id=USER, session_id="left")
    assert left.message_ids[0] != context.messages()[0].message_id
    infos, _ = await memory.list_offloads(user_id=USER, session_id="left")
    assert "We set out on Monday." in [await loaded(memory, info.reference) for info in infos]


class Watched(dict[str, Any]):
    """A message that tells in which thread it is read."""

    read_in: ClassVar[set[int]] = set()

    def __getitem__(self, key: str) -> Any:
        self.read_in.add(threading.get_ident())
        return super().__getitem__(key)

    def items(self) -> Any:
        self.read_in.add(threading.get_ident())
        return super().items()


class WatchedCounter(CharacterTokenCounter):
    """Tells in which threads messages are counted."""

    def __init__(self) -> None:
        self.counted_in: set[int] = set()

    def count(self, text: str) -> int:
        if text.startswith("Word") and len(text) < 40:  # one message
            self.counted_in.add(threading.get_ident())
        return super().count(text)


@pytest.mark.parametrize("window", [2_000, 10_000_000])
async def test_many_messages_are_read_and_counted_away_from_the_event_loop(tmp_path: Path, window: int) -> None:
    counter = WatchedCounter()
    async with ReMe("space", tmp_path, llm=None, embedding=None, token_counter=counter) as memory:
        context = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=window)
        items = [Watched(id=f"m{n}", role="user", content=f"Word{n} was said here.") for n in range(2_000)]
        assert await context.extend(items) == 2_000
        assert await context.extend(items) == 0
        prepared = await context.prepare()
        assert prepared.has_changed is (window == 2_000)
    assert threading.get_ident() not in Watched.read_in | counter.counted_in
    assert counter.counted_in


async def test_a_message_that_is_added_alone_is_not_counted_with_all_others(memory: ReMe) -> None:
    context = memory.in_context_memory(user_id=USER, session_id=SESSION)
    held = context._entries
    for message in talk(50):
        context.add(message)
    assert context._entries is held  # nothing is copied: fifty thousand messages take a thousand times as long as fifty
    assert context.size() == 50


def request_of(messages: list[Message], **options: Any) -> ContextRequest:
    return ContextRequest(
        session_id=SESSION, messages=messages, limits=ContextLimits(max_tokens=1_000, keep_messages=3), **options
    )


async def test_so_many_of_the_newest_messages_stay_as_are_asked_for(memory: ReMe) -> None:
    prepared = await pre_reasoning_hook(memory.working, make_scope("space", USER), request_of(talk(20)))
    assert [message.message_id for message in prepared.messages] == ["m17", "m18", "m19"]
    assert prepared.threshold == 1_000 >= prepared.tokens


async def test_what_nobody_has_said_is_neither_summarised_nor_kept_nor_cut(memory: ReMe) -> None:
    hint = said("hint", "Pinned words, go on. " * 8)
    notes = [said(f"note{number}", "Unsaid words of a note. " * 8) for number in range(6)]
    messages = [hint, *notes, *talk(20), said("shown", "Unsaid words behind. " * 8)]
    asides = Asides(pinned=frozenset({"hint"}), unsaid=frozenset({"shown", *(note.message_id for note in notes)}))
    prepared = await pre_reasoning_hook(memory.working, make_scope("space", USER), request_of(messages, asides=asides))
    stays = {message.message_id: message for message in prepared.messages}
    assert stays["hint"] is hint
    assert {"m19", "shown"} <= stays.keys()  # the user's last words, and what stands behind them
    assert not any(note.message_id in stays for note in notes)
    assert "Pinned" not in prepared.compressed_summary
    assert "Unsaid" not in prepared.compressed_summary
    assert not any(text.startswith(("Pinned", "Unsaid")) for text in await texts_on_disk(memory))


async def test_the_caller_is_asked_before_anything_is_written(memory: ReMe) -> None:
    told: list[tuple[int, int]] = []

    async def before(leaving: Sequence[Message]) -> None:
        told.append((len(leaving), len(await texts_on_disk(memory))))

    scope = make_scope("space", USER)
    fits = await pre_reasoning_hook(memory.working, scope, request_of(talk(2)), before=before)
    assert (told, fits.has_changed) == ([], False)
    prepared = await pre_reasoning_hook(memory.working, scope, request_of(talk(20)), before=before)
    assert told == [(0, 0), (len(prepared.removed_message_ids), 0)]


async def test_messages_stay_where_a_model_is_wanted_and_fails(memory: ReMe) -> None:
    ports, given = replace(memory.working, model=ScriptedChatModel(["no summary"] * 9)), talk(20)
    request = request_of(given, summary="so far", extracts=False)
    prepared = await pre_reasoning_hook(ports, make_scope("space", USER), request)
    assert list(prepared.messages) == given
    assert (prepared.compressed_summary, prepared.has_changed) == ("so far", False)
    assert prepared.problems
