"""Servers of several windows on one file at once, and servers that are killed: nothing acknowledged is lost."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.file_checks import problems_of_file
from tests.support.mcp_stdio import StdioServer

WINDOWS = 8
CALLS = 6


def work(server: StdioServer, window: int) -> list[str]:
    """Do what an agent does, and return the ids of all that was acknowledged."""
    kept = []
    for step in range(CALLS):
        flower = f"tulip{window}x{step}"
        said = {"role": "user", "content": f"I planted {flower} today.", "id": f"m-{window}-{step}"}
        kept += server.call("record", session=f"s-{window}", messages=[said])["message_ids"]
        kept.append(server.call("remember", content=f"Ana owns {flower}.")["id"])
        found = server.call("recall", query=f"Who planted {flower}?")
        assert found["text"].count(flower) >= 2
        server.call("recent", limit=3)
    return kept


@pytest.mark.timeout(600)  # eight interpreters load the SDK, on machines that may have other things to do
def test_eight_windows_on_one_file_lose_nothing_and_see_each_other(tmp_path):
    servers = [StdioServer(tmp_path) for _ in range(WINDOWS)]
    with ThreadPoolExecutor(WINDOWS) as pool:
        for _ in pool.map(StdioServer.__enter__, servers):
            pass
        kept = list(pool.map(work, servers, range(WINDOWS)))
        state = servers[0].call("status")
        assert (state["memories"], state["messages"]) == (WINDOWS * CALLS, WINDOWS * CALLS)
        for own_id in (ids[-1] for ids in kept):
            assert servers[0].call("get_memory", id=own_id)["current"]
        for _, err in pool.map(StdioServer.finish, servers):
            assert err == b""
    assert all(server.process.returncode == 0 for server in servers)
    assert problems_of_file(tmp_path / "memory.db") == []


def record_until_killed(folder, number: int, chance: random.Random) -> list[str]:
    """Send records as fast as they can be sent, kill the server among them, and return the ids it acknowledged."""
    server = StdioServer(folder)
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
@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.torture)])
def test_a_server_that_is_killed_while_it_records_loses_nothing_acknowledged(tmp_path, kills):
    chance, kept = random.Random(kills), []
    for number in range(kills):
        kept += record_until_killed(tmp_path, number, chance)
    assert len(kept) >= kills
    with StdioServer(tmp_path) as server:
        for own_id in kept:
            assert server.call("get_memory", id=own_id)["kind"] == "message"
    assert problems_of_file(tmp_path / "memory.db") == []
