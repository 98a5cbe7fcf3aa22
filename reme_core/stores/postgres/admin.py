"""Requests to a database by hand: its migrations, and what `reme doctor` tells of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from reme_core.stores.postgres.failures import mapped_errors
from reme_core.stores.postgres.migrate import (
    RoleFacts,
    SchemaState,
    migrate,
    pending,
    role_facts,
    schema_state,
    unwalled,
)
from reme_core.stores.postgres.pipeline import RawConnection
from reme_core.stores.postgres.pool import ConnectionPool
from reme_core.stores.postgres.settings import ServerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """What is known of a database.

    Attributes:
        place: Where it is, without password.
        server_version: The version of PostgreSQL, such as `18.4`.
        encoding: What its texts are kept as.
        role: Who asks.
        state: What the schema holds.
        pending: The steps that `migrate_database` would take.
        unwalled: Tables whose rows the role reaches whatever the scope is.
        is_pooled: Whether a pooler stands between, which gives a connection to others between two transactions.
        pgvector: The version of the extension `vector` in the database; None where it is not there.
        pgvector_available: The version that the server could add; None where it has none.
    """

    place: str
    server_version: str
    encoding: str
    role: RoleFacts
    state: SchemaState
    pending: tuple[str, ...]
    unwalled: tuple[str, ...]
    is_pooled: bool
    pgvector: str | None
    pgvector_available: str | None


def database_facts(settings: ServerSettings) -> DatabaseFacts:
    """Look at a database; nothing is written (StoreError)."""
    with _connected(settings) as raw:
        state = schema_state(raw, settings)
        backend, installed, available = raw.execute(
            "SELECT pg_backend_pid(), (SELECT extversion FROM pg_extension WHERE extname = 'vector'),"
            " (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')"
        ).fetchone() or (0, None, None)
        return DatabaseFacts(
            place=settings.shown,
            server_version=raw.info.parameter_status("server_version") or "unknown",
            encoding=raw.info.parameter_status("server_encoding") or "unknown",
            role=role_facts(raw),
            state=state,
            pending=tuple(pending(state)),
            unwalled=tuple(unwalled(raw, settings)),
            is_pooled=backend != raw.info.backend_pid,  # PgBouncer makes up the number that it tells a client
            pgvector=installed,
            pgvector_available=available,
        )


def planned_migrations(settings: ServerSettings) -> list[str]:
    """Return the names of the steps that `migrate_database` would take; nothing is written (StoreError)."""
    with _connected(settings) as raw:
        return pending(schema_state(raw, settings))


def migrate_database(settings: ServerSettings, *, grant_to: str | None = None) -> list[str]:
    """Bring the tables up to date, as the role that is to own them; return the names of the steps taken.

    Args:
        settings: Where they are; not behind a pooler that shares connections out by transactions.
        grant_to: A role that may then use the tables without owning them.

    Raises:
        StoreAccessError: The role may not do that.
        StoreUnavailableError: The server is not there.
    """
    with _connected(settings) as raw:
        return migrate(raw, settings, grant_to=grant_to)


@contextmanager
def _connected(settings: ServerSettings) -> Iterator[RawConnection]:
    with mapped_errors(settings), closing(ConnectionPool(settings).connect()) as raw:
        yield raw
