"""A server and databases for the tests of this folder."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("psycopg") is None:  # pip install 'reme-memory[postgres]'
    collect_ignore_glob = ["test_*.py"]
else:
    from tests.support.postgres_server import TestServer, empty_database, running_server


@pytest.fixture(scope="session")
def server() -> Iterator[TestServer]:
    """Give the server of this run; processes of pytest-xdist share it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid():x}"
    with running_server(Path(tempfile.gettempdir()) / f"reme-pg-{run[:12]}") as server:
        yield server


@pytest.fixture(scope="session")
def _database(server: TestServer) -> Iterator[str]:
    name = server.make_database()
    yield name
    server.drop_database(name)


@pytest.fixture
def database(server: TestServer) -> Iterator[str]:
    """Give the name of a database of its own, which is empty."""
    name = server.make_database()
    yield name
    server.drop_database(name)


@pytest.fixture
def url(server: TestServer, database: str) -> str:
    """Give the URL of an empty database, of a plain role."""
    return server.url_of(database)


@pytest.fixture
def shared_url(server: TestServer, _database: str) -> str:
    """Give the URL of a database whose tables were made once, and which has no rows now."""
    empty_database(server.url_of(_database, admin=True))
    return server.url_of(_database)
