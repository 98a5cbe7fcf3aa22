"""What a working memory has to do, as functions over a way to make one; broken memories are held against them too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, TypeAlias

import pytest
from agentscope.memory import MemoryBase
from agentscope.message import Msg
from agentscope.module import StateModule

Make: TypeAlias = Callable[..., MemoryBase]
Rule: TypeAlias = Callable[[Make], Awaitable[None]]

RULES: dict[str, tuple[str, Rule]] = {}


class Mark(str, Enum):  # noqa: UP042  # AgentScope's own are such, whose str() is no value
    HINT = "hint"
    COMPRESSED = "compressed"


def rule(requirement: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES[function.__name__] = (requirement, function)
        return function

    return register


def said(name: str, content: Any = None, *, role: Any = "user", **kwargs: Any) -> Msg:
    """Return a message with this id."""
    msg = Msg("alice", f"text {name}" if content is None else content, role, **kwargs)
    msg.id = name
    return msg


async def ids(memory: MemoryBase, **kwargs: Any) -> list[str]:
    return [msg.id for msg in await memory.get_memory(**kwargs)]


async def three(make: Make) -> MemoryBase:
    memory = make()
    await memory.add([said("0"), said("1"), said("2")])
    return memory


BLOCKS: list[Any] = [
    {"type": "thinking", "thinking": "hm"},
    {"type": "text", "text": "look"},
    {"type": "tool_use", "id": "c1", "name": "find", "input": {"q": {"deep": [1, None, "x"]}}},
    {"type": "tool_result", "id": "c1", "name": "find", "output": "found"},
    {
        "type": "tool_result",
        "id": "c2",
        "name": "see",
        "output": [
            {"type": "text", "text": "a"},
            {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
        ],
    },
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    {"type": "audio", "source": {"type": "url", "url": "https://x/a.mp3"}},
    {"type": "video", "source": {"type": "url", "url": "https://x/a.mp4"}},
]
TEXTS = ["plain", "", "a\0b", "a\r\nb\tc\u2028d", "\"'%s {x} ;--", "漢" * 200_000]


@rule("AS1-MEM-01")
async def an_empty_memory_is_true_and_a_state_module(make: Make) -> None:
    memory = make()
    assert isinstance(memory, MemoryBase)
    assert isinstance(memory, StateModule)
    assert bool(memory) is True
    assert not hasattr(memory, "__len__")


@rule("AS1-MEM-02")
async def any_first_call_works_on_a_fresh_memory(make: Make) -> None:
    assert await make().get_memory() == []
    assert await make().size() == 0
    await make().clear()
    assert await make().delete(["x"]) == 0
    assert await make().delete_by_mark("x") == 0
    assert await make().update_messages_mark("x") == 0


@rule("AS1-MEM-03")
async def none_lists_and_single_messages_are_taken(make: Make) -> None:
    memory = make()
    await memory.add(None)
    await memory.add(None, marks="hint")
    await memory.add([])
    await memory.add(said("0"))
    await memory.add([said("1")])
    assert await ids(memory) == ["0", "1"]


@rule("AS1-MEM-04")
async def the_order_is_that_of_adding_whatever_the_times(make: Make) -> None:
    memory = make()
    times = {"0": "2026-03-01", "1": "2026-01-01", "2": "2026-02-01"}
    for name, day in times.items():
        await memory.add(said(name, timestamp=f"{day} 00:00:00.000"))
    assert await ids(memory) == ["0", "1", "2"]


@rule("AS1-MEM-05")
async def a_known_id_is_not_added_again(make: Make) -> None:
    memory = make()
    await memory.add(said("0", "first"), marks="a")
    await memory.add(said("0", "second"), marks="b")
    await memory.add([said("1"), said("1")])
    await asyncio.gather(*(memory.add(said("2")) for _ in range(10)))
    assert await ids(memory) == ["0", "1", "2"]
    [kept] = await memory.get_memory(mark="a")
    assert kept.content == "first"
    assert await memory.get_memory(mark="b") == []


@rule("AS1-MEM-06")
async def every_field_and_block_comes_back(make: Make) -> None:
    memory = make()
    given = said("0", BLOCKS, role="assistant", metadata={"n": [1, {"k": None}]}, invocation_id="inv")
    await memory.add(given)
    [got] = await memory.get_memory()
    assert isinstance(got, Msg)
    assert got.to_dict() == given.to_dict()
    assert got.invocation_id == "inv"


@rule("AS1-MEM-07")
async def a_string_stays_a_string_and_a_list_a_list(make: Make) -> None:
    memory = make()
    given = ["plain", "", []]
    await memory.add([said(str(place), content) for place, content in enumerate(given)])
    assert [msg.content for msg in await memory.get_memory()] == given


@rule("AS1-MEM-08")
async def any_text_survives(make: Make) -> None:
    memory = make()
    await memory.add([said(str(place), text) for place, text in enumerate(TEXTS)])
    await memory.add(said("broken", "before \ud83d after"))
    *got, broken = [msg.content for msg in await memory.get_memory()]
    assert got == TEXTS
    assert str(broken).startswith("before ")
    assert str(broken).endswith(" after")


@rule("AS1-MEM-09")
async def later_changes_of_what_was_added_do_not_show(make: Make) -> None:
    memory = make()
    given = said("0", [{"type": "text", "text": "a"}], metadata={"k": [1]})
    await memory.add(given)
    given.content[0]["text"] = "changed"  # type: ignore[index]
    given.metadata["k"].append(2)  # type: ignore[union-attr]
    [got] = await memory.get_memory()
    assert got.content == [{"type": "text", "text": "a"}]
    assert got.metadata == {"k": [1]}


@rule("AS1-MEM-11")
async def marks_and_messages_of_another_kind_are_a_type_error(make: Make) -> None:
    memory = make()
    for wrong in (1, ["a"], b"a"):
        for name in ("mark", "exclude_mark"):
            with pytest.raises(TypeError):
                await memory.get_memory(**{name: wrong})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await memory.add(said("0"), marks=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await memory.delete_by_mark(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await memory.add("text")  # type: ignore[arg-type]
    assert await memory.size() == 0


@rule("AS1-MEM-12")
async def concurrent_calls_lose_nothing(make: Make) -> None:
    memory = make()
    await asyncio.gather(*(memory.add(said(str(n))) for n in range(20)))
    assert sorted(await ids(memory), key=int) == [str(n) for n in range(20)]
    await asyncio.gather(
        *(memory.add(said(str(n))) for n in range(20, 30)),
        *(memory.delete([str(n)]) for n in range(10)),
        *(memory.get_memory() for _ in range(5)),
        *(memory.size() for _ in range(5)),
    )
    assert sorted(await ids(memory), key=int) == [str(n) for n in range(10, 30)]


@rule("AS1-MEM-13")
async def unknown_keywords_are_accepted(make: Make) -> None:
    memory: Any = make()
    await memory.add(said("0"), invented=1, allow_duplicates=True)
    assert len(await memory.get_memory(invented=1)) == 1
    assert await memory.delete_by_mark("x", invented=1) == 0
    assert await memory.delete(["0"], invented=1) == 1


@rule("AS1-MEM-14")
async def marks_choose_and_exclude(make: Make) -> None:
    memory = make()
    await memory.add(said("0"), marks="a")
    await memory.add(said("1"), marks=["a", "b"])
    await memory.add(said("2"), marks=[])
    assert await ids(memory, mark="a") == ["0", "1"]
    assert await ids(memory, exclude_mark="b") == ["0", "2"]
    assert await ids(memory, mark="a", exclude_mark="b") == ["0"]
    assert await ids(memory, mark="x") == []
    assert await ids(memory, exclude_mark="x") == ["0", "1", "2"]


@rule("AS1-MEM-15")
async def an_enum_mark_equals_its_string(make: Make) -> None:
    memory = make()
    await memory.add(said("0"), marks=Mark.HINT)
    await memory.add(said("1"), marks=[Mark.HINT, Mark.COMPRESSED])
    assert await ids(memory, mark="hint") == ["0", "1"]
    assert await ids(memory, mark=Mark.HINT, exclude_mark=Mark.COMPRESSED) == ["0"]
    assert await memory.update_messages_mark("b", old_mark=Mark.COMPRESSED) == 1
    assert await memory.update_messages_mark(Mark.COMPRESSED, msg_ids=["0"]) == 1
    assert await ids(memory, mark="compressed") == ["0"]
    assert await memory.delete(["0"]) == 1
    await memory.add(said("0"))
    assert await ids(memory, mark="hint") == ["1"]
    assert await memory.delete_by_mark(mark=Mark.HINT) == 1
    assert await memory.delete_by_mark("hint") == 0


@rule("AS1-MEM-16")
async def marks_are_updated_and_counted(make: Make) -> None:
    memory = make()
    await memory.add([said(name) for name in "01234"])
    assert await memory.update_messages_mark("m", msg_ids=["3", "1"]) == 2
    assert await ids(memory, mark="m") == ["1", "3"]
    assert await memory.update_messages_mark("a") == 5
    for wanted, changed in ((["1", "zz"], 1), (["zz"], 0), ([], 0)):
        assert await memory.update_messages_mark("n", msg_ids=wanted) == changed
    assert await memory.update_messages_mark("k", old_mark="m") == 2
    assert await ids(memory, mark="m") == []
    assert await ids(memory, mark="k") == ["1", "3"]
    assert await memory.update_messages_mark(None, old_mark="a") == 5
    assert await ids(memory, mark="k") == ["1", "3"]
    assert await memory.update_messages_mark(None) == 0
    await memory.update_messages_mark("k", msg_ids=["1"])
    await memory.update_messages_mark("k", old_mark="n")
    assert await ids(memory, mark="k") == ["1", "3"]
    assert await memory.update_messages_mark(None, old_mark="k") == 2
    assert await ids(memory, mark="k") == []
    assert await ids(memory) == list("01234")


@rule("AS1-MEM-17")
async def a_filtered_view_keeps_the_order_of_the_talk(make: Make) -> None:
    memory = await three(make)
    for name in ("2", "0", "1"):
        await memory.update_messages_mark("m", msg_ids=[name])
    assert await ids(memory, mark="m") == ["0", "1", "2"]


@rule("AS1-MEM-18")
async def delete_counts_what_it_removed(make: Make) -> None:
    memory = await three(make)
    await memory.update_messages_mark("m", msg_ids=["0"])
    assert await memory.delete(["0", "nope"]) == 1
    assert await memory.delete(["nope"]) == 0
    assert await memory.delete([]) == 0
    await memory.add(said("0"))
    assert await ids(memory) == ["1", "2", "0"]
    assert await ids(memory, mark="m") == []


@rule("AS1-MEM-19")
async def delete_by_mark_counts_each_message_once(make: Make) -> None:
    memory = await three(make)
    await memory.update_messages_mark("a", msg_ids=["0", "1"])
    await memory.update_messages_mark("b", msg_ids=["1"])
    assert await memory.delete_by_mark("x") == 0
    assert await memory.delete_by_mark(["a", "b"]) == 2
    assert await ids(memory) == ["2"]


@rule("AS1-MEM-20")
async def clear_forgets_messages_marks_and_summary(make: Make) -> None:
    memory = await three(make)
    await memory.update_messages_mark("m")
    await memory.update_compressed_summary("old talk")
    await memory.clear()
    assert await memory.size() == 0
    assert await memory.get_memory() == []
    await memory.add(said("0"))
    assert await ids(memory) == ["0"]
    assert await memory.get_memory(mark="m") == []


@rule("AS1-MEM-21")
async def a_summary_comes_first_whatever_the_filter(make: Make) -> None:
    memory = await three(make)
    await memory.update_compressed_summary("so far")
    for wanted in ({}, {"mark": "none"}, {"exclude_mark": "x"}):
        shown = (await memory.get_memory(**wanted))[0]  # type: ignore[arg-type]
        assert (shown.name, shown.role, shown.content) == ("user", "user", "so far")
        again = (await memory.get_memory())[0]
        assert shown.id == again.id
        assert shown.metadata == {"reme": "summary"}
    assert await ids(memory, prepend_summary=False) == ["0", "1", "2"]
    assert await memory.size() == 3


@rule("AS1-MEM-22")
async def a_new_summary_replaces_the_old_one(make: Make) -> None:
    memory = make()
    await memory.update_compressed_summary("one")
    await memory.update_compressed_summary("two")
    assert [msg.content for msg in await memory.get_memory()] == ["two"]
    await memory.update_compressed_summary("")
    assert await memory.get_memory() == []


@rule("AS1-MEM-23")
async def the_state_is_a_snapshot_in_agentscopes_layout(make: Make) -> None:
    memory = make()
    await memory.add(said("0", BLOCKS), marks=[Mark.HINT])
    await memory.update_compressed_summary("so far")
    state = memory.state_dict()
    before = json.dumps(state)
    assert state["_compressed_summary"] == "so far"
    [[fields, marks]] = state["content"]
    assert fields["id"] == "0"
    assert marks == ["hint"]
    assert [type(mark) for mark in marks] == [str]
    (await memory.get_memory(prepend_summary=False))[0].content.clear()  # type: ignore[union-attr]
    await memory.update_messages_mark("x")
    assert json.dumps(state) == before


@rule("AS1-MEM-24")
async def loading_a_state_replaces_everything(make: Make) -> None:
    memory = make()
    await memory.add(said("0", BLOCKS, metadata={"k": 1}, invocation_id="inv"), marks=["a", "b"])
    await memory.add(said("1"))
    await memory.update_compressed_summary("so far")
    state = json.loads(json.dumps(memory.state_dict()))
    other = make(session_id="another")
    await other.add([said("x"), said("1", "mine")], marks="z")
    await other.update_compressed_summary("other")
    for target in (memory, other):
        await target.add(said("more"))
        target.load_state_dict(json.loads(json.dumps(state)))
        assert [msg.content for msg in await target.get_memory()][:1] == ["so far"]
        assert await ids(target, prepend_summary=False) == ["0", "1"]
        assert await ids(target, mark="a", prepend_summary=False) == ["0"]
        assert await ids(target, mark="z", prepend_summary=False) == []
        assert (await target.get_memory(mark="b"))[1].invocation_id == "inv"


@rule("AS1-MEM-25")
async def an_empty_state_is_a_key_error_where_strict(make: Make) -> None:
    memory = await three(make)
    with pytest.raises(KeyError):
        memory.load_state_dict({}, strict=True)
    memory.load_state_dict({}, strict=False)
    await memory.add(said("9"))
    assert "9" in await ids(memory)
