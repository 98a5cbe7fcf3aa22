"""Change of the embedding model of a memory space: every text that has a vector is embedded anew, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from reme_core.ports import (
    Embedder,
    IndexedBy,
    ItemValue,
    MessageVector,
    NewVectors,
    PendingText,
    ReembedPage,
    Store,
)
from reme_core.retrieval.embedding import embed_each
from reme_core.rules import read_value
from reme_core.schema import Reembedded

BATCH = 256
"""Texts of a batch, as many as an append hands back: each batch is durable before the next."""

ItemTexts: TypeAlias = Callable[[ItemValue], Sequence[str]]
OnProgress: TypeAlias = Callable[[int, int], None]


def whole_value(value: ItemValue) -> Sequence[str]:
    """Return an item as LangGraph embeds it where nobody names fields: its whole value as JSON."""
    return [json.dumps(value, sort_keys=True, ensure_ascii=False)]


async def reembed(
    store: Store,
    embedder: Embedder,
    memory_space: str,
    target: IndexedBy,
    *,
    item_texts: ItemTexts = whole_value,
    on_progress: OnProgress | None = None,
) -> Reembedded:
    """Replace the vectors of a space by those of another model; what was begun before is gone on with.

    Raises:
        ModelError: What the embedder raises; what is done is kept, and the old vectors serve.
        ConflictError: A change to another model is under way, or this one was given up.
    """
    stored = await store.find_index(memory_space)
    told = Reembedded(before=None if stored is None else stored.model, model=target.model or "")
    if stored == target:
        return told
    state = await store.begin_reembedding(memory_space, target)
    done, embedded, calls, refused = state.done, 0, 0, 0
    while True:
        cursor, is_first, found = None, True, 0
        while is_first or cursor is not None:
            if on_progress is not None:
                on_progress(done, max(done, state.total))
            page = await store.texts_to_reembed(memory_space, ReembedPage(cursor=cursor, limit=BATCH))
            cursor, is_first = page.cursor, False
            waiting = [*page.texts, *_texts_of_items(page.items, item_texts)]
            if not waiting:
                continue
            vectors, spent, _ = await embed_each(embedder, [item.text for item in waiting])
            pairs = [MessageVector(pending=item, vector=row) for item, row in zip(waiting, vectors, strict=True)]
            await store.put_new_vectors(memory_space, NewVectors(target=target, vectors=pairs))
            rows = len({item.key.rpartition(".")[0] for item in page.texts}) + len(page.items)
            found += len(waiting)
            done += rows
            embedded += len(waiting)
            calls += spent
            refused += sum(row is None for row in vectors)
        if not found and await store.end_reembedding(memory_space, target):
            break
    return told.model_copy(update={"texts": embedded, "refused": refused, "embedding_calls": calls})


def _texts_of_items(items: Sequence[PendingText], texts_of: ItemTexts) -> list[PendingText]:
    return [PendingText(key=item.key, text=text) for item in items for text in texts_of(read_value(item.text)) or [""]]
