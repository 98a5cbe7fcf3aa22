"""Bytes by key, in the memory's file."""

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_tests.integration_tests.base_store import BaseStoreAsyncTests, BaseStoreSyncTests

from reme_core import ReMe
from reme_core.errors import ConfigurationError, StoreClosedError
from reme_langchain import ReMeByteStore

NAMESPACES = (f"namespace {number}" for number in itertools.count())


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    memory = ReMe(working_dir=tmp_path_factory.mktemp("kv"), llm=None, embedding=None)
    yield memory
    asyncio.run(memory.close())


class Standard:
    @pytest.fixture
    def kv_store(self, memory):
        return ReMeByteStore(memory, namespace=next(NAMESPACES))

    @pytest.fixture
    def three_values(self):
        return b"foo", b"\x00\xff", b""


@pytest.mark.requirement("LC-KV-01")
class TestSync(Standard, BaseStoreSyncTests):
    pass


@pytest.mark.requirement("LC-KV-01")
class TestAsync(Standard, BaseStoreAsyncTests):
    @pytest.fixture
    async def kv_store(self, memory):
        return ReMeByteStore(memory, namespace=next(NAMESPACES))


class Blocking:
    """The synchronous calls in the form of the asynchronous ones, from a worker thread."""

    def __init__(self, store: ReMeByteStore) -> None:
        self.store = store

    async def amget(self, keys):
        return await asyncio.to_thread(self.store.mget, keys)

    async def amset(self, pairs):
        await asyncio.to_thread(self.store.mset, pairs)

    async def amdelete(self, keys):
        await asyncio.to_thread(self.store.mdelete, keys)

    async def ayield_keys(self, prefix=None):
        for key in await asyncio.to_thread(lambda: list(self.store.yield_keys(prefix=prefix))):
            yield key


@pytest.fixture(params=["sync", "async"])
def store(request, memory):
    store = ReMeByteStore(memory, namespace=next(NAMESPACES))
    return Blocking(store) if request.param == "sync" else store


async def keys_of(store, prefix=None) -> list[str]:
    return [key async for key in store.ayield_keys(prefix=prefix)]


@pytest.mark.requirement("LC-KV-01")
async def test_values_come_in_the_order_of_the_keys_and_the_last_of_a_key_counts(store):
    await store.amset([("a", b"1"), ("b", b"2"), ("a", b"3")])
    assert await store.amget(["b", "none", "a", "b"]) == [b"2", None, b"3", b"2"]
    await store.amdelete(["a", "none"])
    assert await store.amget(["a", "b"]) == [None, b"2"]
    assert await store.amget([]) == []


@pytest.mark.requirement("LC-KV-01")
async def test_a_prefix_is_literal_and_any_text_is_a_key(store):
    keys = [
        "",
        "a",
        "a%",
        "a_b",
        "aXb",
        "A",
        "é",
        "e\u0301",
        "\0",
        "\ud800",
        "日本",
        "🙂",
        "x" * 2000,
        "a'; DROP TABLE x",
    ]
    await store.amset([(key, key.encode("utf-8", "surrogatepass")) for key in keys])
    assert await store.amget(keys) == [key.encode("utf-8", "surrogatepass") for key in keys]
    assert sorted(await keys_of(store)) == sorted(keys)
    assert await keys_of(store, "a") == ["a", "a%", "a'; DROP TABLE x", "aXb", "a_b"]
    for prefix in ("a%", "a_", "*", "A", "\ud800", ""):
        assert await keys_of(store, prefix) == sorted(key for key in keys if key.startswith(prefix))


@pytest.mark.requirement("LC-KV-01")
@settings(max_examples=25, deadline=None)
@given(
    keys=st.sets(st.text(alphabet="ab\U0010ffff\0", max_size=3), max_size=5), prefix=st.text("ab\U0010ffff", max_size=2)
)
def test_keys_with_a_prefix_are_those_that_begin_with_it(memory, keys, prefix):
    store = ReMeByteStore(memory, namespace=next(NAMESPACES))
    store.mset([(key, b"") for key in keys])
    assert list(store.yield_keys(prefix=prefix)) == sorted(key for key in keys if key.startswith(prefix))


@pytest.mark.requirement("LC-KV-01")
async def test_keys_are_yielded_in_pages_between_which_any_call_works(memory):
    store = ReMeByteStore(memory, namespace=next(NAMESPACES))
    names = [f"{number:05}" for number in range(1203)]
    store.mset([(name, b"v") for name in names])
    seen = []
    for name in store.yield_keys():
        seen.append(name)
        if len(seen) == 1:
            store.mdelete([names[-1]])  # lies on a page that was not read yet
    assert seen == names[:-1]
    abandoned = store.yield_keys("0")
    next(abandoned)
    store.mdelete(names)
    assert [key async for key in store.ayield_keys()] == []


@pytest.mark.requirement("LC-KV-01")
async def test_namespaces_and_memory_spaces_are_apart(memory, tmp_path):
    other = ReMe("other", working_dir=tmp_path, llm=None, embedding=None)
    same_file = ReMe(
        "same", vector_store={"backend": "local_file", "path": tmp_path / "memory.db"}, llm=None, embedding=None
    )
    stores = [
        ReMeByteStore(other),
        ReMeByteStore(other, namespace="b"),
        ReMeByteStore(same_file),
        ReMeByteStore(memory),
    ]
    for number, store in enumerate(stores):
        await store.amset([("key", bytes([number]))])
    assert [store.mget(["key"]) for store in stores] == [[bytes([number])] for number in range(4)]
    stores[0].mdelete(["key"])
    assert [await keys_of(store) for store in stores] == [[], ["key"], ["key"], ["key"]]
    await other.close()
    await same_file.close()


@pytest.mark.requirement("LC-KV-01")
async def test_a_wrong_key_or_value_is_refused_and_nothing_is_written(store):
    for pairs in ([("a", b"1"), ("b", "text")], [("a", b"1"), (2, b"")], [("a", b"1"), ("b", None)]):
        with pytest.raises(TypeError, match="wanted"):
            await store.amset(pairs)
    with pytest.raises(TypeError, match="wanted a text"):
        await store.amget([None])
    assert await keys_of(store) == []


@pytest.mark.requirement("LC-KV-01")
def test_values_outlive_the_process_and_the_store_closes_what_it_opened(memory, tmp_path):
    with ReMeByteStore(tmp_path / "cache.db") as store:
        store.mset([("a", b"1")])
    with pytest.raises(StoreClosedError):
        store.mget(["a"])
    store.close()

    async def reopened() -> list[bytes | None]:
        async with ReMeByteStore(tmp_path / "cache.db") as again:
            return await again.amget(["a"])

    assert asyncio.run(reopened()) == [b"1"]
    with ReMeByteStore(memory, namespace=next(NAMESPACES)) as handed_in:
        pass
    assert handed_in.mget(["a"]) == [None]


def test_settings_that_cannot_be_used_are_refused(memory):
    with pytest.raises(ConfigurationError, match="memory"):
        ReMeByteStore(7)
    with pytest.raises(TypeError, match="namespace"):
        ReMeByteStore(memory, namespace=3)
