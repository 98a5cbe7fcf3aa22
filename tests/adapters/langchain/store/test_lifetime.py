"""Threads, event loops, processes and ends, LG-STORE-70 to 73 and 75; settings, and the periodic sweep."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.base.batch import AsyncBatchedBaseStore

from reme_core import ReMe
from reme_core.errors import ConfigurationError, StoreClosedError
from reme_langchain import ReMeStore, open_store
from tests.adapters.langchain.store.store_values import DIMS, Words
from tests.support.new_processes import NEW_PROCESSES

N = ("docs",)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReMeStore]:
    with ReMeStore.from_path(tmp_path, synchronous="NORMAL") as opened:
        yield opened


@pytest.mark.requirement("LG-STORE-70")
def test_one_store_serves_scripts_several_loops_and_several_threads(store: ReMeStore) -> None:
    assert not isinstance(store, AsyncBatchedBaseStore)
    store.put(N, "script", {"n": 0})

    async def on_a_loop(name: str) -> list[str]:
        await store.aput(N, name, {"n": 1})
        store.put(N, f"{name}-sync", {"n": 2})  # on a running loop
        return [item.key for item in await store.asearch(N, limit=100)]

    for name in ("first", "second"):
        assert f"{name}-sync" in asyncio.run(on_a_loop(name))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: asyncio.run(on_a_loop(f"thread{n}")), range(4)))
    assert len(store.search(N, limit=100)) == 13


@pytest.mark.requirement("LG-STORE-71")
async def test_an_async_embedder_is_awaited_on_the_callers_loop_and_on_our_own_thread_for_sync_calls(
    tmp_path: Path,
) -> None:
    words, threads, loops = Words(), set[int](), set[int]()

    async def embed(texts: list[str]) -> list[list[float]]:
        threads.add(threading.get_ident())
        loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0)
        return words.embed_documents(list(texts))

    async with ReMeStore(tmp_path, index={"dims": DIMS, "embed": embed, "fields": ["text"]}) as store:  # type: ignore[typeddict-item]
        await store.aput(N, "a", {"text": "green tea"})
        assert (threads, loops) == ({threading.get_ident()}, {id(asyncio.get_running_loop())})
        threads.clear()
        store.put(N, "b", {"text": "black tea"})  # blocks this loop, and completes
        assert store.search(N, query="black tea")[0].key == "b"
        assert threads.isdisjoint({threading.get_ident()})


@pytest.mark.requirement("LG-STORE-71")
def test_an_async_embedder_may_use_its_own_store_by_sync_methods(tmp_path: Path) -> None:
    words = Words()

    async def embed(texts: list[str]) -> list[list[float]]:
        store.put(("asked",), str(len(words.calls)), {"texts": list(texts)})
        return words.embed_documents(list(texts))

    with ReMeStore(tmp_path, index={"dims": DIMS, "embed": embed, "fields": ["text"]}) as store:  # type: ignore[typeddict-item]
        store.put(N, "a", {"text": "green tea"})
        assert store.search(N, query="green tea")[0].key == "a"
        assert [item.value for item in store.search(("asked",))] == [{"texts": ["green tea"]}] * 2


@pytest.mark.requirement("LG-STORE-72")
async def test_many_callers_at_once_are_all_served_right(store: ReMeStore) -> None:
    await asyncio.gather(*(store.aput(N, str(n), {"n": n}) for n in range(300)))
    found = await asyncio.gather(*(store.aget(N, str(n)) for n in range(300)))
    assert [item and item.value["n"] for item in found] == list(range(300))

    async def mixed(n: int) -> Any:
        place = ("mix", str(n % 7), str(n % 3))
        return await [
            lambda: store.aput(place, str(n), {"n": n}),
            lambda: store.aget(place, str(n - 1)),
            lambda: store.asearch(("mix",), filter={"n": {"$gte": 0}}),
            lambda: store.alist_namespaces(prefix=("mix",)),
            lambda: store.adelete(place, str(n - 4)),
        ][n % 5]()

    await asyncio.gather(*(mixed(n) for n in range(960)))
    left = await store.asearch(("mix",), limit=1000)
    assert sorted(item.value["n"] for item in left) == list(range(0, 960, 5))

    async def writer(name: int) -> None:
        for n in range(15):
            await store.aput(("own", str(name)), "k", {"n": n})
            item = await store.aget(("own", str(name)), "k")
            assert item is not None
            assert item.value == {"n": n}
            assert [hit.value for hit in await store.asearch(("own", str(name)))] == [{"n": n}]

    await asyncio.gather(*(writer(n) for n in range(8)))


@pytest.mark.requirement("LG-STORE-72")
def test_threads_make_namespaces_while_others_search_and_list(store: ReMeStore) -> None:
    def write(n: int) -> None:
        for step in range(15):
            store.put(("t", str(n), str(step)), "k", {"n": step})

    def read(_: int) -> None:
        for _ in range(15):
            store.search(("t",), limit=1000)
            store.list_namespaces(prefix=("t",), limit=1000)

    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(write if n % 2 else read, n) for n in range(8)]
        for future in done:
            future.result()
    assert len(store.list_namespaces(prefix=("t",), limit=1000)) == 60


@pytest.mark.requirement("LG-STORE-23")
async def test_a_failing_or_cancelled_call_harms_no_other_one(store: ReMeStore) -> None:
    calls = [
        store.abatch([PutOp(N, f"good{n}", {"n": n})]) if n % 3 else store.abatch([PutOp(N, "bad", {"n": {n}})])
        for n in range(30)
    ]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [list if n % 3 else TypeError for n in range(30)]
    assert len(await store.asearch(N, limit=100)) == 20
    for n in range(20):
        task = asyncio.create_task(store.abatch([PutOp(("cut", str(n)), key, {"n": n}) for key in "ab"]))
        for _ in range(n % 4):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await store.aput(N, "after", {"n": 1})
    assert await store.aget(N, "after") is not None
    for place in await store.alist_namespaces(prefix=("cut",)):
        assert len(await store.asearch(place)) == 2  # whole, or not at all


@pytest.mark.requirement("LG-STORE-73")
def test_what_was_acknowledged_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    with ReMeStore(tmp_path) as store:
        store.put(N, "k", {"n": 1})
        store.put(N, "gone", {"n": 1})
        store.put(N, "k", {"n": 2})
        store.delete(N, "gone")
        before = store.get(N, "k")
    with ReMeStore(tmp_path / "memory.db") as store:
        assert store.get(N, "k") == before
        assert [item.key for item in store.search(())] == ["k"]


def write_some(folder: Path, name: str) -> None:
    with ReMeStore.from_path(folder, synchronous="NORMAL") as store:
        for n in range(20):
            store.put(("shared", name), str(n), {"n": n})
            assert store.get(("shared", name), str(n)) is not None


def write_for_ever(folder: Path, told: Connection) -> None:
    store = ReMeStore(folder)
    n = 0
    while True:
        store.batch([PutOp(N, f"{n}-a", {"n": n}), PutOp(N, f"{n}-b", {"n": n})])
        told.send(n)
        n += 1


@pytest.mark.requirement("LG-STORE-73")
def test_several_processes_share_a_file_and_a_killed_one_loses_nothing(tmp_path: Path) -> None:
    ours, theirs = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=write_for_ever, args=(tmp_path, theirs), daemon=True)
    child.start()
    with ReMeStore(tmp_path) as store, ProcessPoolExecutor(1, mp_context=NEW_PROCESSES) as pool:
        other = pool.submit(write_some, tmp_path, "other")
        write_some(tmp_path, "this")
        acknowledged = max(ours.recv() for _ in range(10))
        child.kill()
        child.join()
        while ours.poll():
            acknowledged = max(acknowledged, ours.recv())
        other.result()
        kept = {item.key for item in store.search(N, limit=10_000)}
        wanted = {f"{n}-{half}" for n in range(acknowledged + 1) for half in "ab"}
        assert wanted <= kept
        assert len(kept) % 2 == 0
        assert len(store.search(("shared",), limit=100)) == 40
        store.put(N, "after", {"n": 1})


@pytest.mark.requirement("LG-STORE-70")
async def test_a_closed_store_says_so_and_leaves_a_memory_that_was_handed_to_it_open(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        async with ReMeStore(memory) as store:
            await store.aput(N, "k", {"n": 1})
            store.put(N, "l", {"n": 1})
        await store.aclose()
        with pytest.raises(StoreClosedError, match="closed"):
            await store.aget(N, "k")
        with pytest.raises(StoreClosedError, match="closed"):
            store.get(N, "k")
        with pytest.raises(StoreClosedError, match="closed"):
            await store.asweep_ttl()
        assert not [t for t in set(threading.enumerate()) - before if t.name == "reme-loop"]
        await memory.add_memory("still open", user_id="ann")
    own = ReMeStore(tmp_path)
    assert own.get(N, "k") is None  # another memory space
    own.close()
    own.close()
    left = set(threading.enumerate()) - before  # other tests have threads as well
    assert not [thread for thread in left if thread.name.startswith("reme-")]


@pytest.mark.requirement("LG-STORE-70")
def test_a_store_that_nobody_closed_leaves_no_thread_behind(tmp_path: Path) -> None:
    """In a process of its own: all that run calls in a loop of ours share its thread."""
    command = [sys.executable, "-c", NOBODY_CLOSED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("True False\n", "")


NOBODY_CLOSED = """
import gc, sys, threading
from reme_langchain import ReMeStore
store = ReMeStore.from_path(sys.argv[1], synchronous="NORMAL")
store.put(("a",), "k", {"n": 1})
[thread] = [thread for thread in threading.enumerate() if thread.name == "reme-loop"]
begun = thread.is_alive()
del store
gc.collect()
thread.join(30)
print(begun, thread.is_alive())
"""


def test_a_store_without_arguments_opens_the_default_folder_with_its_first_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ReMeStore() as store:
        assert list(tmp_path.iterdir()) == []
        store.put(N, "k", {"n": 1})
    assert (tmp_path / ".reme" / "memory.db").exists()


class Told(ReMeStore):
    """Says when it was swept."""

    swept: threading.Event

    def sweep_ttl(self) -> int:
        count = super().sweep_ttl()
        if count:
            self.swept.set()
        return count


@pytest.mark.requirement("LG-STORE-61")
def test_the_periodic_sweep_begins_with_the_first_call_and_ends_with_the_store(tmp_path: Path) -> None:
    def sweepers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "reme-sweep"]

    every: Any = {"sweep_interval_minutes": 0.0001}
    with Told(tmp_path, ttl=every) as store:
        store.swept = threading.Event()
        assert sweepers() == []
        store.put(N, "k", {"n": 1}, ttl=0.00001)
        store.put(N, "kept", {"n": 1})
        [thread] = sweepers()
        assert thread.daemon
        assert store.swept.wait(30)
        assert [item.key for item in store.search(())] == ["kept"]
    assert sweepers() == []
    forgotten = Told(tmp_path, ttl={"sweep_interval_minutes": 1000})
    forgotten.put(N, "k", {})
    left = weakref.ref(forgotten)
    forgotten.close()
    del forgotten
    gc.collect()
    assert left() is None


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"ttl": {"default_ttl": -1}}, "default_ttl"),
        ({"ttl": {"sweep_interval_minutes": 0}}, "sweep_interval_minutes"),
        ({"ttl": {"default_minutes": 5}}, "unknown settings default_minutes"),
        ({"ttl": 5}, "ttl"),
        ({"ttl": {"omit_expired": "no"}}, "omit_expired"),
        ({"index": {"dims": 0, "embed": Words()}}, "dims"),
        ({"index": {"dims": 8}}, "embed"),
        ({"index": {"dims": DIMS, "embed": Words(), "field": ["a"]}}, "unknown settings field"),
        ({"index": {"dims": DIMS, "embed": Words(), "fields": "a"}}, "fields"),
        ({"index": "words"}, "index"),
    ],
)
def test_settings_that_cannot_be_are_refused_and_nothing_is_opened(named: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        ReMeStore(tmp_path, **named)
    with pytest.raises(ConfigurationError, match="store"):
        ReMeStore(7)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="on disk"):
        ReMeStore(":memory:")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("LG-STORE-75")
async def test_open_store_takes_its_settings_from_the_environment_when_it_is_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REME_STORE_PATH", "REME_WORKING_DIR", "REME_STORE_INDEX", "REME_STORE_DIMS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    opening = open_store()
    monkeypatch.setenv("REME_WORKING_DIR", str(tmp_path / "working"))
    async with opening as store:
        await store.aput(N, "k", {"n": 1})
    assert (tmp_path / "working" / "memory.db").exists()
    monkeypatch.setenv("REME_STORE_PATH", str(tmp_path / "own.db"))
    monkeypatch.setenv("REME_STORE_INDEX", "nobody:no-model")
    monkeypatch.setenv("REME_STORE_DIMS", "8")
    async with open_store() as store:
        assert await store.abatch([GetOp(N, "k"), ListNamespacesOp(), SearchOp(N)]) == [None, [], []]
    assert (tmp_path / "own.db").exists()
    monkeypatch.setenv("REME_STORE_DIMS", "many")
    with pytest.raises(ConfigurationError, match="REME_STORE_DIMS"):
        async with open_store():
            pass
    with pytest.raises(StoreClosedError):
        await store.aget(N, "k")
