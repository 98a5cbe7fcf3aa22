"""Namespaces that are memories: what an agent puts there, reme finds, and the reverse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import PutOp

from reme_core import ReMe
from reme_core.errors import InvalidInputError, MemoryNotFoundError
from reme_core.ports import Matrix
from reme_core.schema import Memory, bounded_query
from reme_core.testing import FixedClock, HashedEmbedder
from reme_langchain import NamespaceRule, ReMeStore, decode_label, encode_label, memory_namespace
from reme_langchain.models import as_embedder
from tests.adapters.langchain.store.store_values import DIMS, FLAVOURS, Face, Flavour, Words

ANN, BOB = "ann@example.com", "bob"


class Shared:
    """A memory with an embedder, and a store on it."""

    def __init__(self, folder: Path, flavour: Flavour) -> None:
        self.clock, self.embedder = FixedClock(), HashedEmbedder(64)
        fast = {"backend": "local_file", "synchronous": "NORMAL"}
        self.memory = ReMe("space", folder, llm=None, embedding=self.embedder, vector_store=fast, clock=self.clock)
        self.store = ReMeStore(self.memory)
        self.face = Face(self.store, flavour, self.store)

    async def found(self, query: str, owner: str) -> list[str]:
        """Return the contents that reme retrieves for an owner."""
        return [
            hit.memory for hit in (await self.memory.retrieve(query, user_id=owner or None, shared=not owner)).results
        ]

    async def memories(self, owner: str) -> Sequence[Memory]:
        return (await self.memory.list_memories(user_id=owner or None, shared=not owner)).memories


@pytest.fixture(params=FLAVOURS)
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shared]:
    opened = Shared(tmp_path, request.param)
    yield opened
    await opened.store.aclose()
    await opened.memory.close()


async def test_of_a_pasted_query_the_beginning_is_embedded(shared: Shared) -> None:
    await shared.face.put(memory_namespace(ANN), "tea", {"content": "drinks green tea every morning"})
    pasted = "green tea " + "and so on " * 100_000
    assert [item.key for item in await shared.face.search(memory_namespace(ANN), query=pasted)] == ["tea"]
    assert shared.embedder.calls[-1] == (bounded_query(pasted),)


@pytest.mark.requirement("LG-STORE-84")
@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_without_a_model_a_query_ranks_as_reme_does(tmp_path: Path, flavour: Flavour) -> None:
    facts = ("Ann drinks green tea.", "Ann plays the cello on Sundays.", "Ann sold her cello bow.", "安喜欢爬山")
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        for fact in facts[:2]:
            await memory.add_memory(fact, user_id=ANN)
        store = ReMeStore(memory)
        face = Face(store, flavour, store)
        for number, fact in enumerate(facts[2:]):
            await face.put(memory_namespace(ANN), str(number), {"content": fact})
        for query in ("When does she play the cello?", "green tea", "谁喜欢爬山"):
            retrieved = [hit.memory for hit in (await memory.retrieve(query, user_id=ANN, layers=["memory"])).results]
            found = [item.value["content"] for item in await face.search(memory_namespace(ANN), query=query)]
            assert retrieved
            assert found[: len(retrieved)] == retrieved
            assert len(found) == len(facts)
        assert await face.search(memory_namespace(BOB), query="cello") == []
        await memory.delete_all_memories(user_id=ANN)
        assert await face.search(memory_namespace(ANN), query="cello") == []
        await store.aclose()


@pytest.mark.requirement("LG-STORE-84")
async def test_what_either_side_keeps_the_other_finds_and_no_other_owner(shared: Shared) -> None:
    await shared.face.put(memory_namespace(ANN), "tea", {"content": "drinks green tea every morning"})
    assert await shared.found("green tea in the morning", ANN) == ["drinks green tea every morning"]
    kept = await shared.memory.add_memory("plays the cello on Sundays", user_id=ANN)
    found = await shared.face.search(memory_namespace(ANN), query="plays the cello on Sundays")
    assert [item.key for item in found] == [kept.memory_id, "tea"]
    assert all(item.namespace == memory_namespace(ANN) and item.score is not None for item in found)
    for other in (BOB, "ann", "", "ann@example%2Ecom"):
        assert await shared.found("green tea, cello", other) == []
        place = memory_namespace(other or None, shared=not other)
        assert await shared.face.search(place, query="green tea, cello") == []
        assert await shared.face.get(place, kept.memory_id) is None
    assert {item.namespace for item in await shared.face.search(("memories",))} == {memory_namespace(ANN)}
    assert await shared.face.namespaces() == [memory_namespace(ANN)]


@pytest.mark.requirement("LG-STORE-81")
async def test_space_and_owner_come_from_the_rule_and_the_topic_is_kept_as_metadata(shared: Shared) -> None:
    place = memory_namespace(ANN, "procedural", topic=("cooking", "soup.s"))
    assert place == ("memories", "ann@example%2Ecom", "procedural", "cooking", "soup%2Es")
    await shared.face.put(place, "k", {"content": "salt late", "level": 3})
    [memory] = await shared.memories(ANN)
    assert (memory.memory_space, memory.user_id, memory.memory_type) == ("space", ANN, "procedural")
    assert memory.metadata == {"topic": ["cooking", "soup.s"], "level": 3}
    assert [item.namespace for item in await shared.face.search(memory_namespace(ANN, "procedural"))] == [place]
    shared_place = memory_namespace(shared=True)
    assert shared_place == ("memories", "%", "personal")
    await shared.face.put(shared_place, "all", {"content": "the office closes at six"})
    assert [item.content for item in await shared.memories("")] == ["the office closes at six"]


def test_the_place_of_the_shared_scope_is_asked_for_by_name() -> None:
    for owner, shared, told in (("", False, "shared=True"), (None, False, "shared=True"), ("ann", True, "two scopes")):
        with pytest.raises(InvalidInputError, match=told):
            memory_namespace(owner, shared=shared)


@pytest.mark.requirement("LG-STORE-81")
async def test_namespaces_that_no_rule_matches_hold_plain_items(shared: Shared) -> None:
    plain = [
        ("memories",), ("memories", "ann", "moods"), ("memories", "ann", "history"),
        ("memories", "ann", "meta"), ("memories", "%41nn", "personal"), ("memories", "50%", "personal"),
        ("memories", "/etc", "personal"), ("memories", "x" * 600, "personal"), ("memories", "*", "personal"),
        ("memories", "ann", "Personal"), ("Memories", "ann", "personal"), ("notes", "ann", "personal"),
        ("memories", " ann", "personal"), ("a", "memories", "ann", "personal"),
    ]  # fmt: skip
    await shared.face.batch(PutOp(place, "k", {"content": f"plain {n}"}) for n, place in enumerate(plain))
    assert sorted(await shared.face.namespaces()) == sorted(plain)
    for n, place in enumerate(plain):
        assert await shared.face.value(place, "k") == {"content": f"plain {n}"}
    for owner in ("ann", "Ann", "", "50%", "*"):
        assert list(await shared.memories(owner)) == []
        assert await shared.found("plain", owner) == []


@pytest.mark.requirement("LG-STORE-82")
async def test_an_item_is_a_memory_made_of_its_value(shared: Shared) -> None:
    place = memory_namespace(ANN)
    values: list[tuple[dict[str, Any], str, str, dict[str, Any]]] = [
        ({"content": "c", "text": "t", "n": 1}, "c", "", {"text": "t", "n": 1}),
        ({"text": "t", "memory": "m", "when_to_use": "at tea"}, "t", "at tea", {"memory": "m"}),
        ({"memory": "m", "content": 7}, "m", "", {"content": 7}),
        ({"b": 1, "a": [2]}, '{"a": [2], "b": 1}', "", {"b": 1, "a": [2]}),
    ]
    for n, (value, _, _, _) in enumerate(values):
        await shared.face.put(place, f"k{n}", value)
        assert await shared.face.value(place, f"k{n}") == value
    by_content = {item.content: item for item in await shared.memories(ANN)}
    assert len(by_content) == len(values)
    for _, content, use, metadata in values:
        memory = by_content[content]
        assert (memory.when_to_use, memory.metadata) == (use, metadata)
        assert memory.memory_id not in {f"k{n}" for n in range(len(values))}
    assert len({item.memory_id for item in by_content.values()}) == len(values)


@pytest.mark.requirement("LG-STORE-82")
async def test_one_embedding_serves_both_sides_and_index_false_neither(shared: Shared) -> None:
    place = memory_namespace(ANN)
    await shared.face.put(place, "k", {"content": "drinks green tea"})
    assert [len(call) for call in shared.embedder.calls] == [1]
    await shared.face.put(place, "hidden", {"content": "drinks green tea and milk"}, index=False)
    assert len(shared.embedder.calls) == 1
    assert await shared.found("drinks green tea and milk", ANN) == ["drinks green tea"]
    found = await shared.face.search(place, query="drinks green tea")
    assert [(item.key, item.score is None) for item in found] == [("k", False), ("hidden", True)]
    assert len(await shared.memories(ANN)) == 2
    await shared.face.put(place, "hidden", {"content": "drinks green tea and milk"})
    assert "drinks green tea and milk" in await shared.found("drinks green tea and milk", ANN)


@pytest.mark.requirement("LG-STORE-83")
async def test_a_memory_is_an_item_under_its_id(shared: Shared) -> None:
    place = memory_namespace(ANN)
    kept = await shared.memory.add_memory(
        "plays the cello", user_id=ANN, when_to_use="about music", metadata={"since": 2020}
    )
    found = await shared.face.get(place, kept.memory_id)
    assert found is not None
    assert {key: found.value[key] for key in ("content", "when_to_use", "metadata")} == {
        "content": "plays the cello", "when_to_use": "about music", "metadata": {"since": 2020},
    }  # fmt: skip
    assert (found.created_at, found.updated_at) == (kept.created_at, kept.updated_at)
    assert found.namespace == place
    [listed] = await shared.face.search(place, filter={"content": "plays the cello"})
    assert (listed.key, listed.value) == (kept.memory_id, found.value)
    for elsewhere in (memory_namespace(ANN, "tool"), memory_namespace(BOB), (*place, "topic"), ("memories",)):
        assert await shared.face.get(elsewhere, kept.memory_id) is None


@pytest.mark.requirement("LG-STORE-83")
async def test_edits_on_either_side_are_seen_on_the_other(shared: Shared) -> None:
    place = memory_namespace(ANN)
    await shared.face.put(place, "k", {"text": "drinks tea", "extra": [1]})
    [memory] = await shared.memories(ANN)
    shared.clock.advance(seconds=60)
    edited = await shared.memory.update_memory(memory.memory_id, user_id=ANN, content="drinks coffee")
    found = await shared.face.get(place, "k")
    assert found is not None
    assert found.value == {"text": "drinks coffee", "extra": [1]}
    assert (found.created_at, found.updated_at) == (memory.created_at, edited.updated_at)
    [hit] = await shared.face.search(place, query="drinks coffee")
    assert hit.value == found.value
    shared.clock.advance(seconds=60)
    await shared.face.put(place, "k", {"text": "drinks water"})
    [after] = await shared.memories(ANN)
    assert (after.memory_id, after.content, after.revision) == (memory.memory_id, "drinks water", edited.revision + 1)
    kept = await shared.memory.add_memory("plays the cello", user_id=ANN)
    await shared.face.put(place, kept.memory_id, {"content": "plays the viola", "sure": True})
    again = await shared.memory.get_memory(kept.memory_id, user_id=ANN)
    assert (again.content, again.revision) == ("plays the viola", 2)
    assert await shared.face.value(place, kept.memory_id) == {"content": "plays the viola", "sure": True}


@pytest.mark.requirement("LG-STORE-83")
async def test_deleting_on_either_side_deletes_both(shared: Shared) -> None:
    place = memory_namespace(ANN)
    await shared.face.put(place, "k", {"content": "drinks tea"})
    kept = await shared.memory.add_memory("plays the cello", user_id=ANN)
    [linked] = [item for item in await shared.memories(ANN) if item.content == "drinks tea"]
    await shared.memory.delete_memory(linked.memory_id, user_id=ANN)
    assert await shared.face.get(place, "k") is None
    await shared.face.delete(place, kept.memory_id)
    with pytest.raises(MemoryNotFoundError):
        await shared.memory.get_memory(kept.memory_id, user_id=ANN)
    assert await shared.face.search((), query="tea, cello") == []
    assert await shared.face.namespaces() == []
    await shared.face.put(place, "k", {"content": "drinks tea"})
    await shared.memory.delete_all_memories(user_id=ANN)
    assert await shared.face.search(()) == []


@pytest.mark.requirement("LG-STORE-80")
async def test_other_rules_lead_to_other_places(tmp_path: Path) -> None:
    memory = ReMe("space", tmp_path, llm=None, embedding=None)
    rules = [
        NamespaceRule(("users", "{owner}", "facts"), kind="personal"),
        NamespaceRule(("skills", "{kind}", "{owner}"), space="other"),
    ]
    async with memory, ReMeStore(memory, rules=rules) as store:
        await store.aput(("users", "ann", "facts"), "k", {"content": "drinks tea"})
        await store.aput(("users", "ann"), "k", {"content": "plain"})
        [kept] = (await memory.list_memories(user_id="ann")).memories
        assert (kept.content, kept.memory_type) == ("drinks tea", "personal")
        added = await memory.add_memory("plays the cello", user_id=ANN)
        assert (await store.asearch(("users",), filter={"content": "plays the cello"}))[0].namespace == (
            "users", "ann@example%2Ecom", "facts",
        )  # fmt: skip
        assert await store.aget(("users", encode_label(ANN), "facts"), added.memory_id) is not None
        assert await store.alist_namespaces(suffix=("facts",)) == [
            ("users", "ann", "facts"), ("users", "ann@example%2Ecom", "facts"),
        ]  # fmt: skip
        tool = await memory.add_memory("use the hammer", user_id="ann", memory_type="tool")
        assert await store.asearch(("skills",)) == []  # that rule speaks of another space
        assert await store.aget(("skills", "tool", "ann"), tool.memory_id) is None
    async with ReMe("other", tmp_path, llm=None, embedding=None) as other, ReMeStore(other, rules=rules[1:]) as store:
        kept = await other.add_memory("use the saw", user_id="ann", memory_type="tool")
        assert [(item.namespace, item.key) for item in await store.asearch(("skills", "tool"))] == [
            (("skills", "tool", "ann"), kept.memory_id)
        ]


@pytest.mark.requirement("LG-STORE-80")
@pytest.mark.parametrize(
    ("pattern", "named", "message"),
    [
        (("user-{owner}",), {"kind": "personal"}, "whole label"),
        (("a", "{user}"), {}, "whole label"),
        (("memories", "{kind}"), {}, "one label '{owner}'"),
        (("{owner}", "{owner}"), {}, "one label '{owner}'"),
        (("{owner}", "{kind}"), {"kind": "tool"}, "twice"),
        (("{owner}", "{space}"), {"space": "x"}, "twice"),
        (("{owner}",), {"kind": "meta"}, "kind"),
        (("{owner}",), {"space": "/etc"}, "path"),
        (("langgraph", "{owner}"), {}, "langgraph"),
        (("a.b", "{owner}"), {}, "without '.'"),
        ("{owner}", {}, "tuple"),
        ((), {}, "one label '{owner}'"),
    ],
)
def test_a_pattern_that_cannot_be_is_refused_when_it_is_made(pattern: Any, named: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NamespaceRule(pattern, **named)


@pytest.mark.requirement("LG-STORE-80")
def test_rules_that_overlap_are_refused(tmp_path: Path) -> None:
    default = NamespaceRule(("memories", "{owner}", "{kind}"))
    for other in (
        NamespaceRule(("memories", "{owner}"), kind="tool", space="x"),  # its topics are the other's types
        NamespaceRule(("{space}", "{owner}", "{kind}")),
        NamespaceRule(("memories", "{owner}", "tool"), kind="personal", space="x"),
    ):
        with pytest.raises(ValueError, match="overlap"):
            ReMeStore(tmp_path, rules=[default, other])
    with pytest.raises(ValueError, match="NamespaceRule"):
        ReMeStore(tmp_path, rules=[("memories", "{owner}")])  # type: ignore[list-item]
    apart = [
        NamespaceRule(("m", "{owner}", "tool"), kind="tool"),
        NamespaceRule(("m", "{owner}", "me"), kind="personal"),
    ]
    ReMeStore(tmp_path, rules=apart)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("LG-STORE-80")
async def test_a_memory_lies_where_the_first_of_its_rules_says(shared: Shared) -> None:
    facts, default = NamespaceRule(("facts", "{owner}"), kind="personal"), NamespaceRule(("m", "{owner}", "{kind}"))
    inner = ReMeStore(shared.memory, rules=[facts, default])
    store = Face(inner, shared.face.flavour, inner)
    await store.put(("facts", BOB), "tea", {"content": "drinks tea"})
    await store.put(("m", BOB, "personal"), "car", {"content": "drives a car"})
    kept = await shared.memory.add_memory("plays the cello", user_id=BOB)
    skill = await shared.memory.add_memory("tune the cello first", user_id=BOB, memory_type="procedural")
    assert set(await store.keys(("facts",))) == {"tea", kept.memory_id}
    assert set(await store.keys(("m",))) == {"car", skill.memory_id}
    assert len(await store.search(())) == 4
    assert await store.namespaces() == [("facts", BOB), ("m", BOB, "personal"), ("m", BOB, "procedural")]
    assert await store.get(("m", BOB, "personal"), kept.memory_id) is None  # and nowhere else
    await store.delete(("m", BOB, "personal"), kept.memory_id)
    assert await store.value(("facts", BOB), kept.memory_id) == {"content": "plays the cello"}
    assert await store.value(("m", BOB, "procedural"), skill.memory_id) == {"content": "tune the cello first"}
    await store.put(("m", BOB, "personal"), kept.memory_id, {"content": "plays the oboe"})  # a memory of its own
    assert await store.value(("facts", BOB), kept.memory_id) == {"content": "plays the cello"}
    found = set(await shared.found("tea, car, cello, oboe", BOB))
    assert {"drinks tea", "drives a car", "plays the cello", "plays the oboe"} <= found
    await inner.aclose()


@pytest.mark.requirement("LG-STORE-80")
def test_the_namespace_of_a_memory_is_built_of_encoded_labels() -> None:
    assert memory_namespace("ann@example.com") == ("memories", "ann@example%2Ecom", "personal")
    assert memory_namespace(7, "tool", topic=(1, "a.b")) == ("memories", "7", "tool", "1", "a%2Eb")
    for bad in (None, "/etc", "x" * 600, " ann", "nul\0", True, 1.5):
        with pytest.raises(ValueError, match=r"label|path|characters|blanks|NUL|scope"):
            memory_namespace(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind"):
        memory_namespace("ann", "moods")
    with pytest.raises(ValueError, match="topic"):
        memory_namespace("ann", topic="cooking")


@pytest.mark.requirement("LG-STORE-56")
async def test_a_store_shares_the_model_of_its_memory(tmp_path: Path) -> None:
    words = Words()
    with pytest.raises(ValueError, match=r"32.*64"):
        ReMeStore(ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(64)), index={"dims": DIMS, "embed": words})
    async with ReMeStore(tmp_path, index={"dims": DIMS, "embed": words, "fields": ["content"]}) as store:
        await store.aput(memory_namespace(ANN), "k", {"content": "drinks green tea"})
        assert words.texts == ["drinks green tea"]
    async with ReMe("default", tmp_path, llm=None, embedding=as_embedder(Words(), dims=DIMS)) as memory:
        [hit] = (await memory.retrieve("drinks green tea", user_id=ANN)).results
        assert hit.memory == "drinks green tea"


@pytest.mark.requirement("LG-STORE-82")
def test_an_index_of_another_model_than_the_memorys_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(DIMS))
    ReMeStore(memory).close()
    ReMeStore(tmp_path, index={"dims": DIMS, "embed": Words()}).close()
    assert caplog.messages == []
    ReMeStore(memory, index={"dims": DIMS, "embed": Words()}).close()
    [warning] = caplog.messages
    assert "Words" in warning
    assert "hashed-32" in warning


@pytest.mark.requirement("LG-STORE-55")
async def test_an_embedder_that_returns_too_few_vectors_writes_nothing(tmp_path: Path) -> None:
    class Short(HashedEmbedder):
        async def embed(self, texts: Sequence[str]) -> Matrix:
            return np.zeros((0, 64), np.float32)

    async with ReMe("space", tmp_path, llm=None, embedding=Short(64)) as memory, ReMeStore(memory) as store:
        with pytest.raises(Exception, match="wanted 1 vectors"):
            await store.aput(("a",), "k", {"n": 1})
        assert await store.asearch(()) == []


@pytest.mark.requirement("LG-STORE-16")
@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("ann@example.com", "ann@example%2Ecom"), ("", "%"), ("langgraph", "%6Canggraph"), ("%", "%25"), ("*", "%2A"),
        ("a\0b", "a%00b"), ("%6Canggraph", "%256Canggraph"), ("50% off.", "50%25 off%2E"), ("José", "José"), ("~", "~"),
        ("langgraph.", "langgraph%2E"), ("%%", "%25%25"), ("%2E", "%252E"),
    ],
)  # fmt: skip
def test_any_text_has_a_label_and_a_label_its_text(text: str, label: str) -> None:
    assert encode_label(text) == label
    assert decode_label(label) == text


@pytest.mark.requirement("LG-STORE-16")
def test_ints_are_labels_and_what_is_no_label_is_refused() -> None:
    assert encode_label(42) == "42"
    for bad in (None, True, 1.5, b"x", "\ud800"):
        with pytest.raises(ValueError, match=r"label|surrogate"):
            encode_label(bad)  # type: ignore[arg-type]
    for bad in (
        "%2e",
        "%41",
        "50%",
        "%%",
        "a.b",
        "*",
        "",
        "langgraph",
        "a%2",
        "%6canggraph",
        "x%6Canggraph",
        "\0",
        None,
        7,
    ):
        with pytest.raises(InvalidInputError, match="label"):
            decode_label(bad)  # type: ignore[arg-type]


@pytest.mark.requirement("LG-STORE-80")
async def test_a_memory_lies_where_the_rule_of_its_own_space_says(tmp_path: Path) -> None:
    rules = [NamespaceRule(("far", "{owner}"), space="other"), NamespaceRule(("near", "{owner}"))]
    memory = ReMe("space", tmp_path, llm=None, embedding=None)
    async with memory, ReMeStore(memory, rules=rules) as store:
        await memory.add_memory("drinks tea", user_id="ann")
        assert [item.namespace for item in await store.asearch(())] == [("near", "ann")]
        assert await store.alist_namespaces() == [("near", "ann")]
