"""The port of items: JSON objects under a namespace and a key, some of which are memories as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeAlias

from pydantic import JsonValue

from reme_core.errors import DimensionMismatchError, EmbeddingModelMismatchError
from reme_core.ports.memory_store import Matrix, Vector
from reme_core.schema import Memory, MemoryType, Scope, bounded_query

Namespace: TypeAlias = tuple[str, ...]
"""Labels from the root down. A label is a text without `.`, NUL and lone surrogates, and not empty."""

ItemValue: TypeAlias = dict[str, JsonValue]
"""A JSON object. Infinite floats and NaN may stand in it; integers have any size."""

SERVICE_SPACE: Final = "reme-service"
"""The memory space of what is kept about the service itself: costs, access keys, what is still to be cleared."""


class FilterOperator(StrEnum):
    """How a field of a value is compared with an operand.

    Types are those of JSON: true is not 1, 1 equals 1.0, NaN equals nothing. `eq` compares lists whole, an object by
    the keys that the operand names (recursively), and null with null and with a missing field; `ne` is its opposite.
    The others compare numbers with numbers, and texts with texts by code point; any other pair does not match.
    """

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCondition:
    """A condition on a top-level field of a value, named literally. All conditions of a search hold at once."""

    field: str
    operator: FilterOperator
    operand: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRecord:
    """That an item is a memory: whose, and of which type.

    The store makes the memory from the value: its content is the text under `content`, else `text`, else `memory`, else
    the whole value as JSON; `when_to_use` is taken over; other keys become metadata.

    Attributes:
        scope: Whose memory it is.
        memory_type: One of the statements' types.
        topic: What the labels of the namespace beyond those that name scope and type say; kept as metadata. A memory
            that was not written as an item has no topic.
        is_home: Whether memories of this scope and type that were not written as items lie in this namespace, each with
            its id as the key. Of several namespaces for one scope and type at most one is their home.
    """

    scope: Scope
    memory_type: MemoryType
    topic: Namespace = ()
    is_home: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlace:
    """Memories that a prefix covers and that were not written as items.

    Attributes:
        memory_space: Their space.
        user_id: Their user; None where the prefix names none: those of every user of the space.
        memory_types: Their types.
    """

    memory_space: str
    user_id: str | None
    memory_types: tuple[MemoryType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemAddress:
    """One item.

    Attributes:
        namespace: Where it lies, at least one label.
        key: Its key, any text without lone surrogates; case counts.
        record: The memories that lie under this namespace, if they do; found by their ids as keys where no item was
            written under the key.
        refresh: Whether reading it begins its time to live anew.
    """

    namespace: Namespace
    key: str
    record: ItemRecord | None = None
    refresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PutItem:
    """An item to be written whole, in place of what its address holds.

    Attributes:
        address: Where; `refresh` has no meaning here.
        value: The JSON object; kept as it is.
        vectors: (n, d) float32 of unit norm, one row for each indexed text; None: none.
        ranked: False: it stays out of every ranking by vector, and out of that by words if it is a memory; `vectors`
            is None.
        ttl_s: Seconds until it expires, counted from this write and from each read that refreshes before it does;
            None: never.
        owner: Whose it is, where its address does not say so; it is removed together with that scope.
    """

    address: ItemAddress
    value: ItemValue
    vectors: Matrix | None = None
    ranked: bool = True
    ttl_s: float | None = None
    owner: Scope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteItems:
    """Puts, and addresses to be emptied; together or not at all, in their order. The last one of an address counts.

    A put after an address was emptied makes a new item; with `omit_expired` also one over an item whose time is over.
    `embedded_by` names the model of the vectors, where that is known.
    """

    writes: Sequence[PutItem | ItemAddress]
    at: datetime
    omit_expired: bool = False
    embedded_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetItems:
    """Items by address. With `omit_expired` those whose time is over are not there; without, until they are swept."""

    addresses: Sequence[ItemAddress]
    at: datetime
    omit_expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchItems:
    """A page of the items under a prefix.

    With a vector: best cosine first, each item by the best of its vectors, ties as without; then those that have no
    vector. With a text and no vector: what shares words with it, best first, ties as without; then the rest. Without
    either: last change first; ties in the order in which they were put first.

    Attributes:
        prefix: The items whose namespace begins with these labels; `()`: all.
        records: What the prefix covers of the memories that were not written as items.
        conditions: Applied, as the times to live, before offset and limit.
        vector: The query's vector, of unit norm.
        embedded_by: The model that made it, where that is known.
        text: The query in words; counts where there is no vector. Words are those of keys and values, and of items that
            are memories those that the memory is found by.
        limit: At most so many items, 0 or more.
        offset: So many are passed over.
        refresh: Whether those returned begin their time to live anew.
        omit_expired: As in `GetItems`.
    """

    prefix: Namespace
    records: Sequence[RecordPlace] = ()
    conditions: Sequence[ItemCondition] = ()
    vector: Vector | None = None
    embedded_by: str | None = None
    text: str = ""
    limit: int = 10
    offset: int = 0
    refresh: bool = False
    omit_expired: bool = False
    at: datetime

    def __post_init__(self) -> None:
        """Take the beginning of a pasted text; see `bounded_query`."""
        object.__setattr__(self, "text", bounded_query(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListItemNamespaces:
    """Namespaces that hold an item under a prefix, and the groups of memories that were not written as items."""

    prefix: Namespace
    records: Sequence[RecordPlace] = ()
    at: datetime
    omit_expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemNamespaces:
    """What a `ListItemNamespaces` found, each once, in no order."""

    namespaces: Sequence[Namespace]
    records: Sequence[tuple[Scope, MemoryType]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An item as it is stored.

    Attributes:
        namespace: Where it lies; None for a memory that was not written as an item: `memory` says whose it is.
        key: Its key; the memory's id where `namespace` is None.
        value: A copy, the caller's to change. That of a memory not written as an item has `content`, and `when_to_use`,
            `time` (when it was said) and `metadata` where there are such; that of one edited as a memory has the
            edited texts under the keys that they came from.
        created_at: When it was put first, UTC.
        updated_at: When it was last changed, by a put or through its memory; UTC.
        memory: The memory that it is, if it is one.
        score: In a search by vector the best cosine of its vectors; None otherwise: words make an order, no similarity.
    """

    namespace: Namespace | None
    key: str
    value: ItemValue
    created_at: datetime
    updated_at: datetime
    memory: Memory | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedBy:
    """What made the vectors of a memory space: the dimension, and a text that tells the model from other models.

    A model of None is not known: vectors that were written before models had names, or by hand.
    """

    dimension: int
    model: str | None

    def check(self, wanted: IndexedBy, what: str) -> None:
        """Refuse vectors that can't be compared with these; a model that is not known may be any.

        Raises:
            DimensionMismatchError: They have another dimension.
            EmbeddingModelMismatchError: Another model made them.
        """
        if wanted.dimension != self.dimension:
            raise DimensionMismatchError(expected=self.dimension, found=wanted.dimension, what=what)
        if None not in (self.model, wanted.model) and self.model != wanted.model:
            raise EmbeddingModelMismatchError(expected=self.model or "", found=wanted.model or "", what=what)
