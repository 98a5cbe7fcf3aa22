"""An embedder that remembers, in a file shared by threads and processes, what it has embedded."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from reme_core.errors import (
    ConfigurationError,
    CorruptDataError,
    ModelOutputError,
    SchemaVersionError,
    StorageFullError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.models.defaults import Metered
from reme_core.ports import Embedder, LabelledEmbedder, Matrix, NamedEmbedder, Vector, embedder_name
from reme_core.schema import Usage

_APPLICATION_ID = 0x524D5643
"""`RMVC`: marks the file as ours, so that no other SQLite file is written to by mistake."""

_VERSION = 1
_BUSY_S = 10.0
_PAUSE_S = 0.005
_MOST_VARIABLES = 900
"""SQLite before 3.32 takes 999 variables in a statement."""

_HARMLESS = "it holds copies alone, so deleting it is harmless"


class CacheFile:
    """Vectors by key, the oldest dropped first. Blocking; each call opens the file and closes it again.

    So there is nothing to close, a fork is no danger, and several processes use one file. A vector is written with its
    neighbours of the same call, or not at all; after a loss of power the last ones may be missing.
    """

    def __init__(self, path: Path, *, dimension: int, max_entries: int) -> None:
        """Name the file; it is made by the first call, its folder too."""
        self.path = path
        self._dimension = dimension
        self._max_entries = max_entries

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """Return the vectors that are there.

        Raises:
            CorruptDataError: The file, or one of the vectors, is damaged.
            StoreError: It can't be read; see the subclasses.
        """
        found: dict[bytes, Vector] = {}
        with self._opened() as connection:
            for start in range(0, len(keys), _MOST_VARIABLES):
                some = keys[start : start + _MOST_VARIABLES]
                marks = ", ".join("?" * len(some))
                rows = connection.execute(f"SELECT key, vector FROM entries WHERE key IN ({marks})", some)  # noqa: S608  # question marks alone
                found.update((bytes(key), self._vector(blob)) for key, blob in rows)
        return found

    def put(self, vectors: Mapping[bytes, Vector]) -> None:
        """Add vectors, all or none, and drop the oldest beyond the limit. A key that is there stays as it is.

        Raises:
            StoreError: It can't be written; see the subclasses.
        """
        rows = [(key, np.ascontiguousarray(vector, dtype="<f4").tobytes()) for key, vector in vectors.items()]
        with self._opened() as connection, _transaction(connection):
            connection.executemany("INSERT OR IGNORE INTO entries (key, vector) VALUES (?, ?)", rows)
            connection.execute(
                "DELETE FROM entries WHERE entry <= (SELECT max(entry) FROM entries) - ?", (self._max_entries,)
            )

    def _vector(self, blob: object) -> Vector:
        if not isinstance(blob, bytes) or len(blob) != 4 * self._dimension:
            what = "a vector has the wrong length"
            raise self._corrupt(what)
        vector = np.frombuffer(blob, dtype="<f4").astype(np.float32)
        if not abs(float(np.linalg.norm(vector.astype(np.float64))) - 1.0) < 1e-3:
            what = "a vector is not of unit norm"
            raise self._corrupt(what)
        return vector

    def _corrupt(self, what: str) -> CorruptDataError:
        return CorruptDataError(f"embedding cache {str(self.path)!r}: {what}: delete the file; {_HARMLESS}")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)) as connection:
                self._prepare(connection)
                yield connection
        except sqlite3.Error as exc:
            raise self._translate(exc) from exc
        except OSError as exc:
            msg = f"embedding cache {str(self.path)!r}: {exc.strerror}: give another path, or make this one writable"
            raise StoreAccessError(msg) from exc

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = _pragma(connection, "user_version")
        if version == _VERSION and _pragma(connection, "application_id") == _APPLICATION_ID:
            connection.execute("PRAGMA synchronous = NORMAL")
            return
        if version > _VERSION and _pragma(connection, "application_id") == _APPLICATION_ID:
            msg = (
                f"embedding cache {str(self.path)!r} was written by a newer release: delete it, or upgrade; {_HARMLESS}"
            )
            raise SchemaVersionError(msg)
        self._refuse_other_database(connection)
        _switch_to_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        with _transaction(connection):
            self._create(connection)

    def _create(self, connection: sqlite3.Connection) -> None:
        """Make the table, unless another process was faster."""
        if _pragma(connection, "application_id") == _APPLICATION_ID:
            return
        connection.execute(
            "CREATE TABLE entries (entry INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, vector BLOB NOT NULL)"
        )
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _refuse_other_database(self, connection: sqlite3.Connection) -> None:
        # In this order: another process may be making the cache, mark and table at once.
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and _pragma(connection, "application_id") != _APPLICATION_ID:
            msg = f"{str(self.path)!r} is a database, and not an embedding cache: give the cache a path of its own"
            raise SchemaVersionError(msg)

    def _translate(self, exc: sqlite3.Error) -> StoreError:
        place = f"embedding cache {str(self.path)!r}"
        code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
        match code:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return StoreUnavailableError(f"{place}: locked by another process for {_BUSY_S:.0f} s: try again")
            case sqlite3.SQLITE_FULL:
                return StorageFullError(f"{place}: no space left: make room, or delete the file; {_HARMLESS}")
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
                return StoreAccessError(
                    f"{place}: can't be opened or written: check its permissions, or give another path"
                )
            case _:
                return self._corrupt(f"can't be read ({getattr(exc, 'sqlite_errorname', type(exc).__name__)})")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Wait by ourselves: where two processes switch at once, SQLite gives up without waiting, to avoid a deadlock."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


MAX_ENTRIES = 200_000
"""About 800 MB at 1,024 dimensions, 4 bytes each."""


class CachedEmbedder:
    """Holds an embedder, and is one: texts that it has embedded before come from a SQLite file.

    The file is kept by (model, dimension, text), may be shared by threads and processes and by several models, and
    holds no text: digests alone. Deleting it is harmless. Equal texts of one call are embedded once. The file is read
    and written in threads; a cancelled call leaves it as it was, or with the whole of what it had to add.

    The embedder inside stays its owner's, who closes it. There is nothing else to close.
    """

    def __init__(
        self,
        embedder: Embedder,
        path: str | Path,
        *,
        model: str | None = None,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        """Keep the embedder and the path; the file is made by the first call.

        Args:
            embedder: Embeds what the cache doesn't know.
            path: The file.
            model: The name that vectors are kept under; needed where the embedder has no `model`.
            max_entries: Beyond this, the oldest vectors are dropped.

        Raises:
            ConfigurationError: No name for the model, or a limit below 1.
        """
        name = model or (embedder.model if isinstance(embedder, NamedEmbedder) else "")
        if not name:
            msg = f"{type(embedder).__name__} does not say which model it is: pass `model`, so that vectors never mix"
            raise ConfigurationError(msg)
        if max_entries < 1:
            msg = f"max_entries is {max_entries}: wanted 1 or more"
            raise ConfigurationError(msg)
        self._embedder = embedder
        self._model = name
        self._file = CacheFile(Path(path), dimension=embedder.dimension, max_entries=max_entries)

    @property
    def model(self) -> str:
        """The name that vectors are kept under."""
        return self._model

    @property
    def name(self) -> str:
        """What its vectors go by in a store: the name of the embedder inside, or else that of the cache."""
        inner = self._embedder
        return embedder_name(inner) if isinstance(inner, LabelledEmbedder) else self._model

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._embedder.dimension

    @property
    def usage(self) -> Usage:
        """What the embedder inside has cost so far; nothing, where it doesn't say."""
        return self._embedder.usage if isinstance(self._embedder, Metered) else Usage()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return float32 of shape (len(texts), dimension), rows of unit norm.

        Raises:
            ModelError: As the embedder inside.
            CorruptDataError: The file is damaged; the message names it. Deleting it is harmless.
            StoreError: The file can't be read or written; see the subclasses.
        """
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        keys = [_key(self._model, self.dimension, text) for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        known = await asyncio.to_thread(self._file.get, list(distinct))
        missing = [key for key in distinct if key not in known]
        if missing:
            vectors = await self._embedder.embed([distinct[key] for key in missing])
            if vectors.shape != (len(missing), self.dimension):
                msg = f"wanted vectors of shape {(len(missing), self.dimension)}, found {vectors.shape}"
                raise ModelOutputError(msg, raw="")
            fresh = dict(zip(missing, vectors, strict=True))
            await asyncio.to_thread(self._file.put, fresh)
            known |= fresh
        return np.stack([known[key] for key in keys]).astype(np.float32, copy=False)


def _key(model: str, dimension: int, text: str) -> bytes:
    """Return the digest of all that decides a vector, each part with its length."""
    digest = hashlib.blake2b(digest_size=32)
    for part in (model, str(dimension), text):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()
