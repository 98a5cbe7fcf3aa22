"""`reme inspect` as a process: one address that is good once, no other door, and what others write meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reme_core import ReMe
from tests.support.served_process import ROOT, ServedProcess


def test_the_inspector_opens_once_serves_nothing_else_and_follows_the_file(tmp_path: Path) -> None:
    with ReMe.sync("default", tmp_path / ".reme", llm=None, embedding=None) as memory:
        memory.add_memory("Ana plays the violin.", user_id="ana")
        with ServedProcess(tmp_path, "--no-browser", command="inspect") as served:
            assert served.client is not None
            assert served.client.get("/v1/memories").status_code == 401
            assert served.client.get("/inspect").status_code == 401
            address = served.line.split()[-1]
            opened = served.client.get(address, follow_redirects=True)
            assert "Ana plays the violin." in opened.text
            assert "read-only" in opened.text
            memory.add_memory("Ana likes green tea.", user_id="ana")
            assert "Ana likes green tea." in served.client.get("/inspect/memories").text
            served.client.cookies.clear()
            assert served.client.get(address).status_code == 401
            assert "token" not in served.errors
            assert served.stop() == 0


def test_a_service_signs_a_browser_of_its_machine_in(tmp_path: Path) -> None:
    with ServedProcess(tmp_path) as served:
        assert served.client is not None
        assert served.process.stdout is not None
        served.client.post("/v1/memories", json={"content": "Ana plays the violin."})
        address = served.process.stdout.readline().decode().split()[-1]
        assert "Ana plays the violin." in served.client.get(address, follow_redirects=True).text
        assert served.stop() == 0


def test_there_has_to_be_something_to_look_at(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reme_core.cli", "inspect", "--dir", "none", "--user", "ana", "--no-browser"]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=False)
    assert done.returncode == 3
    assert not (tmp_path / "none").exists()
