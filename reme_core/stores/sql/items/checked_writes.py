"""Writes of items, checked and made ready before the file is touched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reme_core.errors import DimensionMismatchError, InvalidInputError
from reme_core.ports import ItemAddress, ItemRecord, Matrix, PutItem, WriteItems
from reme_core.rules import NORM_TOLERANCE, check_key, check_vector, namespace_path, write_value
from reme_core.schema.checks import check_scope_part, kind_of
from reme_core.stores.sql.items.item_rows import NOT_ITEMS
from reme_core.stores.sql.memory_rows import microseconds

_LONGEST_TTL_S = 1e11
"""About 3,000 years; beyond that, microseconds leave the range of the file's numbers."""


class ReadyWrite(NamedTuple):
    """One write: of a put, or of an address that is emptied (`put` and `text` None).

    Attributes:
        path: The namespace as `namespace_path` writes it.
        key: The key in it.
        record: The memory that it is to be, or that lies there.
        put: What is to be written.
        text: Its value as JSON.
        ttl: Microseconds to live.
        vectors: Its vectors, None if there are none.
        fresh: The address was emptied before, in the same batch.
    """

    path: str
    key: str
    record: ItemRecord | None
    put: PutItem | None = None
    text: str | None = None
    ttl: int | None = None
    vectors: Matrix | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class ReadyBatch:
    """The last write of each address, in their order; times in microseconds since 1970."""

    writes: tuple[ReadyWrite, ...]
    at: int
    omit_expired: bool
    dimension: int | None
    embedded_by: str | None


def prepare_writes(write: WriteItems) -> ReadyBatch:
    """Check a batch and write its values as JSON.

    Raises:
        InvalidInputError: An address, a value or vectors that can't be stored.
        DimensionMismatchError: Vectors of several lengths.
    """
    last: dict[tuple[str, str], ReadyWrite] = {}
    for asked in write.writes:
        address = asked.address if isinstance(asked, PutItem) else asked
        path = address_path(address)
        where = (path, address.key)
        before = last.get(where)
        emptied = before is not None and (before.fresh or before.put is None)
        if isinstance(asked, ItemAddress):
            last.pop(where, None)
            last[where] = ReadyWrite(path, address.key, address.record)
            continue
        if before is not None and before.put is None:
            del last[where]  # put after it was emptied: first put where this one stands
        last[where] = _ready_put(asked, path, fresh=emptied)
    writes = tuple(last.values())
    return ReadyBatch(writes, microseconds(write.at), write.omit_expired, _one_dimension(writes), write.embedded_by)


def _one_dimension(writes: Sequence[ReadyWrite]) -> int | None:
    """Return the dimension of all vectors of a batch, None where there are none (DimensionMismatchError)."""
    dimension: int | None = None
    for item in writes:
        if item.vectors is None:
            continue
        found = item.vectors.shape[1]
        if dimension not in {None, found}:
            raise DimensionMismatchError(expected=dimension or 0, found=found, what=f"item {item.key!r:.80}")
        dimension = found
    return dimension


def check_space(memory_space: object) -> None:
    """Refuse what can't be the name of a memory space (InvalidInputError)."""
    try:
        if isinstance(memory_space, str):
            check_scope_part(memory_space)
            return
        problem = f"is {kind_of(memory_space)}, not a text"
    except ValueError as exc:
        problem = str(exc)
    msg = f"memory_space {problem}"
    raise InvalidInputError(msg)


def address_path(address: ItemAddress) -> str:
    """Return the path of an address whose namespace, key and record can be stored (InvalidInputError)."""
    path = namespace_path(address.namespace)
    if not path:
        msg = f"item {address.key!r:.80}: the namespace is empty, give at least one label"
        raise InvalidInputError(msg)
    check_key(address.key, address.namespace)
    if address.record is not None and address.record.memory_type in NOT_ITEMS:
        msg = f"item {address.key!r:.80}: a memory of type {address.record.memory_type.value!r} is no item"
        raise InvalidInputError(msg)
    return path


def _ready_put(put: PutItem, path: str, *, fresh: bool) -> ReadyWrite:
    address = put.address
    what = f"item {address.key!r:.80} in {address.namespace!r:.200}"
    vectors = None if put.vectors is None else _matrix(put.vectors, what)
    if vectors is not None and not put.ranked:
        msg = f"{what}: it has vectors and is not to be ranked: leave one of them out"
        raise InvalidInputError(msg)
    return ReadyWrite(
        path,
        address.key,
        address.record,
        put,
        write_value(put.value, what),
        _ttl(put.ttl_s, what),
        vectors,
        fresh,
    )


def _matrix(vectors: object, what: object) -> Matrix | None:
    """Return an array as vectors of unit norm, as the file has them; None if there are no rows (InvalidInputError)."""
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype != np.float32:
        found = f"{vectors.dtype} of shape {vectors.shape}" if isinstance(vectors, np.ndarray) else repr(vectors)
        msg = f"{what}: wanted vectors as a float32 array of shape (n, d), found {found:.80}"
        raise InvalidInputError(msg)
    if not vectors.size:
        return None
    matrix: Matrix = np.ascontiguousarray(vectors, dtype="<f4")
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not np.all(np.abs(norms - 1.0) <= NORM_TOLERANCE):  # at once: quick where all are good
        for vector in matrix:
            check_vector(vector, f"a vector of {what}")
    return matrix


def _ttl(ttl_s: float | None, what: object) -> int | None:
    if ttl_s is None:
        return None
    number = isinstance(ttl_s, (int, float)) and not isinstance(ttl_s, bool)
    if not number or not math.isfinite(ttl_s) or not 0 <= ttl_s <= _LONGEST_TTL_S:
        msg = f"{what}: its time to live is {ttl_s!r:.40} s; give 0 to {_LONGEST_TTL_S:.0e}, or None for no end"
        raise InvalidInputError(msg)
    return round(ttl_s * 1_000_000)
