"""Items change their embedding model with the memory that they lie in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_core.testing import HashedEmbedder
from reme_langchain import ReMeStore, memory_namespace
from tests.support.reembed_child import OtherEmbedder

DOCS, ANN = ("docs",), memory_namespace("ann")


async def test_items_are_embedded_anew_and_are_searched_by_the_old_vectors_until_then(tmp_path: Path) -> None:
    old = ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(64))
    store = ReMeStore(old)
    for name in ("tea", "coffee", "milk"):
        await store.aput(DOCS, name, {"text": f"a cup of {name}"})
    await store.aput(ANN, "drink", {"text": "Ann drinks cocoa"})
    before = await store.asearch(DOCS, query="coffee")
    new = ReMe("space", tmp_path, llm=None, embedding=OtherEmbedder(64))
    with pytest.raises(InvalidInputError, match="reme reembed"):
        await ReMeStore(new).asearch(DOCS, query="coffee")
    done = await new.reembed()
    assert done.texts == 5  # an item that is a memory has vectors of its own, and the memory one
    after = await ReMeStore(new).asearch(DOCS, query="coffee")
    assert [item.key for item in after] == [item.key for item in before]
    assert [item.score for item in after] == pytest.approx([item.score for item in before], abs=1e-5)
    assert [item.key for item in await ReMeStore(new).asearch(ANN, query="cocoa")] == ["drink"]
    await old.close()
    await new.close()


async def test_the_caller_says_what_is_embedded_of_an_item(tmp_path: Path) -> None:
    asked = list[str]()

    class Recording(OtherEmbedder):
        async def embed(self, texts):  # type: ignore[no-untyped-def]  # as above
            asked.extend(texts)
            return np.asarray(await super().embed(texts))

    async with ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(64)) as old:
        await ReMeStore(old).aput(DOCS, "tea", {"text": "a cup of tea", "note": "hot"})
    async with ReMe("space", tmp_path, llm=None, embedding=Recording(64)) as new:
        await new.reembed(item_texts=lambda value: [str(value["text"]), str(value["note"])])
        assert asked == ["a cup of tea", "hot"]
        [found] = await ReMeStore(new).asearch(DOCS, query="hot")
        assert found.score == pytest.approx(1)
