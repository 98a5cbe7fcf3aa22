"""What leaves a context is on disk first, and can be read again."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import pytest
from agentscope.agent import ContextConfig
from agentscope.message import AssistantMsg, Base64Source, DataBlock, HintBlock, Msg, TextBlock, URLSource
from agentscope.message import ToolResultBlock as ResultBlock
from agentscope.state import AgentState
from agentscope.tool import ToolChunk

from reme_agentscope import ReMeMiddleware, ReMeOffloader
from reme_core.errors import StoreError
from tests.adapters.agentscope2.memories import WatchedMemory
from tests.adapters.agentscope2.scripted import EchoTool, ScriptedModel, call, make_agent, user

PIXEL = b"\x89PNG not really \x00\xff"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[WatchedMemory]:
    async with WatchedMemory(tmp_path / "memory") as opened:
        yield opened


@pytest.fixture
def offloader(tmp_path: Path, memory: WatchedMemory) -> ReMeOffloader:
    return ReMeOffloader(workspace_dir=str(tmp_path / "work"), reme=memory)


async def reload(offloader: ReMeOffloader, session_id: str, reference: str, **arguments: Any) -> str:
    [tool] = await offloader.list_tools()
    chunk = await tool(handle=reference, limit=20_000, **arguments, _agent_state=AgentState(session_id=session_id))
    assert isinstance(chunk, ToolChunk)
    return chunk.content[0].text


def talk() -> list[Msg]:
    result = ResultBlock(id="c-1", name="echo", output=[TextBlock(text="out \u2028 \0")], state="success")
    return [
        user("hello 兔子\nsecond line"),
        AssistantMsg("Friday", [HintBlock(hint="now"), call("echo", "c-1", text="x"), result, TextBlock(text="done")]),
    ]


@pytest.mark.requirement("AS2-OFF-01")
async def test_a_path_alone_makes_an_offloader(tmp_path: Path) -> None:
    async with ReMeOffloader(tmp_path / "work") as offloader:
        assert "second line" in await reload(offloader, "s1", await offloader.offload_context("s1", talk()))


@pytest.mark.requirement("AS2-OFF-02")
async def test_a_context_is_kept_as_whole_messages_in_lines_of_json(offloader: ReMeOffloader) -> None:
    messages = talk()
    text = await reload(offloader, "s1", await offloader.offload_context("s1", messages))

    assert [json.loads(line) for line in text.splitlines()] == [one.model_dump(mode="json") for one in messages]


@pytest.mark.requirement("AS2-OFF-02")
async def test_the_same_twice_has_one_reference_and_two_sessions_share_none(offloader: ReMeOffloader) -> None:
    messages = talk()
    references = [await offloader.offload_context(session, messages) for session in ("s1", "s1", "s2", "s2")]

    assert references[0] == references[1]
    assert references[2] == references[3]
    assert references[0] != references[2]
    assert "There is no handle" in await reload(offloader, "s2", references[0])


@pytest.mark.requirement("AS2-OFF-01")
async def test_a_reference_names_the_tool_and_holds_in_a_new_process(tmp_path: Path) -> None:
    async with ReMeOffloader(workspace_dir=str(tmp_path)) as first:
        reference = await first.offload_context("s1", [user("hello")])
    assert reference.startswith("reload_context(handle=")

    async with ReMeOffloader(workspace_dir=str(tmp_path)) as second:
        assert "hello" in await reload(second, "s1", reference)
    async with ReMeOffloader(workspace_dir=str(tmp_path), user_name="bob") as foreign:
        assert "hello" not in await reload(foreign, "s1", reference)


@pytest.mark.requirement("AS2-OFF-01")
async def test_a_failing_memory_has_a_file_in_its_place(offloader: ReMeOffloader, memory: WatchedMemory) -> None:
    memory.broken = True
    messages = talk()
    reference = await offloader.offload_context("s1", messages)
    result = await offloader.offload_tool_result("s1", ResultBlock(id="c", name="echo", output="long 兔子 output"))

    assert await offloader.offload_context("s1", messages) == reference
    assert await offloader.offload_context("s2", messages) != reference
    lines = (await reload(offloader, "s1", reference)).splitlines()
    assert [json.loads(line) for line in lines] == [one.model_dump(mode="json") for one in messages]
    assert await reload(offloader, "s1", result) == "long 兔子 output"
    assert await reload(offloader, "s1", result, pattern="兔子") == "1: long 兔子 output"
    assert await reload(offloader, "s1", result, offset=12) == "ut"
    assert "There is no handle" in await reload(offloader, "s2", result)


@pytest.mark.requirement("AS2-OFF-01")
async def test_it_raises_only_where_nothing_takes_the_text(tmp_path: Path, memory: WatchedMemory) -> None:
    (tmp_path / "work").write_text("not a folder")
    offloader = ReMeOffloader(workspace_dir=str(tmp_path / "work"), reme=memory)
    memory.broken = True

    with pytest.raises(StoreError, match="nothing was offloaded"):
        await offloader.offload_context("s1", talk())
    with pytest.raises(StoreError, match="nothing was offloaded"):
        await offloader.offload_tool_result("s1", ResultBlock(id="c", name="echo", output="x"))
    with pytest.raises(StoreError, match="no data were offloaded"):
        await offloader.offload_data_block(pixel())


@pytest.mark.requirement("AS2-OFF-01")
async def test_no_messages_have_no_reference(offloader: ReMeOffloader) -> None:
    assert "handle" not in await offloader.offload_context("s1", [])


@pytest.mark.requirement("AS2-OFF-02")
async def test_data_go_into_a_file_named_by_content_and_urls_stay(offloader: ReMeOffloader) -> None:
    saved, again = await offloader.offload_data_block(pixel()), await offloader.offload_data_block(pixel())
    assert isinstance(saved.source, URLSource)
    assert saved.source.media_type == "image/png"
    path = path_of(saved)
    assert path.read_bytes() == PIXEL
    assert path.suffix == ".png"
    assert path_of(again) == path

    given = DataBlock(source=URLSource(url="https://example.org/a.png", media_type="image/png"))
    assert await offloader.offload_data_block(given) is given


@pytest.mark.requirement("AS2-OFF-01")
async def test_files_go_with_the_user(tmp_path: Path, memory: WatchedMemory) -> None:
    folder = tmp_path / "work"
    for name in ("ann", "bob"):
        offloader = ReMeOffloader(folder, user_name=name, reme=memory)
        source = Base64Source(data=base64.b64encode(name.encode()).decode(), media_type="image/png")
        await offloader.offload_data_block(DataBlock(source=source))
    assert (await memory.delete_all_memories(user_id="ann")).files == 1
    assert [path.read_bytes() for path in folder.rglob("*") if path.is_file()] == [b"bob"]


async def test_data_go_into_the_memory_where_the_folder_fails(tmp_path: Path, memory: WatchedMemory) -> None:
    (tmp_path / "work").write_text("not a folder")
    offloader = ReMeOffloader(workspace_dir=str(tmp_path / "work"), reme=memory)
    saved = await offloader.offload_data_block(pixel())

    assert isinstance(saved.source, URLSource)
    assert await reload(offloader, "any", str(saved.source.url)) == base64.b64encode(PIXEL).decode()


@pytest.mark.requirement("AS2-OFF-01")
async def test_what_is_no_base64_has_no_reference(offloader: ReMeOffloader) -> None:
    broken = DataBlock(source=Base64Source(data="!!!", media_type="../../x"))

    assert await offloader.offload_data_block(broken) is broken


async def test_data_in_a_result_are_named_in_its_text(offloader: ReMeOffloader) -> None:
    block = ResultBlock(id="c", name="shoot", output=[TextBlock(text="a picture"), pixel()])
    text = await reload(offloader, "s1", await offloader.offload_tool_result("s1", block))

    assert text.startswith("a picture\n[image/png: file://")


@pytest.mark.parametrize("output", ["", " \n", []])
async def test_an_empty_result_is_kept_too(offloader: ReMeOffloader, output: Any) -> None:
    reference = await offloader.offload_tool_result("s1", ResultBlock(id="c", name="", output=output))

    assert '"tool_result"' in await reload(offloader, "s1", reference)


@pytest.mark.parametrize("session", ["../../etc/x", "", " a ", "\ud83d\0", "x" * 3_000])
@pytest.mark.parametrize("broken", [False, True])
async def test_hostile_sessions_and_texts_stay_in_their_place(
    tmp_path: Path, offloader: ReMeOffloader, memory: WatchedMemory, session: str, *, broken: bool
) -> None:
    memory.broken = broken
    message = user("lone \ud83d NUL \0 next \x85 line")
    message.metadata = {"odd": float("nan"), "set": {1}}
    reference = await offloader.offload_context(session, [message])

    [line] = (await reload(offloader, session, reference)).splitlines()
    assert json.loads(line)["content"][0]["text"] == "lone \ud83d NUL \0 next \x85 line"
    files = list(tmp_path.rglob("*.txt"))  # noqa: ASYNC240
    assert len(files) == (1 if broken else 0)
    assert all(path.is_relative_to(tmp_path / "work" / "agentscope") for path in files)


@pytest.mark.requirement("AS2-OFF-01")
@pytest.mark.parametrize("broken", [False, True])
async def test_an_agent_compresses_and_reads_again_what_left(
    tmp_path: Path, memory: WatchedMemory, *, broken: bool
) -> None:
    offloader = ReMeOffloader(workspace_dir=str(tmp_path / "work"), reme=memory)
    memory.broken = broken
    summary = dict.fromkeys(ContextConfig().summary_schema["properties"], "a talk")
    model = ScriptedModel(context_size=4_000)
    agent = make_agent(
        model, tools=await offloader.list_tools(), offloader=offloader, context_config=ContextConfig(reserve_ratio=0.05)
    )
    await agent.reply(user("the secret word is Flopsy " + "x " * 6_000))
    model.steps = [[call("generate_structured_output", **summary)], "ok"]
    await agent.reply(user("And now?"))
    assert "reload_context(handle=" in str(agent.state.summary)

    handle = str(agent.state.summary).split('handle="')[1].split('"')[0]
    model.steps = [[call("reload_context", handle=handle, limit=400)], "Flopsy"]
    await agent.reply(user("What was the word?"))
    assert "the secret word is Flopsy" in model.asked[-1].text


@pytest.mark.requirement("AS2-OFF-01")
async def test_a_context_that_can_not_be_offloaded_is_left_as_it_was(tmp_path: Path, memory: WatchedMemory) -> None:
    (tmp_path / "work").write_text("not a folder")
    memory.broken = True
    summary = dict.fromkeys(ContextConfig().summary_schema["properties"], "a talk")
    model = ScriptedModel([[call("generate_structured_output", **summary)]], context_size=4_000)
    agent = make_agent(
        model,
        offloader=ReMeOffloader(workspace_dir=str(tmp_path / "work"), reme=memory),
        state=AgentState(context=[user("the secret word is Flopsy " + "x " * 7_000), user("And now?")]),
    )
    before = agent.state.model_dump_json()

    with pytest.raises(StoreError):
        await agent.compress_context()
    assert agent.state.model_dump_json() == before


@pytest.mark.requirement("AS2-OFF-01")
async def test_a_long_result_is_truncated_with_a_reference_to_the_rest(offloader: ReMeOffloader) -> None:
    class LongEcho(EchoTool):
        async def call(self, text: str) -> ToolChunk:
            return await super().call(text + "x " * 8_000 + "the end")

    model = ScriptedModel([[call("echo", text="begin")], "ok"])
    tools = [LongEcho(), *await offloader.list_tools()]
    agent = make_agent(model, tools=tools, offloader=offloader, context_config=ContextConfig(tool_result_limit=500))
    await agent.reply(user("go"))

    shown = model.asked[-1].text
    assert "begin" in shown
    assert "the end" not in shown
    handle = shown.split("reload_context(handle=")[1][2:18]
    assert "the end" in await reload(offloader, agent.state.session_id, handle)


async def test_middleware_and_offloader_share_a_folder(tmp_path: Path) -> None:
    async with ReMeMiddleware(workspace_dir=str(tmp_path)) as mw, ReMeOffloader(workspace_dir=str(tmp_path)) as kept:
        tools = [*await mw.list_tools(), *await kept.list_tools()]
        agent = make_agent(ScriptedModel(), tools=tools, middlewares=[mw], offloader=kept)
        await agent.reply(user("hello"))
        assert "hello" in await reload(kept, "s", await kept.offload_context("s", [user("hello")]))


def pixel() -> DataBlock:
    return DataBlock(source=Base64Source(data=base64.b64encode(PIXEL).decode(), media_type="image/png"))


def path_of(block: DataBlock) -> Path:
    assert isinstance(block.source, URLSource)
    return Path(url2pathname(urlparse(str(block.source.url)).path))
