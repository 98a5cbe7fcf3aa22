"""Long tool results are on disk, every byte of them, and the thread has what loads them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.tools import InjectedToolCallId, tool
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from reme_core import ReMe
from reme_core.errors import ConfigurationError, StoreClosedError
from reme_langchain import Capture, Compact, Offload, Recall, ReMeMiddleware
from tests.adapters.langchain.agents import THREAD, both_ways, invoke
from tests.adapters.langchain.scripted import ScriptedChat, calling

LONG = "".join(f"line {number} of the log is here\n" for number in range(1_500))
HANDLE = re.compile(r'handle="([0-9a-f]+)"')


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as opened:
        yield opened


@tool
def read_log() -> str:
    """Read the log."""
    return LONG


@tool
def read_blocks() -> list[dict[str, Any]]:
    """Read the log in blocks."""
    picture = {"type": "image", "url": "https://example.com/a.png"}
    return [{"type": "text", "text": LONG[:20_000]}, picture, {"type": "text", "text": LONG[20_000:]}]


@tool
def read_by_command(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Read the log and tell the thread."""
    return Command(update={"messages": [ToolMessage(LONG, tool_call_id=tool_call_id, artifact={"n": 1})]})


@tool
def read_by_dictionary(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Read the log and tell the thread in a dictionary."""
    return Command(update={"messages": [{"role": "tool", "content": LONG, "tool_call_id": tool_call_id}]})


@tool
def read_in_list(tool_call_id: Annotated[str, InjectedToolCallId]) -> list[Any]:
    """Read the log and answer with several."""
    return [ToolMessage(LONG, tool_call_id=tool_call_id), Command(update={"messages": []})]


@tool
def fail() -> str:
    """Fail at length."""
    raise ValueError(LONG)


@tool
def read_binary() -> str:
    """Read what is no text."""
    return "a\0b" + LONG + "\ud83d end"


def results(state: dict[str, Any]) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


async def load_all(memory: ReMe, handle: str, *, user_id: str = "ann", session_id: str = "t1") -> str:
    text, offset = "", 0
    while offset is not None:
        loaded = await memory.reload_context(
            user_id=user_id, session_id=session_id, reference=handle, offset=offset, limit_chars=20_000
        )
        text, offset = text + loaded.results[0].memory, loaded.results[0].next_offset
    return text


@both_ways
@pytest.mark.requirement("LC-MW-13")
async def test_a_long_result_becomes_a_preview_and_every_byte_is_kept(memory: ReMe, way: str) -> None:
    tools = [read_log, read_blocks, read_by_command, read_binary, read_by_dictionary, read_in_list]
    model = ScriptedChat([calling(item.name, call_id=item.name) for item in tools])
    with ReMeMiddleware(memory, owner="ann") as middleware:
        agent = create_agent(model, tools, middleware=[middleware], checkpointer=InMemorySaver())
        state = await invoke(agent, way, "read all", config=THREAD)
    plain, blocks, commanded, binary, told, listed = results(state)
    for message in (plain, commanded, binary, told, listed):
        assert len(message.text) < 1_000
    assert plain.text.startswith(LONG[:400])
    assert plain.text.endswith(LONG[-200:])
    assert commanded.artifact == {"n": 1}
    assert [block["type"] for block in blocks.content] == ["text", "image"]
    wholes = [await load_all(memory, HANDLE.findall(str(item.content))[0]) for item in results(state)]
    assert wholes[0] == wholes[2] == wholes[4] == wholes[5] == LONG
    assert wholes[1] == LONG[:20_000] + "\n" + LONG[20_000:]
    assert wholes[3] == "a\\u0000b" + LONG + "\\ud83d end"
    assert [asked.text.count("of the log is here") < 200 for asked in model.asked] == [True] * 7


@both_ways
@pytest.mark.requirement("LC-MW-13")
async def test_short_results_errors_and_what_is_reloaded_stay_as_they_are(memory: ReMe, way: str) -> None:
    @tool
    def read_little() -> str:
        """Read little."""
        return "short"

    @tool
    def fail_softly(tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Fail at length."""
        return ToolMessage(LONG, tool_call_id=tool_call_id, status="error")

    steps: list[Any] = [calling("read_little"), calling("fail_softly"), calling("read_log")]
    steps.append(
        lambda messages: calling("reload_context", {"handle": HANDLE.findall(messages[-1].text)[0], "limit": 20_000})
    )
    with ReMeMiddleware(memory, owner="ann") as middleware:
        tools = [read_little, fail_softly, read_log]
        agent = create_agent(ScriptedChat(steps), tools, middleware=[middleware], checkpointer=InMemorySaver())
        state = await invoke(agent, way, "read", config=THREAD)
    little, failed, _, reloaded = results(state)
    assert little.content == "short"
    assert failed.content == LONG
    assert reloaded.text.startswith(LONG[:20_000])
    assert f"offset=20000 of {len(LONG)}" in reloaded.text


@both_ways
@pytest.mark.requirement("LC-MW-13")
async def test_what_is_loaded_again_fits_the_context_it_is_loaded_into(memory: ReMe, way: str) -> None:
    settings = Compact(max_tokens=2_000)
    with ReMeMiddleware(memory, owner="ann", recall=None, compact=settings) as middleware:
        agent = create_agent(
            ScriptedChat([calling("read_log"), asking(limit=20_000), "read"]), [read_log], middleware=[middleware]
        )
        state = await invoke(agent, way, "go", config=THREAD)
    _, piece = results(state)
    assert 1_000 < len(piece.text.encode()) <= settings.limits.recent_bytes
    assert "goes on at offset=" in piece.text


def asking(**args: Any) -> Any:
    def step(messages: list[Any]) -> Any:
        handle = next(found for item in messages for found in HANDLE.findall(item.text))
        return calling("reload_context", {"handle": handle, **args})

    return step


@both_ways
@pytest.mark.requirement("LC-MW-14")
async def test_pieces_and_places_are_loaded_also_after_a_restart(tmp_path: Path, way: str) -> None:
    saver = InMemorySaver()
    wanted = [{"offset": 400, "limit": 50}, {"pattern": "line 777"}, {"offset": 10**9}, {"offset": -5, "limit": -1}]
    scripts = [[calling("read_log"), "read"], [*[asking(**args) for args in wanted], "loaded"]]
    for script in scripts:
        memory = ReMe("space", tmp_path, llm=None, embedding=None)
        with ReMeMiddleware(memory, owner="ann") as middleware:
            agent = create_agent(ScriptedChat(script), [read_log], middleware=[middleware], checkpointer=saver)
            state = await invoke(agent, way, "go", config=THREAD)
        await memory.close()
    _, piece, found, beyond, odd = results(state)
    assert piece.text.startswith(LONG[400:449])
    assert "line 777 of the log" in found.text
    assert "can't be loaded" in beyond.text
    assert odd.text.startswith(LONG[0])
    assert all(item.status == "success" for item in results(state))


@both_ways
@pytest.mark.requirement("LC-MW-13")
@pytest.mark.requirement("LC-MW-14")
async def test_a_piece_is_as_long_as_asked_for_also_outside_a_run(memory: ReMe, way: str) -> None:
    with ReMeMiddleware(memory, owner="ann", recall=None, capture=None, tools=("reload_context",)) as middleware:
        [reload_context] = middleware.tools
        info = await memory.offload_text(LONG, user_id="ann", session_id="t1")

        async def load(**args: Any) -> str:
            config: Any = THREAD
            if way == "async":
                return str(await reload_context.ainvoke(args, config))
            return str(await asyncio.to_thread(reload_context.invoke, args, config))

        assert await load(handle=info.reference, limit=len(LONG)) == LONG
        for offset in range(0, len(LONG), 9_973):
            wanted = LONG[offset : offset + 9_973]
            assert (await load(handle=info.reference, offset=offset, limit=9_973)).startswith(wanted)
        assert info.reference in await load(handle="nope")


@dataclass
class Login:
    """What a run is told."""

    user_id: str


@both_ways
@pytest.mark.requirement("LC-MW-14")
async def test_the_context_of_a_run_is_not_dumped_with_the_arguments_of_the_tool(memory: ReMe, way: str) -> None:
    # pydantic warns of a context whose type it does not know, and warnings are errors here.
    steps: list[Any] = [calling("read_log"), asking(limit=100)]
    with ReMeMiddleware(memory) as middleware:
        agent = create_agent(ScriptedChat(steps), [read_log], middleware=[middleware], context_schema=Login)
        state = await invoke(agent, way, "read", context=Login("ann"), config=THREAD)
    assert results(state)[-1].text.startswith(LONG[:100])


@both_ways
@pytest.mark.requirement("LC-MW-14")
async def test_a_handle_of_another_thread_or_owner_is_unknown(memory: ReMe, way: str) -> None:
    with ReMeMiddleware(memory) as middleware:

        def config(thread: str, user: str) -> dict[str, Any]:
            return {"configurable": {"thread_id": thread, "user_id": user}}

        def agent(*steps: Any) -> Any:
            return create_agent(ScriptedChat(steps), [read_log], middleware=[middleware])

        first = await invoke(agent(calling("read_log")), way, "read", config=config("t1", "ann"))
        [handle] = HANDLE.findall(results(first)[0].text)
        ask = calling("reload_context", {"handle": handle})
        for place in (("t2", "ann"), ("t1", "bob")):
            state = await invoke(agent(calling("read_log"), ask), way, "load", config=config(*place))
            mine, refused = results(state)
            assert "There is no handle" in refused.text
            assert HANDLE.findall(mine.text)[0] in refused.text
            assert "line 700" not in refused.text
        own = await invoke(agent(ask), way, "load", config=config("t1", "ann"))
        assert results(own)[0].text.startswith("line 0 of the log")
        nothing = await invoke(
            agent(calling("reload_context", {"handle": "\ud83d\0"})), way, "?", config=config("x", "y")
        )
        assert "there are none" in results(nothing)[0].text


@pytest.mark.requirement("LC-MW-13")
async def test_a_result_that_can_not_be_stored_stays_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = ReMe("space", tmp_path, llm=None, embedding=None)
    with ReMeMiddleware(memory, owner="ann", capture=None, recall=None) as middleware:
        await memory.close()
        agent = create_agent(ScriptedChat([calling("read_log")]), [read_log], middleware=[middleware])
        state = await invoke(agent, "async", "read", config=THREAD)
    assert results(state)[0].content == LONG
    assert "was not offloaded" in caplog.text


@pytest.mark.requirement("LC-MW-14")
def test_the_tools_are_those_asked_for(tmp_path: Path) -> None:
    memory = ReMe("space", tmp_path, llm=None, embedding=None)

    def names(**options: Any) -> list[str]:
        with ReMeMiddleware(memory, owner="ann", **options) as middleware:
            return [tool.name for tool in middleware.tools]

    assert names() == ["search_memory", "reload_context"]
    assert names(offload=None) == ["search_memory"]
    assert names(offload=None, compact=Compact()) == ["search_memory", "reload_context"]
    assert names(tools=["save_memory"]) == ["save_memory"]
    assert names(tools=()) == []
    with ReMeMiddleware(memory, owner="ann") as middleware:
        shown = middleware.tools[-1].tool_call_schema.model_json_schema()["properties"]
    assert set(shown) == {"handle", "offset", "limit", "pattern"}
    for bad in ("recall", "capture", "compact", "offload", "name", "memory"):
        with pytest.raises(ConfigurationError, match=bad):
            ReMeMiddleware(**{"memory": memory, bad: 7})
    for tools in ("search_memory", ["drop_all"]):
        with pytest.raises(ConfigurationError, match="tools"):
            ReMeMiddleware(memory, tools=tools)
    with pytest.raises(ValueError, match="owner"):
        ReMeMiddleware(memory, owner=3.5)


@pytest.mark.parametrize(
    ("setting", "bad"),
    [
        (Recall, {"limit": 0}),
        (Recall, {"token_budget": -1}),
        (Recall, {"min_score": 1.5}),
        (Recall, {"min_score": True}),
        (Recall, {"timeout_s": "2"}),
        (Recall, {"timeout_s": float("nan")}),
        (Recall, {"where": "nowhere"}),
        (Recall, {"memory_type": "nope"}),
        (Recall, {"memory_type": ["personal", "nope"]}),
        (Recall, {"layers": ("nope",)}),
        (Capture, {"memory_type": "identity"}),
        (Capture, {"close_s": -1}),
        (Compact, {"max_tokens": 10}),
        (Offload, {"over_chars": 100}),
    ],
)
def test_a_setting_that_can_not_be_used_is_refused_at_once(setting: Any, bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        setting(**bad)


async def test_it_opens_a_memory_by_its_path_and_closes_it(tmp_path: Path) -> None:
    async with ReMeMiddleware(tmp_path / "folder", owner="ann") as middleware:
        agent = create_agent(ScriptedChat([calling("read_log")]), [read_log], middleware=[middleware])
        await invoke(agent, "async", "read the log", config=THREAD)
    for way in ("sync", "async"):
        with pytest.raises(StoreClosedError, match="make a new one"):
            await invoke(agent, way, "read again", config=THREAD)
    async with ReMe(working_dir=tmp_path / "folder", llm=None, embedding=None) as memory:
        assert len((await memory.find_messages(user_id="ann")).messages) == 4
