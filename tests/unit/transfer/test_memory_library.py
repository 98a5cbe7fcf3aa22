"""Memory libraries: what a dump holds, what loading one writes, and what it refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from reme_core.errors import (
    ConflictError,
    InvalidLinesError,
    ModelUnavailableError,
    StoreAccessError,
    StoreClosedError,
    StoreUnavailableError,
)
from reme_core.ports import (
    AppendMessages,
    Embedder,
    ListMemories,
    Matrix,
    MemoryFilter,
    MemorySearch,
    Store,
    WriteBatch,
)
from reme_core.remember.memory_editor import undo_run
from reme_core.schema import (
    DumpedLibrary,
    LoadedLibrary,
    Memory,
    MemoryType,
    Scope,
    Source,
    shown_validity,
)
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import ALICE, BOB, NOW, batch, changed, closed, memory, message
from reme_core.toolstats.tool_guideline import find_guideline, written_from
from reme_core.transfer.memory_library import load_library
from reme_core.transfer.scope_transfer import dump_library, export_scope
from tests.support.temporary_store import TemporaryStore

EVERYTHING = MemoryFilter(include_superseded=True)
EMBEDDER = HashedEmbedder(64)
HEAD = {"kind": "header", "format": "reme", "version": 2, "holds": "library"}


async def load(
    store: Store,
    path: Path,
    *,
    scope: Scope = BOB,
    embedder: Embedder | None = None,
    memory_target: str | None = None,
    skip_bad_lines: bool = False,
    deduplicate: bool = False,
    told: list[int] | None = None,
    at: datetime = NOW,
) -> LoadedLibrary:
    return await load_library(
        store,
        embedder,
        scope,
        path,
        memory_target=memory_target,
        skip_bad_lines=skip_bad_lines,
        deduplicate=deduplicate,
        similarity=0.9,
        at=at,
        progress=None if told is None else told.append,
    )


async def held(store: Store, scope: Scope = BOB) -> dict[str, Memory]:
    page = await store.list_memories(scope, ListMemories(filter=EVERYTHING, limit=5000))
    return {item.memory_id: item for item in page.memories}


def write(path: Path, *lines: object) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return path


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def advice(number: int) -> dict[str, JsonValue]:
    """Return a line of our own form; no two of them are near each other."""
    word = f"{number * 7919:x}"
    return {
        "memory_id": f"id{number}",
        "memory_type": "procedural",
        "memory_target": "code",
        "when_to_use": f"module q{word} with error z{number}",
        "content": f"Restart w{word}{number} of v{number * 31} before k{word[::-1]}",
    }


def thousand(path: Path) -> Path:
    """Write 1,000 lines: 897 memories, 100 that repeat an earlier one, three that can't be used."""
    lines = [json.dumps(advice(number)) for number in range(1000)]
    for number in range(100, 200):
        again = {**advice(number - 100), "memory_id": f"again{number}"}
        lines[number] = json.dumps({**again, "content": f"  {str(again['content']).upper()}. "})
    lines[300] = lines[300][:40]
    lines[700] = json.dumps({**advice(700), "content": 5})
    data = [line.encode() for line in lines]
    data[500] = data[500].replace(b"Restart", b"Rest\xffart")
    path.write_bytes(b"\n".join(data))
    return path


async def test_a_thousand_lines_with_three_corrupt_ones_are_refused_by_their_numbers(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), thousand(tmp_path / "library.jsonl")
    with pytest.raises(InvalidLinesError) as caught:
        await load(store, file, embedder=EMBEDDER, deduplicate=True)
    reasons = dict(caught.value.lines)
    assert list(reasons) == [301, 501, 701]
    assert reasons[301].startswith("not JSON: Unterminated string")
    assert reasons[501].startswith("not UTF-8 (byte ")
    assert reasons[701] == "memory.content: wanted a text (found 5)"
    for number, reason in caught.value.lines:
        assert f"line {number}: {reason}" in caught.value.message
    assert await held(store) == {}
    await store.close()


async def test_skipping_bad_lines_loads_the_rest_once_and_it_is_found(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), thousand(tmp_path / "library.jsonl")
    told: list[int] = []
    loaded = await load(store, file, embedder=EMBEDDER, skip_bad_lines=True, deduplicate=True, told=told)
    assert len(loaded.memory_ids) == 897
    assert loaded.duplicates == tuple(range(101, 201))
    assert [problem.line for problem in loaded.problems] == [301, 501, 701]
    assert told == sorted(told)
    assert told[-1] == 1000
    before = await held(store)
    again = await load(store, file, embedder=EMBEDDER, skip_bad_lines=True, deduplicate=True)
    assert (again.memory_ids, again.run_id) == ((), None)
    assert again.known_memory_ids == loaded.memory_ids
    assert again.duplicates == loaded.duplicates
    assert await held(store) == before
    [vector] = await EMBEDDER.embed([f"{advice(444)['when_to_use']}\n{advice(444)['content']}"])
    [found] = await store.search(BOB, MemorySearch(vector=vector, limit=1))
    assert (found.memory.memory_id, round(found.score, 3)) == ("id444", 1.0)
    await store.close()


async def test_a_load_is_one_run_that_undo_takes_back(tmp_path: Path) -> None:
    store, file = TemporaryStore(), write(tmp_path / "library.jsonl", *(advice(number) for number in range(5)))
    loaded = await load(store, file)
    assert loaded.memory_ids == tuple(f"id{number}" for number in range(5))
    assert loaded.run_id is not None
    await undo_run(store, None, BOB, loaded.run_id, at=NOW)
    assert await held(store) == {}


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: bool(text.strip())
)
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
UNIT = st.floats(0, 1)
NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
NOT_LOADED = (MemoryType.META, MemoryType.HISTORY, MemoryType.PASSAGE, MemoryType.BLOCK, MemoryType.RECORD)


@st.composite
def some_memories(draw: st.DrawFn) -> list[Memory]:
    made: list[Memory] = []
    for place in range(draw(st.integers(1, 3))):
        plain = memory(
            f"{draw(TEXTS)} {place}",
            minute=draw(st.floats(-1e6, 1e6)),
            memory_type=draw(st.sampled_from([kind for kind in MemoryType if kind not in NOT_LOADED])),
            target=draw(NAMES),
            metadata=draw(st.dictionaries(TEXTS, JSON, max_size=2)),
        )
        fields = {
            "when_to_use": draw(TEXTS | st.just("")),
            "author": draw(TEXTS),
            "importance": draw(UNIT),
            "confidence": draw(UNIT),
            "freq": draw(st.integers(0, 2**53)),
            "utility": draw(st.floats(0, 1e300)),
            "valid_to": draw(st.none() | st.just(plain.valid_from)),
        }
        if made and fields["valid_to"] is not None:
            fields["superseded_by"] = draw(st.none() | st.just(made[0].memory_id))
        made.append(changed(plain, fields))
    return made


def unscoped(memories: Sequence[Memory]) -> list[dict[str, object]]:
    ordered = sorted(memories, key=lambda item: item.memory_id)
    return [item.model_dump(exclude={"memory_space", "user_id"}) for item in ordered]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(memories=some_memories())
async def test_what_is_dumped_and_loaded_elsewhere_is_the_same_but_for_the_scope(
    tmp_path: Path, memories: list[Memory]
) -> None:
    store, file = TemporaryStore(), tmp_path / "library.jsonl"
    await store.put(ALICE, batch(*memories))
    dumped = await dump_library(store, ALICE, file, include_superseded=True)
    loaded = await load(store, file)
    assert (dumped.memories, len(loaded.memory_ids)) == (len(memories), len(memories))
    copied, own = await held(store), await held(store, ALICE)
    assert unscoped(list(copied.values())) == unscoped(list(own.values())) == unscoped(memories)


async def test_a_dump_names_no_scope_and_leaves_out_what_was_not_asked_for(tmp_path: Path) -> None:
    store, file = TemporaryStore(), tmp_path / "library.jsonl"
    scope = Scope(memory_space="secret-space", user_id="secret-user")
    lesson = memory("retry", scope=scope, memory_type=MemoryType.PROCEDURAL, target="code")
    entry = memory("about code", scope=scope, memory_type=MemoryType.META, target="procedural/code")
    talk = memory("a talk", scope=scope, memory_type=MemoryType.HISTORY)
    old = closed(memory("old", scope=scope, minute=-5), minute=0)
    await store.put(scope, batch(lesson, entry, talk, old))
    assert await dump_library(store, scope, file) == DumpedLibrary(memories=1)
    text = file.read_text(encoding="utf-8")
    head, line = map(json.loads, text.splitlines())
    assert head == HEAD
    assert (line["kind"], line["value"]["memory_id"]) == ("memory", lesson.memory_id)
    assert "secret" not in text
    assert await dump_library(store, scope, file, include_superseded=True) == DumpedLibrary(memories=2)
    assert await dump_library(store, scope, file, types=[MemoryType.META]) == DumpedLibrary(memories=1)
    assert await dump_library(store, scope, file, targets=["nobody"]) == DumpedLibrary(memories=0)
    assert json.loads(file.read_bytes()) == HEAD
    assert await load(store, file) == LoadedLibrary()
    assert names(tmp_path) == ["library.jsonl"]


async def test_a_dump_that_fails_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    store, file = TemporaryStore(), write(tmp_path / "library.jsonl", advice(1))
    before = file.read_bytes()
    await store.close()
    with pytest.raises(StoreClosedError):
        await dump_library(store, ALICE, file)
    assert file.read_bytes() == before
    assert names(tmp_path) == ["library.jsonl"]
    with pytest.raises(StoreAccessError, match="can't be written"):
        await dump_library(TemporaryStore(), ALICE, tmp_path / "nowhere" / "library.jsonl")


@pytest.mark.parametrize("name", ["nothing.jsonl", "."])
async def test_a_file_that_is_none_can_not_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreAccessError, match="can't be read"):
        await load(TemporaryStore(), tmp_path / name)


async def test_ids_of_another_scope_are_not_known_here(tmp_path: Path) -> None:
    store, file = TemporaryStore(), tmp_path / "library.jsonl"
    said = memory("Ann rows", target="Ann", memory_id="same")
    await store.put(ALICE, batch(said))
    await dump_library(store, ALICE, file)
    loaded = await load(store, file)
    assert (loaded.memory_ids, loaded.known_memory_ids) == (("same",), ())
    assert (await load(store, file)).known_memory_ids == ("same",)


async def test_a_taken_id_gives_a_new_one_that_links_follow_and_a_second_load_knows(tmp_path: Path) -> None:
    store, file = TemporaryStore(), tmp_path / "library.jsonl"
    old = closed(memory("she lives in Rome", memory_id="old", minute=-9), minute=0, by="new")
    new = memory("she lives in Oslo", memory_id="new")
    await store.put(ALICE, batch(old, new))
    await dump_library(store, ALICE, file, include_superseded=True)
    taken = (memory("he rows", memory_id="old", scope=BOB), memory("he sings", memory_id="new", scope=BOB))
    await store.put(BOB, batch(*taken))
    loaded = await load(store, file)
    assert len(loaded.memory_ids) == 2
    after = await held(store)
    copies = {item.content: item for item in after.values() if item.metadata}
    rome, oslo = copies["she lives in Rome"], copies["she lives in Oslo"]
    assert rome.metadata == {"origin": {"memory_id": "old"}}
    assert rome.superseded_by == oslo.memory_id
    assert rome.valid_to == old.valid_to
    assert {item.content for item in after.values()} == {"he rows", "he sings", *copies}
    again = await load(store, file)
    assert set(again.known_memory_ids) == {rome.memory_id, oslo.memory_id}
    assert await held(store) == after


async def test_what_was_replaced_by_something_that_is_nowhere_stays_replaced(tmp_path: Path) -> None:
    store, file = TemporaryStore(), tmp_path / "library.jsonl"
    old = closed(memory("old"), minute=1, by="gone")
    line = old.model_dump(mode="json", exclude={"memory_space", "user_id"})
    # As an earlier release left it that had loaded it from elsewhere.
    origin = {"superseded_by": None, "metadata": {"origin": {"superseded_by": "away"}}}
    write(file, line, {**line, **origin, "memory_id": "older", "content": "older"})
    await load(store, file)
    assert {item.content: item.superseded_by for item in (await held(store)).values()} == {
        "old": "gone",
        "older": "away",
    }
    assert await load(store, file)
    assert len(await held(store)) == 2


async def test_sources_stay_where_the_scope_holds_them_and_are_told_of_where_not(tmp_path: Path) -> None:
    store, file = LocalStore(tmp_path / "memory.db"), tmp_path / "library.jsonl"
    await store.append(BOB, AppendMessages(session_id="s", messages=[message("hello", message_id="m1")]))
    here = Source(message_ids=("m1",))
    gone = [Source(block_id="b1"), Source(message_ids=("m1", "m2"))]
    said = changed(memory("Ann rows", metadata={"origin": "success"}), {"sources": [here, *gone]})
    await store.put(ALICE, batch(said))
    await dump_library(store, ALICE, file)
    await load(store, file)
    [copied] = (await held(store)).values()
    assert copied.sources == (here,)
    told = [source.model_dump(mode="json") for source in gone]
    assert copied.metadata == {"origin": {"origin": "success", "sources": told}}
    await store.close()


async def test_near_equal_lines_are_left_out_only_where_that_is_asked_for(tmp_path: Path) -> None:
    first = {
        "memory_type": "procedural",
        "memory_target": "code",
        "content": "restart the server after each change of its settings",
    }
    near = {**first, "content": "restart the server after each change of the settings"}
    other = {**near, "memory_target": "cooking"}
    file = write(tmp_path / "library.jsonl", first, near, other)
    loose, strict = TemporaryStore(), TemporaryStore()
    assert (await load(loose, file, embedder=EMBEDDER)).duplicates == ()
    loaded = await load(strict, file, embedder=EMBEDDER, deduplicate=True)
    assert (loaded.duplicates, len(loaded.memory_ids)) == ((2,), 2)
    again = await load(strict, write(file, near), embedder=EMBEDDER, deduplicate=True)
    assert (again.duplicates, again.run_id) == ((1,), None)


async def test_links_lead_to_the_line_that_an_equal_one_was_left_out_for(tmp_path: Path) -> None:
    store = TemporaryStore()
    end = {"valid_from": "2026-01-01", "observed_at": "2026-01-01", "valid_to": "2026-01-02", "superseded_by": "second"}
    lines = ({"memory_id": "first", "content": "Oslo"}, {"memory_id": "second", "content": "oslo."})
    loaded = await load(
        store, write(tmp_path / "library.jsonl", *lines, {"memory_id": "old", "content": "Rome", **end})
    )
    assert loaded.duplicates == (2,)
    assert (await held(store))["old"].superseded_by == "first"


async def test_what_was_replaced_is_no_duplicate_of_what_is_current(tmp_path: Path) -> None:
    store = TemporaryStore()
    end = {"valid_from": "2026-01-01", "observed_at": "2026-01-01", "valid_to": "2026-01-02", "superseded_by": "id1"}
    file = write(tmp_path / "library.jsonl", advice(1), {**advice(1), "memory_id": "old", **end})
    loaded = await load(store, file, embedder=EMBEDDER, deduplicate=True)
    assert loaded.memory_ids == ("id1", "old")


async def test_a_target_that_is_given_is_that_of_procedural_lines_alone(tmp_path: Path) -> None:
    store, file = TemporaryStore(), write(tmp_path / "library.jsonl", advice(1), {"content": "Ann rows"})
    await load(store, file, memory_target="rust")
    assert {item.content: item.memory_target for item in (await held(store)).values()} == {
        str(advice(1)["content"]): "rust",
        "Ann rows": "self",
    }


BAD = {
    '{"content": "a", "score": 1}': "memory.score: is not a known field",
    '{"content": "a", "user_id": "eve"}': "names a scope (user_id)",
    '{"kind": "memory", "value": {"content": "a", "user_id": "eve"}}': "names a scope (user_id)",
    '{"kind": "memory", "value": ["a"]}': "value: wanted an object, found list",
    '{"kind": "message", "value": {}}': "kind 'message' is of an export",
    '{"kind": "event", "value": {}}': "kind 'event' is of an export",
    '{"kind": "dream", "value": {}}': "kind 'dream' is not known",
    '{"kind": {}}': "kind {} is not known",
    '["a"]': "wanted an object, found list",
    '{"content": "a", "importance": NaN}': "not JSON: NaN",
    '{"content": "a", "importance": 1e999}': "memory.importance",
    '{"content": "\\ud800"}': "lone surrogate",
    '{"content": " "}': "content is empty",
    '{"content": "a", "metadata": ' + '{"a": ' * 40 + "1" + "}" * 41: "nested deeper",
    '{"content": "a", "metadata": ' + "[" * 100_000: "nested too deep",
    '{"content": "a", "freq": ' + "1" * 5000 + "}": "not JSON",
    '{"content": "' + "a" * (1 << 18) + 'a"}': "at most 262144 item",
    '{"content": "' + "a" * (1 << 24) + '"}': "has more than 16777216 bytes",
    '{"memory_id": "id1", "content": "b"}': "stands in line 1 already",
    '{"memory_type": "meta", "memory_target": "tool/x", "content": "b"}': "memory_type: 'meta' is not loaded: ",
    '{"memory_type": "history", "content": "b"}': "memory_type: 'history' is not loaded: ",
    '{"memory_type": "tool", "memory_target": "a\\nb", "content": "b"}': "memory_target: has control characters",
    '{"memory_type": "procedural", "memory_target": "' + "x" * 257 + '", "content": "b"}': "memory_target: has 257",
}


@pytest.mark.parametrize("line", BAD, ids=list(BAD.values()))
async def test_a_bad_line_is_told_by_number_and_the_rest_can_be_loaded(tmp_path: Path, line: str) -> None:
    store, file = TemporaryStore(), write(tmp_path / "library.jsonl", advice(1), "", line, advice(2))
    with pytest.raises(InvalidLinesError) as caught:
        await load(store, file)
    [(number, reason)] = caught.value.lines
    assert number == 3
    assert BAD[line] in reason
    assert await held(store) == {}
    loaded = await load(store, file, skip_bad_lines=True)
    assert (loaded.memory_ids, [problem.line for problem in loaded.problems]) == (("id1", "id2"), [3])


@pytest.mark.parametrize("indent", [None, 2])
async def test_a_file_that_is_one_list_counts_its_items(tmp_path: Path, indent: int | None) -> None:
    store, file = TemporaryStore(), tmp_path / "library.jsonl"
    items = [advice(1), "no object", advice(2), {"content": "Ürte"}]
    data = json.dumps(items, indent=indent, ensure_ascii=False).encode()
    file.write_bytes(b"\xef\xbb\xbf\n" + data.replace("Ü".encode(), b"\xff"))
    loaded = await load(store, file, skip_bad_lines=True)
    assert loaded.memory_ids == ("id1", "id2")
    assert [problem.line for problem in loaded.problems] == [2, 4]
    file.write_bytes(data[:-5])
    with pytest.raises(InvalidLinesError) as caught:
        await load(store, file)
    assert [number for number, _ in caught.value.lines] == [2, 4]
    file.write_bytes(b" [ ] ")
    assert await load(store, file) == LoadedLibrary()
    for more in (b" " + json.dumps(advice(3)).encode(), b"garbage", b"\n[]"):
        file.write_bytes(b"[]" + more)
        with pytest.raises(InvalidLinesError):
            await load(store, file)


async def test_lines_may_end_as_on_windows_and_begin_with_a_mark(tmp_path: Path) -> None:
    store, file = TemporaryStore(), tmp_path / "library.jsonl"
    lines = [json.dumps({"content": content}, ensure_ascii=False) for content in ("one\u2028line", "zwei")]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert len((await load(store, file)).memory_ids) == 2


class FailingStore(TemporaryStore):
    """A store that can be read and not written."""

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        msg = "no place"
        raise StoreUnavailableError(msg)


async def test_an_embedder_that_fails_in_the_middle_leaves_the_rest_waiting(tmp_path: Path) -> None:
    file = write(tmp_path / "library.jsonl", *(advice(number) for number in range(300)))
    store = TemporaryStore()
    embedder = HashedEmbedder(64, failures=[None, ModelUnavailableError("down")])
    await load(store, file, embedder=embedder)
    assert len(await held(store)) == 300
    assert 0 < len(await store.pending_texts(BOB, 1000)) < 300


async def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "library.jsonl", *(advice(number) for number in range(300)))
    failing = FailingStore()
    with pytest.raises(StoreUnavailableError):
        await load(failing, file)
    assert await held(failing) == {}


async def test_an_equal_memory_that_another_writer_adds_meanwhile_is_a_duplicate(tmp_path: Path) -> None:
    file, store = write(tmp_path / "library.jsonl", advice(1), advice(2)), TemporaryStore()

    class Rival(HashedEmbedder):
        async def embed(self, texts: Sequence[str]) -> Matrix:
            rival = memory(str(advice(1)["content"]), memory_type=MemoryType.PROCEDURAL, target="code", scope=BOB)
            await store.put(BOB, batch(rival))
            return await super().embed(texts)

    loaded = await load(store, file, embedder=Rival(64))
    assert (loaded.memory_ids, loaded.duplicates) == (("id2",), (1,))


def tool_line(**more: object) -> dict[str, object]:
    return {"memory_type": "tool", "memory_target": " search ", "content": "Use short queries.", **more}


async def test_a_guideline_from_elsewhere_was_written_from_none_of_the_calls_here(tmp_path: Path) -> None:
    store = TemporaryStore()
    await load(
        store, write(tmp_path / "library.jsonl", tool_line(metadata={"kind": "guideline", "calls": 9, "note": "a"}))
    )
    guideline = await find_guideline(store, BOB, "search")
    assert guideline is not None
    assert guideline.metadata == {"kind": "guideline", "note": "a", "origin": {"calls": 9}}
    assert written_from(guideline) == 0


REPLACED = {"content": "she lived in Rome", "valid_to": "2199-01-02", "superseded_by": "elsewhere"}


async def test_what_is_over_is_loaded_as_current_once_for_each_content(tmp_path: Path) -> None:
    store = TemporaryStore()
    trip = {"content": "a trip to Rome", "valid_from": "2023-06-12", "valid_to": "2023-06-18"}
    plan = {"content": "the opening night", "valid_from": "2031-06", "valid_to": "2031-06"}
    file = write(tmp_path / "library.jsonl", trip, plan, {**trip, "valid_to": "2023-06-19"})
    loaded = await load(store, file)
    assert (len(loaded.memory_ids), loaded.duplicates) == (2, (3,))
    assert (await load(store, file)).duplicates == (1, 2, 3)
    assert {shown_validity(item) for item in (await held(store)).values()} == {
        "12 June 2023 to 18 June 2023",
        "June 2031",
    }
    await dump_library(store, BOB, tmp_path / "dumped.jsonl")
    copy = TemporaryStore()
    await load(copy, tmp_path / "dumped.jsonl")
    assert await held(copy) == await held(store)


async def test_replaced_lines_without_an_id_are_known_the_second_time(tmp_path: Path) -> None:
    store = TemporaryStore()
    dated = {**REPLACED, "valid_from": "2026-01-01"}
    file = write(tmp_path / "library.jsonl", REPLACED, dated, dated, {**dated, "valid_to": "2199-01-03"})
    loaded = await load(store, file)
    assert (len(loaded.memory_ids), loaded.duplicates) == (3, (3,))
    again = await load(store, file, at=NOW + timedelta(days=1))
    assert (again.memory_ids, len(again.known_memory_ids)) == ((), 4)


async def test_a_memory_that_was_edited_here_does_not_get_its_old_text_back(tmp_path: Path) -> None:
    store, file = TemporaryStore(), write(tmp_path / "library.jsonl", advice(1), advice(2))
    await store.put(BOB, batch(memory("mine", memory_id="id2", scope=BOB)))  # so the second gets another id
    loaded = await load(store, file)
    for old in [(await held(store))[memory_id] for memory_id in loaded.memory_ids]:
        await store.put(BOB, batch(changed(old, {"content": f"better: {old.content}"})))
    again = await load(store, file)
    assert (again.memory_ids, again.known_memory_ids) == ((), loaded.memory_ids)
    other = await load(store, write(file, {**advice(1), "content": "another one"}))
    assert len(other.memory_ids) == 1


async def test_what_names_a_successor_stays_replaced_though_the_links_run_in_a_circle(tmp_path: Path) -> None:
    store = TemporaryStore()
    links = {"a": "b", "b": "c", "c": "b", "d": "d"}
    ended = [{**REPLACED, "memory_id": name, "content": name, "superseded_by": next_} for name, next_ in links.items()]
    endless = {"memory_id": "e", "content": "e", "superseded_by": "a"}
    await load(store, write(tmp_path / "library.jsonl", *ended, endless))
    found = await held(store)
    assert {name: item.superseded_by for name, item in found.items()} == {**links, "e": "a"}
    assert all(not item.metadata for item in found.values())


async def test_what_another_load_took_meanwhile_is_known_when_tried_again(tmp_path: Path) -> None:
    file, store = write(tmp_path / "library.jsonl", advice(1), advice(2)), TemporaryStore()
    texts: list[str] = []

    class Rival(HashedEmbedder):
        async def embed(self, given: Sequence[str]) -> Matrix:
            texts.extend(given)
            await load(store, write(tmp_path / "first.jsonl", advice(1)))
            return await super().embed(given)

    loaded = await load(store, file, embedder=Rival(64))
    assert (loaded.memory_ids, loaded.known_memory_ids, len(texts)) == (("id2",), ("id1",), 2)


class ContestedStore(TemporaryStore):
    """A store in which somebody else is always first."""

    puts = 0

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        self.puts += 1
        msg = "too late"
        raise ConflictError(msg)


async def test_a_load_that_always_comes_too_late_gives_up(tmp_path: Path) -> None:
    store = ContestedStore()
    with pytest.raises(ConflictError):
        await load(store, write(tmp_path / "library.jsonl", advice(1)))
    assert store.puts == 3


async def test_progress_that_raises_ends_a_load_before_anything_is_written(tmp_path: Path) -> None:
    store, file = TemporaryStore(), write(tmp_path / "library.jsonl", advice(1), advice(2))

    class Full(list[int]):
        def append(self, done: int) -> None:
            if done == 2:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await load(store, file, told=Full())
    assert await held(store) == {}


async def test_a_database_is_never_dumped_over(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db")
    await store.put(ALICE, batch(memory("Ann rows")))
    link = tmp_path / "link.jsonl"
    link.symlink_to("memory.db")
    before = (tmp_path / "memory.db").read_bytes()
    for path in (tmp_path / "memory.db", tmp_path / "memory.db-wal", link):
        with pytest.raises(StoreAccessError, match="database"):
            await dump_library(store, ALICE, path)
        with pytest.raises(StoreAccessError, match="database"):
            await export_scope(store, ALICE, path)
    assert (tmp_path / "memory.db").read_bytes() == before
    assert link.is_symlink()
    await store.close()


async def test_what_is_no_regular_file_is_neither_written_nor_read(tmp_path: Path) -> None:
    store, pipe = TemporaryStore(), tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(StoreAccessError, match="can't be written"):
            await dump_library(store, ALICE, path)
        with pytest.raises(StoreAccessError, match="can't be read"):
            await load(store, path)
    assert pipe.is_fifo()


async def test_a_dump_keeps_the_permissions_of_the_file_and_the_link_that_leads_to_it(tmp_path: Path) -> None:
    store, file, link = TemporaryStore(), write(tmp_path / "library.jsonl"), tmp_path / "link"
    await store.put(ALICE, batch(memory("Ann rows")))
    link.symlink_to(file)
    for mode in (0o600, 0o640):
        file.chmod(mode)
        await dump_library(store, ALICE, link)
        assert (file.stat().st_mode & 0o777, link.is_symlink()) == (mode, True)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 2
