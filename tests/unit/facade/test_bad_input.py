"""Whatever the facade is given: a typed error that names what is wrong, and nothing changed."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reme_core import ReMe, Slicing
from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    DimensionMismatchError,
    InvalidInputError,
    MemoryNotFoundError,
    MessageNotFoundError,
    PartialFailureError,
    ReMeError,
    RunNotFoundError,
    StoreAccessError,
    StoreClosedError,
    UnsupportedFilterError,
)
from reme_core.schema import Scope
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from tests.support.snapshots import snapshot

ALICE = Scope(memory_space="space", user_id="alice")
# The facade is handed what its annotations forbid.
Facade = Any
Call = Callable[[Facade], Awaitable[object]]


def message(**changes: object) -> dict[str, object]:
    return {"role": "user", "content": "hello", **changes}


def nested(depth: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"deeper": value}
    return value


def cyclic() -> dict[str, object]:
    value: dict[str, object] = {}
    value["itself"] = value
    return value


def cursor(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def summary(*messages: object, **named: object) -> Call:
    return lambda reme: reme.summary(list(messages), **{"user_id": "alice", **named})


def add(content: object = "a fact", **named: object) -> Call:
    return lambda reme: reme.add_memory(content, **{"user_id": "alice", **named})


def ask(query: object = "tea", **named: object) -> Call:
    return lambda reme: reme.retrieve(query, **{"user_id": "alice", **named})


def change(**named: object) -> Call:
    return lambda reme: reme.update_memory("held", user_id="alice", **named)


def call(name: str, *given: object, **named: object) -> Call:
    return lambda reme: getattr(reme, name)(*given, **{"user_id": "alice", **named})


SURROGATE = "broken \ud83d emoji"
tool_call = {"type": "tool_call", "call_id": "c", "name": "n"}

BAD: dict[str, tuple[Call, type[ReMeError], str]] = {
    # messages
    "messages is None": (call("summary", None), InvalidInputError, "messages: wanted a list"),
    "messages is a text": (call("summary", "hello"), InvalidInputError, "messages: wanted a list"),
    "messages is one dictionary": (call("summary", message()), InvalidInputError, "messages: wanted a list"),
    "messages is a number": (call("summary", 5), InvalidInputError, "messages: wanted a list"),
    "a message is a number": (summary(5), InvalidInputError, r"messages\[0\]: wanted a Message"),
    "a message is None": (summary(message(), None), InvalidInputError, r"messages\[1\]: wanted a Message"),
    "no content": (summary({"role": "user"}), InvalidInputError, r"messages\[0\].content"),
    "empty content": (summary(message(content="")), InvalidInputError, r"messages\[0\].*empty"),
    "blank content": (summary(message(content=" \n\t")), InvalidInputError, "empty"),
    "content is a number": (summary(message(content=5)), InvalidInputError, r"messages\[0\]: content: .*found int"),
    "a message of 10 MB": (summary(message(content="x" * 10_000_000)), InvalidInputError, "8388608"),
    "other data of 10 MB": (
        summary(message(content=["x", {"type": "other", "kind": "blob", "data": "x" * 10_000_000}])),
        InvalidInputError,
        "8388608",
    ),
    "a lone surrogate": (summary(message(content=SURROGATE)), InvalidInputError, "lone surrogate at character 7"),
    "a lone surrogate in a name": (summary(message(name=SURROGATE)), InvalidInputError, r"name: a lone surrogate"),
    "a lone surrogate in arguments": (
        summary({"role": "assistant", "content": [{**tool_call, "arguments": {"a": SURROGATE}}]}),
        InvalidInputError,
        "arguments.*lone surrogate",
    ),
    "a lone surrogate in other data": (
        summary(message(content=["x", {"type": "other", "kind": "k", "data": [SURROGATE]}])),
        InvalidInputError,
        "data: a lone surrogate",
    ),
    "a lone surrogate in a media type": (
        summary(message(content=[{"type": "image", "url": "u", "media_type": SURROGATE}])),
        InvalidInputError,
        "media_type: a lone surrogate",
    ),
    "NUL": (summary(message(content="a\0b")), InvalidInputError, "NUL character at character 1"),
    "NaN in arguments": (
        summary({"role": "assistant", "content": [{**tool_call, "arguments": {"a": float("nan")}}]}),
        InvalidInputError,
        "arguments.*nan",
    ),
    "deep arguments": (
        summary({"role": "assistant", "content": [{**tool_call, "arguments": nested(10_000)}]}),
        InvalidInputError,
        "arguments",
    ),
    "an unknown role": (summary(message(role="robot")), InvalidInputError, r"messages\[0\].role"),
    "an unknown field": (summary(message(mood="good")), InvalidInputError, "mood: is not a known field"),
    "a field like one that exists": (summary(message(contents="x")), InvalidInputError, "did you mean 'content'?"),
    "a list without content": (summary(message(content=[])), InvalidInputError, "content: wanted at least 1 item"),
    "an unknown part": (summary(message(content=[{"type": "smell"}])), InvalidInputError, "'smell' is not known"),
    "a tool result without id": (
        summary({"role": "tool", "content": [{"type": "tool_result", "output": "4"}]}),
        InvalidInputError,
        "call_id: is missing",
    ),
    "tool calls of a wrong type": (summary(message(tool_calls="x")), InvalidInputError, "tool_calls: wanted a list"),
    "a message of the year 1": (summary(message(created_at="0001-01-01")), InvalidInputError, "the year 1 "),
    "a message of year 1 by its zone": (
        summary(message(created_at=datetime(1900, 1, 1, tzinfo=timezone(timedelta(hours=14))))),
        InvalidInputError,
        "the year 1899",
    ),
    "a message of the future": (summary(message(created_at="2999-01-01")), InvalidInputError, "future"),
    "a time that is none": (summary(message(created_at="yesterday")), InvalidInputError, "not a time: 'yesterday'"),
    "a time that is a number": (summary(message(created_at=1700000000)), InvalidInputError, "created_at.*int"),
    "two different times": (
        summary(message(created_at="2026-01-01", timestamp="2026-01-02")),
        InvalidInputError,
        "'timestamp' and 'created_at' differ",
    ),
    "an empty message id": (summary(message(id="")), InvalidInputError, "message_id: is empty"),
    "a message id twice": (summary(message(id="x"), message(id="x")), InvalidInputError, "'x' stands twice"),
    "a message id that is taken": (
        summary(message(id="said", created_at="2026-01-01", content="other"), session_id="s"),
        ConflictError,
        "'said' exists with other content",
    ),
    "a message id of another session": (
        summary(message(id="said", created_at="2026-01-01", content="tea"), session_id="t"),
        ConflictError,
        "'said' exists with another session",
    ),
    "no way out of a conflict": (summary(message(), on_conflict="skip"), InvalidInputError, "on_conflict: wanted"),
    "a good message beside a bad one": (summary(message(id="good"), message(role="x")), InvalidInputError, r"\[1\]"),
    "metadata of a message are a list": (summary(message(metadata=[1])), InvalidInputError, "metadata"),
    "an empty session id": (summary(message(), session_id=""), InvalidInputError, "session_id: is empty"),
    "a session id of a wrong type": (summary(message(), session_id=7), InvalidInputError, "session_id: wanted a str"),
    "summary of an unknown type": (summary(message(), memory_type="dream"), InvalidInputError, "memory_type: 'dream'"),
    "summary of two types": (
        summary(message(), memory_type=["personal", "tool"]),
        InvalidInputError,
        "memory_type.*none of auto",
    ),
    "summary of no type": (summary(message(), memory_type=[]), InvalidInputError, "memory_type"),
    "end_session is a text": (summary(message(), end_session="no"), InvalidInputError, "end_session: wanted True"),
    # whose
    "no user": (summary(message(), user_id=None), InvalidInputError, "user_id: .*no user is named: .*shared=True"),
    "a user of a wrong type": (add(user_id=5), InvalidInputError, "scope.user_id"),
    "a user that is a path": (add(user_id="../bob"), InvalidInputError, "looks like a path"),
    "a user that is an absolute path": (add(user_id="/etc"), InvalidInputError, "looks like a path"),
    "a user that is a Windows path": (add(user_id="a\\..\\b"), InvalidInputError, "looks like a path"),
    "a user with NUL": (add(user_id="a\0b"), InvalidInputError, "NUL"),
    "a user with a surrogate": (ask(user_id="\ud800"), InvalidInputError, "lone surrogate"),
    "a user of blanks": (add(user_id=" "), InvalidInputError, "user_id: is blank, .*shared=True"),
    "an empty user": (add(user_id=""), InvalidInputError, "user_id: is empty, .*shared=True"),
    "a user and the shared scope": (add(shared=True), InvalidInputError, "name two scopes: leave one of them out"),
    "an empty user and the shared scope": (add(user_id="", shared=True), InvalidInputError, "name two scopes"),
    "shared is a text": (add(user_id=None, shared="yes"), InvalidInputError, "shared: wanted True or False"),
    "a user of 513 characters": (add(user_id="x" * 513), InvalidInputError, "at most 512"),
    # memories
    "an empty memory": (add(""), InvalidInputError, "content is empty"),
    "a blank memory": (add(" \n"), InvalidInputError, "content is empty"),
    "a memory of None": (add(None), InvalidInputError, "content"),
    "a memory that is a number": (add(5), InvalidInputError, r"memories\[0\].content"),
    "a memory of 10 MB": (add("x" * 10_000_000), InvalidInputError, "262144"),
    "a memory with a surrogate": (add(SURROGATE), InvalidInputError, "content: a lone surrogate"),
    "a memory with NUL": (add("a\0"), InvalidInputError, "NUL"),
    "an unknown type of memory": (add(memory_type="dream"), InvalidInputError, "memory_type"),
    "an empty target": (add(memory_target=""), InvalidInputError, "memory_target"),
    "a target of a wrong type": (add(memory_target=["a"]), InvalidInputError, "memory_target"),
    "importance above 1": (add(importance=1.5), InvalidInputError, "importance"),
    "importance NaN": (add(importance=float("nan")), InvalidInputError, "importance"),
    "confidence is a word": (add(confidence="high"), InvalidInputError, "confidence"),
    "observed in the future": (add(observed_at="2999-01-01"), InvalidInputError, "observed_at.*future"),
    "observed in the year 1": (add(observed_at="0001-01-01"), InvalidInputError, "the year 1 "),
    "valid from 10000": (add(valid_from=datetime.max), InvalidInputError, "the year 9999"),  # noqa: DTZ901  # naive on purpose
    "valid over the edge by its zone": (add(valid_from="1900-01-01T00:00+14:00"), InvalidInputError, "the year 1899"),
    "metadata are a list": (add(metadata=[1]), InvalidInputError, "metadata"),
    "NaN in metadata": (add(metadata={"a": {"b": float("nan")}}), InvalidInputError, "'a.b' is nan"),
    "infinity in metadata": (add(metadata={"a": float("inf")}), InvalidInputError, "'a' is inf"),
    "a key of metadata is a number": (add(metadata={1: "a"}), InvalidInputError, "metadata"),
    "a value of metadata is an object": (add(metadata={"a": object()}), InvalidInputError, "metadata"),
    "deep metadata": (add(metadata=nested(40)), InvalidInputError, "deeper than 32"),
    "very deep metadata": (add(metadata=nested(100_000)), InvalidInputError, "metadata"),
    "metadata that hold themselves": (add(metadata=cyclic()), InvalidInputError, "metadata"),
    "huge metadata": (add(metadata={"a": "x" * (1 << 20)}), InvalidInputError, "1048576"),
    "a number of 5,000 digits": (add(metadata={"a": 10**5000}), InvalidInputError, "metadata"),
    "a surrogate in metadata": (add(metadata={"a": [SURROGATE]}), InvalidInputError, "lone surrogate"),
    "a surrogate in a key": (add(metadata={"\ud800": 1}), InvalidInputError, "lone surrogate"),
    "a reason of a wrong type": (add(reason=5), InvalidInputError, "reason: wanted a string"),
    "a reason with a surrogate": (add(reason="\ud800"), InvalidInputError, "reason: a lone surrogate"),
    "memories is None": (call("add_memories", None), InvalidInputError, "memories: wanted a list"),
    "memories is one mapping": (call("add_memories", {"content": "x"}), InvalidInputError, "memories: wanted a list"),
    "memories is a text": (call("add_memories", "x"), InvalidInputError, "memories: wanted a list"),
    "a draft is a text": (call("add_memories", ["x"]), InvalidInputError, r"memories\[0\]: wanted a mapping"),
    "an unknown field of a draft": (
        call("add_memories", [{"content": "x"}, {"content": "y", "mood": 1}]),
        InvalidInputError,
        r"memories\[1\]: 'mood' can't be set",
    ),
    "a draft that sets its revision": (call("add_memories", [{"content": "x", "revision": 9}]), InvalidInputError, "rev"),  # noqa: E501
    "a draft that names another user": (call("add_memories", [{"content": "x", "user_id": "b"}]), InvalidInputError, "user"),  # noqa: E501
    "a memory id that is taken": (
        call("add_memories", [{"content": "fresh"}, {"content": "x", "memory_id": "held"}]),
        ConflictError,
        "'held' has revision 1",
    ),
    "a memory id twice": (
        call("add_memories", [{"content": "x", "memory_id": "n"}, {"content": "y", "memory_id": "n"}]),
        ConflictError,
        "'n' has revision 1",
    ),
    "an empty run id": (call("add_memories", [{"content": "x"}], run_id=""), InvalidInputError, "run_id: is empty"),
    "sources of a wrong type": (call("add_memories", [{"content": "x", "sources": 5}]), InvalidInputError, "sources"),
    "valid to before valid from": (
        call("add_memories", [{"content": "x", "valid_from": "2026-01-02", "valid_to": "2026-01-01"}]),
        InvalidInputError,
        "lies before valid_from",
    ),
    # changes
    "nothing to change": (change(), InvalidInputError, "nothing to change"),
    "change to nothing": (change(content=""), InvalidInputError, "content is empty"),
    "change with a stale revision": (change(content="x", expected_revision=7), ConflictError, "expected was 7"),
    "a revision of a wrong type": (change(content="x", expected_revision="1"), InvalidInputError, "expected_revision"),
    "a revision that is True": (change(content="x", expected_revision=True), InvalidInputError, "expected_revision"),
    "change into a duplicate": (change(content="Drinks TEA."), ConflictError, "says the same"),
    "change of an unknown memory": (
        call("update_memory", "nope", content="x"),
        MemoryNotFoundError,
        "no memory 'nope' in this scope",
    ),
    "change that ends before it begins": (change(valid_to="1999-01-01"), InvalidInputError, "lies before valid_from"),
    "get by number": (call("get_memory", 5), InvalidInputError, "memory_id: wanted a string"),
    "get an unknown memory": (call("get_memory", "nope"), MemoryNotFoundError, "'nope'"),
    "delete an unknown memory": (call("delete_memory", "nope"), MemoryNotFoundError, "'nope'"),
    "delete for a reason of a wrong type": (call("delete_memory", "held", reason=[1]), InvalidInputError, "reason"),
    "history of an unknown memory": (call("history", "nope"), MemoryNotFoundError, "'nope'"),
    "undo of an unknown run": (call("undo", "nope"), RunNotFoundError, "no run 'nope'"),
    "undo of no run": (call("undo", None), InvalidInputError, "run_id: wanted a string"),
    "messages by a single id": (call("get_messages", "said"), InvalidInputError, "message_ids: wanted a list"),
    "messages by a number": (call("get_messages", 5), InvalidInputError, "message_ids: wanted a list"),
    "messages by numbers": (call("get_messages", [5]), InvalidInputError, r"message_ids\[0\]: wanted a string"),
    "unknown messages": (call("get_messages", ["said", "nope"]), MessageNotFoundError, "no message 'nope'"),
    "100,000 unknown messages": (
        call("get_messages", [f"m{number}" for number in range(100_000)]),
        MessageNotFoundError,
        "'m4' …",
    ),
    # questions
    "an empty question": (ask(""), InvalidInputError, "query: is empty"),
    "a question of NUL": (ask("\0"), InvalidInputError, "query: is empty"),
    "a question that is None": (ask(None), InvalidInputError, "query: wanted a string"),
    "a question with a surrogate": (ask("\ud800"), InvalidInputError, "query: a lone surrogate"),
    "limit 0": (ask(limit=0), InvalidInputError, "limit: wanted a whole number from 1 on, found 0"),
    "limit -1": (ask(limit=-1), InvalidInputError, "limit"),
    "limit True": (ask(limit=True), InvalidInputError, "limit.*found True"),
    "limit 2.5": (ask(limit=2.5), InvalidInputError, "limit.*found 2.5"),
    "limit a word": (ask(limit="ten"), InvalidInputError, "limit.*'ten'"),
    "top_k 0": (ask(top_k=0), InvalidInputError, "top_k: wanted a whole number from 1 on, found 0"),
    "top_k True": (ask(top_k=True), InvalidInputError, "top_k.*found True"),
    "top_k 1,000,000,000": (ask(top_k=1_000_000_000), InvalidInputError, "top_k: at most 10000"),
    "a limit and another top_k": (ask(limit=3, top_k=4), InvalidInputError, "limit and top_k mean the same.* 3 and 4"),
    "a min_score above 1": (ask(min_score=1.5), InvalidInputError, "min_score: wanted a number from 0 to 1, found 1.5"),
    "a min_score below 0": (ask(min_score=-0.1), InvalidInputError, "min_score"),
    "a min_score that is none": (ask(min_score=float("nan")), InvalidInputError, "min_score"),
    "a min_score of True": (ask(min_score=True), InvalidInputError, "min_score"),
    "a min_score as a word": (ask(min_score="0.5"), InvalidInputError, "min_score.*'0.5'"),
    "limit 1,000,000,000": (ask(limit=1_000_000_000), InvalidInputError, "limit: at most 10000"),
    "limit of 5,000 digits": (ask(limit=10**5000), InvalidInputError, "limit: at most 10000"),
    "a budget of 0": (ask(token_budget=0), InvalidInputError, "token_budget"),
    "a budget of half a token": (ask(token_budget=0.5), InvalidInputError, "token_budget"),
    "an unknown layer": (ask(layers=["dreams"]), InvalidInputError, "layers: wanted some of memory"),
    "no layer": (ask(layers=[]), InvalidInputError, "layers"),
    "a layer that is a number": (ask(layers=3), InvalidInputError, "layers"),
    "an unknown type in a question": (ask(memory_type="dream"), InvalidInputError, "memory_type: 'dream'"),
    "a type that is an object": (ask(memory_type=object()), InvalidInputError, "memory_type"),
    "a target that is a number": (ask(memory_target=5), InvalidInputError, "memory_target"),
    "a target with a surrogate": (ask(memory_target="\ud800"), InvalidInputError, "memory_target: a lone surrogate"),
    "a filter that is a text": (ask(metadata="x"), InvalidInputError, "metadata: wanted a mapping"),
    "a filter with an operator": (ask(metadata={"k": {"$ne": 1}}), UnsupportedFilterError, r"metadata\['k'\]"),
    "a filter with a list": (ask(metadata={"k": [1]}), UnsupportedFilterError, r"metadata\['k'\]"),
    "a filter on NaN": (ask(metadata={"k": float("nan")}), InvalidInputError, "nothing stored equals nan"),
    "a filter on a huge number": (ask(metadata={"k": 2**70}), UnsupportedFilterError, "beyond 64 bits"),
    "a filter with a surrogate": (ask(metadata={"k": "\ud800"}), InvalidInputError, r"metadata\['k'\]"),
    "a filter of 1,000 keys": (ask(metadata={f"k{n}": 1 for n in range(1000)}), UnsupportedFilterError, "1000 keys"),
    "a filter on a layer without it": (ask(metadata={"k": 1}, layers=["message"]), UnsupportedFilterError, "message"),
    "a start that is none": (ask(start_time="soon"), InvalidInputError, "start_time: not a time"),
    "an end of the year 1": (ask(end_time="0001-01-01"), InvalidInputError, "end_time: the year 1 "),
    "as of a number": (ask(as_of=5), InvalidInputError, "as_of"),
    "as of and superseded": (ask(as_of="2026-01-01", include_superseded=True), InvalidInputError, "contradict"),
    "include_shared is a text": (ask(include_shared="no"), InvalidInputError, "include_shared: wanted True or False"),
    "include_superseded is a number": (ask(include_superseded=1), InvalidInputError, "include_superseded"),
    # lists
    "a cursor that is none of ours": (call("list_memories", cursor="x"), InvalidInputError, "cursor: 'x'"),
    "a cursor that is a number": (call("list_memories", cursor=5), InvalidInputError, "cursor: 5"),
    "a cursor of another list": (call("list_memories", cursor=cursor("messages", 1)), InvalidInputError, "cursor"),
    "a cursor with a huge number": (call("find_messages", cursor=cursor("messages", 2**70)), InvalidInputError, "curs"),
    "a cursor with a surrogate": (call("list_memories", cursor=cursor("memories", 1, "\ud800")), InvalidInputError, "cu"),  # noqa: E501
    "a cursor of blocks": (call("list_blocks", cursor=cursor("blocks", 1.5)), InvalidInputError, "cursor"),
    "a list of 0": (call("list_memories", limit=0), InvalidInputError, "limit"),
    "a list of blocks of True": (call("list_blocks", limit=True), InvalidInputError, "limit"),
    "a keyword of nothing": (call("list_memories", keyword=" "), InvalidInputError, "is empty"),
    "a keyword of stop words": (call("list_memories", keyword="the of"), InvalidInputError, "keyword"),
    "newest_first is a text": (call("find_messages", newest_first="yes"), InvalidInputError, "newest_first"),
    # files
    "export to nowhere": (call("export", ""), InvalidInputError, "path: wanted the path of a file"),
    "export to a folder": (call("export", "."), InvalidInputError, "path"),
    "export to a number": (call("export", 5), InvalidInputError, "path"),
    "export with NUL": (call("export", "a\0b"), InvalidInputError, "path"),
    "export with a surrogate": (call("export", "a\ud800b"), InvalidInputError, "path"),
    "export into no folder": (call("export", "/nonexistent-folder/x.jsonl"), StoreAccessError, "can't be written"),
    "import of nothing": (call("import_", "/nonexistent-folder/x.jsonl"), StoreAccessError, "can't be read"),
    "import of a folder": (call("import_", "/"), InvalidInputError, "path"),
}  # fmt: skip


@dataclass
class Bench:
    reme: ReMe
    store: LocalStore


async def build(folder: Path) -> Bench:
    store = LocalStore(folder / "memory.db", synchronous="NORMAL")
    reme = ReMe("space", folder, llm=None, embedding=HashedEmbedder(16), vector_store=store)
    await reme.add_memories(
        [
            {"content": "plays chess", "memory_id": "held", "metadata": {"k": 1}, "valid_from": "2026-01-01"},
            {"content": "drinks tea", "memory_id": "tea"},
        ],
        user_id="alice",
    )
    await reme.summary(
        [{"role": "user", "content": "tea", "id": "said", "created_at": "2026-01-01"}], user_id="alice", session_id="s"
    )
    return Bench(reme, store)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = await build(tmp_path)
    yield bench
    await bench.store.close()


@pytest.fixture(scope="module")
def unchanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A memory that all rows of the table share, since none of them changes it."""
    bench = asyncio.run(build(tmp_path_factory.mktemp("unchanging")))
    yield bench
    asyncio.run(bench.reme.summary([("user", "and the next call works")], user_id="alice"))
    asyncio.run(bench.store.close())


@pytest.mark.parametrize(("made", "kind", "text"), BAD.values(), ids=BAD)
async def test_bad_input_is_a_typed_error_and_changes_nothing(
    unchanging: Bench, made: Call, kind: type[ReMeError], text: str
) -> None:
    before = await snapshot(unchanging.store, ALICE)
    with pytest.raises(kind, match=text) as caught:
        await made(unchanging.reme)
    assert len(str(caught.value)) < 1500
    assert await snapshot(unchanging.store, ALICE) == before


class OddEmbedder:
    """Answers with what it was told to."""

    model = "hashed-16"

    def __init__(self, answer: Callable[[int], object], dimension: int = 16) -> None:
        self.answer = answer
        self.dimension = dimension

    async def embed(self, texts: Sequence[str]) -> Any:
        return self.answer(len(texts))


ODD_ANSWERS: dict[str, Callable[[int], object]] = {
    "NaN": lambda n: np.full((n, 16), np.nan, np.float32),
    "infinity": lambda n: np.full((n, 16), np.inf, np.float32),
    "zeros": lambda n: np.zeros((n, 16), np.float32),
    "too large for float32 and float64": lambda n: np.full((n, 16), 1e300),
    "a wrong dimension": lambda n: np.ones((n, 15), np.float32),
    "too few": lambda n: np.ones((n - 1, 16), np.float32),
    "too many": lambda n: np.ones((n + 1, 16), np.float32),
    "one flat vector": lambda n: np.ones(16, np.float32),
    "texts": lambda n: np.full((n, 16), "x"),
    "complex numbers": lambda n: np.ones((n, 16), np.complex64),
    "rows of several lengths": lambda n: [[1.0] * 16, [1.0] * 3][: n + 1],
    "None": lambda _: None,
    "objects": lambda n: [[object()] * 16] * n,
}


@pytest.mark.parametrize("answer", ODD_ANSWERS.values(), ids=ODD_ANSWERS)
async def test_unusable_vectors_leave_words_and_nothing_is_lost(
    bench: Bench, tmp_path: Path, answer: Callable[[int], object]
) -> None:
    odd = ReMe("space", tmp_path, llm=None, embedding=OddEmbedder(answer), vector_store=bench.store)
    await odd.add_memory("new fact", user_id="alice")
    await odd.update_memory("held", content="new", user_id="alice")
    found = await odd.retrieve("fact", user_id="alice")
    assert found.results[0].memory == "new fact"
    assert "the embedder" in found.degraded[0]
    kept = await odd.summary([{"role": "user", "content": "kept", "id": "kept"}], user_id="alice")
    assert (kept.message_ids, len(kept.degraded)) == (("kept",), 1)
    assert (await bench.reme.get_messages(["kept"], user_id="alice"))[0].message.text == "kept"
    await odd.close()
    await bench.reme.flush()
    assert (await bench.reme.stats(user_id="alice")).waiting_for_vectors == 0


GOOD_ANSWERS: dict[str, Callable[[int], object]] = {
    "Python lists": lambda n: [[1.0] * 16] * n,
    "integers": lambda n: np.ones((n, 16), np.int64),
    "float64 of any length": lambda n: np.full((n, 16), 1e-30),
    "large float64": lambda n: np.full((n, 16), 1e60),
    "float16": lambda n: np.ones((n, 16), np.float16),
    "columns first": lambda n: np.asfortranarray(np.ones((n, 16), np.float32)),
}


@pytest.mark.parametrize("answer", GOOD_ANSWERS.values(), ids=GOOD_ANSWERS)
async def test_vectors_of_other_forms_are_brought_to_unit_norm(
    bench: Bench, tmp_path: Path, answer: Callable[[int], object]
) -> None:
    reme = ReMe("space", tmp_path, llm=None, embedding=OddEmbedder(answer), vector_store=bench.store)
    stored = await reme.add_memory("with an odd vector", user_id="bob")
    await reme.summary([("user", "said with an odd vector")], user_id="bob")
    found = await reme.retrieve("nothing in common", user_id="bob")
    assert stored.memory_id in {hit.memory_id for hit in found.results}


async def test_another_dimension_than_that_of_the_file_is_refused_and_messages_are_kept(
    bench: Bench, tmp_path: Path
) -> None:
    other = ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(32), vector_store=bench.store)
    with pytest.raises(DimensionMismatchError, match="32 dimensions, this store holds vectors of 16"):
        await other.add_memory("new", user_id="alice")
    with pytest.raises(DimensionMismatchError, match="32"):
        await other.retrieve("tea", user_id="alice")
    with pytest.raises(PartialFailureError, match="the messages are kept") as caught:
        await other.summary([{"role": "user", "content": "kept", "id": "kept"}], user_id="alice")
    assert isinstance(caught.value.failures[0], DimensionMismatchError)
    assert await bench.reme.get_messages(["kept"], user_id="alice")
    with pytest.raises(PartialFailureError):
        await other.flush()


BAD_SETTINGS: dict[str, tuple[dict[str, object], type[ReMeError], str]] = {
    "a space that is a path": ({"memory_space": "../other"}, InvalidInputError, "looks like a path"),
    "an empty space": ({"memory_space": ""}, InvalidInputError, "scope.memory_space: is empty"),
    "a space of a wrong type": ({"memory_space": 5}, InvalidInputError, "scope.memory_space"),
    "no folder": ({"working_dir": ""}, ConfigurationError, "working_dir"),
    "a folder of a wrong type": ({"working_dir": 5}, ConfigurationError, "working_dir"),
    "a folder with NUL": ({"working_dir": "a\0b"}, ConfigurationError, "working_dir"),
    "a folder with a surrogate": ({"working_dir": "a\ud800b"}, ConfigurationError, "working_dir"),
    "an unknown key": ({"vector_store": {"backend": "local", "size": 1}}, ConfigurationError, "vector_store.size"),
    "an unknown backend": ({"vector_store": {"backend": "papyrus"}}, ConfigurationError, "vector_store.backend"),
    "a store that is a text": ({"vector_store": "local"}, ConfigurationError, "vector_store: wanted settings"),
    "a file with NUL": ({"vector_store": {"path": "a\0b"}}, ConfigurationError, "can't be the path"),
    "a time-out of 0": ({"vector_store": {"busy_timeout_s": 0}}, ConfigurationError, "busy_timeout_s"),
    "a model that is a text": ({"llm": "qwen-plus"}, ConfigurationError, "llm: wanted settings"),
    "a model without name": ({"llm": {"backend": "openai"}}, ConfigurationError, "llm.model"),
    "an embedder that is a number": ({"embedding": 5}, ConfigurationError, "embedding: wanted settings"),
    "an unknown setting of a model": (
        {"llm": {"backend": "openai", "model": "m", "temprature": 1}},
        ConfigurationError,
        "llm.temprature: is not a known field",
    ),
    "a setting of a model like one that exists": (
        {"llm": {"backend": "openai", "model_name": "m"}},
        ConfigurationError,
        "llm.model: is missing; llm.model_name: is not a known field: did you mean 'model'?",
    ),
    "a setting of another store": (
        {"vector_store": {"backend": "local_file", "url": "http://localhost"}},
        ConfigurationError,
        "vector_store.url: is not a known field: there are 'backend', 'path', ",
    ),
    "an unknown store": (
        {"vector_store": {"backend": "x"}},
        ConfigurationError,
        "vector_store.backend: wanted 'local_file', 'local', 'qdrant'",
    ),
    "a store like one that exists": (
        {"vector_store": {"backend": "quadrant"}},
        ConfigurationError,
        "wanted 'local_file', 'local', 'qdrant', 'postgres': did you mean 'qdrant'?",
    ),
    "an unknown kind of model": ({"llm": {"backend": "openia"}}, ConfigurationError, "did you mean 'openai'?"),
    "settings of a wrong type": (
        {"llm": {"backend": "openai", "model": 3, "timeout_s": "long", "max_retries": -1}},
        ConfigurationError,
        "llm.model: wanted a text; llm.timeout_s: wanted a number; llm.max_retries: wanted at least 0",
    ),
    "a setting that does not exist": ({"modle": "m"}, ConfigurationError, "settings of ReMe: wanted 'clock', "),
    "a setting like one that exists": ({"embeding": None}, ConfigurationError, "did you mean 'embedding'?"),
    "no key": ({"llm": {"backend": "openai", "model": "m"}}, ConfigurationError, "REME_LLM_API_KEY"),
    "no key for embeddings": (
        {"embedding": {"backend": "openai", "model": "m"}},
        ConfigurationError,
        "REME_EMBEDDING_API_KEY",
    ),
    "a dimension of 0": (
        {"embedding": {"backend": "openai", "model": "m", "api_key": "k", "dimension": 0}},
        ConfigurationError,
        "embedding.dimension",
    ),
    "slicing by number": ({"slicing": 5}, ConfigurationError, "slicing"),
    "a clock that is a number": ({"clock": 5}, ConfigurationError, "clock"),
    "a counter that is a number": ({"token_counter": 5}, ConfigurationError, "token_counter"),
    "agents that are not there yet": ({"use_agentic_mode": True}, ConfigurationError, "use_agentic_mode"),
}


@pytest.mark.parametrize(("given", "kind", "text"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_bad_settings_are_a_typed_error_when_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, object], kind: type[ReMeError], text: str
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "REME_LLM_API_KEY", "REME_EMBEDDING_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    made: Any = ReMe
    with pytest.raises(kind, match=text):
        made(**{"working_dir": tmp_path, "llm": None, "embedding": None, **given})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [{"overlap": -1}, {"overlap": 20}, {"max_messages": 0}, {"max_chars": 0}])
def test_slicing_that_makes_no_blocks_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="slicing"):
        Slicing(**given)


async def test_a_closed_memory_says_so(bench: Bench, tmp_path: Path) -> None:
    reme = ReMe("space", tmp_path, llm=None, embedding=None)
    await reme.stats(user_id="alice")
    await reme.close()
    await reme.close()
    for refused in (
        reme.add_memory("x", user_id="alice"),
        reme.retrieve("x", user_id="alice"),
        reme.summary([("user", "x")], user_id="alice"),
        reme.delete_all_memories(user_id="alice"),
    ):
        with pytest.raises(StoreClosedError, match="open a new one"):
            await refused


async def test_odd_but_good_input_is_kept_as_it_is(bench: Bench) -> None:
    odd = "emoji 👩‍👩‍👧 中文 \u2028 \u202e rtl \u200b e\u0301 \x1b[31m 'quotes\" <b> \\ %s {0} -- ; \r\n\t end"
    stored = await bench.reme.add_memory(odd, user_id="alice", metadata={odd: [odd, {odd: None}]})
    assert (await bench.reme.get_memory(stored.memory_id, user_id="alice")).content == odd
    kept = await bench.reme.summary([("user", odd)], user_id="alice")
    [message_] = await bench.reme.get_messages(kept.message_ids, user_id="alice")
    assert message_.message.text == odd
    found = await bench.reme.retrieve("中文", user_id="alice")
    assert odd in {hit.memory for hit in found.results}


KEYS = ['a"b', "a\\b", "a.b", "$", "é", "\n", "", "a'b", "[0]", "a b", "中", "%", "1"]
VALUES: list[str | int | float | bool | None] = ["x", "", 0, 1, True, False, None, 1.5, -0.0, 'é\n"', 2**53]


@pytest.mark.parametrize("key", KEYS)
async def test_a_filter_on_metadata_finds_exactly_the_value(bench: Bench, key: str) -> None:
    drafts: list[dict[str, object]] = [
        {"content": f"fact {place}", "metadata": {key: value, f"{key} ": "x"}} for place, value in enumerate(VALUES)
    ]
    stored = await bench.reme.add_memories(drafts, user_id="bob")
    for value in VALUES:
        page = await bench.reme.list_memories(user_id="bob", metadata={key: value})
        wanted = {
            memory.memory_id
            for memory, other in zip(stored, VALUES, strict=True)
            if other == value and isinstance(other, bool) == isinstance(value, bool)
        }
        assert {memory.memory_id for memory in page.memories} == wanted


async def test_cancelled_bad_calls_leave_the_memory_usable(bench: Bench) -> None:
    for _ in range(20):
        task = asyncio.ensure_future(bench.reme.summary([("user", "cancelled")] * 3, user_id="carol"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    counts = await bench.reme.stats(user_id="carol")
    assert counts.messages % 3 == 0
    assert (await bench.reme.add_memory("still works", user_id="carol")).content == "still works"
