"""Settings of a database: the place, and how it is used."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from reme_core.errors import ConfigurationError

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_SECRETS = ("password", "sslpassword", "passfile", "oauth_client_secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a database is reached and used.

    Attributes:
        url: `postgresql://user:password@host:port/database?...`, as libpq reads it; never shown.
        schema: The schema of the tables: one database holds several memories side by side.
        max_connections: How many connections this process may have at once; none stays open when it has nothing to do.
        idle_s: Seconds after which a connection that nobody uses is closed.
        connect_timeout_s: Seconds that a connection may take to be made.
        statement_timeout_s: Seconds that one statement may take; an erasure may take longer.
        lock_timeout_s: Seconds to wait for another writer of the same scope.
        retry_s: Seconds to go on trying when the server was lost: a failover, or a restart.
        prepare_threshold: After how many uses a statement is prepared; None for never, as poolers want it that hand a
            connection to another client after each transaction and don't know of prepared statements.
        allow_superuser: Whether a role may be used that row level security doesn't bind.
    """

    url: str = field(repr=False)
    schema: str = "reme"
    max_connections: int = 10
    idle_s: float = 30.0
    connect_timeout_s: float = 10.0
    statement_timeout_s: float = 60.0
    lock_timeout_s: float = 10.0
    retry_s: float = 20.0
    prepare_threshold: int | None = 5
    allow_superuser: bool = False

    def __post_init__(self) -> None:
        """Refuse what can't be meant (ConfigurationError), without repeating the URL."""
        if _SCHEMA.fullmatch(self.schema) is None or self.schema.startswith("pg_"):
            msg = f"schema: {self.schema!r:.80} is no name of a schema: small letters, digits and _, not pg_..."
            raise ConfigurationError(msg)
        if self.max_connections < 1:
            msg = f"max_connections: wanted at least 1, found {self.max_connections}"
            raise ConfigurationError(msg)
        self.parameters()

    def parameters(self) -> dict[str, str]:
        """Return the parts of the URL by libpq's names.

        Raises:
            ConfigurationError: It can't be read; its text is not repeated, since it may hold a password.
        """
        if not self.url.startswith(("postgresql://", "postgres://")):
            msg = "url: wanted postgresql://user:password@host:port/database, found something else"
            raise ConfigurationError(msg)
        try:
            parts = {name: str(value) for name, value in conninfo_to_dict(self.url).items() if value is not None}
        except (ProgrammingError, UnicodeError, ValueError):
            raise _unreadable() from None
        # A sign in a password that ends it early makes a host or a database of the rest, which would be shown.
        if "@" in parts.get("host", "") + parts.get("dbname", "") + parts.get("port", ""):
            raise _unreadable()
        return parts  # what is left out comes from libpq's variables (PGHOST and so on) and files

    @property
    def shown(self) -> str:
        """The place, without password or options."""
        parts = self.parameters()
        port = f":{parts['port']}" if "port" in parts else ""
        return f"postgresql://{parts.get('host', 'localhost')}{port}/{parts.get('dbname', '')}"

    def without_secrets(self, text: str) -> str:
        """Return a text in which no secret of the URL is left."""
        parts = self.parameters()
        for name in _SECRETS:
            secret = parts.get(name)
            if secret:
                text = text.replace(secret, "***")
        return text


def _unreadable() -> ConfigurationError:
    return ConfigurationError(
        "url: can't be read as postgresql://user:password@host:port/database?option=...; signs such as @ : / # in a"
        " password are written as %40 %3A %2F %23, and options are those of libpq"
    )
