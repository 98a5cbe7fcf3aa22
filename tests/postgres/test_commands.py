"""`reme migrate` and `reme doctor` on a database: each says what is there, what is wrong, and the cure."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from reme_core.cli import ExitCode
from tests.support.postgres_server import PASSWORD, ROLE, TestServer
from tests.unit.cli.conftest import Done, Reme
from tests.unit.cli.conftest import reme as reme  # the fixture


def lines(done: Done) -> dict[str, tuple[str, str]]:
    """Return the state and the text of each thing that was looked at."""
    parts = [line.split("  ", 2) for line in done.out.splitlines()]
    return {name.removesuffix(":"): (state, text) for state, name, text in parts}


@pytest.fixture
def in_env(monkeypatch: pytest.MonkeyPatch, url: str) -> str:
    monkeypatch.setenv("REME_DATABASE_URL", url)
    return url


def test_migrate_says_what_it_would_do_and_does_it_once(reme: Reme, url: str) -> None:
    planned = reme("migrate", "--plan", url)
    steps = ["1: all tables", "2: relations of memories", "3: images and files"]
    assert (planned.code, planned.out) == (ExitCode.DONE, "".join(f"would do  {step}\n" for step in steps))
    assert reme("migrate", "--json", url).value == {"done": steps}
    done = reme("migrate", url)
    assert (done.code, "is up to date" in done.out, PASSWORD in done.out) == (ExitCode.DONE, True, False)


def test_migrate_without_a_database_says_how_to_name_one(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REME_DATABASE_URL", raising=False)
    done = reme("migrate")
    assert done.code == ExitCode.BAD_INPUT
    assert "REME_DATABASE_URL" in done.err


def test_an_owner_grants_a_role_what_it_needs(reme: Reme, server: TestServer, url: str, database: str) -> None:
    owner = server.url_of(database, admin=True)
    with psycopg.connect(owner, autocommit=True) as admin:
        admin.execute(f"REVOKE CREATE ON DATABASE {database} FROM {ROLE}".encode())
    refused = reme("migrate", url)
    assert "--grant" in refused.err
    assert reme("migrate", "--grant", ROLE, owner).code == ExitCode.DONE
    with psycopg.connect(url) as plain:
        assert plain.execute("SELECT count(*) FROM reme.memories").fetchone() == (0,)


def test_doctor_on_a_database_that_is_as_it_should_be(reme: Reme, in_env: str) -> None:
    assert reme("migrate").code == ExitCode.DONE
    done = reme("doctor")
    found = lines(done)
    assert done.code == ExitCode.DONE
    assert {
        name: found[name][0] for name in ("database", "role", "row level security", "schema", "pooler")
    } == dict.fromkeys(("database", "role", "row level security", "schema", "pooler"), "ok")
    assert "file" not in found
    assert "not needed" in found["pgvector"][1]
    assert PASSWORD not in done.out


def test_doctor_names_a_superuser_and_a_wall_that_is_down(
    reme: Reme, server: TestServer, url: str, database: str
) -> None:
    assert reme("migrate", url).code == ExitCode.DONE
    with psycopg.connect(server.url_of(database, admin=True), autocommit=True) as admin:
        admin.execute("ALTER TABLE reme.messages NO FORCE ROW LEVEL SECURITY")
    found = lines(reme("doctor", "--database-url", url))
    assert found["row level security"][0] == "wrong"
    assert "messages" in found["row level security"][1]
    found = lines(reme("doctor", "--database-url", server.url_of(database, admin=True)))
    assert found["role"][0] == "wrong"
    assert "CREATE ROLE" in found["role"][1]


def test_doctor_of_an_empty_database_and_of_one_that_is_not_there(reme: Reme, in_env: str) -> None:
    assert lines(reme("doctor"))["schema"][0] == "hint"
    done = reme("doctor", "--database-url", in_env.replace("/reme_", "/nothing_"))
    assert done.code != ExitCode.DONE
    assert "does not exist" in lines(done)["database"][1]
    assert PASSWORD not in done.out


def test_commands_keep_and_find_in_the_database(reme: Reme, in_env: str, tmp_path: Path) -> None:
    assert reme("add", "Ana likes green tea").code == ExitCode.DONE
    assert "green tea" in reme("list").out
    assert reme("users", "--json").value == {"users": [{"user_id": "ana", "memories": 1, "messages": 0}]}
    assert "--space names another one" in reme("users", "--space", "nowhere").err
    assert "green tea" not in reme("list", "--user", "bob").out
    assert "memory.db" not in reme("stats").out
    assert "file" not in reme("stats", "--json").value
    assert list(tmp_path.iterdir()) == []
    for command in (("backup", "copy.db"), ("check",), ("spaces",), ("restore", "copy.db")):
        refused = reme(*command)
        assert refused.code == ExitCode.BAD_INPUT
        assert "REME_DATABASE_URL" in refused.err


def test_a_file_of_settings_names_the_database(reme: Reme, url: str, tmp_path: Path) -> None:
    (tmp_path / "reme.toml").write_text(f'[database]\nurl = "{url}"\n', encoding="utf-8")
    assert reme("add", "Ana likes green tea").code == ExitCode.DONE
    assert "green tea" in reme("list", "--database-url", url).out
