"""Requests of a change of the embedding model: all vectors of a memory space are replaced while the old ones serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reme_core.ports.items import IndexedBy
from reme_core.ports.transcript import MessageVector, PendingText


@dataclass(frozen=True, slots=True, kw_only=True)
class Reembedding:
    """How far a change is.

    Attributes:
        before: What made the vectors that serve searches; None while there are none.
        done: How many texts have a vector of the new model.
        total: How many texts have a vector.
    """

    before: IndexedBy | None
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembedPage:
    """A page of the texts that lack a new vector; `cursor` comes from the page before."""

    cursor: str | None = None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextsToReembed:
    """A page of texts; all passages of a message stand in one.

    Attributes:
        texts: Messages and memories, each to get one vector.
        items: Items, their values as JSON: the caller knows the texts in them, and puts one vector for each of these
            under the same key.
        cursor: Where the next page begins; None behind the last one.
    """

    texts: Sequence[PendingText]
    items: Sequence[PendingText]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVectors:
    """Vectors of the new model; all passages of a message, and all texts of an item, together.

    A vector of None gives up: the text is found by its words.
    """

    target: IndexedBy
    vectors: Sequence[MessageVector]
