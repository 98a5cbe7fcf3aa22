"""The commands about a PostgreSQL database: its migrations, and what `reme doctor` tells of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.findings import Finding, wrong
from reme_core.cli.options import Json
from reme_core.cli.output import Output
from reme_core.errors import ConfigurationError, ReMeError, SchemaVersionError, StoreAccessError
from reme_core.facade.parts import DATABASE_VARIABLE

if TYPE_CHECKING:
    from reme_core.stores import DatabaseFacts, ServerSettings

_PGVECTOR = (0, 7)
_OLDEST_SERVER = 15


def migrate(
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help=f"The database [env: {DATABASE_VARIABLE}]")] = None,
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done, and do nothing.")] = False,
    grant: Annotated[
        str | None, typer.Option("--grant", metavar="ROLE", help="Let this role use the tables without owning them.")
    ] = None,
    schema: Annotated[str, typer.Option("--schema", help="The schema of the tables.")] = "reme",
    as_json: Json = False,
) -> int:
    """Make the tables of a PostgreSQL database, or bring them up to date, as the role that is to own them."""
    from reme_core import stores  # noqa: PLC0415  # help is shown without it

    settings = settings_of(url, schema=schema)
    steps = stores.planned_migrations(settings) if plan else stores.migrate_database(settings, grant_to=grant)
    output = Output(as_json=as_json)
    if output.as_json:
        output.value({"planned" if plan else "done": list(steps)})
    else:
        for step in steps:
            output.line("would do" if plan else "done", step)
        if not steps:
            output.line(f"{settings.shown} is up to date")
    return ExitCode.DONE


def settings_of(url: str | None, *, schema: str = "reme") -> ServerSettings:
    """Return where a database is, the one that the environment names for None (ConfigurationError)."""
    from reme_core import stores  # noqa: PLC0415  # help is shown without it

    address = url or os.environ.get(DATABASE_VARIABLE)
    if not address:
        msg = f"which database? Give its URL, or set {DATABASE_VARIABLE}"
        raise ConfigurationError(msg)
    return stores.ServerSettings(url=address, schema=schema, allow_superuser=True)


def examine_database(url: str) -> tuple[list[Finding], DatabaseFacts | None]:
    """Look at a database: what it is, what is wrong with it and what to do; nothing is written or raised."""
    from reme_core import stores  # noqa: PLC0415  # help is shown without it

    try:
        facts = stores.database_facts(settings_of(url))
    except ReMeError as exc:
        return [wrong("database", exc)], None
    return [*_server(facts), *_role(facts), *_schema(facts), *_pooler(facts), *_pgvector(facts)], facts


def _server(facts: DatabaseFacts) -> Iterator[Finding]:
    told = f"PostgreSQL {facts.server_version} at {facts.place}"
    if int(facts.server_version.partition(".")[0]) < _OLDEST_SERVER:
        yield wrong("database", ConfigurationError(f"{told}: wanted {_OLDEST_SERVER} or later"))
    elif facts.encoding != "UTF8":
        msg = f"{told} holds texts as {facts.encoding}: make a database with ENCODING 'UTF8'"
        yield wrong("database", ConfigurationError(msg))
    else:
        yield Finding(name="database", text=told)


def _role(facts: DatabaseFacts) -> Iterator[Finding]:
    role = facts.role
    if role.is_bound:
        yield Finding(name="role", text=f"{role.name!r}, which row level security binds")
    else:
        how = "is a superuser" if role.is_superuser else "has BYPASSRLS"
        msg = (
            f"role {role.name!r} {how}, which the walls between users don't bind: CREATE ROLE reme LOGIN PASSWORD"
            " '...', and GRANT CREATE ON DATABASE to it, or run reme migrate --grant reme as this one"
        )
        yield wrong("role", StoreAccessError(msg))
    if facts.unwalled:
        msg = (
            f"off for {', '.join(facts.unwalled)}: ALTER TABLE ... ENABLE ROW LEVEL SECURITY, and FORCE ROW LEVEL"
            " SECURITY, for each"
        )
        yield wrong("row level security", StoreAccessError(msg))
    elif facts.state.version:
        yield Finding(name="row level security", text="on for every table with rows of users, for its owner as well")


def _schema(facts: DatabaseFacts) -> Iterator[Finding]:
    if not facts.state.version:
        yield Finding(name="schema", text="no tables yet: the first use makes them, or reme migrate", is_hint=True)
    elif facts.pending:
        msg = f"version {facts.state.version}, read-only until reme migrate does: {'; '.join(facts.pending)}"
        yield wrong("schema", SchemaVersionError(msg))
    else:
        yield Finding(name="schema", text=f"version {facts.state.version}, up to date")


def _pooler(facts: DatabaseFacts) -> Iterator[Finding]:
    if facts.is_pooled:
        told = (
            "a pooler stands between: if it shares connections out by transactions and is older than PgBouncer 1.21,"
            " set prepare_threshold to null; run reme migrate at the server itself"
        )
        yield Finding(name="pooler", text=told, is_hint=True)
    else:
        yield Finding(name="pooler", text="none between")


def _pgvector(facts: DatabaseFacts) -> Iterator[Finding]:
    found = facts.pgvector
    if found is None:
        told = "not in this database, and not needed: vectors are ranked in memory"
        if facts.pgvector_available is not None:
            told += f" (the server has {facts.pgvector_available}: CREATE EXTENSION vector, as its owner)"
        yield Finding(name="pgvector", text=told)
    elif tuple(int(part) for part in found.split(".")[:2] if part.isdecimal()) < _PGVECTOR:
        told = f"{found}: ALTER EXTENSION vector UPDATE to 0.7 or later before you use it elsewhere; reme needs none"
        yield Finding(name="pgvector", text=told, is_hint=True)
    else:
        yield Finding(name="pgvector", text=found)
