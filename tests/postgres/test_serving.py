"""What serves a memory does so of a database without other change than its URL: commands, doors, hooks and folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.cli import ExitCode
from reme_core.files import FileMemory
from tests.support import transcripts
from tests.support.mcp_stdio import StdioServer
from tests.support.served_process import ServedProcess
from tests.support.transcripts import SAID, SESSION, write
from tests.unit.cli.conftest import Reme
from tests.unit.cli.conftest import reme as reme  # the fixture


def test_a_service_and_an_mcp_server_share_the_memory_of_a_database(tmp_path: Path, shared_url: str) -> None:
    database = {"REME_DATABASE_URL": shared_url}
    with ServedProcess(tmp_path, environment=database) as served:
        assert served.client.post("/v1/memories", json={"content": "Ana plays the violin."}).status_code == 200
        with StdioServer(tmp_path, is_forked=True, **database) as mcp:
            assert mcp.call("status")["memories"] == 1
            mcp.call("remember", content="Ana likes green tea.")
        assert served.client.get("/v1/stats").json()["memories"] == 2
        found = served.client.post("/v1/retrieve", json={"query": "violin"}).json()
        assert found["results"][0]["memory"] == "Ana plays the violin."
        assert served.stop() == 0
    assert not list(tmp_path.glob("**/*.db"))


def test_a_hook_keeps_and_tells_from_a_database(
    reme: Reme, tmp_path: Path, shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REME_DATABASE_URL", shared_url)
    path = write(tmp_path / f"{SESSION}.jsonl", transcripts.claude_code())
    kept = reme(
        "hook", typed=json.dumps({"hook_event_name": "Stop", "session_id": SESSION, "transcript_path": str(path)})
    )
    assert (kept.code, kept.err) == (0, "")
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "another", "prompt": "How do we deploy?"}
    assert (
        SAID[0][1] in json.loads(reme("hook", typed=json.dumps(event)).out)["hookSpecificOutput"]["additionalContext"]
    )
    again = reme("capture", "--transcript", str(path), "--json", "--database-url", shared_url)
    assert (again.code, again.value["messages"]) == (ExitCode.DONE, 0)
    assert not (tmp_path / ".reme").exists()


def test_a_hook_goes_on_where_the_database_is_gone(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REME_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    done = reme("hook", "--wait", "0.1", typed=json.dumps({"hook_event_name": "SessionStart"}))
    assert (done.code, done.out) == (0, "")
    assert "reached" in done.err


async def test_a_folder_of_files_is_indexed_in_a_database(tmp_path: Path, shared_url: str) -> None:
    page = tmp_path / "notes" / "MEMORY.md"
    page.parent.mkdir()
    page.write_text("- Ana has a puppy\n")
    store = {"backend": "postgres", "url": shared_url}
    async with ReMe("space", llm=None, embedding=None, vector_store=store) as memory:
        async with FileMemory(page.parent, memory=memory, user_id="ana") as files:
            await memory.add_memory("Ana likes green tea.", user_id="ana")
            await files.sync()
        assert {item.content for item in (await memory.list_memories(user_id="ana")).memories} >= {"Ana has a puppy"}
    assert "green tea" in page.read_text()


@pytest.mark.parametrize("command", [("backup", "copy.db"), ("restore", "copy.db"), ("check",)])
def test_what_is_about_the_file_says_so(reme: Reme, shared_url: str, command: tuple[str, ...]) -> None:
    done = reme(*command, "--database-url", shared_url)
    assert done.code != ExitCode.DONE
    assert "database" in done.err
