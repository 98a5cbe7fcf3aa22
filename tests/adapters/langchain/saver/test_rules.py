"""What a checkpointer promises, through its sync and its async methods."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from reme_core import ReMe, SqlConnection
from reme_core.errors import InvalidInputError, StoreClosedError
from reme_langchain import ReMeSaver, open_saver
from reme_langchain.saver._checkpoint_rows import ListQuery, list_rows

Call = Callable[..., Awaitable[Any]]

COUNTS = [
    ("checkpoints", "SELECT count(*) FROM langgraph_checkpoints"),
    ("writes", "SELECT count(*) FROM langgraph_writes"),
    ("blobs", "SELECT count(*) FROM langgraph_blobs"),
]


def caller(saver: ReMeSaver, flavour: str) -> Call:
    """Return what calls a method by its plain name: sync in a thread, sync on the loop, or async."""

    async def call(name: str, *args: Any, **options: Any) -> Any:
        if flavour == "async":
            answer = getattr(saver, f"a{name}")(*args, **options)
            return [item async for item in answer] if inspect.isasyncgen(answer) else await answer
        work = getattr(saver, name)
        if name == "list":
            return list(work(*args, **options))
        return work(*args, **options) if flavour == "loop" else await asyncio.to_thread(work, *args, **options)

    return call


@pytest.fixture(scope="module")
def saver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReMeSaver]:
    """Share one file among cases, which all have threads of their own."""
    with ReMeSaver.from_path(tmp_path_factory.mktemp("saver") / "rules.db", synchronous="NORMAL") as shared:
        shared.delete_thread("none")  # each case finds the tables, whichever runs first
        yield shared


@pytest.fixture(params=["async", "thread", "loop"])
def call(saver: ReMeSaver, request: pytest.FixtureRequest) -> Call:
    return caller(saver, request.param)


def config(thread: object | None = None, *, ns: str = "", **more: object) -> Any:
    return {"configurable": {"thread_id": uuid4().hex if thread is None else thread, "checkpoint_ns": ns, **more}}


def checkpoint(values: dict[str, Any] | None = None, versions: dict[str, Any] | None = None) -> Checkpoint:
    made = empty_checkpoint()
    made["id"] = str(uuid6(clock_seq=-1))
    made["channel_values"] = values or {}
    made["channel_versions"] = dict.fromkeys(values or {}, 1) if versions is None else versions
    return made


async def put(call: Call, where: Any, values: dict[str, Any] | None = None, /, **metadata: Any) -> Any:
    made = checkpoint(values, {channel: str(uuid4()) for channel in values or {}})
    return await call("put", where, made, metadata, made["channel_versions"])


def counts(saver: ReMeSaver, thread: str) -> dict[str, int]:
    """Count the rows of a thread."""

    def count(connection: SqlConnection) -> dict[str, int]:
        found = connection.execute("SELECT id FROM langgraph_threads WHERE name = ?", (thread,)).fetchone()
        numbers = found or (0,)
        return {name: connection.execute(f"{query} WHERE thread = ?", numbers).fetchone()[0] for name, query in COUNTS}

    return saver._file.read(count)


def holds_text(saver: ReMeSaver, words: str) -> bool:
    """Say whether a text stands in any row of the saver's tables."""
    needle = words.encode()

    def looked(connection: SqlConnection) -> bool:
        return any(
            needle in (cell if isinstance(cell, bytes) else str(cell).encode())
            for _, query in COUNTS
            for row in connection.execute(query.replace("count(*)", "*"))
            for cell in row
        )

    return saver._file.read(looked)


@pytest.mark.requirement("LG-SAVER-01")
async def test_a_put_names_its_checkpoint_and_keeps_the_parent(call: Call) -> None:
    where = config()
    first = await put(call, where)
    second = await put(call, first)

    assert set(first["configurable"]) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert (await call("get_tuple", first)).parent_config is None
    assert (await call("get_tuple", second)).parent_config == first


@pytest.mark.requirement("LG-SAVER-01")
async def test_a_checkpoint_put_again_is_replaced(call: Call) -> None:
    where = config()
    made = checkpoint({"a": 1})
    await call("put", where, made, {"step": 1}, made["channel_versions"])
    await call("put", where, made, {"step": 2}, made["channel_versions"])

    (only,) = await call("list", where)
    assert only.metadata["step"] == 2


@pytest.mark.requirement("LG-SAVER-32")
async def test_what_only_the_replaced_checkpoint_held_is_gone(call: Call, saver: ReMeSaver) -> None:
    where, secret = config(), uuid4().hex
    made = checkpoint({"messages": [HumanMessage(secret, id="1")], "text": secret})
    await call("put", where, made, {}, made["channel_versions"])
    later = {
        **made,
        "channel_values": {"messages": [HumanMessage("other", id="1")]},
        "channel_versions": {"messages": 2},
    }
    await call("put", where, later, {}, {"messages": 2})

    assert not holds_text(saver, secret)


@pytest.mark.requirement("LG-SAVER-01")
@pytest.mark.parametrize("thread", ["a%", "a/b", "A", "a", "ä", "a'\"b", " a ", "a\0b", "", 7, "a_", "a*"])
async def test_thread_ids_are_opaque(call: Call, thread: object) -> None:
    await call("delete_thread", thread)
    stored = await put(call, {"configurable": {"thread_id": thread}}, {"x": repr(thread)})

    assert stored["configurable"]["thread_id"] == thread
    assert stored["configurable"]["checkpoint_ns"] == ""
    (only,) = await call("list", config(thread))
    assert only.checkpoint["channel_values"] == {"x": repr(thread)}
    assert only.config["configurable"]["thread_id"] == str(thread)


@pytest.mark.requirement("LG-SAVER-01")
@pytest.mark.parametrize(
    ("where", "named"),
    [
        ({"configurable": {}}, "thread_id"),
        ({}, "thread_id"),
        (config("a\ud800"), "thread_id"),
        (config(["a"]), "thread_id"),
        (config(True), "thread_id"),
        (config("a", ns="\udfff"), "checkpoint_ns"),
        (config("a", checkpoint_id=7), "checkpoint_id"),
    ],
)
async def test_what_addresses_nothing_is_refused_by_name(call: Call, where: Any, named: str) -> None:
    made = checkpoint()
    for name, args in (("put", (where, made, {}, {})), ("get_tuple", (where,)), ("list", (where,))):
        with pytest.raises(InvalidInputError, match=named):
            await call(name, *args)


@pytest.mark.requirement("LG-SAVER-04")
async def test_without_a_config_there_is_nothing_to_get(call: Call) -> None:
    with pytest.raises(InvalidInputError, match="thread_id"):
        await call("get_tuple", None)


@pytest.mark.requirement("LG-SAVER-01")
@pytest.mark.parametrize("version", [None, True, [1], float("nan"), 1 << 63, "\ud800"])
async def test_a_version_that_cannot_be_kept_is_refused(call: Call, saver: ReMeSaver, version: Any) -> None:
    thread = uuid4().hex
    with pytest.raises(InvalidInputError, match="version of channel 'a'"):
        await call("put", config(thread), checkpoint({"a": 1}, {"a": version}), {}, {"a": version})
    assert counts(saver, thread)["checkpoints"] == 0


@pytest.mark.requirement("LG-SAVER-02")
async def test_a_checkpoint_round_trips_whole(call: Call) -> None:
    where = config()
    made = checkpoint({"a": [1], "b": "old"}, {"a": 1, "b": "0002.x", "gone": 2.5})
    made["versions_seen"] = {"node": {"a": 1, "b": "0002.x"}, "__input__": {}}
    made["updated_channels"] = ["a"]
    first = await call("put", where, made, {}, made["channel_versions"])
    later = checkpoint({"a": [2], "b": "old", "unversioned": 9}, {"a": 2, "b": "0002.x", "gone": 2.5})
    second = await call("put", first, later, {}, {"a": 2})

    assert (await call("get_tuple", first)).checkpoint == made
    loaded = (await call("get_tuple", second)).checkpoint
    assert loaded == {**later, "channel_values": {"a": [2], "b": "old"}}


@pytest.mark.requirement("LG-SAVER-02")
async def test_values_whose_versions_are_not_new_are_kept_where_no_one_wrote_them(call: Call) -> None:
    where = config()
    made = checkpoint({"a": [HumanMessage("x", id="1")], "b": 2})
    stored = await call("put", where, made, {}, {})

    assert (await call("get_tuple", stored)).checkpoint["channel_values"] == made["channel_values"]


@pytest.mark.requirement("LG-SAVER-03")
async def test_metadata_take_the_scalars_of_the_config(call: Call) -> None:
    where = {
        **config(ns="n", mine="c", __hidden="x", nested={"a": 1}),
        "metadata": {"run_id": "r\0un", "user": "ann", "thread_id": "other", "step": 99, "checkpoint_ns": "m"},
    }
    made = checkpoint()
    await call("put", where, made, {"step": 3, "source": "loop"}, {})

    (only,) = await call("list", where, filter={"user": "ann", "step": 3})
    assert only.metadata == {"step": 3, "source": "loop", "run_id": "run", "user": "ann", "mine": "c"}


@pytest.mark.requirement("LG-SAVER-03")
async def test_metadata_that_are_no_json_are_refused(call: Call) -> None:
    with pytest.raises(TypeError, match="metadata"):
        await call("put", config(), checkpoint(), {"step": {1, 2}}, {})


@pytest.mark.requirement("LG-SAVER-04")
async def test_the_newest_by_id_is_found_or_exactly_the_one_asked_for(call: Call) -> None:
    where = config()
    newest = await put(call, where, {"a": 2})
    older = checkpoint({"a": 1})
    older["id"] = "0" + newest["configurable"]["checkpoint_id"][1:]
    stored = await call("put", where, older, {}, older["channel_versions"])

    assert (await call("get_tuple", where)).config == newest
    assert (await call("get_tuple", stored)).checkpoint == older
    assert await call("get_tuple", config(where["configurable"]["thread_id"], checkpoint_id="none")) is None
    assert await call("get_tuple", config(where["configurable"]["thread_id"], ns="other")) is None
    assert await call("get_tuple", config()) is None


@pytest.mark.requirement("LG-SAVER-05")
async def test_pending_writes_come_in_the_order_of_path_task_and_position(call: Call) -> None:
    stored = await put(call, config())
    await call("put_writes", stored, [("c", 1), ("d", 2)], "b-task", "~2")
    await call("put_writes", stored, [("c", 3)], "a-task", "~2")
    await call("put_writes", stored, [("c", 4)], "z-task", "~1")

    expected = [("z-task", "c", 4), ("a-task", "c", 3), ("b-task", "c", 1), ("b-task", "d", 2)]
    assert (await call("get_tuple", stored)).pending_writes == expected
    (listed,) = await call("list", config(stored["configurable"]["thread_id"]))
    assert listed.pending_writes == expected
    assert (await call("get_tuple", await put(call, stored))).pending_writes == []


@pytest.mark.requirement("LG-SAVER-05")
async def test_the_first_ordinary_write_stays_and_special_ones_are_replaced(call: Call) -> None:
    stored = await put(call, config())
    await call("put_writes", stored, [("c", "first"), ("__error__", "e1"), ("__interrupt__", "i1")], "t")
    await call("put_writes", stored, [("c", "second"), ("__error__", "e2"), ("__resume__", "r")], "t")

    found = (await call("get_tuple", stored)).pending_writes
    assert found == [
        ("t", "__resume__", "r"),
        ("t", "__interrupt__", "i1"),
        ("t", "__error__", "e2"),
        ("t", "c", "first"),
    ]


@pytest.mark.requirement("LG-SAVER-05")
async def test_writes_without_a_checkpoint_id_are_refused(call: Call) -> None:
    with pytest.raises(InvalidInputError, match="checkpoint_id"):
        await call("put_writes", config(), [("c", 1)], "t")


@pytest.mark.requirement("LG-SAVER-06")
async def test_list_combines_thread_namespace_filter_before_and_limit(call: Call) -> None:
    where, key = config(), uuid4().hex
    inner = config(where["configurable"]["thread_id"], ns="child")
    stored = [await put(call, where, step=step, key=key, even=step % 2 == 0) for step in range(20)]
    await put(call, inner, step=0, key=key, even=True)
    await put(call, config(), step=0, key=key, even=True)
    newest_first = [found["configurable"]["checkpoint_id"] for found in reversed(stored)]

    async def ids(at: Any, **options: Any) -> list[str]:
        return [found.config["configurable"]["checkpoint_id"] for found in await call("list", at, **options)]

    assert await ids(where) == newest_first
    assert len(await ids({"configurable": {"thread_id": where["configurable"]["thread_id"]}})) == 21
    assert len(await ids(None, filter={"key": key})) == 22
    assert len(await ids(None, filter={"key": key, "even": True})) == 12
    assert await ids(where, before=stored[3], limit=2) == newest_first[17:19]
    assert await ids(where, filter={"even": True}, before=stored[5], limit=1) == newest_first[15:16]
    assert await ids(stored[4]) == newest_first[15:16]
    assert await ids(where, limit=0) == await ids(config()) == await ids(where, filter={"key": "' OR '1'='1"}) == []
    with pytest.raises(InvalidInputError, match="limit"):
        await ids(where, limit=-1)


@pytest.mark.requirement("LG-SAVER-06")
@pytest.mark.parametrize("name", ["a') OR 1=1 --", "$.key", "a.b", "\0", '"', "é"])
async def test_filter_keys_are_data(call: Call, name: str) -> None:
    where = config()
    await put(call, where, {}, **{name: "v"})

    assert len(await call("list", where, filter={name: "v"})) == 1
    assert await call("list", where, filter={name: "w"}) == []
    assert await call("list", config(), filter={name: "v"}) == []


@pytest.mark.requirement("LG-SAVER-06")
async def test_nothing_is_held_while_a_list_is_read(saver: ReMeSaver) -> None:
    where = config()
    call = caller(saver, "async")
    await put(call, config())
    for step in range(40):
        await put(call, where, step=step)
    seen = 0
    async for found in saver.alist(where):
        seen += 1
        await saver.aput_writes(found.config, [("c", 1)], "t")
        await saver.aget_tuple(where)
        if seen == 20:
            await saver.adelete_thread(where["configurable"]["thread_id"])
    abandoned = saver.list(None)
    next(abandoned)
    await put(call, where)

    assert 20 <= seen <= 32  # the page that was read already


@pytest.mark.requirement("LG-SAVER-06")
@pytest.mark.parametrize(
    "where",
    [{"thread": "t", "ns": "", "limit": 1}, {"thread": "t", "before": "x"}, {"thread": "t", "metadata": {"a": 1}}],
)
def test_a_list_of_one_thread_does_not_go_through_the_others(saver: ReMeSaver, where: dict[str, Any]) -> None:
    saver.put(config("t"), checkpoint(), {}, {})

    def plan(connection: SqlConnection) -> list[str]:
        asked: list[str] = []
        connection.set_trace_callback(asked.append)
        list_rows(connection, ListQuery(**where))
        connection.set_trace_callback(None)
        return [step for query in asked for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {query}")]

    steps = saver._file.read(plan)
    assert steps
    assert not [step for step in steps if step.startswith("SCAN")]


@pytest.mark.requirement("LG-SAVER-07")
@pytest.mark.parametrize("flavour", ["async", "thread", "loop"])
@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("delete_thread", ("t",), {}),
        ("delete_for_runs", (["r"],), {}),
        ("copy_thread", ("a", "b"), {}),
        ("prune", (["t"],), {}),
        ("get_tuple", (config("t"),), {}),
        ("list", (None,), {}),
        ("put_writes", (config("t", checkpoint_id="c"), [("c", 1)], "task"), {}),
        ("get_delta_channel_history", (), {"config": config("t"), "channels": ["c"]}),
    ],
)
async def test_any_method_may_be_the_first_call_on_a_fresh_file(
    tmp_path: Path, flavour: str, name: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    async with ReMeSaver.from_path(tmp_path / "fresh.db", synchronous="NORMAL") as fresh:
        answer = await caller(fresh, flavour)(name, *args, **options)

    assert answer in (None, [], {"c": {"writes": []}})


@pytest.mark.requirement("LG-SAVER-07")
@pytest.mark.requirement("LG-SAVER-32")
async def test_deleting_a_thread_removes_all_of_it_from_the_file_and_spares_others(
    call: Call, saver: ReMeSaver
) -> None:
    where, other = config(), config()
    secret = uuid4().hex
    for at in (where, config(where["configurable"]["thread_id"], ns="child"), other):
        words = secret if at is not other else "kept"
        stored = await put(call, at, {"messages": [HumanMessage(words, id="1")], "text": words})
        await call("put_writes", stored, [("messages", [AIMessage(words, id="2")]), ("text", words)], "t")
    await call("delete_thread", where["configurable"]["thread_id"])
    await call("delete_thread", "unknown")

    assert set(counts(saver, where["configurable"]["thread_id"]).values()) == {0}
    assert not holds_text(saver, secret)
    assert (await call("get_tuple", other)).checkpoint["channel_values"]["messages"][0].content == "kept"


@pytest.mark.requirement("LG-SAVER-07")
@pytest.mark.requirement("LG-SAVER-32")
async def test_deleting_runs_removes_their_checkpoints_writes_and_texts(call: Call, saver: ReMeSaver) -> None:
    where = config()
    run, secret = uuid4().hex, uuid4().hex
    kept = HumanMessage("kept", id="1")
    first = await put(call, where, {"messages": [kept]}, run_id="other")
    second = await put(call, first, {"messages": [kept, AIMessage(secret, id="2")]}, run_id=run)
    await call("put_writes", second, [("messages", [AIMessage(secret + "w", id="3")])], "t")
    inner = await put(call, config(where["configurable"]["thread_id"], ns="child"), {"x": secret}, run_id=run)
    await call("delete_for_runs", [])
    await call("delete_for_runs", ["unknown", run])

    assert await call("get_tuple", second) is None
    assert await call("get_tuple", inner) is None
    assert (await call("get_tuple", where)).checkpoint["channel_values"] == {"messages": [kept]}
    assert not holds_text(saver, secret)
    assert counts(saver, where["configurable"]["thread_id"]) == {"checkpoints": 1, "writes": 0, "blobs": 1}


@pytest.mark.requirement("LG-SAVER-07")
@pytest.mark.parametrize("name", ["delete_for_runs", "prune"])
async def test_a_single_id_is_not_taken_for_a_list_of_letters(call: Call, name: str) -> None:
    for ids in ("abc", None, 7):
        with pytest.raises(InvalidInputError, match="list of ids"):
            await call(name, ids)


@pytest.mark.requirement("LG-SAVER-08")
@pytest.mark.requirement("LG-SAVER-22")
async def test_a_copy_is_whole_and_lives_on_without_its_source(call: Call) -> None:
    source, target = uuid4().hex, uuid4().hex
    stored = config(source)
    messages = [HumanMessage(f"{n}", id=f"{n}") for n in range(150)]  # more than a chunk
    for size in (70, 149, 150):
        stored = await put(call, stored, {"messages": messages[:size]}, step=size)
    await call("put_writes", stored, [("messages", messages[:2]), ("one", messages[0]), ("n", 1)], "t", "p")
    await put(call, config(source, ns="child"), {"x": 1})
    before = [found._replace(config={}, parent_config=None) for found in await call("list", thread_only(source))]
    await call("copy_thread", source, target)
    copied = [found._replace(config={}, parent_config=None) for found in await call("list", thread_only(target))]
    with pytest.raises(InvalidInputError, match="holds checkpoints"):
        await call("copy_thread", source, target)
    await call("delete_thread", source)

    assert copied == before
    survived = await call("list", thread_only(target))
    assert [found._replace(config={}, parent_config=None) for found in survived] == before
    assert {found.config["configurable"]["thread_id"] for found in survived} == {target}
    await put(call, config(target), {"messages": messages})
    assert (await call("get_tuple", config(target))).checkpoint["channel_values"]["messages"] == messages


def thread_only(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.mark.requirement("LG-SAVER-08")
async def test_copying_an_unknown_thread_leaves_the_target_empty(call: Call) -> None:
    target = uuid4().hex
    await call("copy_thread", "unknown", target)

    assert await call("list", thread_only(target)) == []


@pytest.mark.requirement("LG-SAVER-09")
@pytest.mark.requirement("LG-SAVER-32")
async def test_pruning_keeps_the_newest_of_each_namespace(call: Call, saver: ReMeSaver) -> None:
    thread, spared = uuid4().hex, uuid4().hex
    secret = uuid4().hex
    for at in (config(thread), config(thread, ns="child"), config(spared)):
        await put(
            call, at, {"messages": [AIMessage(secret if at["configurable"]["thread_id"] == thread else "s", id="1")]}
        )
        newest = await put(call, at, {"messages": [AIMessage("last", id="2")]})
        await call("put_writes", newest, [("c", 1)], "t")
    await call("prune", [])
    await call("prune", ["unknown", thread])

    assert len(await call("list", thread_only(spared))) == 2
    left = await call("list", thread_only(thread))
    assert {found.config["configurable"]["checkpoint_ns"] for found in left} == {"", "child"}
    assert len(left) == 2
    assert all(found.pending_writes == [("t", "c", 1)] for found in left)
    assert not holds_text(saver, secret)
    await call("prune", [thread], strategy="delete")
    assert set(counts(saver, thread).values()) == {0}
    with pytest.raises(ValueError, match="strategy"):
        await call("prune", [spared], strategy="keep_some")


@pytest.mark.requirement("LG-SAVER-10")
async def test_the_history_of_a_delta_channel_is_that_of_the_inherited_walk(call: Call, saver: ReMeSaver) -> None:
    at, path = config(), []
    for step in range(6):
        values: dict[str, Any] = {1: {"d": _DeltaSnapshot([HumanMessage("seed", id="s")])}, 3: {"plain": [3]}}.get(
            step
        ) or {}
        at = await put(call, at, {**values, "other": step})
        await call("put_writes", at, [("d", [step]), ("plain", step), ("d", [step, 1])], f"task{9 - step}", "p")
        await call("put_writes", at, [("d", ["first"])], "task", "a")
        path.append(at)
    fork = await put(call, path[3], {})
    await call("put_writes", path[3], [("d", ["late"])], "zz", "z")

    for head in (*path, fork, thread_config(at), config()):
        channels = ["d", "plain", "other", "unknown"]
        expected = BaseCheckpointSaver.get_delta_channel_history(saver, config=head, channels=channels)
        assert await call("get_delta_channel_history", config=head, channels=channels) == expected
    assert await call("get_delta_channel_history", config=at, channels=[]) == {}
    seeded = await call("get_delta_channel_history", config=fork, channels=["d"])
    assert seeded["d"]["seed"] == _DeltaSnapshot([HumanMessage("seed", id="s")])
    assert [value for _, _, value in seeded["d"]["writes"]][:3] == [["first"], [1], [1, 1]]


def thread_config(at: Any) -> Any:
    return config(at["configurable"]["thread_id"])


@pytest.mark.requirement("LG-SAVER-10")
async def test_a_checkpoint_that_is_its_own_parent_ends_the_walk(call: Call) -> None:
    made = checkpoint()
    at = await call("put", config("own-parent", checkpoint_id=made["id"]), made, {}, {})

    assert await call("get_delta_channel_history", config=at, channels=["d"]) == {"d": {"writes": []}}


@pytest.mark.requirement("LG-SAVER-11")
def test_versions_rise_as_text_and_differ() -> None:
    saver = ReMeSaver("unused.db")
    versions = [saver.get_next_version(None, None)]
    for _ in range(50):
        versions.append(saver.get_next_version(versions[-1], None))

    assert versions == sorted(versions)
    assert len(set(versions)) == 51
    upstream = f"{9:032}.{0.5:016}"
    assert saver.get_next_version(upstream, None) > upstream
    assert saver.get_next_version(None, None) != versions[0]


class Colour:
    """A class that msgpack can't pack."""


@pytest.mark.requirement("LG-SAVER-14")
async def test_what_cannot_be_packed_is_refused_and_nothing_is_written(call: Call, saver: ReMeSaver) -> None:
    at = await put(call, config())
    thread = at["configurable"]["thread_id"]
    before = counts(saver, thread)
    for value in (1 << 70, Colour()):
        with pytest.raises(TypeError, match="'bad'"):
            await put(call, at, {"fine": [HumanMessage("x")], "bad": value})
        with pytest.raises(TypeError, match="'bad'"):
            await call("put_writes", at, [("fine", 1), ("bad", value)], "t")

    assert counts(saver, thread) == before


@pytest.mark.requirement("LG-SAVER-14")
@pytest.mark.parametrize(
    "value",
    [
        [HumanMessage("x", id="1"), {"role": "user"}],
        [HumanMessage("x")] * 3,
        [],
        {"messages": [AIMessage("x", id="1")]},
        [Send("node", {"messages": [HumanMessage("x", id="1")]})],
        [HumanMessage("m" * size, id=str(size)) for size in (0, 100, 300, 70_000)],
        [AIMessage("a", id=f"{n}", tool_calls=[{"name": "t", "args": {"n": n}, "id": "c"}]) for n in range(70)],
        _DeltaSnapshot([HumanMessage("x", id="1")]),
        _DeltaSnapshot({"a": 1}),
    ],
    ids=range(9),
)
async def test_messages_and_lists_round_trip_in_every_form(call: Call, value: Any) -> None:
    at = await put(call, config(), {"c": value})
    await call("put_writes", at, [("c", value)], "t")

    found = await call("get_tuple", at)
    assert found.checkpoint["channel_values"]["c"] == value
    assert type(found.checkpoint["channel_values"]["c"]) is type(value)
    assert found.pending_writes == [("t", "c", value)]


@pytest.mark.requirement("LG-SAVER-30")
async def test_equal_messages_of_a_thread_are_kept_once_and_edited_ones_apart(call: Call, saver: ReMeSaver) -> None:
    at = config()
    thread = at["configurable"]["thread_id"]
    messages = [HumanMessage(f"{n}", id=f"{n}") for n in range(130)]
    for size in range(125, 131):
        at = await put(call, at, {"messages": messages[:size]})
        await call("put_writes", at, [("messages", messages[size - 1]), ("copy", messages[:size])], "t")
    edited = [HumanMessage("edited", id="0"), *messages[1:]]
    last = await put(call, at, {"messages": edited})

    assert (await call("get_tuple", at)).checkpoint["channel_values"]["messages"] == messages
    assert (await call("get_tuple", last)).checkpoint["channel_values"]["messages"] == edited
    # 131 messages; chunks 0–31 (as said, and edited), 32–63, 64–95, 96–127
    assert counts(saver, thread)["blobs"] == 131 + 5


@pytest.mark.requirement("LG-SAVER-30")
async def test_lists_of_any_length_and_change_come_back(call: Call, saver: ReMeSaver) -> None:
    messages = [HumanMessage(f"{n}", id=f"{n}") for n in range(4200)]  # three levels of chunks
    states = [messages, messages[1:], messages[:64], messages[:63] + messages[70:], messages[::-1][:200], messages[:1]]
    at = config()
    stored = [at := await put(call, at, {"messages": state}) for state in states]

    for where, state in zip(stored, states, strict=True):
        found = await call("get_tuple", where)
        assert [m.id for m in found.checkpoint["channel_values"]["messages"]] == [m.id for m in state]
    thread = at["configurable"]["thread_id"]
    await call("prune", [thread])
    assert counts(saver, thread) == {"checkpoints": 1, "writes": 0, "blobs": 1}
    at = await put(call, at, {"messages": messages[:130]})
    await call("prune", [thread])
    assert len((await call("get_tuple", at)).checkpoint["channel_values"]["messages"]) == 130


async def test_a_memory_handed_in_stays_open_and_shares_its_file(tmp_path: Path) -> None:
    async with ReMe(working_dir=tmp_path, llm=None, embedding=None) as memory:
        async with ReMeSaver(memory) as saver:
            at = await put(caller(saver, "async"), config("t"), {"x": 1})
        again = ReMeSaver(memory)
        assert (await again.aget_tuple(at)).checkpoint["channel_values"] == {"x": 1}  # type: ignore[union-attr]
        await memory.add_memory("likes tea", user_id="ann")
    with pytest.raises(StoreClosedError):
        again.get_tuple(at)


async def test_the_agent_server_hook_reads_its_path_when_it_is_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = open_saver()
    monkeypatch.setenv("REME_SAVER_PATH", str(tmp_path / "server.db"))
    async with context as saver:
        await put(caller(saver, "async"), config("t"), {"x": 1})

    assert (tmp_path / "server.db").is_file()
