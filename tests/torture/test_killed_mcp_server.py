"""An MCP server is killed while it records: what it has acknowledged is there."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from tests.support.file_checks import problems_of_file
from tests.support.mcp_stdio import StdioServer


def record_until_killed(folder: Path, number: int, chance: random.Random) -> list[str]:
    """Send records as fast as they can be sent, kill the server among them, and return the ids it acknowledged."""
    server = StdioServer(folder, is_forked=True)
    with server:
        wanted, kept = chance.randint(1, 25), []

        def send() -> None:
            for step in range(60):
                said = [{"role": "user", "content": f"Run {number}, step {step}.", "id": f"k-{number}-{step}"}]
                try:
                    server.ask("record", session=f"s-{number}", messages=said)
                except OSError:
                    return

        sending = threading.Thread(target=send)
        sending.start()
        try:
            while True:
                answer = server.receive()
                kept += answer["result"]["structuredContent"]["message_ids"]
                if len(kept) == wanted:
                    server.process.kill()
        except (EOFError, ValueError):  # the end, or a line that was cut
            sending.join()
    return kept


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.torture)])
def test_a_server_that_is_killed_while_it_records_loses_nothing_acknowledged(tmp_path: Path, kills: int) -> None:
    chance, kept = random.Random(kills), []
    for number in range(kills):
        kept += record_until_killed(tmp_path, number, chance)
    assert len(kept) >= kills
    with StdioServer(tmp_path, is_forked=True) as server:
        for own_id in kept:
            assert server.call("get_memory", id=own_id)["kind"] == "message"
    assert problems_of_file(tmp_path / "memory.db") == []
