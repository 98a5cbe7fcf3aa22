"""The context of one session: what stays, what leaves, and that nothing leaves before it is on disk."""

from __future__ import annotations

import asyncio
import enum
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reme_core import ContextLimits, InContextMemory, Message, ReMe
from reme_core.errors import ConflictError, InvalidInputError, StorageFullError
from reme_core.ports import Appended, AppendMessages
from reme_core.schema import Scope
from reme_core.stores import LocalStore

USER, SESSION = "alice", "talk"


class Mark(str, enum.Enum):  # noqa: UP042  # as frameworks have them
    HINT = "hint"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        yield memory


@pytest.fixture
def context(memory: ReMe) -> InContextMemory:
    return memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=2_000)


def said(name: str, text: str = "", role: str = "user") -> dict[str, Any]:
    return {"id": name, "role": role, "content": text or f"this is {name}", "created_at": "2024-05-01T10:00:00Z"}


def names(messages: list[Message]) -> list[str]:
    return [message.message_id for message in messages]


async def on_disk(memory: ReMe, user: str = USER) -> list[str]:
    page = await memory.find_messages(user_id=user, session_id=SESSION, limit=10_000)
    return [stored.message.message_id for stored in page.messages]


def test_messages_stay_in_the_order_of_adding_and_known_ids_are_left_alone(context: InContextMemory) -> None:
    assert context.add([said("b"), said("a")], marks="first") == 2
    assert context.add([said("a", "other words"), said("c")], marks=["second"]) == 1
    assert names(context.messages()) == ["b", "a", "c"]
    assert context.messages()[1].text == "this is a"
    assert [context.marks(name) for name in "bac"] == [("first",), ("first",), ("second",)]
    assert context.size() == 3
    assert bool(context)


def test_one_message_or_a_pair_may_be_added_by_itself(context: InContextMemory) -> None:
    context.add(Message.model_validate(said("a")))
    context.add(said("b"))
    context.add([("user", "hello")])
    context.add([])
    assert context.size() == 3


@pytest.mark.parametrize("wrong", ["text", 1, None, [{"role": "user"}], b"x"])
def test_what_is_no_message_is_refused_and_nothing_is_added(context: InContextMemory, wrong: object) -> None:
    with pytest.raises(InvalidInputError):
        context.add(wrong)
    assert context.size() == 0


@pytest.mark.parametrize("wrong", [1, [1], b"x", "", [" a"], {"a": 1}])
def test_what_is_no_mark_is_refused(context: InContextMemory, wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="marks"):
        context.add(said("a"), marks=wrong)
    assert context.size() == 0


def test_marks_choose_messages_and_members_of_an_enum_are_their_strings(context: InContextMemory) -> None:
    context.add([said("a"), said("b")], marks=Mark.HINT)
    context.add(said("c"), marks=["hint", "other"])
    context.add(said("d"))
    assert names(context.messages(mark="hint")) == ["a", "b", "c"]
    assert names(context.messages(mark=Mark.HINT, exclude_mark="other")) == ["a", "b"]
    assert names(context.messages(exclude_mark="hint")) == ["d"]
    assert context.messages(mark="unknown") == []


def test_marks_are_set_replaced_and_removed(context: InContextMemory) -> None:
    context.add([said("a"), said("b"), said("c")], marks="old")
    assert context.update_marks("new", message_ids=["c", "a", "unknown"]) == 2
    assert context.update_marks("new", old_mark="old", message_ids=["a"]) == 1
    assert context.marks("a") == ("new",)
    assert context.update_marks(None, old_mark="old") == 2
    assert context.update_marks(None) == 0
    assert [context.marks(name) for name in "abc"] == [("new",), (), ("new",)]


async def test_what_is_deleted_is_on_disk_first(memory: ReMe, context: InContextMemory) -> None:
    context.add([said("a"), said("b"), said("c")], marks="m")
    context.add([said("d")])
    assert await context.delete(["b", "unknown"]) == 1
    assert await on_disk(memory) == ["b"]
    assert await context.delete_by_mark(["m", "n"]) == 2
    assert names(context.messages()) == ["d"]
    assert await context.clear() == 1
    assert await context.clear() == 0
    assert await on_disk(memory) == ["b", "a", "c", "d"]
    context.add(said("a"))
    assert context.marks("a") == ()


class FullStore(LocalStore):
    """A store that has no room for messages."""

    async def append(self, scope: Scope, request: AppendMessages) -> Appended:
        msg = "no space left"
        raise StorageFullError(msg)


async def test_what_cant_be_written_stays_in_the_context(tmp_path: Path) -> None:
    store = FullStore(tmp_path / "memory.db")
    async with ReMe("space", tmp_path, llm=None, embedding=None, vector_store=store) as memory:
        context = memory.in_context_memory(user_id=USER, session_id=SESSION, max_input_length=2_000)
        context.add([said(f"m{number}", f"word{number} " * 200) for number in range(10)])
        before = context.state_dict()
        for call in (context.prepare(), context.clear(), context.delete(["m1"]), context.save()):
            with pytest.raises(StorageFullError):
                await call
        assert context.state_dict() == before
    await store.close()


async def test_a_context_that_fits_is_returned_as_it_is(memory: ReMe, context: InContextMemory) -> None:
    context.add([said("a"), said("b")])
    before = context.messages()
    prepared = await context.prepare()
    assert all(new is old for new, old in zip(prepared.messages, before, strict=True))
    assert not prepared.has_changed
    assert await on_disk(memory) == []


async def test_what_leaves_is_summarised_and_the_summary_stands_behind_the_system_message(
    memory: ReMe, context: InContextMemory
) -> None:
    context.add(said("s", "You are kind.", role="system"))
    context.add([said(f"m{number}", f"word{number} was said here. " * 30) for number in range(10)])
    prepared = await context.prepare()
    assert prepared.has_changed
    assert prepared.tokens <= prepared.threshold
    assert prepared.method == "extract"
    assert await on_disk(memory) == list(prepared.removed_message_ids)
    shown = context.messages()
    assert [message.role for message in shown[:2]] == ["system", "user"]
    assert shown[1].metadata == {"reme": "summary"}
    assert context.compressed_summary in shown[1].text
    assert names(shown)[2:] == [name for name in (f"m{n}" for n in range(10)) if name not in await on_disk(memory)]
    assert names(context.messages(include_summary=False)) == names(list(prepared.messages))
    assert context.estimate_tokens().tokens == prepared.tokens


async def test_a_summary_handed_back_is_not_added_and_a_forged_one_is_refused(context: InContextMemory) -> None:
    context.add([said(f"m{number}", f"word{number} was said here. " * 30) for number in range(10)])
    await context.prepare()
    size = context.size()
    own = context.messages()[0]
    assert context.add(own) == 0
    forged = own.model_copy(update={"content": Message.model_validate(said("x", "I rule")).content})
    with pytest.raises(InvalidInputError, match="message_id"):
        context.add(forged)
    assert context.size() == size


async def test_messages_with_an_unrecorded_mark_stay_in_a_compaction_and_are_never_written(memory: ReMe) -> None:
    context = memory.in_context_memory(
        user_id=USER, session_id=SESSION, max_input_length=2_000, unrecorded_marks=["hint"]
    )
    context.add(said("hint"), marks="hint")
    context.add([said(f"m{number}", f"word{number} was said here. " * 30) for number in range(10)])
    prepared = await context.prepare()
    assert prepared.removed_message_ids
    assert names(context.messages(include_summary=False))[0] == "hint"
    assert prepared.messages[0].message_id == "hint"
    await context.clear()
    assert "hint" not in await on_disk(memory)
    assert context.size() == 0


async def test_the_state_is_json_a_copy_and_replaces_everything(memory: ReMe, context: InContextMemory) -> None:
    context.add([said(f"m{number}", f"word{number} was said here. " * 30) for number in range(10)], marks="m")
    await context.prepare()
    state = json.loads(json.dumps(context.state_dict()))
    other = memory.in_context_memory(user_id=USER, session_id=SESSION)
    other.add(said("gone"))
    other.load_state_dict(state)
    assert other.messages() == context.messages()
    assert other.state_dict() == context.state_dict()
    before = json.dumps(state)
    context.add(said("later"))
    assert json.dumps(state) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [],
        None,
        {"version": 2},
        {"version": 1, "compressed_summary": 1, "messages": []},
        {"version": 1, "compressed_summary": "", "messages": [1]},
        {"version": 1, "compressed_summary": "", "messages": [[{"role": "nobody"}, []]]},
        {"version": 1, "compressed_summary": "", "messages": [[said("a"), []], [said("a"), []]]},
        {"version": 1, "compressed_summary": "", "messages": [[said("a"), [1]]]},
    ],
)
def test_what_is_no_state_is_refused_and_nothing_changes(context: InContextMemory, wrong: Any) -> None:
    context.add(said("a"))
    with pytest.raises(InvalidInputError, match=r"state|marks"):
        context.load_state_dict(wrong)
    assert names(context.messages()) == ["a"]


async def test_a_summary_that_is_replaced_can_be_loaded_again(memory: ReMe, context: InContextMemory) -> None:
    await context.set_summary("Alice wants to go to Lisbon.")
    await context.set_summary("Alice wants to go to Porto.")
    assert context.compressed_summary == "Alice wants to go to Porto."
    infos, _ = await memory.list_offloads(user_id=USER, session_id=SESSION)
    assert [info.name for info in infos] == ["summary"]
    found = await memory.reload_context(user_id=USER, reference=infos[0].reference)
    assert found.results[0].memory == "Alice wants to go to Lisbon."
    with pytest.raises(InvalidInputError, match="summary"):
        await context.set_summary("\0")


async def test_two_users_with_one_session_id_never_meet(memory: ReMe) -> None:
    first, second = (memory.in_context_memory(user_id=user, session_id=SESSION) for user in ("alice", "bob"))
    first.add(said("a"))
    second.add(said("a", "Bob's words"))
    await first.clear()
    await second.clear()
    assert await on_disk(memory, "alice") == await on_disk(memory, "bob") == ["a"]
    [stored] = await memory.get_messages(["a"], user_id="bob")
    assert stored.message.text == "Bob's words"


async def test_a_message_whose_id_is_taken_by_another_is_kept_under_an_id_of_its_own(
    memory: ReMe, context: InContextMemory
) -> None:
    await memory.summary([said("a", "these words were first")], user_id=USER, session_id=SESSION)
    context.add(said("a", "and these came later"))
    with pytest.raises(ConflictError):
        await memory.summary([said("a", "and these came later")], user_id=USER, session_id=SESSION)
    assert await context.clear() == 1
    page = await memory.find_messages(user_id=USER, session_id=SESSION)
    assert [stored.message.text for stored in page.messages] == ["these words were first", "and these came later"]
    assert page.messages[1].message.metadata == {"reme_original_id": "a"}


async def test_what_was_kept_before_is_not_kept_twice(memory: ReMe, context: InContextMemory) -> None:
    await memory.summary([said("a")], user_id=USER, session_id=SESSION)
    context.add([said("a"), said("b")])
    await context.save()
    await context.save()
    assert await context.clear() == 2
    assert await on_disk(memory) == ["a", "b"]


async def test_what_is_added_while_the_context_is_prepared_stays(context: InContextMemory) -> None:
    context.add([said(f"m{number}", f"word{number} was said here. " * 30) for number in range(10)])
    preparing = asyncio.create_task(context.prepare())
    await asyncio.sleep(0)
    context.add(said("meanwhile"))
    prepared = await preparing
    assert names(list(prepared.messages))[-1] == "meanwhile"
    assert names(context.messages())[-1] == "meanwhile"


async def test_preparing_several_times_at_once_compacts_once(memory: ReMe, context: InContextMemory) -> None:
    context.add([said(f"m{number}", f"word{number} was said here. " * 30) for number in range(10)])
    answers = await asyncio.gather(*(context.prepare() for _ in range(5)))
    left = [answer.removed_message_ids for answer in answers if answer.removed_message_ids]
    assert len(left) == 1
    assert await on_disk(memory) == list(left[0])
    assert context.estimate_tokens().tokens <= context.estimate_tokens().threshold


async def test_a_closed_context_lets_go_of_what_it_referred_to(memory: ReMe, context: InContextMemory) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    context.add([said("q"), {"role": "assistant", "tool_calls": [call], "id": "a"}])
    context.add({"role": "tool", "tool_call_id": "c", "content": "line of a log\n" * 2_000, "id": "r"})
    await context.prepare()
    held = await memory.clean_offloads(user_id=USER, older_than_days=0)
    assert [len(held.removed), len(held.held)] == [0, 1]
    await context.close()
    gone = await memory.clean_offloads(user_id=USER, older_than_days=0, dry_run=True)
    assert [len(gone.removed), len(gone.held)] == [1, 0]
    assert await on_disk(memory) == ["q", "a", "r"]


async def test_limits_can_be_given_whole(memory: ReMe) -> None:
    limits = ContextLimits(max_input_length=5_000, reserve_tokens=100)
    context = memory.in_context_memory(user_id=USER, limits=limits)
    assert context.limits == limits
    with pytest.raises(InvalidInputError, match="max_input_length"):
        memory.in_context_memory(user_id=USER, max_input_length=5)


def test_messages_as_dictionaries_are_what_openai_takes_and_come_back_as_they_were(context: InContextMemory) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lisbon"}'}}
    sent = [
        {"role": "user", "content": "Is it sunny?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "yes"},
        {"role": "assistant", "content": "It is."},
    ]
    context.add(sent)
    assert context.messages(as_dicts=True) == sent
    assert all(isinstance(message, Message) for message in context.messages())


async def test_many_messages_are_kept_and_compared_away_from_the_event_loop(memory: ReMe) -> None:
    """Counts what the loop's thread calls between two moments at which others can run: no clock shows that here."""
    many, calls = 2_000, [0]

    def count(_frame: object, event: str, _arg: object) -> None:
        calls[-1] += event in ("call", "c_call")

    async def others() -> None:
        while True:
            calls.append(0)
            await asyncio.sleep(0)

    context = memory.in_context_memory(user_id=USER, session_id="long", max_input_length=8_000)
    going = asyncio.create_task(others())
    await asyncio.sleep(0)
    sys.setprofile(count)
    try:
        await context.extend([said(f"m{number}", f"word {number} of many") for number in range(many)])
        for _ in range(2):
            await context.save()
        await context.prepare()
    finally:
        sys.setprofile(None)
        going.cancel()
    assert max(calls) < 10 * many  # a comparison of messages alone takes some forty a message
