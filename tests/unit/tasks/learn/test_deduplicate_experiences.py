"""What is known already is left out: of the same scope and target, in the text that is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reme_core.errors import ConfigurationError, ModelUnavailableError
from reme_core.schema import Memory, MemoryType
from reme_core.tasks import Experience, deduplication
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import BOB
from tests.unit.tasks.attempting import context, known, learnt, store_of

WHEN = "parsing dates in log files"
ADVICE = "Read the time zone from the header before you parse the first line of the log."
NEARLY = "Read the time zone from the header before you parse the first line of a log."
OTHER = "Sort the entries by their time, since several writers share one file."

EMBEDDERS = pytest.mark.parametrize("embedder", [None, HashedEmbedder(128)], ids=["words", "vectors"])


async def left(experiences: tuple[Experience, ...], *stored: Memory, embedder: Any) -> tuple[list[str], list[str]]:
    """Contents of what stays, and of what is a duplicate."""
    store = await store_of(*stored, embedder=embedder)
    run = context(store=store, embedder=embedder)
    kept = await deduplication()(experiences, run)
    assert {item.kind for item in run.trace.rejected} <= {"duplicate"}
    return [item.content for item in kept], [item.content for item in run.trace.rejected]


@EMBEDDERS
async def test_what_a_stored_memory_says_is_left_out(embedder: Any) -> None:
    new = (learnt(NEARLY, when=WHEN), learnt(OTHER, when=WHEN))
    assert await left(new, known(ADVICE, when=WHEN), embedder=embedder) == ([OTHER], [NEARLY])


@EMBEDDERS
async def test_the_same_content_for_another_situation_is_a_duplicate(embedder: Any) -> None:
    stored = known(ADVICE, when="importing mail from a server that nobody knows")
    assert await left((learnt(ADVICE, when=WHEN),), stored, embedder=embedder) == ([], [ADVICE])


@EMBEDDERS
async def test_nearly_the_same_content_for_another_situation_is_new(embedder: Any) -> None:
    stored = known("Check it twice.", when="you import mail from a server that nobody knows")
    new = learnt("Check it twice, please.", when="you cut a cake for many guests at a wedding")
    assert await left((new,), stored, embedder=embedder) == ([new.content], [])


@EMBEDDERS
async def test_two_situations_for_nearly_the_same_advice_are_both_kept(embedder: Any) -> None:
    new = (
        learnt(ADVICE, when="you import old mail from a server that nobody in the office knows any more"),
        learnt(NEARLY, when="a customer sends measurements of a machine in several tables without a word of help"),
    )
    assert await left(new, embedder=embedder) == ([ADVICE, NEARLY], [])


@EMBEDDERS
async def test_other_advice_for_the_same_situation_is_new(embedder: Any) -> None:
    assert await left((learnt(OTHER, when=WHEN),), known(ADVICE, when=WHEN), embedder=embedder) == ([OTHER], [])


@EMBEDDERS
@pytest.mark.parametrize(
    "stored",
    [
        known(ADVICE, when=WHEN, target="cooking"),
        known(ADVICE, when=WHEN, scope=BOB),
        known(ADVICE, when=WHEN, memory_type=MemoryType.PERSONAL),
    ],
    ids=["another target", "another scope", "another type"],
)
async def test_what_lies_elsewhere_is_not_looked_at(embedder: Any, stored: Memory) -> None:
    assert await left((learnt(ADVICE, when=WHEN),), stored, embedder=embedder) == ([ADVICE], [])


@EMBEDDERS
async def test_of_two_that_say_the_same_the_better_one_stays(embedder: Any) -> None:
    new = (
        learnt(NEARLY, when=WHEN, score=0.6, confidence=1.0),
        learnt(OTHER, when=WHEN, score=0.7),
        learnt(ADVICE, when=WHEN, score=0.9, confidence=0.1),
    )
    assert await left(new, embedder=embedder) == ([ADVICE, OTHER], [NEARLY])


@EMBEDDERS
async def test_without_a_validation_the_surer_one_stays(embedder: Any) -> None:
    new = (learnt(NEARLY, when=WHEN, confidence=0.4), learnt(ADVICE, when=WHEN, confidence=0.5))
    assert await left(new, embedder=embedder) == ([ADVICE], [NEARLY])


async def test_the_reason_names_the_memory() -> None:
    stored = known(ADVICE, memory_id="m-1")
    run = context(store=await store_of(stored))
    await deduplication()((learnt(ADVICE, score=1.0), learnt(OTHER, score=0.5), learnt(OTHER)), run)
    assert [item.reason for item in run.trace.rejected] == [
        "memory 'm-1' says the same",
        "another one of this run says the same",
    ]


async def test_the_text_that_is_stored_is_embedded_once_and_left_for_the_write() -> None:
    embedder = HashedEmbedder(64)
    run = context(embedder=embedder)
    one, other = learnt(ADVICE, when=WHEN, score=1.0), learnt(OTHER, when=WHEN)
    await (deduplication() >> deduplication())((one, other), run)
    texts = (f"{WHEN}\n{ADVICE}", f"{WHEN}\n{OTHER}")
    assert embedder.calls == [texts]
    assert run.trace.usage.embedding_calls == 1
    assert list(run.trace.vectors) == [one.index_text, other.index_text] == list(texts)
    assert np.array_equal(run.trace.vectors[texts[1]], (await embedder.embed([texts[1]]))[0])


async def test_an_embedder_that_fails_leaves_words_to_compare_by() -> None:
    run = context(embedder=HashedEmbedder(failures=[ModelUnavailableError("gone")]))
    assert len(await deduplication()((learnt(ADVICE), learnt(ADVICE)), run)) == 1
    assert list(run.trace.degraded) == ["embedding: gone; words alone were compared"]


async def test_how_near_is_near_can_be_said() -> None:
    embedder = HashedEmbedder(128)
    for similarity, count in ((0.99, 2), (0.5, 1)):
        run = context(embedder=embedder)
        new = (learnt(ADVICE, when=WHEN), learnt(NEARLY, when=WHEN))
        assert len(await deduplication(similarity=similarity)(new, run)) == count


async def test_nothing_is_asked_about_nothing() -> None:
    embedder = HashedEmbedder()
    assert await deduplication()((), context(embedder=embedder, target=None)) == ()
    assert embedder.calls == []


async def test_a_run_without_a_target_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="memory_target"):
        await deduplication()((learnt(ADVICE),), context(target=None))


def test_a_similarity_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="similarity"):
        deduplication(similarity=1.5)
