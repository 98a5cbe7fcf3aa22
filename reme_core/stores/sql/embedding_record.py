"""Record of what made the vectors of each memory space: a model's name and a dimension, so that two are never mixed.

A file of before has one dimension for all spaces, and no name: its vectors belong to whoever claims them first. Where
items were embedded for LangGraph, the name of their model stands there, too.
"""

from __future__ import annotations

import json
from dataclasses import replace

from reme_core.ports import IndexedBy, Vector
from reme_core.stores.sql.bookkeeping import put_once
from reme_core.stores.sql.connection import Statements

_DIMENSION, _ITEMS = "dimension", "items_index"
_OWN, _TARGET = "embedding:", "reembedding:"
_KEYS = f"key IN ('{_DIMENSION}', '{_ITEMS}', ?)"


def find_embedding(connection: Statements, memory_space: str) -> IndexedBy | None:
    """Return what made the vectors of a space, None while there are none; a model of None is not known."""
    own = _OWN + memory_space
    rows = connection.execute(f"SELECT key, value FROM meta WHERE {_KEYS}", (own,))  # noqa: S608  # names of ours
    values: dict[str, str] = dict(rows.fetchall())
    if own in values:
        return read_record(values[own])
    items = read_record(values[_ITEMS]) if _ITEMS in values else None
    if _DIMENSION not in values:
        return items
    dimension = int(values[_DIMENSION])
    return items if items is not None and items.dimension == dimension else IndexedBy(dimension=dimension, model=None)


def read_record(value: str) -> IndexedBy:
    """Read what `write_record` wrote."""
    return IndexedBy(**json.loads(value))


def write_record(indexed: IndexedBy) -> str:
    """Write a record as JSON."""
    return json.dumps({"dimension": indexed.dimension, "model": indexed.model})


def dimension_of_scope(connection: Statements, scope: int) -> int | None:
    """Return the dimension of the vectors of the scope of a number, None while there are none."""
    rows = connection.execute(
        f"SELECT key, value FROM meta WHERE key IN ('{_DIMENSION}',"  # noqa: S608  # names of ours
        f" '{_OWN}' || (SELECT memory_space FROM scopes WHERE scope = ?))",
        (scope,),
    ).fetchall()
    old = [int(value) for key, value in rows if key == _DIMENSION]
    own = [read_record(value).dimension for key, value in rows if key != _DIMENSION]
    return next(iter([*own, *old]), None)


def claim_embedding(connection: Statements, memory_space: str, wanted: IndexedBy, what: str) -> None:
    """Make this the record of a space, if it has none yet, or none that names a model.

    Raises:
        DimensionMismatchError: Its vectors have another dimension.
        EmbeddingModelMismatchError: Another model made them.
    """
    found = find_embedding(connection, memory_space)
    if found is not None:
        found.check(wanted, what)
        if found.model is not None or wanted.model is None:
            return
    # Writers of other users of the space may do the same: this waits for them, and then sees what they have made of it.
    put_once(connection, _OWN + memory_space, write_record(found or wanted))
    _name_model(connection, memory_space, wanted)
    stands = find_embedding(connection, memory_space)
    assert stands is not None  # noqa: S101  # it was put
    stands.check(wanted, what)


def _name_model(connection: Statements, memory_space: str, wanted: IndexedBy) -> None:
    """Name the model of a record that names none."""
    connection.execute(
        "UPDATE meta SET value = ? WHERE key = ? AND value = ?",
        (write_record(wanted), _OWN + memory_space, write_record(replace(wanted, model=None))),
    )


def adopt_embedding(connection: Statements, memory_space: str, wanted: IndexedBy) -> IndexedBy:
    """Record what makes the vectors of a space, unless a model's name stands there; return what stands there.

    Raises:
        DimensionMismatchError: There are vectors of no known model, and of another dimension.
    """
    found = find_embedding(connection, memory_space)
    if found is not None and found.model is not None:
        return found
    claim_embedding(connection, memory_space, wanted, "the embedding model")
    return wanted


def find_target(connection: Statements, memory_space: str) -> IndexedBy | None:
    """Return the model to which the vectors of a space are being changed, None where they are not."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_TARGET + memory_space,)).fetchone()
    return None if row is None else read_record(row[0])


def set_target(connection: Statements, memory_space: str, target: IndexedBy | None) -> None:
    """Record the model to which the vectors of a space are being changed; None: they are not any more."""
    connection.execute("DELETE FROM meta WHERE key = ?", (_TARGET + memory_space,))
    if target is not None:
        put_once(connection, _TARGET + memory_space, write_record(target))


def set_embedding(connection: Statements, memory_space: str, indexed: IndexedBy) -> None:
    """Record what makes the vectors of a space from now on."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (_OWN + memory_space, write_record(indexed)),
    )


def check_embedding(
    connection: Statements, memory_space: str, vector: Vector | None, embedded_by: str | None, what: str
) -> None:
    """Refuse a query's vector that another model made than those of the space; raises as `claim_embedding`."""
    if vector is None:
        return
    found = find_embedding(connection, memory_space)
    if found is not None:
        found.check(IndexedBy(dimension=len(vector), model=embedded_by), what)
