"""Which newcomers say what is known: in the text they are found by, within one scope, type and target."""

from __future__ import annotations

from typing import Any

import pytest

from reme_core.ports import PutMemory, Store, Target, WriteBatch
from reme_core.schema import Memory, MemoryType
from reme_core.steps.similar_memories import Duplicate, NewMemory, find_duplicates
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import ALICE, BOB, NOW, axis, changed, leaning
from tests.unit.tasks.attempting import TARGET, known, store_of

CODING = Target(MemoryType.PROCEDURAL, TARGET)
WHEN = "parsing dates in log files"
ADVICE = "Read the time zone from the header before you parse the first line of the log."
OTHER = "Sort the entries by their time, since several writers share one file."


async def newcomer(content: str, *, when: str = "", target: Target = CODING, embedder: Any = None) -> NewMemory:
    text = known(content, when=when).index_text
    vector = None if embedder is None else (await embedder.embed([text]))[0]
    return NewMemory(target=target, content=content, index_text=text, vector=vector)


EMBEDDERS = pytest.mark.parametrize("embedder", [None, HashedEmbedder(64)], ids=["words", "vectors"])


async def whether_known(stored: Memory, *new: str, embedder: Any, when: str = "") -> list[bool]:
    store = await store_of(stored, embedder=embedder)
    newcomers = [await newcomer(content, when=when, embedder=embedder) for content in new]
    return [found is not None for found in await find_duplicates(store, ALICE, newcomers)]


@EMBEDDERS
async def test_the_same_text_is_known(embedder: Any) -> None:
    assert await whether_known(known(ADVICE, when=WHEN), ADVICE, embedder=embedder, when=WHEN) == [True]


@EMBEDDERS
async def test_a_small_change_of_words_is_known(embedder: Any) -> None:
    said = ADVICE.replace("of the log", "of a log")
    assert await whether_known(known(ADVICE, when=WHEN), said, embedder=embedder, when=WHEN) == [True]


@EMBEDDERS
async def test_the_same_content_for_another_situation_is_known(embedder: Any) -> None:
    assert await whether_known(known(ADVICE, when="importing mail"), f"{ADVICE} ", embedder=embedder, when=WHEN) == [
        True
    ]


@EMBEDDERS
async def test_other_advice_for_the_same_situation_is_new(embedder: Any) -> None:
    assert await whether_known(known(ADVICE, when=WHEN), OTHER, embedder=embedder, when=WHEN) == [False]


@EMBEDDERS
@pytest.mark.parametrize(
    "stored",
    [
        known(ADVICE, when=WHEN, scope=BOB),
        known(ADVICE, when=WHEN, target="cooking"),
        known(ADVICE, when=WHEN, target="Coding"),
        known(ADVICE, when=WHEN, memory_type=MemoryType.TOOL),
        known(ADVICE, when=WHEN, memory_type=MemoryType.PERSONAL),
        changed(known(ADVICE, when=WHEN), {"superseded_by": "another"}),
    ],
    ids=["another user", "another target", "a target of other case", "another type", "a person", "a replaced one"],
)
async def test_what_lies_elsewhere_makes_nothing_known(embedder: Any, stored: Memory) -> None:
    assert await whether_known(stored, ADVICE, embedder=embedder, when=WHEN) == [False]


@EMBEDDERS
async def test_the_first_of_equal_newcomers_stays(embedder: Any) -> None:
    store = await store_of()
    texts = [OTHER, ADVICE, ADVICE.replace("of the log", "of a log"), OTHER.upper()]
    found = await find_duplicates(store, ALICE, [await newcomer(text, embedder=embedder) for text in texts])
    assert found == [None, None, Duplicate(place=1), Duplicate(place=0)]


@EMBEDDERS
async def test_newcomers_of_two_targets_do_not_repeat_each_other(embedder: Any) -> None:
    store = await store_of()
    targets = [CODING, Target(MemoryType.PROCEDURAL, "cooking")]
    found = await find_duplicates(
        store, ALICE, [await newcomer(ADVICE, target=item, embedder=embedder) for item in targets]
    )
    assert found == [None, None]


@EMBEDDERS
async def test_many_newcomers_are_judged_as_few_are(embedder: Any) -> None:
    stored = [known(f"{ADVICE} {word}") for word in ("Alpha", "Beta", "Gamma")]
    store = await store_of(*stored, embedder=embedder)
    texts = [f"{place} {place * 7} steps to {word}" for place, word in enumerate("abcdefghij")]
    texts += [stored[1].content, stored[2].content.lower()]
    found = await find_duplicates(store, ALICE, [await newcomer(text, when="w", embedder=embedder) for text in texts])
    assert [item.memory for item in found[-2:] if item is not None] == [stored[1], stored[2]]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (
            "Do not parse the log with eval when it comes from users",
            "Parse the log with eval when it comes from users",
            0,
        ),
        ("Don't parse the log with eval if users wrote it", "Do not parse the log with eval if users wrote it", 1),
        (
            "Try the call 3 times, then tell the user what went wrong",
            "Try the call 30 times, then tell the user what went wrong",
            0,
        ),
        (
            "Try the call 3 times, then tell the user what went wrong",
            "try the call 3 times then tell a user what went wrong",
            1,
        ),
        ("Never parse the log with eval if users wrote it", "Not parse the log with eval if users wrote it", 0),
        ("日志来自用户时，不要用 eval 解析", "日志来自用户时，要用 eval 解析", 0),
        ("日志来自用户时，不要用 eval 解析", "日志来自用户时，不要用 eval 解析。", 1),
    ],
)
async def test_by_words_what_denies_or_counts_otherwise_says_something_else(one: str, other: str, same: int) -> None:
    assert await whether_known(known(one), other, embedder=None) == [bool(same)]
    found = await find_duplicates(await store_of(), ALICE, [await newcomer(one), await newcomer(other)])
    assert found[1] == (Duplicate(place=0) if same else None)


async def test_how_near_is_near_can_be_said() -> None:
    store = await store_of()
    await _put(store, known("It is so"), axis(0))
    one = NewMemory(target=CODING, content="Else", index_text="Else", vector=leaning(0.8))
    assert await find_duplicates(store, ALICE, [one]) == [None]
    (found,) = await find_duplicates(store, ALICE, [one], similarity=0.75)
    assert found is not None
    assert found.memory is not None
    assert found.memory.content == "It is so"


async def test_newcomers_beyond_the_first_few_are_compared_with_each_other() -> None:
    store = await store_of()
    vectors = [axis(place, dimension=64) for place in range(40)]
    new = [
        NewMemory(target=CODING, content=f"c{place}", index_text="c", vector=vector)
        for place, vector in enumerate([*vectors, vectors[35]])
    ]
    assert (await find_duplicates(store, ALICE, new))[-1] == Duplicate(place=35)


async def test_texts_without_words_are_known_by_their_letters_alone() -> None:
    store = await store_of(known("!!!"))
    found = await find_duplicates(store, ALICE, [await newcomer("!!!"), await newcomer("???")])
    assert [item is not None for item in found] == [True, False]


async def test_no_newcomers_no_answer() -> None:
    assert await find_duplicates(await store_of(), ALICE, []) == []


async def _put(store: Store, memory: Memory, vector: Any) -> None:
    await store.put(ALICE, WriteBatch(puts=[PutMemory(memory=memory, vector=vector)], at=NOW))


async def test_the_opposite_and_another_number_are_new_however_near_their_vectors_lie() -> None:
    vector = axis(0)
    store = await store_of()
    await _put(store, known("Try 3 times, then give up."), vector)
    said = [
        "Try 3 times, then never give up.",
        "Try 5 times, then give up.",
        "After failing 3 times in a row the agent should abandon its whole endeavour.",
    ]
    new = [NewMemory(target=CODING, content=text, index_text=text, vector=vector) for text in said]
    assert [found is not None for found in await find_duplicates(store, ALICE, new)] == [False, False, True]
    again = [
        *new[:2],
        *(NewMemory(target=CODING, content=f"{n.content} ok", index_text=n.index_text, vector=vector) for n in new[:2]),
    ]
    assert (await find_duplicates(store, ALICE, again))[2:] == [Duplicate(place=0), Duplicate(place=1)]


@EMBEDDERS
@pytest.mark.parametrize(
    ("said", "other"),
    [
        (
            "Enable the write cache of the disk before you load it",
            "Disable the write cache of the disk before you load it",
        ),
        ("Test with the staging account of the shop", "Test with the production account of the shop"),
        ("Close the valve before you open the pump", "Open the valve before you close the pump"),
        ("Copy the folder a to the folder b of the server", "Copy the folder b to the folder a of the server"),
        ("部署前启用写缓存再加载数据", "部署前禁用写缓存再加载数据"),
        ("Enable the cache, then restart the pods", "On Friday disable the cache, then restart the old pods"),
        ("Before you deploy it, run the migrations of the shop", "Run the migrations of the shop after you deploy it"),
    ],
)
async def test_the_opposite_is_new(said: str, other: str, embedder: Any) -> None:
    assert await whether_known(known(said), other, embedder=embedder) == [False]
    new = [await newcomer(text, embedder=embedder) for text in (said, other, f"{said}!")]
    assert await find_duplicates(await store_of(), ALICE, new) == [None, None, Duplicate(place=0)]
