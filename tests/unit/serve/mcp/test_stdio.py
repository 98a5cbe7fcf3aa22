"""`reme mcp` as clients start it: a process with pipes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from reme_core import ReMe
from reme_core.cli.mcp import check_serving
from reme_core.errors import ReMeError
from tests.support.mcp_stdio import ROOT, StdioServer

WORDS = "Ana 住在成都 😀 ñandú \u2028 end"
NOISY = """
import os, sys
from reme_core import ReMe
from reme_core.cli import main

stats = ReMe.stats

async def noisy(self, **given):
    print("noise by print")
    os.write(1, b"noise by the descriptor\\n")
    return await stats(self, **given)

ReMe.stats = noisy
sys.exit(main(["mcp", *sys.argv[1:]]))
"""


async def test_chinese_and_emoji_are_whole_whatever_the_locale_says(tmp_path, era):
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "reme_core.cli", "mcp", "--dir", str(tmp_path)],
        env={
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "cp1252",
            "LC_ALL": "C",
            "REME_USER": "ana",
            "REME_SPACE": "s",
        },
    )
    async with Client(server, mode=era) as client:
        assert len((await client.list_tools()).tools) == 9
        kept = await client.call_tool(
            "record", {"session": "会话 😀", "messages": [{"role": "user", "content": WORDS}]}
        )
        assert kept.structured_content["session"] == "会话 😀"
        found = await client.call_tool("recall", {"query": "成都"})
        assert "Ana 住在成都 😀 ñandú" in found.structured_content["text"]


def test_nothing_but_the_protocol_goes_to_stdout(tmp_path):
    with StdioServer(tmp_path, program=("-c", NOISY)) as server:
        assert server.call("status")["memories"] == 0
        out, err = server.finish()
    assert out == b""
    assert err.count(b"noise") == 2
    assert server.process.returncode == 0


def test_it_ends_when_its_input_ends_and_answers_first(tmp_path):
    server = StdioServer(tmp_path)
    with server:
        server.ask("remember", content="Ana likes tea.")
        out, _ = server.finish()
    [answer] = map(json.loads, out.splitlines())
    assert answer["result"]["isError"] is False
    assert server.process.returncode == 0
    with ReMe.sync(working_dir=tmp_path, llm=None, embedding=None) as memory:
        assert memory.stats(user_id="ana").memories == 1


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no SIGINT for one process")
def test_ctrl_c_ends_it_while_it_waits(tmp_path):
    with StdioServer(tmp_path) as server:
        server.call("remember", content="Ana likes tea.")
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=20) == 130
        _, err = server.finish()
    assert err == b"reme: interrupted\n"


def test_a_line_of_100_mb_costs_that_line_only(tmp_path):
    with StdioServer(tmp_path, is_forked=True) as server:
        server.send_line(b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * 100_000_000)
        assert "more than" in server.receive()["error"]["message"]
        server.send_line(b"\xff no JSON\r")
        assert server.receive()["error"]["code"] == -32700
        assert server.call("status")["memories"] == 0


def test_it_only_reads_where_it_is_told_so_and_has_the_tools_of_its_profile(tmp_path):
    with StdioServer(tmp_path, options=["--read-only", "--profile", "chatgpt"], is_forked=True) as server:
        server.send({"jsonrpc": "2.0", "id": 5, "method": "tools/list"})
        assert [tool["name"] for tool in server.receive()["result"]["tools"]] == ["search", "fetch"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "whose memory?"),
        (["--user", "ana", "--profile", "files"], "works on the files of a folder"),
        (["--user", "ana", "--root", "notes"], "give both or neither"),
        (["--user", "ana", "--profile", "all"], "wanted one of default, chatgpt, files"),
    ],
)
def test_what_can_not_be_served_is_said_on_stderr(tmp_path, options, words):
    env = {name: value for name, value in os.environ.items() if not name.startswith("REME_")}
    done = subprocess.run(
        [sys.executable, "-m", "reme_core.cli", "mcp", "--dir", str(tmp_path), *options],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**env, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stdout == b""
    assert words in done.stderr.decode()


def test_wrong_options_are_refused_before_the_sdk_is_loaded(tmp_path):
    probe = (
        "import sys; from reme_core.cli import main; code = main(sys.argv[1:]); sys.exit(code if 'mcp' in sys.modules "
        "else 100 + code)"
    )
    wrong = ["mcp", "--dir", str(tmp_path), "--user", "ana", "--profile", "all"]
    done = subprocess.run([sys.executable, "-c", probe, *wrong], env={"PYTHONPATH": str(ROOT)}, capture_output=True)
    assert done.returncode == 102, done.stderr


@pytest.mark.parametrize(
    ("missing", "words"),
    [("mcp", "pip install 'reme-memory[serve]'"), ("mcp_types", "needs mcp 2.3 or newer")],
)
def test_without_the_sdk_or_with_an_older_one_the_command_says_what_to_install(missing, words, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ReMeError, match=re.escape(words)):
        check_serving("reme mcp")
