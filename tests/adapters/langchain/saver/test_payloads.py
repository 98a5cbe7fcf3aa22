"""Images and bytes in checkpoints: kept once for each user, in no table as base64, and back byte for byte."""

from __future__ import annotations

import sqlite3
import threading
from base64 import b64encode, urlsafe_b64encode
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from reme_core import ReMe, SqlConnection
from reme_core.errors import CorruptDataError
from reme_core.schema.blobs import data_url
from reme_langchain import ReMeSaver
from reme_langchain.import_checkpoints import import_checkpoints
from reme_langchain.saver._deflate import inflated
from reme_langchain.saver._payloads import APART, PAYLOAD, put_back, take_out
from tests.adapters.langchain.saver.test_safety import Joined, Xor, checkpoint, config, loaded, put
from tests.adapters.langchain.test_erasing import on_disk
from tests.support.images import IMAGE, base64_in

PHOTO = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 64  # beyond the bound by little
PHOTO64 = b64encode(PHOTO).decode()
PHOTO_URL = f"data:image/png;base64,{PHOTO64}"


def shown(base64: str = PHOTO64, url: str = PHOTO_URL) -> HumanMessage:
    parts: list[Any] = [
        {"type": "text", "text": "which colour?"},
        {"type": "image", "base64": base64, "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    return HumanMessage(parts, id="h")


def of_user(thread: str, user: str = "ann") -> Any:
    return config(thread, user_id=user)


def kept(saver: ReMeSaver) -> list[bytes]:
    """Return what is kept apart, in whatever thread."""

    def read(connection: SqlConnection) -> list[bytes]:
        query = "SELECT data FROM langgraph_blobs WHERE type = ? AND length(data) > 0 ORDER BY id"
        return [bytes(data) for (data,) in connection.execute(query, (PAYLOAD,))]

    return saver._file.read(read)


def holds_base64(saver: ReMeSaver) -> bool:
    """Whether some value of a thread holds the photo's base64, deflated or not."""

    def read(connection: SqlConnection) -> bool:
        rows = connection.execute("SELECT type, data FROM langgraph_blobs WHERE type IS NOT NULL").fetchall()
        rows += connection.execute("SELECT type, data FROM langgraph_writes").fetchall()
        rows += connection.execute("SELECT metadata, body FROM langgraph_checkpoints").fetchall()
        rows += connection.execute("SELECT '', payload FROM langchain_journal WHERE payload IS NOT NULL").fetchall()
        return any(PHOTO64[:2000].encode() in type_.encode() + inflated(type_, bytes(data))[1] for type_, data in rows)

    return saver._file.read(read)


def test_an_image_in_two_threads_and_twenty_checkpoints_of_a_user_takes_its_own_size(tmp_path: Path) -> None:
    path, image = tmp_path / "memory.db", IMAGE[:1_000_000]
    message = HumanMessage([{"type": "image_url", "image_url": {"url": data_url(image, "image/png")}}], id="h")
    with ReMeSaver.from_path(path, synchronous="NORMAL") as saver:
        for thread in ("one", "two"):
            for step in range(10):
                at = put(saver, of_user(thread), messages=[message, AIMessage(f"{step}", id="a")])
            assert loaded(saver, at)["messages"] == [message, AIMessage("9", id="a")]
        assert kept(saver) == [image]
    assert base64_in(path) == []
    assert path.stat().st_size < 1.5 * len(image)


def test_whatever_of_a_checkpoint_holds_it_no_column_has_its_base64(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "memory.db") as saver:
        message = shown()
        values = {
            "messages": [message, AIMessage("red", id="a")],
            "__start__": {"messages": [message]},
            "state": {"image": PHOTO_URL, "raw": PHOTO, "text": f"see {PHOTO64} and {PHOTO_URL}."},
            "bytes": PHOTO,
            "text": PHOTO64,
            "delta": _DeltaSnapshot([message]),
            "other": _DeltaSnapshot({"image": PHOTO64}),
        }
        made = checkpoint(**values)
        at = saver.put(of_user("t"), made, {"shown": PHOTO_URL}, made["channel_versions"])  # type: ignore[typeddict-unknown-key]
        saver.put_writes(at, list(values.items()), "task")
        found = saver.get_tuple(at)
        assert found is not None
        assert found.checkpoint["channel_values"] == values
        assert found.pending_writes == [("task", channel, value) for channel, value in values.items()]
        assert dict(found.metadata)["shown"] == PHOTO_URL
        [listed] = saver.list(config("t"), filter={"shown": PHOTO_URL})
        assert listed == found
        assert list(saver.list(config("t"), filter={"shown": PHOTO64})) == []
        history = saver.get_delta_channel_history(config=at, channels=["delta"])
        assert history == {"delta": {"writes": []}}
        later = put(saver, at, after=1)
        history = saver.get_delta_channel_history(config=later, channels=["delta", "other"])
        assert history["delta"]["seed"] == values["delta"]
        assert [value for _, _, value in history["other"]["writes"]] == [values["other"]]
        assert kept(saver) == [PHOTO]
        assert not holds_base64(saver)


def test_bytes_of_a_user_stay_as_long_as_a_thread_of_that_user_refers_to_them(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "memory.db") as saver:
        one, two, three, bens, nobodys = (
            put(saver, of_user(thread, user) if user else config(thread), messages=[shown()], raw={"x": PHOTO})
            for thread, user in (("1", "ann"), ("2", "ann"), ("3", "ann"), ("4", "ben"), ("5", ""))
        )
        assert kept(saver) == [PHOTO] * 3
        saver.delete_thread("1")
        assert saver.get_tuple(one) is None
        assert loaded(saver, two)["messages"] == loaded(saver, three)["messages"] == [shown()]
        saver.prune(["2"], strategy="delete")
        assert loaded(saver, three) == {"messages": [shown()], "raw": {"x": PHOTO}}
        saver.delete_thread("3")
        assert kept(saver) == [PHOTO] * 2
        assert loaded(saver, bens) == loaded(saver, nobodys)
        saver.delete_thread("4")
        saver.delete_thread("5")
        assert kept(saver) == []


def test_bytes_go_with_the_last_checkpoint_that_holds_them(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "memory.db") as saver:
        photos = [bytes([number]) + PHOTO for number in range(4)]
        at = first = of_user("t")
        for photo in photos:
            made = checkpoint(messages=[shown(b64encode(photo).decode())], state={"raw": photo})
            where: Any = {**at, "metadata": {"run_id": photo[:1].hex()}}
            told: Any = {"shown": b64encode(photo + b"m").decode()}
            at = saver.put(where, made, told, made["channel_versions"])
            first = at if photo == photos[0] else first
        put(saver, of_user("other"), state=[photos[0]])
        assert len(kept(saver)) == 9  # and the one that all of them show by its data URL
        assert saver.get_tuple(first) is not None
        saver.delete_for_runs(["01"])
        assert kept(saver) == [photo for photo in kept(saver) if not photo.startswith(b"\x01")]
        saver.prune(["t"])
        found = saver.get_tuple(at)
        assert found is not None
        assert found.checkpoint["channel_values"]["state"] == {"raw": photos[3]}
        assert dict(found.metadata)["shown"] == b64encode(photos[3] + b"m").decode()
        assert sorted(kept(saver)) == sorted([photos[0], photos[3], photos[3] + b"m", PHOTO])
        replaced = {**made, "channel_values": {"state": 1}, "channel_versions": {"state": 2}}
        saver.put(of_user("t"), replaced, {}, {"state": 2})  # type: ignore[arg-type]
        assert kept(saver) == [photos[0]]


@pytest.mark.parametrize("user", ["ann", ""])
def test_a_copied_thread_has_its_bytes_when_the_first_is_gone(tmp_path: Path, user: str) -> None:
    with ReMeSaver.from_path(tmp_path / "memory.db") as saver:
        values = {"messages": [shown()], "state": {"raw": PHOTO}}
        made = checkpoint(**values)
        where = of_user("t", user) if user else config("t")
        at = saver.put(where, made, {"shown": PHOTO64}, made["channel_versions"])  # type: ignore[typeddict-unknown-key]
        saver.put_writes(at, [("state", {"raw": PHOTO})], "task")
        saver.copy_thread("t", "copy")
        saver.copy_thread("copy", "copied")
        assert kept(saver) == [PHOTO] * (1 if user else 3)
        saver.delete_thread("t")
        saver.delete_thread("copy")
        found = saver.get_tuple(config("copied"))
        assert found is not None
        assert found.checkpoint["channel_values"] == values
        assert dict(found.metadata)["shown"] == PHOTO64
        assert found.pending_writes == [("task", "state", {"raw": PHOTO})]


async def test_bytes_go_with_the_user_and_are_counted(tmp_path: Path) -> None:
    async with ReMe("m", tmp_path, llm=None, embedding=None) as memory:
        saver = ReMeSaver(memory)
        for thread, user in (("1", "ann"), ("2", "ann"), ("3", "ben")):
            put(saver, of_user(thread, user), messages=[shown()])
        assert len(kept(saver)) == 2
        erased = await memory.delete_all_memories(user_id="ann")
        assert erased.adapter_rows["langgraph_thread_bytes"] == 1
        assert kept(saver) == [PHOTO]
        assert loaded(saver, config("3"))["messages"] == [shown()]
        await memory.delete_all_memories(user_id="ben")
        assert PHOTO[:500] not in on_disk(tmp_path)


def test_nothing_is_taken_out_of_what_is_encrypted(tmp_path: Path) -> None:
    serde = EncryptedSerializer(Xor(), JsonPlusSerializer())
    with ReMeSaver.from_path(tmp_path / "memory.db", serde=serde) as saver:
        made = checkpoint(messages=[shown()], state={"raw": PHOTO, "text": PHOTO64}, bytes=PHOTO)
        at = saver.put(of_user("t"), made, {}, made["channel_versions"])
        saver.put_writes(at, [("state", {"raw": PHOTO})], "task")
        assert loaded(saver, at) == made["channel_values"]
        assert kept(saver) == []
    assert PHOTO[:1000] not in (tmp_path / "memory.db").read_bytes()


def test_a_serialiser_of_ones_own_has_its_base64_kept_apart_as_well(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "memory.db", serde=Joined()) as saver:
        at = put(saver, config(), messages=[HumanMessage(PHOTO_URL)] * 2, state={"image": PHOTO64})
        assert loaded(saver, at)["state"] == {"image": PHOTO64}
        assert [message.content for message in loaded(saver, at)["messages"]] == [PHOTO_URL] * 2
        assert kept(saver) == [PHOTO]


def lines(data: bytes) -> str:
    text = b64encode(data).decode()
    return "\n".join(text[at : at + 76] for at in range(0, len(text), 76))


def _message(value: object) -> BaseMessage:
    return AIMessage("", id="x", additional_kwargs={"value": value})


_LONG = st.builds(
    lambda seed, count: (seed * count)[:count], st.binary(min_size=1, max_size=30), st.integers(12_000, 30_000)
)
_TEXTS = st.one_of(
    _LONG.map(lambda data: b64encode(data).decode()),
    _LONG.map(lambda data: f"data:image/png;base64,{b64encode(data).decode()}"),
    _LONG.map(lambda data: urlsafe_b64encode(data).decode()),
    _LONG.map(lines),
    st.tuples(_LONG, st.text(max_size=3), st.sampled_from(["", "=", "==", "===", "A", "A=", "é", "%3D"])).map(
        lambda made: made[1] + b64encode(made[0]).decode().rstrip("=") + made[2]
    ),
    _LONG.map(lambda data: data.decode("latin-1")),
    st.text(max_size=40),
)
_VALUES = st.recursive(
    st.one_of(
        _TEXTS, _LONG, st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.none()
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=20), st.dictionaries(st.text(max_size=40), inner, max_size=4), inner.map(_message)
    ),
    max_leaves=5,
)


@settings(deadline=None, max_examples=25)
@given(_VALUES)
def test_what_is_taken_out_comes_back_byte_by_byte(value: object) -> None:
    plain = JsonPlusSerializer().dumps_typed(value)
    taken = take_out(plain[0], bytes(plain[1]))
    if taken is not None:
        rest, cuts, payloads = taken
        assert put_back(ormsgpack.packb([plain[0], rest, cuts]), dict(payloads).__getitem__) == plain
        assert all(sha256(data).digest() == digest for digest, data in payloads)


@pytest.mark.parametrize(
    "text",
    [
        lines(PHOTO * 3),
        urlsafe_b64encode(b"\xfb\xef" * 20_000).decode(),
        "A" * 16_383,
        "word " * 10_000,
        "zażółć gęślą jaźń " * 3000,
    ],
    ids=["lines", "url-safe", "short", "words", "Polish"],
)
def test_what_is_no_long_base64_stays_where_it_is(text: str) -> None:
    assert take_out("msgpack", ormsgpack.packb({"text": text, "more": [1.5, -7, None, "x" * 300]})) is None


@pytest.mark.parametrize("padding", ["", "=", "==", "===", "A", "AB=", "A-", "\n"])
def test_base64_with_any_end_comes_back_as_it_was(padding: str) -> None:
    data = ormsgpack.packb([f"{'QUJD' * 5000}{padding}"])
    taken = take_out("msgpack", data)
    assert taken is not None
    assert [digest for _, digest, _ in taken[1]] == [digest for digest, _ in taken[2]]
    assert put_back(ormsgpack.packb(["msgpack", taken[0], taken[1]]), dict(taken[2]).__getitem__)[1] == data


def test_arrays_of_numpy_and_extensions_are_looked_into(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "memory.db") as saver:
        vectors = np.arange(8192, dtype=np.float32).reshape(64, 128)
        at = put(saver, config(), vectors=vectors, state={"deep": [{"er": [PHOTO, {PHOTO64}]}]})
        found = loaded(saver, at)
        assert np.array_equal(found["vectors"], vectors)
        assert found["state"]["deep"][0]["er"] == [PHOTO, {PHOTO64}]
        assert kept(saver) == [vectors.tobytes(), PHOTO]


def test_a_value_that_imitates_a_place_gets_nobodys_bytes(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "memory.db") as saver:
        put(saver, of_user("anns"), state={"raw": PHOTO})
        digest = sha256(PHOTO).digest()
        place = ormsgpack.packb(["msgpack", b"", [[0, digest, False]]])
        made_up: list[Any] = [
            place,
            [APART, place],
            {"type": APART, "data": place},
            digest,
            f"sha256:{digest.hex()}",
            [APART, "msgpack", place, [[0, digest, True]]],
            {PAYLOAD: digest, "x": "y" * 20_000},
        ]
        said = [HumanMessage(f"{APART} {digest.hex()}", id="1", additional_kwargs={"cuts": [[0, digest, True]]})]
        made = checkpoint(messages=said, **{f"c{number}": value for number, value in enumerate(made_up)})
        told: Any = {"a": "[[1]]", "b": [[1]]}
        at = saver.put(of_user("bens", "ben"), made, told, made["channel_versions"])
        saver.put_writes(at, [("c", value) for value in made_up], "task")
        found = saver.get_tuple(at)
        assert found is not None
        assert found.checkpoint["channel_values"] == made["channel_values"]
        assert [value for _, _, value in found.pending_writes or []] == made_up
        assert dict(found.metadata) | told == found.metadata
        saver.prune(["bens"])
        saver.delete_thread("bens")
        assert kept(saver) == [PHOTO]


def test_bytes_that_are_missing_are_told(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "memory.db") as saver:
        at = put(saver, config(), state={"raw": PHOTO})
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection, connection:
        connection.execute("DELETE FROM langgraph_blobs WHERE type = ?", (PAYLOAD,))
    with ReMeSaver.from_path(tmp_path / "memory.db") as saver, pytest.raises(CorruptDataError, match="missing"):
        saver.get_tuple(at)


def changed(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount


def test_bytes_that_are_others_than_were_kept_are_told(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "memory.db") as saver:
        at = put(saver, of_user("1"), state={"raw": PHOTO})
        other = put(saver, of_user("2"), state={"raw": PHOTO})
    bad = PHOTO[:-1] + b"?"
    changed(tmp_path / "memory.db", "UPDATE langgraph_blobs SET data = ? WHERE length(data) = ?", bad, len(bad))
    with ReMeSaver.from_path(tmp_path / "memory.db") as saver:
        for place in (at, other):
            with pytest.raises(CorruptDataError, match="others than were kept"):
                saver.get_tuple(place)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("UPDATE langgraph_blobs SET data = ? WHERE type = 'reme/apart'", value)
        for value in (b"", b"\xc1", ormsgpack.packb([1]), ormsgpack.packb(["z", b"no", []]), ormsgpack.packb([1, 2, 3]))
    ]
    + [
        ("UPDATE langgraph_blobs SET data = ? WHERE type = 'z'", b"no"),
        ("UPDATE langgraph_blobs SET type = ? WHERE type = 'z'", APART),
        ("UPDATE langgraph_blobs SET type = ? WHERE type = 'z'", "json"),
        ("UPDATE langgraph_checkpoints SET metadata = ?", "[[1"),
        ("UPDATE langgraph_checkpoints SET metadata = ?", "{"),
        ("UPDATE langgraph_checkpoints SET body = ?", b"\xc1"),
        ("UPDATE langgraph_checkpoints SET entries = ?", b"[]"),
        ("UPDATE langgraph_checkpoints SET entries = ?", ormsgpack.packb({"state": 1})),
        ("UPDATE langgraph_checkpoints SET entries = ?", ormsgpack.packb({"state": [9, "", b""]})),
        ("UPDATE langgraph_checkpoints SET entries = ?", ormsgpack.packb({"state": [1, "", ormsgpack.packb([])]})),
        ("UPDATE langgraph_writes SET form = ?", 7),
    ],
)
def test_a_row_that_was_changed_by_hand_is_told_and_can_be_deleted(tmp_path: Path, column: str, value: object) -> None:
    path = tmp_path / "memory.db"
    with ReMeSaver.from_path(path, synchronous="NORMAL") as saver:
        at = put(saver, of_user("t"), messages=[AIMessage("word " * 40, id="1"), shown()], state={"raw": PHOTO})
        saver.put_writes(at, [("state", {"raw": PHOTO})], "task")
    changed(path, column, value)
    with ReMeSaver.from_path(path, synchronous="NORMAL") as saver:
        with pytest.raises(CorruptDataError, match="restore a backup"):
            saver.get_tuple(at)
        for call in (lambda: saver.prune(["t"]), lambda: saver.copy_thread("t", "copy")):
            with suppress(CorruptDataError):  # no other error
                call()
        saver.delete_thread("t")
        assert saver.get_tuple(at) is None


def test_an_image_that_waits_for_a_history_outlives_its_checkpoint(tmp_path: Path) -> None:
    release, got = threading.Event(), list[BaseMessage]()

    def sink(_thread: str, _checkpoint: str, messages: Any) -> None:
        assert release.wait(20)
        got.extend(messages)

    with ReMeSaver.from_path(tmp_path / "memory.db", history=sink) as saver:
        at = put(saver, of_user("t"), messages=[shown()])
        put(saver, at, messages=[AIMessage("gone", id="a")])
        assert not holds_base64(saver)
        saver.prune(["t"])
        assert kept(saver) == [PHOTO]
        release.set()
        assert saver._history is not None
        assert saver._history.drain(20)
        assert got == [shown(), AIMessage("gone", id="a")]
        saver.prune(["t"])
        assert kept(saver) == []


def test_bytes_of_another_thread_stay_when_one_ends_of_which_they_wait_for_a_history(tmp_path: Path) -> None:
    release = threading.Event()

    def sink(*_: object) -> None:
        assert release.wait(20)

    with ReMeSaver.from_path(tmp_path / "memory.db", history=sink) as saver:
        put(saver, {**of_user("1"), "metadata": {"run_id": "r"}}, messages=[shown()])
        other = put(saver, of_user("2"), state=[PHOTO])
        saver.delete_for_runs(["r"])
        assert saver.get_tuple(config("1")) is None
        assert loaded(saver, other) == {"state": [PHOTO]}
        assert kept(saver) == [PHOTO]
        release.set()


def test_threads_with_images_are_imported_from_a_saver(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "old.db") as old, ReMeSaver.from_path(tmp_path / "new.db") as new:
        at = put(old, of_user("t"), messages=[shown()], state={"raw": PHOTO})
        old.put_writes(at, [("state", {"raw": PHOTO})], "task")
        assert import_checkpoints(old, new).imported == 1
        assert new.get_tuple(config("t")) == old.get_tuple(config("t"))
        assert kept(new) == [PHOTO]
