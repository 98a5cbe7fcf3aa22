"""MCP servers of several windows on one file at once: nothing is lost, and each sees what the others wrote."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.file_checks import problems_of_file
from tests.support.mcp_stdio import StdioServer

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


@pytest.mark.timeout(600)  # each interpreter loads the SDK, on machines that may have other things to do
@pytest.mark.parametrize("windows", [3, pytest.param(8, marks=pytest.mark.torture)])
def test_windows_on_one_file_lose_nothing_and_see_each_other(tmp_path, windows):
    servers = [StdioServer(tmp_path, is_forked=True) for _ in range(windows)]
    with ThreadPoolExecutor(windows) as pool:
        for _ in pool.map(StdioServer.__enter__, servers):
            pass
        kept = list(pool.map(work, servers, range(windows)))
        state = servers[0].call("status")
        assert (state["memories"], state["messages"]) == (windows * CALLS, windows * CALLS)
        for own_id in (ids[-1] for ids in kept):
            assert servers[0].call("get_memory", id=own_id)["current"]
        for _, err in pool.map(StdioServer.finish, servers):
            assert err == b""
    assert all(server.process.returncode == 0 for server in servers)
    assert problems_of_file(tmp_path / "memory.db") == []
