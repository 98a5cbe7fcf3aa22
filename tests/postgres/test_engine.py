"""Transactions on PostgreSQL: values, boundaries, what is tried again, and what failures are told as."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    InvalidInputError,
    ReMeError,
    StoreAccessError,
    StoreClosedError,
    StoreUnavailableError,
)
from reme_core.schema import Scope
from reme_core.stores.postgres.adapters import escape, unescape
from reme_core.stores.postgres.connection import PgConnection
from reme_core.stores.postgres.database import PostgresDatabase
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.stores.postgres.translate import translate
from reme_core.stores.sql.connection import ItemsWithin
from tests.support.postgres_server import PASSWORD, ROLE, TestServer

ANNA, BOB = (Scope(memory_space="space", user_id=name) for name in ("anna", "bob"))
ABROAD = Scope(memory_space="abroad", user_id="anna")


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., PostgresDatabase]]:
    made: list[PostgresDatabase] = []

    def open_(url: str, **given: Any) -> PostgresDatabase:
        made.append(PostgresDatabase(ServerSettings(url=url, **given), None))  # type: ignore[arg-type]
        return made[-1]

    yield open_
    for database in made:
        await database.close()


@pytest.fixture
def db(opened: Callable[..., PostgresDatabase], shared_url: str) -> PostgresDatabase:
    return opened(shared_url)


def enter(connection: Any, scope: Scope) -> int:
    row = connection.execute(
        "SELECT scope FROM scopes WHERE memory_space = ? AND user_id = ?", (scope.memory_space, scope.user_id)
    ).fetchone()
    if row is None:
        row = connection.execute(
            "INSERT INTO scopes (memory_space, user_id) VALUES (?, ?) RETURNING scope",
            (scope.memory_space, scope.user_id),
        ).fetchone()
    return int(row[0])


def add(connection: Any, scope: Scope, *names: str) -> list[int]:
    number = enter(connection, scope)
    insert = "INSERT INTO sessions (scope, session_id) VALUES (?, ?) RETURNING session"
    return [connection.execute(insert, (number, name)).fetchone()[0] for name in names]


def names(connection: Any) -> list[str]:
    return [name for (name,) in connection.execute("SELECT session_id FROM sessions ORDER BY session_id")]


@given(st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("\0\1\2")))
def test_escaped_texts_come_back_and_keep_their_order(text: str) -> None:
    assert unescape(escape(text)) == text
    assert "\0" not in escape(text)
    for other in ("", "\0", "\1", "\1\1", "a", text + "\0", text[:-1] + "\1"):
        assert (escape(other) < escape(text)) == (other < text)


def test_marks_in_literals_stay_and_lists_are_arrays() -> None:
    kept = "SELECT 'a?''b%', \"c?\", 5 % 2 WHERE x = "
    assert translate(f"{kept}?").sql == f"{kept}$1".encode()
    assert translate("a CROSS JOIN b USING (c)").sql == b"a JOIN b USING (c)"
    found = translate(
        "a = ? AND b IN (SELECT value FROM json_each(?)) AND c NOT IN (SELECT json_each.value FROM json_each(?))"
    )
    assert found.sql == b"a = $1 AND b = ANY($2) AND c <> ALL($3)"
    assert found.lists == {1, 2}


async def test_values_of_all_kinds_come_back_as_they_were(db: PostgresDatabase) -> None:
    values = ("täxt\0\1\n%s?", b"\0\1\xff", 1 << 62, -1.5e300, True, None, float("inf"))
    sql = "SELECT ?::text, ?::bytea, ?::bigint, ?::double precision, ?::boolean, ?::text, ?::double precision"
    assert await db.read(lambda c: c.execute(sql, values).fetchone(), within=ANNA) == values
    sums = await db.read(
        lambda c: c.execute("SELECT sum(x::bigint), avg(x::bigint) FROM generate_series(1, 2) x").fetchone(),
        within=ANNA,
    )
    assert sums == (3, 1.5)
    assert [type(value) for value in sums] == [int, float]


async def test_a_part_of_a_text_is_counted_in_its_own_characters(db: PostgresDatabase) -> None:
    text = "ab\0c\1\1d\nef"
    for start, chars in ((0, 3), (2, 4), (5, 50), (9, 0)):
        (part,) = await db.read(
            lambda c, values=(text, start, chars): c.execute("SELECT substr(?::text, ? + 1, ?)", values).fetchone(),
            within=ANNA,
        )
        assert part == text[start : start + chars]


async def test_values_that_no_column_holds_are_refused(db: PostgresDatabase) -> None:
    for value in (1 << 64, "\ud800"):
        with pytest.raises(InvalidInputError):
            await db.write(lambda c, value=value: c.execute("SELECT ?::bigint, ?::text", (value, value)), within=ANNA)


async def test_a_transaction_sees_its_scope_alone(db: PostgresDatabase) -> None:
    for scope in (ANNA, BOB, ABROAD):
        await db.write(
            lambda c, scope=scope: add(c, scope, f"of {scope.user_id} in {scope.memory_space}"), within=scope
        )
    assert await db.read(names, within=ANNA) == ["of anna in space"]
    assert await db.read(names, within="space") == ["of anna in space", "of bob in space"]
    assert await db.read(names, within=Scope(memory_space="space", user_id="nobody")) == []
    assert await db.read(names, within=None) == []
    changed = await db.write(lambda c: c.execute("DELETE FROM sessions").rowcount, within=BOB)
    assert changed == 1
    assert await db.read(names, within="space") == ["of anna in space"]


async def test_a_row_of_another_scope_is_refused(db: PostgresDatabase) -> None:
    number = await db.write(lambda c: enter(c, BOB), within=BOB)
    for within in (ANNA, ABROAD, None, "abroad"):
        with pytest.raises(StoreAccessError, match="another scope"):
            await db.write(
                lambda c: c.execute("INSERT INTO sessions (scope, session_id) VALUES (?, 'x')", (number,)),
                within=within,
            )
        with pytest.raises(StoreAccessError):
            await db.write(lambda c: enter(c, BOB), within=within)


CASES = int(os.environ.get("REME_POSTGRES_CASES", "25"))
SCOPES = [Scope(memory_space=space, user_id=user) for space in ("s", "*") for user in ("", "*", "0")]


@pytest.mark.timeout(3600)
@settings(max_examples=CASES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from(SCOPES), st.booleans(), st.text(max_size=3)), min_size=1, max_size=8))
def test_whatever_is_written_no_other_scope_finds_it(
    db: PostgresDatabase, steps: list[tuple[Scope, bool, str]]
) -> None:
    def clear(connection: Any) -> None:  # nothing in the statement says whose rows are meant
        connection.execute("DELETE FROM sessions")

    held: dict[Scope, set[str]] = {scope: set() for scope in SCOPES}
    for scope in SCOPES:
        db.submit_write(clear, within=scope).result()
    for scope, adds, name in steps:
        if adds and name not in held[scope]:
            db.submit_write(lambda c, scope=scope, name=name: add(c, scope, name), within=scope).result()
            held[scope].add(name)
        elif not adds:
            db.submit_write(clear, within=scope).result()
            held[scope].clear()
    for scope, expected in held.items():
        assert set(db.submit_read(names, within=scope).result()) == expected
    for space in ("s", "*", "u"):
        of_space = sorted(name for scope, of in held.items() if scope.memory_space == space for name in of)
        assert sorted(db.submit_read(names, within=space).result()) == of_space
    assert db.submit_read(names, within=None).result() == []


async def test_a_stream_is_read_in_part_and_renewing_begins_another_snapshot(db: PostgresDatabase) -> None:
    await db.write(lambda c: add(c, ANNA, *"abcdef"), within=ANNA)

    def read(connection: Any) -> tuple[Any, ...]:
        rows = connection.stream("SELECT session_id FROM sessions WHERE session_id > ? ORDER BY 1", ("a",))
        others = connection.stream("SELECT session_id FROM sessions ORDER BY 1")
        parts = rows.fetchmany(2), rows.fetchone(), others.fetchmany(1), list(rows), rows.fetchone()
        rows.close()
        asyncio.run_coroutine_threadsafe(db.write(lambda c: add(c, ANNA, "g"), within=ANNA), loop).result()
        before = names(connection)
        connection.renew()
        return parts, before[-1], names(connection)[-1]

    loop = asyncio.get_running_loop()
    parts, before, after = await db.read(read, within=ANNA)
    assert parts == ([("b",), ("c",)], ("d",), [("a",)], [("e",), ("f",)], None)
    assert (before, after) == ("f", "g")


async def test_a_read_can_write_nothing(db: PostgresDatabase) -> None:
    with pytest.raises(StoreUnavailableError, match="only be read"):
        await db.read(lambda c: add(c, ANNA, "x"), within=ANNA)


async def test_writers_of_one_scope_take_turns_and_of_two_go_side_by_side(db: PostgresDatabase) -> None:
    await db.write(lambda c: add(c, ANNA, "0"), within=ANNA)
    both = threading.Barrier(2, timeout=20)

    def count(connection: Any) -> None:
        (value,) = connection.execute("SELECT session_id FROM sessions").fetchone()
        connection.execute("UPDATE sessions SET session_id = ?", (str(int(value) + 1),))

    await asyncio.gather(*(db.write(count, within=ANNA) for _ in range(20)))
    assert await db.read(names, within=ANNA) == ["20"]
    scopes = [Scope(memory_space="space", user_id=f"user {n}") for n in range(40)]
    writers = {db._place(scope): scope for scope in scopes}  # two threads of this process
    first, second, *_ = writers.values()
    await asyncio.gather(*(db.write(lambda c: both.wait(), within=scope) for scope in (first, second)))


async def test_writes_of_a_scope_keep_the_order_in_which_they_were_begun(db: PostgresDatabase) -> None:
    await asyncio.gather(*(db.write(lambda c, n=n: add(c, ANNA, f"{n:03}"), within=ANNA) for n in range(50)))
    ordered = await db.read(
        lambda c: [n for (n,) in c.execute("SELECT session_id FROM sessions ORDER BY session")], within=ANNA
    )
    assert ordered == sorted(ordered)


async def test_two_processes_that_meet_are_run_again(
    db: PostgresDatabase, shared_url: str, opened: Callable[..., PostgresDatabase]
) -> None:
    other = opened(shared_url)
    tries = [0, 0]
    both = threading.Barrier(2, timeout=20)

    def claim(connection: Any, who: int) -> str:
        tries[who] += 1
        row = connection.execute("SELECT value FROM meta WHERE key = 'dimension'").fetchone()
        if tries[who] == 1:
            both.wait()
        if row is None:
            connection.execute("INSERT INTO meta VALUES ('dimension', ?)", (str(who),))
            return str(who)
        return str(row[0])

    first, second = await asyncio.gather(
        db.write(lambda c: claim(c, 0), within=ANNA), other.write(lambda c: claim(c, 1), within=BOB)
    )
    assert first == second
    assert sorted(tries) == [1, 2]


async def test_a_clash_that_stays_is_a_conflict(db: PostgresDatabase) -> None:
    secret = "secret" + " name"
    with pytest.raises(ConflictError) as raised:
        await db.write(lambda c: add(c, ANNA, secret, secret), within=ANNA)
    assert secret not in "".join(traceback.format_exception(raised.value))


async def test_an_error_within_a_transaction_that_work_swallows_is_told(db: PostgresDatabase) -> None:
    def work(connection: Any) -> None:
        add(connection, ANNA, "lost")
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1 / 0").fetchone()

    with pytest.raises(Exception, match="nothing was written"):
        await db.write(work, within=ANNA)
    assert await db.read(names, within=ANNA) == []


async def test_a_lost_connection_is_made_anew_and_the_work_run_again(db: PostgresDatabase, server: TestServer) -> None:
    tries = 0

    def work(connection: Any) -> None:
        nonlocal tries
        tries += 1
        add(connection, ANNA, f"try {tries}")
        if tries == 1:
            (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
            with psycopg.connect(server.url, autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
            connection.execute("SELECT 1")

    await db.write(work, within=ANNA)
    assert await db.read(names, within=ANNA) == ["try 2"]


async def test_statements_go_together_in_their_order_once_somebody_looks_at_rows(db: PostgresDatabase) -> None:
    def work(connection: Any) -> list[Any]:
        add(connection, ANNA, "first")
        before = connection.execute("SELECT count(*) FROM sessions")
        connection.execute("UPDATE sessions SET session_id = 'renamed'")
        connection.executemany("INSERT INTO sessions (scope, session_id) VALUES (reme_scope(), ?)", [("a",), ("b",)])
        after = connection.execute("SELECT session_id FROM sessions ORDER BY 1")
        return [before.fetchall(), after.fetchone(), after.fetchmany(1), list(after), after.fetchone(), after.rowcount]

    found = await db.write(work, within=ANNA)
    assert found == [[(1,)], ("a",), [("b",)], [("renamed",)], None, 3]


async def test_what_nobody_looks_at_fails_with_the_commit(db: PostgresDatabase) -> None:
    for broken in ("SELECT 'x'::int", "INSERT INTO sessions (scope, session_id) VALUES (0, 'x')"):
        with pytest.raises(ReMeError):
            await db.write(lambda c, broken=broken: (add(c, ANNA, "x"), c.execute(broken)), within=ANNA)
    assert await db.read(names, within=ANNA) == []


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_scope_that_others_have_made_anew_is_known_by_its_new_number(
    db: PostgresDatabase, opened: Callable[..., PostgresDatabase], shared_url: str, is_read: bool
) -> None:
    """Its number is remembered, and checked in each transaction, also where all of it goes in one message."""

    def remake(connection: Any) -> None:
        connection.execute("DELETE FROM sessions")
        connection.execute("DELETE FROM scopes")
        add(connection, ANNA, "new")

    def look(connection: Any) -> Any:
        return connection.known_scope(ANNA)

    def rename(connection: Any) -> Any:
        number = connection.known_scope(ANNA)
        connection.execute("UPDATE sessions SET session_id = session_id || '!' WHERE scope = ?", (number,))
        return number

    await db.write(lambda c: add(c, ANNA, "old"), within=ANNA)
    number = await db.read(look, within=ANNA)
    await opened(shared_url).write(remake, within=ANNA)
    anew = await (db.read(look, within=ANNA) if is_read else db.write(rename, within=ANNA))
    assert None not in {number, anew}
    assert anew != number
    assert await db.read(names, within=ANNA) == ["new" if is_read else "new!"]


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_commit_whose_answer_is_lost_is_neither_repeated_nor_dropped(
    db: PostgresDatabase, server: TestServer, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    """The connection is cut before the commit is sent, or behind it: its outcome is asked for."""
    commit = PostgresDatabase._commit
    cuts = 0

    def cut(self: PostgresDatabase, connection: PgConnection, writer: str, signature: int) -> None:
        nonlocal cuts
        cuts += 1
        if cuts > 1:
            return commit(self, connection, writer, signature)
        (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        if arrived:
            commit(self, connection, writer, signature)
        with psycopg.connect(server.url, autocommit=True) as admin:
            assert admin.execute("SELECT pg_terminate_backend(%s, 60000)", (pid,)).fetchone() == (True,)
        return commit(self, connection, writer, signature)

    monkeypatch.setattr(PostgresDatabase, "_commit", cut)
    tries = 0

    def work(connection: Any) -> int:
        nonlocal tries
        tries += 1
        add(connection, ANNA, f"try {tries}")
        return tries

    assert await db.write(work, within=ANNA) == (1 if arrived else 2)
    assert await db.read(names, within=ANNA) == (["try 1"] if arrived else ["try 2"])


async def test_nobody_waits_for_the_end_of_a_read_and_its_loss_harms_no_later_one(
    db: PostgresDatabase, server: TestServer
) -> None:
    await db.write(lambda c: add(c, ANNA, "there"), within=ANNA)
    for _ in range(3):
        ids = await db.read(lambda c: c.execute("SELECT pg_backend_pid()").fetchall(), within=ANNA)
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", ids[0])
        assert await db.read(names, within=ANNA) == ["there"]


async def test_writers_of_items_wait_for_those_of_the_same_namespace_alone(
    opened: Callable[..., PostgresDatabase], shared_url: str
) -> None:
    """While one holds (a) and the memories of Anna, others write (b) and Bob's; (a) and Anna's wait."""
    holder, other = opened(shared_url), opened(shared_url, lock_timeout_s=0.2)
    held, let_go = threading.Event(), threading.Event()

    def hold(connection: Any) -> None:
        connection.execute("SELECT 1").fetchone()  # the transaction begins with its first statement
        held.set()
        let_go.wait(20)

    holding = holder.submit_write(hold, within=ItemsWithin("space", ("a",), (ANNA,)))
    await asyncio.to_thread(held.wait, 20)
    free = [ItemsWithin("space", ("b",), (BOB,)), ItemsWithin("space"), BOB, ItemsWithin("abroad", ("a",), (ABROAD,))]
    for within in free:
        await other.write(lambda _: None, within=within)
    taken = [ItemsWithin("space", ("b", "a")), ItemsWithin("space", ("b",), (ANNA,)), ANNA, "space"]
    for within in taken:
        with pytest.raises(StoreUnavailableError, match="lock_timeout_s"):
            await other.write(lambda _: None, within=within)
    let_go.set()
    await asyncio.wrap_future(holding)
    for within in (*free, *taken):
        await other.write(lambda _: None, within=within)


async def test_what_frees_room_may_take_longer_than_a_statement(
    opened: Callable[..., PostgresDatabase], shared_url: str
) -> None:
    db = opened(shared_url, statement_timeout_s=0.05)
    slow = "SELECT pg_sleep(0.1)"
    await db.write(lambda c: c.execute(slow), within=ANNA, frees=True)
    with pytest.raises(StoreUnavailableError):
        await db.write(lambda c: c.execute(slow), within=ANNA)


async def test_a_slow_statement_and_a_held_lock_are_told_as_unavailable(
    opened: Callable[..., PostgresDatabase], shared_url: str
) -> None:
    db = opened(shared_url, statement_timeout_s=0.2)
    with pytest.raises(StoreUnavailableError, match="statement_timeout_s"):
        await db.read(lambda c: c.execute("SELECT pg_sleep(20)"), within=ANNA)
    holder, waiter = opened(shared_url), opened(shared_url, lock_timeout_s=0.2)
    held, let_go = threading.Event(), threading.Event()
    holding = asyncio.ensure_future(holder.write(lambda c: (names(c), held.set(), let_go.wait(20)), within=ANNA))
    await asyncio.to_thread(held.wait, 20)
    with pytest.raises(StoreUnavailableError, match="lock_timeout_s"):
        await waiter.write(lambda c: None, within=ANNA)
    await waiter.write(lambda c: None, within=BOB)
    let_go.set()
    await holding


async def test_no_text_of_a_failure_has_the_password(
    opened: Callable[..., PostgresDatabase], server: TestServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = [
        url.replace(f"{ROLE}:", "nobody:"),
        url.replace("/reme_", "/nothing_"),
        url.replace("?host=", "?host=/nowhere") if "?host=" in url else "postgresql://a:p%40ss%2Fw%3Ard@127.0.0.1:1/x",
        f"postgresql://a:{PASSWORD}@host:port/x",
        f"mysql://a:{PASSWORD}@h/x",
    ]
    for text in wrong:
        with pytest.raises((StoreAccessError, StoreUnavailableError, ConfigurationError)) as raised:
            await opened(text).read(names, within=ANNA)
        told = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + caplog.text
        assert PASSWORD not in told
        assert "w:rd" not in told
        pickle.loads(pickle.dumps(raised.value))  # noqa: S301  # our own
    db = opened(url)
    assert PASSWORD not in repr(db) + db.path + repr(ServerSettings(url=url))


async def test_a_closed_database_says_so(db: PostgresDatabase) -> None:
    await db.close()
    await db.close()
    with pytest.raises(StoreClosedError):
        await db.read(names, within=ANNA)


async def test_idle_connections_are_closed(
    opened: Callable[..., PostgresDatabase], url: str, server: TestServer
) -> None:
    db = opened(url, idle_s=0.05)
    await db.read(names, within=ANNA)
    with psycopg.connect(server.url, autocommit=True) as admin:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        for _ in range(400):
            (count,) = admin.execute(query, (url.rpartition("/")[2].partition("?")[0],)).fetchone() or (1,)
            if not count:
                break
            await asyncio.sleep(0.01)
    assert count == 0


async def test_no_more_connections_are_made_than_are_allowed(opened: Callable[..., PostgresDatabase], url: str) -> None:
    db = opened(url, max_connections=2)
    ours = "usename = current_user AND datname = current_database()"  # other processes of the run have databases, too
    counted = f"SELECT count(*), pg_sleep(0.01) FROM pg_stat_activity WHERE {ours}"  # noqa: S608
    scopes = [Scope(memory_space="s", user_id=str(n)) for n in range(6)]
    found = await asyncio.gather(
        *(db.read(lambda c: c.execute(counted).fetchone()[0], within=scope) for scope in scopes),
        *(db.write(lambda c: c.execute(counted).fetchone()[0], within=scope) for scope in scopes),
    )
    assert max(found) <= 2


async def test_statements_of_a_pooler_are_never_prepared(
    opened: Callable[..., PostgresDatabase], shared_url: str
) -> None:
    prepared = "SELECT count(*) FROM pg_prepared_statements"
    for threshold, expected in ((None, 0), (0, 1)):
        db = opened(shared_url, prepare_threshold=threshold, max_connections=1)
        for _ in range(7):
            await db.read(names, within=ANNA)
        assert ((await db.read(lambda c: c.execute(prepared).fetchone()[0], within=ANNA)) > 0) == bool(expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_parent_and_child_of_a_fork_both_go_on(db: PostgresDatabase) -> None:
    await db.write(lambda c: add(c, ANNA, "before"), within=ANNA)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        async def run() -> list[str]:
            await db.write(lambda c: add(c, ANNA, "child"), within=ANNA)
            found = await db.read(names, within=ANNA)
            await db.close()
            return found

        with asyncio.Runner() as runner:
            sender.send(runner.run(run()))

    def in_a_thread() -> None:  # the parent's loop seems to run in the one that forked
        thread = threading.Thread(target=child)
        thread.start()
        thread.join()

    process = context.Process(target=in_a_thread)
    process.start()
    sender.close()
    assert receiver.recv() == ["before", "child"]
    receiver.close()
    process.join()
    await db.write(lambda c: add(c, ANNA, "parent"), within=ANNA)
    assert await db.read(names, within=ANNA) == ["before", "child", "parent"]


def test_any_loop_and_thread_may_use_one_database(shared_url: str) -> None:
    db = PostgresDatabase(ServerSettings(url=shared_url), None)  # type: ignore[arg-type]

    def work(name: str) -> None:
        asyncio.run(db.write(lambda c: add(c, ANNA, name), within=ANNA))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.submit_read(names, within=ANNA).result() == ["a", "b", "c"]
    asyncio.run(db.close())


async def test_repeated_work_ends_when_it_says_so_and_when_it_fails(db: PostgresDatabase) -> None:
    turns = iter([True, True, False])
    await asyncio.wrap_future(db.submit_repeated(lambda c: next(turns), within=ANNA))
    assert next(turns, None) is None
    with pytest.raises(StopIteration):
        next(turns)
