"""The writer of all importers: twice is once, a dry run tells what comes and writes nothing, no scope is guessed."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError, StoreUnavailableError
from reme_core.ports import ListMemories, Store, WrappedStore
from reme_core.remember.summarizer import VerbatimSummarizer
from reme_core.schema import ImportReport, MemoryPage, Message, Scope, make_scope
from reme_core.stores import LocalStore
from reme_core.testing import FixedClock, HashedEmbedder
from reme_core.transfer.importers.import_items import import_items
from reme_core.transfer.importers.items import ImportedItem, ImportedMemory, ImportedSession, Unreadable
from reme_core.transfer.importers.recipients import Recipients

MAY = datetime(2024, 5, 1, 12, tzinfo=UTC)
JUNE = datetime(2024, 6, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Listed:
    """A source that is a list."""

    given: Sequence[ImportedItem]
    name: str = "other"

    def items(self) -> Iterator[ImportedItem]:
        yield from self.given


def session(user: str | None = "ann", source_id: str = "s1", *texts: str) -> ImportedSession:
    said = [
        Message(message_id=f"m{n}", role="user", content=[{"type": "text", "text": text}], created_at=MAY)
        for n, text in enumerate(texts or ("I moved to Porto", "It rains"))
    ]
    return ImportedSession(source_id=source_id, user=user, messages=said, title="Moving")


def fact(content: str, source_id: str, user: str | None = "ann", **more: object) -> ImportedMemory:
    return ImportedMemory(source_id=source_id, user=user, content=content, created_at=JUNE, **more)  # type: ignore[arg-type]


ITEMS: Sequence[ImportedItem] = (
    session(),
    fact("Lives in Porto", "1", said_in=[("s1", ["m0"])], metadata={"tag": "home"}),
    fact("lives in  Porto", "2"),
    fact("Lived in Lisbon", "3", superseded_by="1", valid_to=MAY, valid_from="2020"),
    Unreadable("line 7", "not JSON"),
    fact(" ", "4"),
    fact("Comes from the future", "5", observed_at=datetime(2199, 1, 1, tzinfo=UTC)),
)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    clock = FixedClock(datetime(2026, 1, 1, tzinfo=UTC))
    async with ReMe("remy", str(tmp_path / "reme"), llm=None, embedding=HashedEmbedder(), clock=clock) as opened:
        await opened.flush()
        yield opened


def tables(tmp_path: Path) -> dict[str, list[object]]:
    """All rows of the file, clocks and counters of this process apart."""
    with closing(sqlite3.connect(tmp_path / "reme" / "memory.db")) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}  # noqa: S608


def but_the_run(report: ImportReport) -> ImportReport:
    return report.model_copy(update={"dry_run": False, "run_id": None})


async def test_a_dry_run_writes_nothing_and_tells_what_the_real_one_then_does(memory: ReMe, tmp_path: Path) -> None:
    before = tables(tmp_path)
    dry = await memory.import_from(Listed(ITEMS), user_id="emma", dry_run=True)
    assert tables(tmp_path) == before
    told: list[int] = []
    real = await memory.import_from(Listed(ITEMS), user_id="emma", progress=told.append)
    assert told == [1, 7, 1, 7]  # what is read, and then what is done of it
    assert dry.dry_run
    assert dry.run_id is None
    assert but_the_run(dry) == but_the_run(real)
    assert (real.sessions, real.added_messages, real.added_memories, real.repeated_memories) == (1, 2, 2, 1)
    assert (real.first_at, real.last_at) == (MAY, JUNE)
    assert [item.where for item in real.unreadable] == ["line 7", "memory '4'", "memory '5'"]
    assert real.unreadable[0].reason == "not JSON"
    again = await memory.import_from(Listed(ITEMS), user_id="emma", dry_run=True)
    assert (again.known_messages, again.known_memories, again.repeated_memories) == (2, 2, 1)


async def test_what_is_taken_over_says_where_it_comes_from_and_keeps_its_times(memory: ReMe) -> None:
    await memory.import_from(Listed(ITEMS), user_id="emma")
    [home] = (await memory.list_memories(user_id="emma")).memories
    assert (home.created_at, home.observed_at, home.author, home.trust) == (JUNE, JUNE, "other", "assistant")
    assert home.metadata == {"tag": "home", "imported_from": "other", "source_id": "1"}
    stored = [item.message for item in await memory.store.get_messages(home.scope, home.sources[0].message_ids)]
    assert [(item.text, item.created_at) for item in stored] == [("I moved to Porto", MAY)]
    assert stored[0].metadata == {
        "title": "Moving",
        "imported_from": "other",
        "source_id": "m0",
        "source_session": "s1",
    }
    pages = await memory.list_memories(user_id="emma", include_superseded=True)
    [former] = [item for item in pages.memories if not item.is_current]
    assert (former.superseded_by, former.valid_from.year, former.valid_from_precision) == (home.memory_id, 2020, "year")
    found = await memory.retrieve("Where does it rain?", user_id="emma", layers=["message"])
    assert found.results[0].memory == "It rains"


async def test_a_second_time_changes_nothing_nor_brings_back_what_was_deleted(memory: ReMe, tmp_path: Path) -> None:
    await memory.import_from(Listed(ITEMS), user_id="emma")
    before = tables(tmp_path)
    await memory.import_from(Listed(ITEMS), user_id="emma")
    assert tables(tmp_path) == before
    [home] = (await memory.list_memories(user_id="emma")).memories
    await memory.delete_memory(home.memory_id, user_id="emma")
    after = await memory.import_from(Listed(ITEMS[:2]), user_id="emma")
    assert (after.forgotten_memories, after.added_memories) == (1, 0)


async def test_an_import_goes_on_where_it_was_interrupted(memory: ReMe) -> None:
    calls = 0

    @dataclass(frozen=True)
    class Interrupted(Listed):
        def items(self) -> Iterator[ImportedItem]:
            nonlocal calls
            calls += 1
            yield from self.given[:1]
            if calls == 2:
                msg = "the disk was pulled out"
                raise StoreUnavailableError(msg)
            yield from self.given[1:]

    with pytest.raises(StoreUnavailableError):
        await memory.import_from(Interrupted(ITEMS), user_id="emma")
    report = await memory.import_from(Interrupted(ITEMS), user_id="emma")
    assert (report.known_messages, report.added_messages, report.added_memories) == (2, 0, 2)


async def test_a_session_that_has_grown_gets_its_new_messages(memory: ReMe) -> None:
    await memory.import_from(Listed([session("ann", "s1", "one", "two")]), user_id="emma")
    report = await memory.import_from(Listed([session("ann", "s1", "one", "two", "three")]), user_id="emma")
    assert (report.known_messages, report.added_messages) == (2, 1)


async def test_what_the_source_has_changed_is_changed_unless_it_was_changed_here(memory: ReMe) -> None:
    await memory.import_from(
        Listed([fact("Lives in Porto", "1"), fact("Rows", "2"), fact("Swims", "3")]), user_id="emma"
    )
    held = {one.content: one for one in (await memory.list_memories(user_id="emma")).memories}
    await memory.update_memory(held["Rows"].memory_id, user_id="emma", content="Rows on Sundays")
    later: Sequence[ImportedItem] = [
        fact("Lives in Lisbon", "1", updated_at=JUNE + timedelta(days=1)),
        fact("Lived in Porto", "old", superseded_by="1", valid_to=JUNE),
        fact("Rows on Mondays", "2"),
        fact("Swims", "3"),
    ]
    dry = await memory.import_from(Listed(later), user_id="emma", dry_run=True)
    real = await memory.import_from(Listed(later), user_id="emma")
    assert but_the_run(dry) == but_the_run(real)
    assert (real.renewed_memories, real.known_memories) == (1, 1)
    now = {one.content: one for one in (await memory.list_memories(user_id="emma")).memories}
    assert set(now) == {"Lives in Lisbon", "Rows on Sundays", "Rows on Mondays", "Swims"}
    home = now["Lives in Lisbon"]
    assert (home.memory_id, home.updated_at.day) == (held["Lives in Porto"].memory_id, 2)
    assert (await memory.import_from(Listed(later), user_id="emma")).known_memories == 4
    await memory.undo(str(real.run_id), user_id="emma")
    assert "Lives in Porto" in {one.content for one in (await memory.list_memories(user_id="emma")).memories}


async def test_a_source_of_several_users_goes_nowhere_until_one_is_named(memory: ReMe) -> None:
    items = [fact("Rows", "1"), fact("Swims", "2", "bob"), fact("Nobody's", "3", None), session("bob")]
    with pytest.raises(InvalidInputError, match=r"'ann', 'bob', nobody in particular.*source_user.*every_user"):
        await memory.import_from(Listed(items), user_id="emma")
    with pytest.raises(InvalidInputError, match="'eve' is none of the users"):
        await memory.import_from(Listed(items), user_id="emma", source_user="eve")
    assert not (await memory.list_memories(user_id="emma")).memories
    one = await memory.import_from(Listed(items), user_id="emma", source_user="bob")
    assert [item.content for item in (await memory.list_memories(user_id="emma")).memories] == ["Swims"]
    assert [(item.source_user, item.is_imported) for item in one.users] == [
        ("ann", False),
        ("bob", True),
        (None, False),
    ]
    each = await memory.import_from(Listed(items), every_user=True)
    assert (each.memories, each.messages) == (2, 2)
    assert [item.content for item in (await memory.list_memories(user_id="ann")).memories] == ["Rows"]
    assert await memory.store.get(make_scope("remy", user_id="ann"), []) == []
    rest = await memory.import_from(Listed(items), every_user=True, user_id="emma")
    assert (rest.known_memories, rest.added_memories) == (2, 1)


async def test_users_whose_names_look_like_paths_are_refused(memory: ReMe) -> None:
    with pytest.raises(InvalidInputError, match="looks like a path"):
        await memory.import_from(Listed([fact("Rows", "1", "../ann")]), every_user=True)
    assert (await memory.import_from(Listed([fact("Rows", "1", "../ann")]), user_id="emma")).added_memories == 1


async def test_an_id_that_stands_twice_costs_the_second_one(memory: ReMe) -> None:
    report = await memory.import_from(Listed([session(), session(), fact("a", "1"), fact("b", "1")]), user_id="emma")
    assert (report.sessions, report.added_memories, report.repeated_memories, report.unreadable_count) == (1, 1, 1, 1)


async def test_messages_without_ids_and_times_are_told_by_their_places(memory: ReMe) -> None:
    said = [Message.model_validate({"role": "user", "content": text}) for text in ("a", "b")]
    item = ImportedSession(source_id="s", user=None, messages=said)
    await memory.import_from(Listed([item]), user_id="emma")
    fresh = [Message.model_validate({"role": "user", "content": text}) for text in ("a", "b")]
    again = await memory.import_from(
        Listed([ImportedSession(source_id="s", user=None, messages=fresh)]), user_id="emma"
    )
    assert (again.known_messages, again.added_messages) == (2, 0)


async def test_an_id_that_looks_like_a_place_is_told_from_the_place(memory: ReMe) -> None:
    said = [
        Message.model_validate({"role": "user", "content": text, **named})
        for text, named in (("a", {"message_id": "1"}), ("b", {}), ("c", {"message_id": "1+"}))
    ]
    item = ImportedSession(source_id="s", user=None, messages=said)
    first = await memory.import_from(Listed([item]), user_id="emma")
    again = await memory.import_from(Listed([item]), user_id="emma")
    assert (first.added_messages, again.known_messages, again.added_messages) == (3, 3, 0)


async def test_the_time_of_the_import_is_none_that_the_source_has_told(memory: ReMe) -> None:
    undated = ImportedMemory(source_id="1", user=None, content="Rows")
    report = await memory.import_from(Listed([undated]), user_id="emma")
    assert (report.added_memories, report.first_at) == (1, None)


async def test_a_memory_that_was_changed_in_the_future_is_named(memory: ReMe) -> None:
    late = fact("Rows", "1", updated_at=datetime(2199, 1, 1, tzinfo=UTC))
    report = await memory.import_from(Listed([late]), user_id="emma")
    assert (report.added_memories, report.unreadable_count) == (0, 1)


async def test_a_broken_image_costs_its_message_alone(memory: ReMe) -> None:
    image = {"type": "image", "url": "data:image/png;base64,*", "caption": "a red door"}
    said = [Message(role="user", content=part, created_at=MAY) for part in ([image], [{"type": "text", "text": "ok"}])]
    report = await memory.import_from(Listed([ImportedSession(source_id="s", user=None, messages=said)]), user_id="ann")
    assert [item.reason.endswith("base64 of all of them") for item in report.unreadable] == [True]
    assert [item.message.text for item in (await memory.find_messages(user_id="ann")).messages] == ["ok"]


async def test_an_unknown_source_is_refused_by_name(memory: ReMe) -> None:
    with pytest.raises(InvalidInputError, match="found 'mem9': did you mean 'mem0'"):
        await memory.import_from("mem9", "x", user_id="emma")


class CountingStore(WrappedStore):
    """Counts the lists that are read."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.lists = 0

    async def list_memories(self, scope: Scope, request: ListMemories) -> MemoryPage:
        self.lists += 1
        return await super().list_memories(scope, request)


async def test_what_a_scope_holds_is_read_once_however_many_writes_there_are(tmp_path: Path) -> None:
    store = CountingStore(LocalStore(tmp_path / "memory.db"))
    emma = make_scope("remy", user_id="emma")
    source = Listed([fact(f"Fact {number}", str(number)) for number in range(510)])
    report = await import_items(
        store, None, VerbatimSummarizer(store=store), source, Recipients(memory_space="remy", scope=emma), at=JUNE
    )
    assert (report.added_memories, store.lists) == (510, 1)
    await store.close()
