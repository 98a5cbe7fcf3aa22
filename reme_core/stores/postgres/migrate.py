"""Opening a database: its role, its version, and the steps that bring its tables up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from psycopg import errors
from psycopg.sql import SQL, Identifier

from reme_core.errors import ConfigurationError, SchemaVersionError, StoreAccessError
from reme_core.stores.postgres.connection import Beginning, PgConnection, lock_number
from reme_core.stores.postgres.dialect import POSTGRES
from reme_core.stores.postgres.pipeline import Pipeline, RawConnection
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.stores.postgres.tables import MIGRATIONS, WALLED, Migration
from reme_core.stores.sql.segment_anew import segment_anew
from reme_core.text import TERMS_VERSION

OLDEST_SERVER = 15
_MAKES_TABLES_S = 60
_WORDS = f"words of version {TERMS_VERSION}"
_WITH_WORDS = ("messages", "message_vectors", "memories", "blocks", "offloads", "offload_passages", "offload_words")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """What is in a schema.

    Attributes:
        version: The newest step that was taken, 0 in an empty database.
        terms: The version of the words that its rows hold, 0 in an empty database.
    """

    version: int
    terms: int


def open_schema(
    raw: RawConnection, settings: ServerSettings, *, migrations: Sequence[Migration] = MIGRATIONS
) -> str | None:
    """Look whether a database may be used, and make the tables in an empty one.

    Returns:
        Why it can only be read: it is older than this release. None for one that is up to date.

    Raises:
        ConfigurationError: The server is too old, or the database doesn't hold UTF-8.
        StoreAccessError: The role is not bound by the walls between scopes, or may not make the tables.
        SchemaVersionError: A newer release wrote it.
    """
    check_server(raw, settings)
    state = schema_state(raw, settings)
    if not state.version:
        check_role(raw, settings)  # before anything is made
        migrate(raw, settings, migrations=migrations)
        state = schema_state(raw, settings)
    check_role(raw, settings)
    check_walls(raw, settings)
    return check_state(state, settings, newest=len(migrations))


def check_state(state: SchemaState, settings: ServerSettings, *, newest: int = len(MIGRATIONS)) -> str | None:
    """Return why a database can only be read, None where it can be written (SchemaVersionError if it is newer)."""
    place = f"schema {settings.schema!r} of {settings.shown}"
    if state.version > newest or state.terms > TERMS_VERSION:
        msg = f"{place} has version {state.version}, this release knows {newest}: install a newer release"
        raise SchemaVersionError(msg)
    if state.version < newest or state.terms < TERMS_VERSION:
        return f"{place} has version {state.version}, this release writes {newest}: run `reme migrate` on it"
    return None


def check_server(raw: RawConnection, settings: ServerSettings) -> None:
    """Refuse a server or database that can't hold a memory (ConfigurationError)."""
    found = raw.info.server_version // 10_000
    if found < OLDEST_SERVER:
        msg = f"wanted PostgreSQL {OLDEST_SERVER} or later, found {found} at {settings.shown}: use a newer server"
        raise ConfigurationError(msg)
    encoding = raw.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        msg = f"{settings.shown} holds texts as {encoding}: make a database with ENCODING 'UTF8'"
        raise ConfigurationError(msg)


def check_role(raw: RawConnection, settings: ServerSettings) -> None:
    """Refuse a role that row level security doesn't bind, unless the settings allow it (StoreAccessError)."""
    role = role_facts(raw)
    if role.is_bound or settings.allow_superuser:
        return
    how = "is a superuser" if role.is_superuser else "has BYPASSRLS"
    msg = (
        f"role {role.name!r} {how}: the walls between users don't bind it. Use a plain role"
        " (CREATE ROLE reme LOGIN PASSWORD '...'; GRANT CREATE ON DATABASE ... TO reme), or set allow_superuser"
    )
    raise StoreAccessError(msg)


def check_walls(raw: RawConnection, settings: ServerSettings) -> None:
    """Refuse tables whose walls were taken down (StoreAccessError)."""
    open_ = unwalled(raw, settings)
    if open_ and not settings.allow_superuser:
        msg = (
            f"row level security is off for {', '.join(open_[:3])} in schema {settings.schema!r}: ALTER TABLE ..."
            " ENABLE ROW LEVEL SECURITY, and FORCE ROW LEVEL SECURITY, or set allow_superuser"
        )
        raise StoreAccessError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFacts:
    """Who asks."""

    name: str
    is_superuser: bool
    bypasses: bool

    @property
    def is_bound(self) -> bool:
        """Whether row level security binds the role."""
        return not (self.is_superuser or self.bypasses)


def role_facts(raw: RawConnection) -> RoleFacts:
    """Return what is known of the role that asks."""
    row = raw.execute("SELECT rolname, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user").fetchone()
    name, is_superuser, bypasses = row or ("", False, False)
    return RoleFacts(name=str(name), is_superuser=bool(is_superuser), bypasses=bool(bypasses))


def unwalled(raw: RawConnection, settings: ServerSettings) -> list[str]:
    """Return the tables whose rows this role could reach whatever the transaction's scope is."""
    rows = raw.execute(
        "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE nspname = %s AND relname = ANY(%s) AND relkind IN ('r', 'p')"
        " AND NOT (relrowsecurity AND (relforcerowsecurity OR NOT pg_has_role(relowner, 'USAGE'))) ORDER BY relname",
        (settings.schema, list(WALLED)),
    )
    return [str(name) for (name,) in rows]


def schema_state(raw: RawConnection, settings: ServerSettings) -> SchemaState:
    """Return the version of the tables; nothing is written.

    Raises:
        StoreAccessError: The role may not read them.
    """
    schema = Identifier(settings.schema)
    try:
        row = raw.execute(
            SQL(
                "SELECT (SELECT max(version) FROM {0}.migrations),"
                " (SELECT value::bigint FROM {0}.meta WHERE key = 'terms')"
            ).format(schema)
        ).fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return SchemaState(version=0, terms=0)
    version, terms = row or (0, 0)
    return SchemaState(version=version or 0, terms=terms or 0)


def pending(state: SchemaState, migrations: Sequence[Migration] = MIGRATIONS) -> list[str]:
    """Return the names of the steps that are to be taken."""
    steps = [f"{number}: {step.name}" for number, step in enumerate(migrations, 1) if number > state.version]
    return [*steps, _WORDS] if 0 < state.terms < TERMS_VERSION else steps


def migrate(
    raw: RawConnection,
    settings: ServerSettings,
    *,
    migrations: Sequence[Migration] = MIGRATIONS,
    grant_to: str | None = None,
) -> list[str]:
    """Take the steps that are to be taken, each in a transaction, one process at a time; return their names.

    Args:
        raw: A connection of the role that is to own the tables; not one that a pooler shares out by transactions.
        settings: Where they are.
        migrations: All steps there are.
        grant_to: A role that may then use the tables without owning them.

    Raises:
        StoreAccessError: The role may not make the tables.
    """
    check_server(raw, settings)
    taken = list[str]()
    try:
        for number, step in enumerate(migrations, 1):
            if _take(raw, settings, number, step):
                taken.append(f"{number}: {step.name}")
            for name, statement in step.concurrently:
                _index(raw, settings, name, statement)
        if _segment(raw, settings):
            taken.append(_WORDS)
        if grant_to is not None:
            _grant(raw, settings, grant_to)
    except errors.InsufficientPrivilege as exc:
        told = exc.diag.message_primary or ""
        msg = (
            f"role {role_facts(raw).name!r} may not make the tables at {settings.shown} ({told}): run `reme migrate URL"
            " --grant ROLE` once as their owner, or GRANT CREATE ON DATABASE to this role"
        )
        raise StoreAccessError(msg) from exc
    return taken


def _take(raw: RawConnection, settings: ServerSettings, number: int, step: Migration) -> bool:
    """Take a step, unless it was taken; return whether it was taken now."""
    schema = Identifier(settings.schema)
    with raw.transaction():
        _lock(raw, settings)
        if schema_state_within(raw, settings).version >= number:
            return False
        if number == 1 and not _has_schema(raw, settings):
            raw.execute(SQL("CREATE SCHEMA {}").format(schema))
        raw.execute("SELECT set_config('search_path', %s, true)", (settings.schema,))
        if number == 1:
            raw.execute("CREATE TABLE migrations (version bigint PRIMARY KEY, name text NOT NULL, at timestamptz)")
        for statement in step.statements:
            raw.execute(statement.replace("{schema}", settings.schema).encode())
        raw.execute("INSERT INTO migrations VALUES (%s, %s, now())", (number, step.name))
    return True


def _segment(raw: RawConnection, settings: ServerSettings) -> bool:
    """Cut all words anew where an older release has cut them; return whether that was so."""
    with raw.transaction():
        _lock(raw, settings)
        if schema_state(raw, settings).terms >= TERMS_VERSION:
            return False
        raw.execute("SELECT set_config('search_path', %s, true)", (settings.schema,))
        for table in _WITH_WORDS:  # the walls bind the owner as well; nobody else sees the tables without them
            raw.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY".encode())
        beginning = Beginning(settings, "freeing", None)
        connection = PgConnection(Pipeline(raw), beginning, POSTGRES, begun=True)
        segment_anew(connection, partial(POSTGRES.add_words, connection), ("offload_words",))
        connection.flush()
        raw.execute("UPDATE meta SET value = %s WHERE key = 'terms'", (str(TERMS_VERSION),))
        for table in _WITH_WORDS:
            raw.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY".encode())
    return True


def _lock(raw: RawConnection, settings: ServerSettings) -> None:
    """Let one process at a time change the tables."""
    raw.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_MAKES_TABLES_S}s",))
    raw.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(settings.schema, "migrate"),))


def schema_state_within(raw: RawConnection, settings: ServerSettings) -> SchemaState:
    """Return the version of the tables within a transaction, which an unknown table would end."""
    (table,) = raw.execute("SELECT to_regclass(%s)", (f"{settings.schema}.migrations",)).fetchone() or (None,)
    return SchemaState(version=0, terms=0) if table is None else schema_state(raw, settings)


def _has_schema(raw: RawConnection, settings: ServerSettings) -> bool:
    return raw.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (settings.schema,)).fetchone() is not None


def _index(raw: RawConnection, settings: ServerSettings, name: str, statement: str) -> None:
    """Make an index while others write; one that an earlier try left half-made is dropped first."""
    found = raw.execute(
        "SELECT indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
        " JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s AND relname = %s",
        (settings.schema, name),
    ).fetchone()
    if found is not None and found[0]:
        return
    raw.execute("SELECT set_config('search_path', %s, false)", (settings.schema,))
    if found is not None:
        raw.execute(SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(Identifier(name)))
    raw.execute(statement.encode())


def _grant(raw: RawConnection, settings: ServerSettings, role: str) -> None:
    schema, name = Identifier(settings.schema), Identifier(role)
    with raw.transaction():
        for text in (
            "GRANT USAGE ON SCHEMA {0} TO {1}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {0} TO {1}",
            "REVOKE INSERT, UPDATE, DELETE ON {0}.migrations FROM {1}",
            "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {0} TO {1}",
        ):
            raw.execute(SQL(text).format(schema, name))
