"""Copies between files: whole after a kill, refused where they would mix, compared, narrowed, read only."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from reme_core.errors import ConflictError, DimensionMismatchError, InvalidInputError, StoreAccessError
from reme_core.ports import (
    AppendMessages,
    EventQuery,
    GetItems,
    ItemAddress,
    ListMemories,
    PutItem,
    PutMemory,
    WriteItems,
)
from reme_core.schema import FileBlock, ImageBlock, Scope, Usage
from reme_core.steps.costs import CostBook
from reme_core.stores import Chosen, CopyRequest, LocalStore, StoreCopy, run_copy
from reme_core.stores.copying.copy_store import copy_store
from reme_core.stores.copying.read_rows import Batch, Unit
from reme_core.stores.copying.stores_as_rows import RowSource, StoreRows, Survey
from reme_core.stores.copying.write_rows import Numbers, write_scope
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.memory_rows import put_batch
from reme_core.testing import FixedClock
from reme_core.testing.store_values import ALICE, BOB, NOW, batch, memory, message, random_unit
from tests.support import copying_child
from tests.support.new_processes import NEW_PROCESSES

T = TypeVar("T")
USERS = [Scope(memory_space="space", user_id=f"user {n}") for n in range(12)]


async def fill(folder: Path, scopes: Sequence[Scope] = (ALICE, BOB), *, said: int = 3) -> None:
    """Write messages, memories, history and items of some users, in turns."""
    store = LocalStore(folder / "memory.db", synchronous="NORMAL")
    for turn in range(said):
        for scope in scopes:
            text = f"{scope.user_id} saw walrus {turn}"
            words = message(text, message_id=f"w{turn}", minute=turn)
            shown = ImageBlock.model_validate({"data": f"image {turn // 2}".encode(), "caption": "a walrus"})
            words = words.model_copy(update={"content": (*words.content, shown)})
            await store.append(scope, AppendMessages(session_id="s", messages=[words]))
            fact = memory(text, scope=scope, memory_id=f"m{turn}")
            await store.put(scope, batch(PutMemory(memory=fact, vector=random_unit(turn))))
    for scope in scopes:
        item = PutItem(address=ItemAddress(namespace=("n",), key=scope.user_id), value={"text": "x"}, owner=scope)
        await store.write_items(scope.memory_space, WriteItems(writes=[item], at=NOW))
        await CostBook(store, FixedClock(NOW)).add(scope, "summary", Usage(model_calls=1, prompt_tokens=7))
    await store.close()


async def copied(source: Path, target: Path, **chosen: bool | Chosen) -> StoreCopy:
    wanted = chosen.pop("chosen", Chosen())
    assert isinstance(wanted, Chosen)
    merge, compare = bool(chosen.get("merge")), bool(chosen.get("compare"))
    request = CopyRequest(source=str(source), target=str(target), chosen=wanted, merge=merge, compare=compare)
    return await run_copy(request)


async def held(folder: Path, scope: Scope) -> tuple[object, ...]:
    """Read a user, with ids, numbers of events, times and costs."""
    store = LocalStore(folder / "memory.db")
    costs = await CostBook(store, FixedClock(NOW)).read(scope.memory_space, user_id=scope.user_id)
    found = (
        (await store.list_memories(scope, ListMemories(limit=99))).memories,
        await store.events(scope, EventQuery(limit=99)),
        await store.count(scope),
        costs,
    )
    await store.close()
    return found


def rows(folder: Path) -> Mapping[str, list[tuple[object, ...]]]:
    """Return the rows of tables whose numbers a copy keeps."""
    tables = {
        "messages": "seq, body",
        "blobs": "blob, digest, media_type, bytes, data",
        "memories": "row, body",
        "events": "sequence, at",
        "items": "item, key",
    }
    with sqlite3.connect(folder / "memory.db") as file:
        return {
            table: file.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()  # noqa: S608
            for table, columns in tables.items()
        }


async def test_a_copy_into_an_empty_place_keeps_every_number(tmp_path: Path) -> None:
    await fill(tmp_path / "a", USERS)
    done = await copied(tmp_path / "a", tmp_path / "b")
    assert {unit.outcome for unit in done.units} == {"copied"}
    assert rows(tmp_path / "b") == rows(tmp_path / "a")
    for scope in USERS:
        assert await held(tmp_path / "b", scope) == await held(tmp_path / "a", scope)


@pytest.mark.parametrize("steps", [1, 5, 9])
async def test_a_killed_copy_ends_in_the_same_state_when_it_is_run_again(tmp_path: Path, steps: int) -> None:
    await fill(tmp_path / "a", USERS)
    receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=copying_child.run, args=(str(tmp_path / "a"), str(tmp_path / "b"), sender))
    child.start()
    sender.close()
    for _ in range(steps):
        receiver.recv()
    child.kill()
    await asyncio.to_thread(child.join)
    child.close()
    receiver.close()

    done = await copied(tmp_path / "a", tmp_path / "b", chosen=Chosen(spaces=("space",)))

    assert "copied" in {unit.outcome for unit in done.units}
    assert rows(tmp_path / "b") == rows(tmp_path / "a")
    again = await copied(tmp_path / "a", tmp_path / "b", chosen=Chosen(spaces=("space",)))
    assert {unit.outcome for unit in again.units} == {"there"}
    assert again.rows == done.rows


async def test_a_file_of_rows_carries_all_and_says_when_it_was_changed(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    lines = tmp_path / "all.jsonl"
    written = await copied(tmp_path / "a", lines)
    await copied(lines, tmp_path / "b")
    assert rows(tmp_path / "b") == rows(tmp_path / "a")
    assert (await copied(lines, tmp_path / "a", compare=True)).rows == written.rows
    assert await held(tmp_path / "b", ALICE) == await held(tmp_path / "a", ALICE)
    whole = lines.read_bytes()
    for damaged in (
        whole.replace(b"walrus", b"narwal", 1),
        whole[: len(whole) // 2],
        b"",
        whole[: whole.rindex(b"{")],
        whole.replace(b'"user_id": "alice"', b'"user_id": 7', 1),
        whole.replace(b'"user_id": "alice"', b'"user_id": "a\\u0000"', 1),
        whole.replace(b'"kind": "messages"', b'"kind": "scopes"', 1),
        whole.replace(b'"kind": "messages", "value": [1, ', b'"kind": "messages", "value": [', 1),
        whole.replace(b'"base64": "', b'"base64": "?', 1),
        whole.replace(b'"terms": ', b'"words": ', 1),
        b"[]\n" + whole,
    ):
        lines.write_bytes(damaged)
        with pytest.raises((InvalidInputError, StoreAccessError)):
            await copied(lines, tmp_path / "c")


async def test_a_target_with_other_things_is_refused_and_merged_where_asked(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    await fill(tmp_path / "b", [BOB])
    store = LocalStore(tmp_path / "b" / "memory.db")
    await store.put(ALICE, batch(memory("Alice skis", memory_id="own")))
    await store.append(ALICE, AppendMessages(session_id="s", messages=[message("More", message_id="more")]))
    before = await store.list_memories(ALICE, ListMemories(limit=9))
    with pytest.raises(ConflictError, match=r"'alice'.*memories has 3 rows in the source, 1 in the target.*--merge"):
        await copied(tmp_path / "a", tmp_path / "b", chosen=Chosen(user_id="alice"))
    assert await store.list_memories(ALICE, ListMemories(limit=9)) == before

    for outcome in ("merged", "merged"):
        done = await copied(tmp_path / "a", tmp_path / "b", merge=True, chosen=Chosen(user_id="alice"))
        assert done.units[0].outcome == outcome
        assert {item.memory_id for item in (await store.list_memories(ALICE, ListMemories(limit=9))).memories} == {
            *("own", "m0", "m1", "m2")
        }
        assert (await store.count(ALICE)).messages == 4
    await store.close()


@pytest.mark.parametrize("media_type", [None, "application/pdf"])
@pytest.mark.parametrize("turned", [True, False])
async def test_an_image_that_an_item_has_here_and_a_message_there_is_one_after_a_merge(
    tmp_path: Path, media_type: str | None, *, turned: bool
) -> None:
    shown = FileBlock.model_validate({"data": bytes(30_000), "media_type": media_type})
    value = {"url": shown.url}
    item = PutItem(address=ItemAddress(namespace=("n",), key="k"), value={**value}, owner=ALICE)
    one, other = (LocalStore(tmp_path / name / "memory.db", synchronous="NORMAL") for name in "ab")
    await one.write_items("space", WriteItems(writes=[item], at=NOW))
    said = message("look", message_id="m").model_copy(update={"content": (shown,)})
    await other.append(ALICE, AppendMessages(session_id="s", messages=[said]))
    await one.close()
    await other.close()
    source, target = ("b", "a") if turned else ("a", "b")
    await copied(tmp_path / source, tmp_path / target, merge=True)
    merged = LocalStore(tmp_path / target / "memory.db")
    [found] = await merged.get_items("space", GetItems(addresses=[item.address], at=NOW))
    assert found is not None
    assert found.value == value
    await merged.write_items("space", WriteItems(writes=[replace(item, value={})], at=NOW))
    [stored] = await merged.get_messages(ALICE, ["m"])
    assert len((await merged.get_blob(ALICE, stored.message.blob_references[0])).data) == 30_000
    await merged.close()


async def test_a_merge_refuses_what_says_something_else_under_the_same_id(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    store = LocalStore(tmp_path / "b" / "memory.db")
    await store.put(ALICE, batch(memory("Alice skis", memory_id="m0")))
    with pytest.raises(ConflictError, match=r"'alice'.*memories 'm0'"):
        await copied(tmp_path / "a", tmp_path / "b", merge=True)
    assert (await store.count(ALICE)).memories == 1
    await store.close()


async def test_numbers_of_two_sources_never_meet(tmp_path: Path) -> None:
    await fill(tmp_path / "a", [ALICE])
    await fill(tmp_path / "b", [BOB])
    for source in ("a", "b"):
        await copied(tmp_path / source, tmp_path / "all")
    for source, scope in (("a", ALICE), ("b", BOB)):
        here, there = await held(tmp_path / source, scope), await held(tmp_path / "all", scope)
        assert here[0] == there[0]
        assert here[2:] == there[2:]
    store = LocalStore(tmp_path / "all" / "memory.db")
    [stored] = await store.put(BOB, batch(memory("new", scope=BOB)))
    assert [event.memory_id for event in await store.events(BOB, EventQuery(limit=9))][-1] == stored.memory_id
    await store.close()


async def test_one_user_is_copied_with_items_and_costs_and_nobody_else(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    done = await copied(tmp_path / "a", tmp_path / "b", chosen=Chosen(spaces=("space",), user_id="alice"))
    assert {unit.user_id for unit in done.units} == {"alice", None}
    assert await held(tmp_path / "b", ALICE) == await held(tmp_path / "a", ALICE)
    assert rows(tmp_path / "b")["items"][0][1] == "alice"
    assert len(rows(tmp_path / "b")["items"]) == 2
    await copied(tmp_path / "a", tmp_path / "b", chosen=Chosen(user_id="bob"))
    assert (await copied(tmp_path / "a", tmp_path / "b", compare=True)).rows["items"] == 4


async def test_a_comparison_names_user_and_table(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    await copied(tmp_path / "a", tmp_path / "b")
    store = LocalStore(tmp_path / "b" / "memory.db")
    await store.put(BOB, batch(memory("new", scope=BOB)))
    await store.append(USERS[0], AppendMessages(session_id="s", messages=[message("x")]))
    await store.close()
    with pytest.raises(ConflictError) as caught:
        await copied(tmp_path / "a", tmp_path / "b", compare=True)
    assert "user 'bob' of space 'space': memories has 3 rows in the source, 4 in the target" in caught.value.message
    assert "user 'user 0' of space 'space' is in the target alone" in caught.value.message
    assert "alice" not in caught.value.message


async def test_a_comparison_names_spaces_that_are_in_the_target_alone(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    await copied(tmp_path / "a", tmp_path / "b")
    await fill(tmp_path / "b", [Scope(memory_space="other", user_id="eve")])
    with pytest.raises(ConflictError, match="space 'other' is in the target alone"):
        await copied(tmp_path / "a", tmp_path / "b", compare=True)
    await copied(tmp_path / "a", tmp_path / "b", compare=True, chosen=Chosen(spaces=("space",)))


async def test_the_source_is_read_and_nothing_of_it_changes(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    for path in (tmp_path / "a").iterdir():
        path.chmod(0o400)
    (tmp_path / "a").chmod(0o500)
    before = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    await copied(tmp_path / "a", tmp_path / "b")
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before
    (tmp_path / "a").chmod(0o700)


async def test_vectors_of_another_length_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    store = LocalStore(tmp_path / "b" / "memory.db")
    await store.put(BOB, batch(PutMemory(memory=memory("x", scope=BOB), vector=random_unit(1, dimension=5))))
    with pytest.raises(DimensionMismatchError):
        await copied(tmp_path / "a", tmp_path / "b")
    assert (await store.count(ALICE)).memories == 0
    await store.close()


async def test_places_that_can_not_be_meant_are_told(tmp_path: Path) -> None:
    with pytest.raises(StoreAccessError, match="no memory at"):
        await copied(tmp_path / "nothing", tmp_path / "b")
    await fill(tmp_path / "a")
    with pytest.raises(InvalidInputError, match="same place"):
        await copied(tmp_path / "a", tmp_path / "a" / "memory.db")
    assert not (tmp_path / "b").exists()
    notes = tmp_path / "notes.jsonl"
    notes.write_text("mine\n")
    with pytest.raises(InvalidInputError, match="something else"):
        await copied(tmp_path / "a", notes)
    assert notes.read_text() == "mine\n"


async def test_rows_of_adapters_go_along_where_the_target_has_their_table_and_are_told_else(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    await fill(tmp_path / "b", USERS[:1])
    tables = (
        "CREATE TABLE agentscope_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, erased_with INTEGER NOT NULL,"
        " memory_space TEXT NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL, summary BLOB NOT NULL,"
        " version INTEGER NOT NULL)",
        "CREATE TABLE agentscope_messages (position INTEGER PRIMARY KEY AUTOINCREMENT, erased_with INTEGER NOT NULL,"
        " session INTEGER NOT NULL, message_id BLOB NOT NULL, body BLOB NOT NULL, has_left INTEGER NOT NULL DEFAULT 0)",
        "CREATE TABLE langgraph_threads (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL)",
    )
    with sqlite3.connect(tmp_path / "a" / "memory.db") as file:
        for table in tables:
            file.execute(table)
        (number,) = file.execute("SELECT scope FROM scopes WHERE user_id = 'bob'").fetchone()
        file.execute("INSERT INTO agentscope_sessions VALUES (7, ?, 'space', 'bob', 's', x'00', 2)", (number,))
        for n in range(3):
            file.execute("INSERT INTO agentscope_messages VALUES (?, ?, 7, x'01', x'02', 0)", (n + 4, number))
        file.execute("INSERT INTO langgraph_threads VALUES (1, 't')")
    done = await copied(tmp_path / "a", tmp_path / "c")
    assert done.left_out == ("agentscope_messages", "agentscope_sessions", "langgraph_threads")
    with sqlite3.connect(tmp_path / "b" / "memory.db") as file:
        for table in tables[:2]:
            file.execute(table)
    for target in ("rows.jsonl", "b"):
        done = await copied(tmp_path / "a", tmp_path / target)
        assert done.left_out == ("langgraph_threads",)
        assert done.rows["agentscope_messages"] == 3
    with sqlite3.connect(tmp_path / "b" / "memory.db") as file:
        joined = "SELECT user_id, name, count(*) FROM agentscope_messages JOIN agentscope_sessions ON session = id"
        of_scope = "JOIN scopes ON scopes.scope = agentscope_messages.erased_with"
        assert file.execute(f"{joined} {of_scope}").fetchall() == [("bob", "s", 3)]


class Busy(RowSource):
    """A source to which somebody writes while it is read."""

    def __init__(self, path: Path) -> None:
        self.store = LocalStore(path)
        self.rows = StoreRows(database=self.store.database, shown=str(path), shows_spaces=True)
        self.written = 0

    @property
    def shown(self) -> str:
        return self.rows.shown

    async def survey(self, chosen: Chosen) -> Survey:
        return await self.rows.survey(chosen)

    async def read(self, unit: Unit, consume: Callable[[Iterator[Batch]], T]) -> T:
        loop = asyncio.get_running_loop()

        def disturbed(batches: Iterator[Batch]) -> Iterator[Batch]:
            for some in batches:
                self.written += 1
                said = [message(f"late {self.written}", message_id=f"late{self.written}")]
                late = self.store.append(ALICE, AppendMessages(session_id="late", messages=said))
                asyncio.run_coroutine_threadsafe(late, loop).result()
                yield some

        return await self.rows.read(unit, lambda batches: consume(disturbed(batches)))


async def test_what_is_written_to_the_source_meanwhile_makes_no_half_of_a_user(tmp_path: Path) -> None:
    await fill(tmp_path / "a", [ALICE])
    source, target = Busy(tmp_path / "a" / "memory.db"), LocalStore(tmp_path / "b.db")
    rows = StoreRows(database=target.database, shown="b", shows_spaces=True)
    done = await copy_store(source, rows, Chosen())
    assert source.written > done.units[0].rows["messages"] == 3
    assert (await target.count(ALICE)).messages == 3
    assert (await source.store.count(ALICE)).messages == 3 + source.written
    for store in (source.store, target):
        await store.close()


async def test_a_user_who_writes_to_the_target_while_it_is_looked_at_is_not_mixed_in(tmp_path: Path) -> None:
    target = LocalStore(tmp_path / "b.db")

    def write(connection: SqlConnection) -> None:
        put_batch(connection, ALICE, batch(memory("Alice skis")))
        write_scope(connection, ALICE, iter(()), Numbers({}), merges=False)

    with pytest.raises(ConflictError, match="just written"):
        await target.database.write(write)
    assert (await target.count(ALICE)).memories == 0
    await target.close()
