"""Index settings of a store: the fields of an item that are embedded, and the model that does it."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from langgraph.store.base import IndexConfig, get_text_at_path, tokenize_path

from reme_core.errors import InvalidInputError, ModelOutputError
from reme_core.ports import (
    Embedder,
    EmbedsQueries,
    IndexedBy,
    ItemValue,
    Matrix,
    Store,
    Vector,
    embedder_name,
)
from reme_core.schema import bounded_query, shown
from reme_langchain.models._embedder import LangChainEmbedder

EmbedTexts: TypeAlias = Callable[[Sequence[str]], Awaitable[Matrix]]
EmbedQuery: TypeAlias = Callable[[str], Awaitable[Vector]]

_LOG = logging.getLogger("reme")
WHOLE = "$"
_CACHED = 256  # paths
_SPECIAL = re.compile(r"[.\[{*$]")
_SETTINGS = frozenset({"dims", "embed", "fields"})


def read_index(index: IndexConfig) -> tuple[Embedder, tuple[str, ...]]:
    """Return the embedder and the fields that an index names.

    Raises:
        InvalidInputError: `embed` is missing, a setting is unknown, `dims` or `fields` can't be such.
    """
    from reme_langchain.models import as_embedder  # noqa: PLC0415  # half a second of LangChain, for an index alone

    _check_settings(index)
    embed, dims, fields = index.get("embed"), index.get("dims"), index.get("fields")
    if embed is None:
        msg = "index: 'embed' is missing: give Embeddings, a function or 'provider:model'"
        raise InvalidInputError(msg)
    return as_embedder(embed, dims=dims), (WHOLE,) if fields is None else tuple(fields)


def _check_settings(index: object) -> None:
    if not isinstance(index, dict):
        msg = f"index: wanted a dict with 'dims' and 'embed', found {shown(index)}"
        raise InvalidInputError(msg)
    unknown = sorted(str(name) for name in set(index) - _SETTINGS)
    if unknown:
        msg = f"index: unknown settings {', '.join(unknown)}; there are dims, embed and fields"
        raise InvalidInputError(msg)
    dims, fields = index.get("dims"), index.get("fields")
    if dims is not None and (isinstance(dims, bool) or not isinstance(dims, int) or dims < 1):
        msg = f"index: dims: wanted the length of the vectors, an int above 0, found {shown(dims)}"
        raise InvalidInputError(msg)
    listed = isinstance(fields, (list, tuple)) and all(isinstance(path, str) for path in fields)
    if fields is not None and not listed:
        msg = f"index: fields: wanted a list of paths, found {shown(fields)}"
        raise InvalidInputError(msg)


class ItemIndex:
    """The embedder of a store and the fields that it embeds."""

    def __init__(
        self,
        store: Store,
        memory_space: str,
        embedder: Embedder,
        fields: Sequence[str],
        *,
        dimension: int | None = None,
    ) -> None:
        """Keep them; `store` is where the vectors lie, `dimension` their length, where the settings say it."""
        self._items = store
        self._memory_space = memory_space
        self._embedder = embedder
        # Looked up once: telling a protocol takes a tenth of the time of a search.
        self._embed, self._embed_query = _calls_of(embedder)
        self._fields = tuple(fields)
        self._dimension = dimension
        self._checked = self._claimed = False

    def warn_beside(self, other: Embedder | None) -> None:
        """Warn if the memory beside has a model of another name, which may be another one: they share vectors."""
        if other is not None and embedder_name(other) != self.model:
            _LOG.warning(
                "index: it embeds by %r, and the memory by %r: whichever comes second is refused; give the index the "
                "model of the memory, or leave the index out",
                self.model,
                embedder_name(other),
            )

    async def check(self) -> None:
        """Refuse a file whose vectors another model made, as far as that is known before anything is embedded.

        Raises:
            InvalidInputError: It was another model, or the settings say another length.
        """
        if self._checked:
            return
        stored = await self._items.find_index(self._memory_space)
        if stored is not None and not self._may_be(stored):
            raise _other_model(stored, self.model, self._dimension)
        self._checked = True

    def texts_of(self, value: ItemValue, fields: Sequence[str] | None) -> list[str]:
        """Return the texts at the paths, in their order, each once; blank ones say nothing and are left out."""
        found: list[str] = []
        for path in self._fields if fields is None else fields:
            found += _texts_at(value, path)
        if len(found) > 1:
            found = list(dict.fromkeys(found))
        return [_clean(text) for text in found if text and not text.isspace()]

    async def vectors_of(self, texts: Sequence[Sequence[str]]) -> list[Matrix | None]:
        """Return the vectors of each item's texts, all of them embedded in one call; None where there are none.

        A vector of zeros ranks nothing, and is left out.

        Raises:
            Exception: What the embedder raises.
            InvalidInputError: The vectors that are stored come from another model.
        """
        rows: dict[str, int] = {}
        for part in texts:
            for text in part:
                rows.setdefault(text, len(rows))
        if not rows:
            return [None] * len(texts)
        matrix = await self._embed(list(rows))
        if len(matrix) != len(rows):
            msg = f"wanted {len(rows)} vectors, the embedding model returned {len(matrix)}"
            raise ModelOutputError(msg, raw="")
        await self._claim(matrix.shape[1])
        blank = set(np.flatnonzero(~matrix.any(axis=1)).tolist())
        if blank:
            rows = {text: row for text, row in rows.items() if row not in blank}
        return [_rows_of(matrix, [rows[text] for text in part if text in rows]) for part in texts]

    async def vectors_of_queries(self, queries: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of queries, each embedded once, without those of zeros; raises as `vectors_of`."""
        wanted = [query for query in dict.fromkeys(queries) if query]
        if not wanted:
            return {}
        texts = [_clean(bounded_query(query)) for query in wanted]
        if self._embed_query is not None:
            rows = [await self._embed_query(text) for text in texts]
        else:
            rows = list(await self._embed(texts))
        await self._claim(len(rows[0]))
        return {query: row for query, row in zip(wanted, rows, strict=True) if row.any()}

    @property
    def model(self) -> str:
        """What tells the vectors from those of another model."""
        return embedder_name(self._embedder)

    def _may_be(self, stored: IndexedBy) -> bool:
        return stored.model in (None, self.model) and self._dimension in (None, stored.dimension)

    async def _claim(self, dimension: int) -> None:
        """Make sure that all vectors of the file come from one model."""
        if self._claimed:
            return
        ours = IndexedBy(dimension=dimension, model=self.model)
        stored = await self._items.claim_index(self._memory_space, ours)
        if stored != ours:
            raise _other_model(stored, ours.model, ours.dimension)
        self._claimed = True


def _calls_of(embedder: Embedder) -> tuple[EmbedTexts, EmbedQuery | None]:
    """Return how texts and queries are embedded, so that a store raises what LangChain's embeddings raised."""
    if isinstance(embedder, LangChainEmbedder):
        return embedder.embed_plainly, embedder.embed_query_plainly
    return embedder.embed, embedder.embed_query if isinstance(embedder, EmbedsQueries) else None


@lru_cache(_CACHED)
def _tokens_of(path: str) -> list[str]:
    return tokenize_path(path)


def _texts_at(value: ItemValue, path: str) -> list[str]:
    found = value.get(path)
    if type(found) is str and not _SPECIAL.search(path):  # most fields are plain names, and their values texts
        return [found]
    return get_text_at_path(value, path if path == WHOLE else _tokens_of(path))


def _rows_of(matrix: Matrix, rows: list[int]) -> Matrix | None:
    if not rows:
        return None
    first, behind = rows[0], rows[0] + len(rows)
    if rows == list(range(first, behind)):  # as they mostly are: no copy
        return matrix[first:behind]
    return matrix[rows]


def _other_model(stored: IndexedBy, model: str | None, dimension: int | None) -> InvalidInputError:
    length = "" if dimension is None else f" ({dimension})"
    return InvalidInputError(
        f"the items of this memory space were indexed by {stored.model!r} ({stored.dimension} dimensions), this store "
        f"has {model!r}{length}: use the model that it was written with, or change to the new one by `reme reembed`"
    )


def _clean(text: str) -> str:
    """Replace lone surrogates, which no model takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
