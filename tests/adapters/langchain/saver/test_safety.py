"""Types, encryption, threads, loops, processes and kills."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Send
from pydantic import BaseModel

from reme_core import ReMe
from reme_core.errors import ConfigurationError, InvalidInputError, SchemaVersionError
from reme_langchain import MemoryHistory, ReMeSaver
from reme_langchain.saver import _message_blobs as _saver_blobs
from reme_langchain.saver._shared_commits import SharedCommits


@dataclass
class Point:
    x: int


class Note(BaseModel):
    text: str


class Colour(Enum):
    RED = "red"


class Marked(HumanMessage):
    """A message of a class that langchain does not have."""


class Starred(HumanMessage):
    """Another one."""


class Outer:
    @dataclass
    class Inner:
        x: int


@dataclass
class Counted:
    x: int
    seen: int = field(init=False, default=0)


class Joined:
    """A serialiser whose messages, put in a row, don't show where one ends."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return ("text", obj.content.encode()) if isinstance(obj, HumanMessage) else ("json", json.dumps(obj).encode())

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return HumanMessage(data[1].decode()) if data[0] == "text" else json.loads(data[1])


def config(thread: str = "t", **more: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **more}}


def checkpoint(**values: Any) -> Checkpoint:
    made = empty_checkpoint()
    made["id"] = str(uuid6(clock_seq=-1))
    made["channel_values"] = values
    made["channel_versions"] = {channel: uuid4().hex for channel in values}
    return made


def put(saver: ReMeSaver, at: Any, **values: Any) -> Any:
    made = checkpoint(**values)
    return saver.put(at, made, {}, made["channel_versions"])


def loaded(saver: ReMeSaver, at: Any) -> Any:
    found = saver.get_tuple(at)
    assert found is not None
    return found.checkpoint["channel_values"]


class Xor:
    """A cipher for tests: reversible, and different in each call."""

    def __init__(self) -> None:
        self.calls = 0

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        self.calls += 1
        return "xor", bytes([self.calls % 251 + 1]) + bytes(byte ^ (self.calls % 251 + 1) for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "xor"
        return bytes(byte ^ ciphertext[0] for byte in ciphertext[1:])


VALUES = [
    None,
    b"\x00\xff",
    bytearray(b"x"),
    "a\0ü🙂",
    2**40,
    {1: "a", 2: {3: "b"}},
    datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    date(2026, 1, 2),
    timedelta(days=1, microseconds=2),
    UUID(int=7),
    Decimal("1.10"),
    {1, 2},
    AIMessage("x", id="1", tool_calls=[{"name": "t", "args": {"a": [1]}, "id": "c", "type": "tool_call"}]),
    AIMessage("x", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    ToolMessage("x", tool_call_id="c", artifact={"deep": [1, {"a": None}]}, status="error"),
    Send("node", {"a": 1}),
    [Point(1), Note(text="n"), Colour.RED],
]


@pytest.mark.requirement("LG-SAVER-14")
@pytest.mark.requirement("LG-SAVER-22")
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_types_round_trip_as_values_and_as_writes(tmp_path: Path, is_encrypted: bool) -> None:
    serde = EncryptedSerializer(Xor(), JsonPlusSerializer(allowed_msgpack_modules=None)) if is_encrypted else None
    values = {f"c{number}": value for number, value in enumerate(VALUES)}
    with ReMeSaver.from_path(tmp_path / "t.db", serde=serde, allow=[Point, Note, (__name__, "Colour")]) as saver:
        at = put(saver, config(), **values)
        saver.put_writes(at, list(values.items()), "task")
        found = saver.get_tuple(at)

    assert found is not None
    assert found.checkpoint["channel_values"] == values
    assert {channel: value for _, channel, value in found.pending_writes or []} == values
    for channel, value in values.items():
        assert type(found.checkpoint["channel_values"][channel]) is type(value)


@pytest.mark.requirement("LG-SAVER-20")
@pytest.mark.requirement("LG-SAVER-21")
@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Point(1), "Point"),
        ({"deep": [Note(text="n")]}, "Note"),
        (Colour.RED, "Colour"),
        ([ToolMessage("x", tool_call_id="c", artifact=Colour.RED)], "Colour"),
        (AIMessage("x", additional_kwargs={"a": Colour.RED}), "Colour"),
        (Send("node", Point(1)), "Point"),
    ],
)
def test_a_type_that_would_not_be_rebuilt_is_refused_when_it_is_written(tmp_path: Path, value: Any, named: str) -> None:
    with ReMeSaver.from_path(tmp_path / "t.db", synchronous="NORMAL") as saver:
        at = put(saver, config(), fine=[HumanMessage("x")])
        wanted = rf"'c'.*{__name__}.{named}.*allow=\[\('{__name__}', '{named}'\)\]"
        with pytest.raises(TypeError, match=wanted):
            put(saver, at, c=value)
        with pytest.raises(TypeError, match=wanted):
            saver.put_writes(at, [("c", value)], "task")
        assert len(list(saver.list(None))) == 1
        assert put(saver, at, c=[HumanMessage("still works")])


@pytest.mark.requirement("LG-SAVER-21")
def test_an_allowed_class_that_has_no_name_of_its_module_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with ReMeSaver.from_path(path, allow=[Outer.Inner]) as saver, pytest.raises(TypeError, match="has no 'Inner'"):
        put(saver, config(), c=Outer.Inner(1))


@pytest.mark.requirement("LG-SAVER-21")
def test_an_allowed_class_that_cannot_be_made_of_its_fields_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with (
        ReMeSaver.from_path(path, allow=[Counted]) as saver,
        pytest.raises(TypeError, match=r"Counted.*its constructor"),
    ):
        put(saver, config(), c=Counted(1))


@pytest.mark.requirement("LG-SAVER-14")
async def test_a_value_changed_after_the_call_is_kept_as_it_was(tmp_path: Path) -> None:
    async with ReMeSaver.from_path(tmp_path / "t.db", synchronous="NORMAL") as saver:
        value = bytearray(b"before")
        made = checkpoint(c=value)
        writing = asyncio.create_task(saver.aput(config(), made, {}, made["channel_versions"]))
        waiting = threading.Event()
        held = saver._file.database.submit_write(lambda _: waiting.wait(10), within=None)
        await asyncio.sleep(0)  # the call has begun, and waits for its turn
        value[:] = b"after!"
        waiting.set()
        at = await writing
        await asyncio.wrap_future(held)
        assert loaded(saver, at)["c"] == b"before"


@pytest.mark.requirement("LG-SAVER-20")
@pytest.mark.parametrize("is_set", [False, True])
def test_strictness_follows_no_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_set: bool
) -> None:
    monkeypatch.setattr(_msgpack, "STRICT_MSGPACK_ENABLED", is_set)  # what LANGGRAPH_STRICT_MSGPACK sets, at import
    with ReMeSaver.from_path(tmp_path / "t.db", allow=[Note]) as saver:
        at = put(saver, config(), c=Note(text="n"))
        assert loaded(saver, at) == {"c": Note(text="n")}
        with pytest.raises(TypeError, match="Point"):
            put(saver, config(), c=Point(1))


@pytest.mark.requirement("LG-SAVER-20")
def test_allow_takes_classes_and_names_only(tmp_path: Path) -> None:
    for wrong in ("Point", ("a", "b", "c"), 7):
        with pytest.raises(ConfigurationError, match="allow"):
            ReMeSaver(tmp_path / "t.db", allow=[wrong])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="leave `serde` out"):
        ReMeSaver(tmp_path / "t.db", allow=[Point], serde=EncryptedSerializer(Xor(), EncryptedSerializer(Xor())))


@pytest.mark.requirement("LG-SAVER-22")
def test_a_clone_that_allows_more_shares_the_file(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "t.db", synchronous="NORMAL") as saver:
        clone = saver.with_allowlist([(__name__, "Point")])
        at = put(clone, config(), c=Point(1))
        with pytest.raises(TypeError, match="Point"):
            put(saver, at, c=Point(1))
        after = put(saver, at, c=2)

        assert loaded(clone, at) == {"c": Point(1)}
        assert loaded(clone, after) == {"c": 2}
        clone.close()
        clone.close()


@pytest.mark.requirement("LG-SAVER-22")
@pytest.mark.requirement("LG-SAVER-30")
def test_a_serialiser_without_a_list_of_types_serves_strict_graphs_too(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "t.db", serde=Joined()) as saver:
        assert saver.with_allowlist({("some", "Type")}) is saver
        for said in (["ab", "c", "x"], ["a", "bc", "x"], ["ab", "c", "x"]) * 2:
            at = put(saver, config(), messages=[HumanMessage(word) for word in said])
            assert [message.content for message in loaded(saver, at)["messages"]] == said


@pytest.mark.requirement("LG-SAVER-22")
@pytest.mark.parametrize("kind", [TypeError, ValueError, RuntimeError])
async def test_an_error_of_the_serialiser_keeps_its_kind(tmp_path: Path, kind: type[Exception]) -> None:
    class Faulty(JsonPlusSerializer):
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            raise kind("no words for that")

    async with ReMeSaver.from_path(tmp_path / "t.db", serde=Faulty()) as saver:
        with pytest.raises(kind, match="no words for that"):
            put(saver, config(), x=1)
        with pytest.raises(kind, match="no words for that"):
            await saver.aput(config(), empty_checkpoint(), {}, {})


@pytest.mark.requirement("LG-SAVER-22")
@pytest.mark.requirement("LG-SAVER-30")
def test_encrypted_messages_are_kept_once_and_no_text_lies_open(tmp_path: Path) -> None:
    path, secret = tmp_path / "t.db", "a very secret sentence"
    messages = [HumanMessage(f"{secret} {number}", id=f"{number}") for number in range(70)]
    with ReMeSaver.from_path(path, serde=EncryptedSerializer(Xor()), synchronous="NORMAL") as saver:
        at = config()
        for size in (68, 69, 70):
            at = put(saver, at, messages=messages[:size], text=secret)
        assert loaded(saver, at) == {"messages": messages, "text": secret}
    raw = path.read_bytes()

    assert secret.encode() not in raw
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM langgraph_blobs WHERE type = 'msgpack+xor'").fetchone() == (70,)
    connection.close()


@pytest.mark.requirement("LG-SAVER-30")
def test_digests_of_equal_messages_differ_between_files_and_threads(tmp_path: Path) -> None:
    digests = []
    for name in ("one.db", "two.db"):
        with ReMeSaver.from_path(tmp_path / name, synchronous="NORMAL") as saver:
            for thread in ("a", "b"):
                put(saver, config(thread), messages=[HumanMessage("x", id="1")])
        connection = sqlite3.connect(tmp_path / name)
        digests.append(connection.execute("SELECT thread, digest FROM langgraph_blobs").fetchall())
        connection.close()

    assert [len(found) for found in digests] == [2, 2]
    assert not {digest for _, digest in digests[0]} & {digest for _, digest in digests[1]}


@pytest.mark.requirement("LG-SAVER-12")
async def test_twenty_threads_are_written_at_once_by_two_savers(tmp_path: Path) -> None:
    savers = [ReMeSaver.from_path(tmp_path / "t.db", synchronous="NORMAL") for _ in range(2)]

    async def talk(number: int) -> None:
        at = config(f"{number}")
        for step in range(10):
            made = checkpoint(messages=[HumanMessage(f"{number} {n}", id=f"{n}") for n in range(step + 1)])
            at = await savers[number % 2].aput(at, made, {"step": step}, made["channel_versions"])
            await savers[step % 2].aput_writes(at, [("messages", HumanMessage(f"{number} {step}"))], "task")

    await asyncio.gather(*(talk(number) for number in range(20)))
    for number in range(20):
        found = [each async for each in savers[1 - number % 2].alist(config(f"{number}"))]
        assert [len(each.checkpoint["channel_values"]["messages"]) for each in found] == list(range(10, 0, -1))
        assert all(len(each.pending_writes or []) == 1 for each in found)
    for saver in savers:
        await saver.aclose()


@pytest.mark.requirement("LG-SAVER-12")
def test_one_saver_serves_several_loops_and_threads(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "t.db", synchronous="NORMAL") as saver:

        async def talk(thread: str) -> None:
            at = config(thread)
            for step in range(5):
                at = put(saver, at, n=step)
                found = await saver.aget_tuple(config(thread))
                assert found is not None
                assert found.checkpoint["channel_values"] == {"n": step}

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(asyncio.run, talk(f"{number}")) for number in range(8)]:
                done.result()
        assert len(list(saver.list(None))) == 40


@pytest.mark.requirement("LG-SAVER-12")
async def test_a_cancelled_call_leaves_the_saver_working(tmp_path: Path) -> None:
    async with ReMeSaver.from_path(tmp_path / "t.db", synchronous="NORMAL") as saver:
        for _ in range(20):
            made = checkpoint(messages=[HumanMessage("x" * 1000, id="1")])
            task = asyncio.create_task(saver.aput(config(), made, {}, made["channel_versions"]))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        at = put(saver, config(), messages=[HumanMessage("after", id="2")])
        assert loaded(saver, at)["messages"][0].content == "after"
        assert all([found.checkpoint["channel_values"]["messages"] async for found in saver.alist(config())])


@pytest.mark.requirement("LG-SAVER-12")
def test_a_process_that_is_killed_beside_this_one_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.support.saver_child", str(path), "t"], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with ReMeSaver.from_path(path, synchronous="NORMAL") as saver:
        own = config("own")
        for count, line in enumerate(child.stdout, start=1):
            assert int(line) == count - 1
            own = put(saver, own, messages=[HumanMessage(f"{n}", id=f"{n}") for n in range(count)])
            if count == 30:
                break
        child.kill()
        acknowledged = 30 + len(child.stdout.read().split())
        child.stdout.close()
        child.wait()
        found = list(saver.list(config()))

        assert len(found) >= acknowledged
        for position, each in enumerate(reversed(found)):
            assert len(each.checkpoint["channel_values"]["messages"]) == position + 1
        assert [len(each.checkpoint["channel_values"]["messages"]) for each in saver.list(config("own"))] == list(
            range(30, 0, -1)
        )
        at = put(saver, found[0].config, messages=[HumanMessage("after", id="a")])
        assert len(loaded(saver, at)["messages"]) == 1


@pytest.mark.requirement("LG-SAVER-32")
async def test_what_another_saver_removed_is_written_again(tmp_path: Path) -> None:
    messages = [HumanMessage(f"{number}", id=f"{number}") for number in range(70)]
    async with ReMe(working_dir=tmp_path, llm=None, embedding=None) as memory:
        one, two = ReMeSaver(memory), ReMeSaver(memory)  # on one connection
        far = ReMeSaver.from_path(tmp_path)  # on another one
        for remover in (two, far):
            for _ in range(2):
                put(one, config(), messages=messages)  # now it remembers their digests
            put(one, config(), messages=messages[:1])
            remover.prune(["t"])
            at = put(one, config(), messages=messages)
            assert loaded(far, at)["messages"] == messages
            remover.delete_thread("t")
            at = put(one, config(), messages=messages)
            assert loaded(far, at)["messages"] == messages
        far.close()


@pytest.mark.requirement("LG-SAVER-32")
def test_what_was_rolled_back_is_written_again(tmp_path: Path) -> None:
    messages = [HumanMessage(f"{number}", id=f"{number}") for number in range(70)]
    with ReMeSaver.from_path(tmp_path / "t.db", synchronous="NORMAL") as saver:
        put(saver, config(), messages=messages[:2])
        bad = [ToolMessage("x", tool_call_id="c", artifact=Colour.RED)]
        with pytest.raises(TypeError):
            put(saver, config(), messages=messages, other=bad, **{f"c{n}": bad for n in range(5)})
        at = put(saver, config(), messages=messages)
        assert loaded(saver, at)["messages"] == messages


@pytest.mark.requirement("LG-SAVER-30")
def test_the_lists_remembered_of_many_threads_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_saver_blobs, "_MOST_BYTES", 5_000)
    with ReMeSaver.from_path(tmp_path / "t.db", synchronous="NORMAL") as saver:
        for number in range(20):
            put(saver, config(f"{number % 12}"), messages=[HumanMessage("x" * 400), HumanMessage(f"{number}")])
            commits = saver._file._commits
            assert isinstance(commits, SharedCommits)
            known = commits._known
            lasts = known.last._certain.values()
            assert known.last._weight == sum(last.size for last in lasts) <= 5_000


def test_tables_of_a_newer_release_are_refused(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "t.db") as saver:
        put(saver, config(), c=1)
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("UPDATE langgraph_meta SET value = 99 WHERE name = 'version'")
    connection.commit()
    connection.close()
    with ReMeSaver.from_path(tmp_path / "t.db") as saver, pytest.raises(SchemaVersionError, match="99"):
        saver.get_tuple(config())


@pytest.mark.requirement("LG-SAVER-40")
async def test_new_messages_are_handed_on_once_and_retried(tmp_path: Path) -> None:
    got: list[tuple[str, str, str]] = []
    arrived = threading.Semaphore(0)

    async def sink(thread_id: str, checkpoint_id: str, messages: Any) -> None:
        if not got and not failed:
            failed.append(1)
            msg = "not yet"
            raise OSError(msg)
        got.extend((thread_id, checkpoint_id, message.content) for message in messages)
        arrived.release()

    failed: list[int] = []
    said = [HumanMessage("one", id="1"), AIMessage("two", id="2"), HumanMessage("three", id="3")]
    async with ReMeSaver.from_path(tmp_path / "t.db", history=sink) as saver:
        at = config()
        ids = []
        for size in (1, 2, 2, 3):
            at = put(saver, at, messages=said[:size])
            ids.append(at["configurable"]["checkpoint_id"])
        put(saver, {"configurable": {"thread_id": "t", "checkpoint_ns": "child"}}, messages=[HumanMessage("inner")])
        await saver.aput_writes(at, [("messages", [HumanMessage("only written")])], "task")
    # Closing delivers what waits.
    async with ReMeSaver.from_path(tmp_path / "t.db", history=sink) as saver:
        saver.prune(["t"])
        put(saver, at, messages=said)

    assert failed
    assert got == [("t", ids[0], "one"), ("t", ids[1], "two"), ("t", ids[3], "three")]


@pytest.mark.requirement("LG-SAVER-40")
async def test_a_failing_sink_is_never_felt_by_the_graph(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Event()

    async def sink(thread_id: str, checkpoint_id: str, messages: Any) -> None:
        called.set()
        msg = "down"
        raise OSError(msg)

    async with ReMeSaver.from_path(tmp_path / "t.db", history=sink) as saver:
        at = put(saver, config(), messages=[HumanMessage("x", id="1")])
        assert await asyncio.to_thread(called.wait, 10)
        assert len(loaded(saver, at)["messages"]) == 1
    assert "down" in caplog.text


@pytest.mark.requirement("LG-SAVER-40")
@pytest.mark.requirement("LG-SAVER-32")
async def test_what_waits_for_the_sink_goes_with_its_thread(tmp_path: Path) -> None:
    got: list[tuple[str, str]] = []
    failing = [True]

    def sink(thread_id: str, checkpoint_id: str, messages: Any) -> None:  # a plain function
        if failing:
            msg = "down"
            raise OSError(msg)
        got.extend((thread_id, message.content) for message in messages)

    async with ReMeSaver.from_path(tmp_path / "t.db", history=sink) as saver:
        for thread in ("gone", "kept"):
            put(saver, config(thread), messages=[HumanMessage("secret words")])
    # Where there is no history, it is the same file.
    async with ReMeSaver.from_path(tmp_path / "t.db") as saver:
        await saver.adelete_thread("gone")
        connection = sqlite3.connect(tmp_path / "t.db")
        waiting = connection.execute("SELECT queue FROM langchain_journal WHERE payload IS NOT NULL").fetchall()
        connection.close()
    assert waiting == [("kept",)]

    failing.clear()
    async with ReMeSaver.from_path(tmp_path / "t.db", history=sink) as saver:
        put(saver, config("gone"), messages=[HumanMessage("secret words")])  # a thread of that name begins anew
    assert sorted(got) == [("gone", "secret words"), ("kept", "secret words")]
    connection = sqlite3.connect(tmp_path / "t.db")
    assert connection.execute("SELECT count(*) FROM langchain_journal WHERE payload IS NOT NULL").fetchone() == (0,)
    connection.close()


@pytest.mark.requirement("LG-SAVER-40")
@pytest.mark.parametrize("is_entered", [True, False])
def test_what_an_earlier_process_left_is_handed_on_although_nothing_new_is_written(
    tmp_path: Path, is_entered: bool
) -> None:
    got: list[str] = []

    def failing(thread_id: str, checkpoint_id: str, messages: Any) -> None:
        msg = "down"
        raise OSError(msg)

    def sink(thread_id: str, checkpoint_id: str, messages: Any) -> None:
        got.extend(message.content for message in messages)

    with ReMeSaver.from_path(tmp_path / "t.db", history=failing) as saver:
        put(saver, config(), messages=[HumanMessage("left")])
    saver = ReMeSaver(tmp_path / "t.db", history=sink)
    if is_entered:
        saver.__enter__()
    else:
        assert saver.get_tuple(config("another")) is None
    saver.close()
    assert got == ["left"]


@pytest.mark.requirement("LG-SAVER-40")
def test_what_a_checkpoint_brings_is_handed_on_together_and_again_together_where_that_fails(tmp_path: Path) -> None:
    calls: list[tuple[str, str, list[str]]] = []
    failing = [True]

    def sink(thread_id: str, checkpoint_id: str, messages: Any) -> None:
        calls.append((thread_id, checkpoint_id, [message.content for message in messages]))
        if failing:
            msg = "down"
            raise OSError(msg)

    said = [HumanMessage("one"), AIMessage("two"), HumanMessage("three")]
    with ReMeSaver.from_path(tmp_path / "t.db", history=sink) as saver:
        first = put(saver, config(), messages=said[:2])
        second = put(saver, first, messages=said, notes=[HumanMessage("aside")])
    ids = [at["configurable"]["checkpoint_id"] for at in (first, second)]
    assert {(thread, at, *texts) for thread, at, texts in calls} == {("t", ids[0], "one", "two")}

    calls.clear()
    failing.clear()
    with ReMeSaver.from_path(tmp_path / "t.db", history=sink):
        pass
    assert calls == [("t", ids[0], ["one", "two"]), ("t", ids[1], ["three", "aside"])]


@pytest.mark.requirement("LG-SAVER-22")
@pytest.mark.requirement("LG-SAVER-40")
def test_a_message_whose_class_is_allowed_by_a_graph_only_waits_for_that_graph(tmp_path: Path) -> None:
    got: list[object] = []

    def failing(thread_id: str, checkpoint_id: str, messages: Any) -> None:
        msg = "down"
        raise OSError(msg)

    classes = (Marked, Starred)
    with ReMeSaver.from_path(tmp_path / "t.db", allow=classes, history=failing) as saver:
        for kind in classes:
            put(saver, config(kind.__name__), messages=[kind(content="left")])
    with ReMeSaver.from_path(tmp_path / "t.db", history=lambda thread, at, messages: got.extend(messages)) as saver:
        assert saver._history is not None
        assert not saver._history.drain(10)
        assert got == []
        for kind in classes:  # two graphs are compiled
            saver.with_allowlist([(kind.__module__, kind.__name__)])
    assert {type(message) for message in got} == set(classes)


@pytest.mark.requirement("LG-SAVER-40")
def test_first_calls_of_several_threads_at_once_hand_over_once(tmp_path: Path) -> None:
    got: list[str] = []

    def failing(thread_id: str, checkpoint_id: str, messages: Any) -> None:
        msg = "down"
        raise OSError(msg)

    def sink(thread_id: str, checkpoint_id: str, messages: Any) -> None:
        got.extend(message.content for message in messages)

    with ReMeSaver.from_path(tmp_path / "t.db", history=failing) as saver:
        put(saver, config(), messages=[HumanMessage("left")])
    with closing(ReMeSaver(tmp_path / "t.db", history=sink)) as saver, ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda name: saver.get_tuple(config(name)), "ab")) == [None, None]
    assert got == ["left"]


@pytest.mark.requirement("LG-SAVER-40")
def test_what_another_saver_is_handing_over_is_not_handed_over_twice(tmp_path: Path) -> None:
    got: list[str] = []
    begun, let_go = threading.Event(), threading.Event()

    async def slowly(thread_id: str, checkpoint_id: str, messages: Any) -> None:
        begun.set()
        await asyncio.to_thread(let_go.wait, 20)
        got.extend(message.content for message in messages)

    said = [HumanMessage("one"), HumanMessage("two")]
    with (
        ReMeSaver.from_path(tmp_path / "t.db", history=slowly) as first,
        ReMeSaver.from_path(tmp_path / "t.db", history=slowly) as second,
    ):
        at = put(first, config(), messages=said[:1])
        assert begun.wait(20)
        put(second, at, messages=said)
        let_go.set()
    assert got == ["one", "two"]


@pytest.mark.parametrize("owner", ["", " ", "/etc"])
def test_a_history_of_nobody_is_refused_at_construction(tmp_path: Path, owner: str) -> None:
    with pytest.raises(InvalidInputError, match=r"user_id: is|looks like a path"):
        MemoryHistory(ReMe("space", tmp_path, llm=None, embedding=None), owner=owner)


@pytest.mark.requirement("LG-SAVER-40")
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_memory_as_history_has_what_a_checkpoint_brought_when_it_is_kept(tmp_path: Path, way: str) -> None:
    said = [HumanMessage("my dog is called Bo", id="1"), AIMessage("noted", id="2"), HumanMessage("bye", id="3")]
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        history = MemoryHistory(memory, owner=lambda thread_id: f"owner of {thread_id}")
        async with ReMeSaver(memory, history=history) as saver:
            at = config()
            for size in (1, 3, 3):
                made = checkpoint(messages=said[:size])
                if way == "sync":
                    at = await asyncio.to_thread(saver.put, at, made, {}, made["channel_versions"])
                else:
                    at = await saver.aput(at, made, {}, made["channel_versions"])
                kept = await memory.find_messages(user_id="owner of t", session_id="t")
                assert [item.message.text for item in kept.messages] == [message.content for message in said[:size]]
        found = await memory.retrieve("What is my dog called?", user_id="owner of t")
    assert "Bo" in found.results[0].memory
