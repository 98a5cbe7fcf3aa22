"""The profile `files` offers the files of one folder to its one user, and nothing outside of it."""

from __future__ import annotations

import pytest

from reme_core.serve.access import Right
from reme_core.serve.mcp.options import FileFolder
from tests.unit.serve.mcp.conftest import client_of, principal

SIX = ["grep", "glob", "ls", "read_file", "write_file", "edit_file"]


@pytest.fixture
def offered(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "MEMORY.md").write_text("- Ana likes tea\n")
    (tmp_path / "secret.md").write_text("secret\n")
    return {"profile": "files", "folder": FileFolder(tmp_path / "notes", principal().scope)}


async def told(client, name, **given):
    result = await client.call_tool(name, given)
    return result.is_error, result.content[0].text


async def test_an_mcp_client_reads_and_writes_the_files_of_the_folder(connect, offered, tmp_path):
    async with connect(**offered) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*SIX, "memory"]
        assert (await client.list_prompts()).prompts == []
        assert await told(client, "grep", pattern="likes (tea|coffee)") == (
            False,
            "<lines>\nMEMORY.md:1:- Ana likes tea\n</lines>",
        )
        assert not (await told(client, "edit_file", path="MEMORY.md", old_text="tea", new_text="coffee"))[0]
        assert (tmp_path / "notes" / "MEMORY.md").read_text() == "- Ana likes coffee\n"
        assert await told(client, "memory", command="delete", path="/memories/MEMORY.md") == (
            False,
            "Successfully deleted /memories/MEMORY.md",
        )


async def test_what_can_not_be_done_is_an_answer_that_says_what_to_do(connect, offered):
    async with connect(**offered) as client:
        is_error, words = await told(client, "read_file", path="../secret.md")
        assert is_error
        assert "has '..' in it, which could lead out of the folder" in words
        assert (await told(client, "read_file", file="x"))[0]
        assert (await told(client, "recall", query="x"))[0]


async def test_who_may_only_read_is_offered_only_reading(service, era, offered):
    async with client_of(service, principal(rights=frozenset({Right.READ})), era, **offered) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == SIX[:4]
        assert all(tool.annotations.read_only_hint for tool in tools)
        assert (await told(client, "write_file", path="x.md", content="x"))[0]


async def test_the_folder_of_one_user_is_closed_to_others(service, era, offered):
    for other in [principal("bob"), principal("ana", space="other")]:
        async with client_of(service, other, era, **offered) as client:
            assert await told(client, "read_file", path="MEMORY.md") == (True, "these files are somebody else's")
