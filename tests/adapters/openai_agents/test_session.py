"""`ReMeSession` in the OpenAI Agents SDK itself, with its own scripted model."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

agents = pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, RunConfig, Runner, function_tool, handoff, set_tracing_disabled  # noqa: E402
from agents.memory import OpenAIResponsesCompactionSession, Session, SessionSettings  # noqa: E402
from agents.testing import ScriptedModel, assistant_message, function_call  # noqa: E402

from reme_core import ReMe  # noqa: E402
from reme_core.errors import ConfigurationError, CorruptDataError, InvalidInputError, StoreClosedError, StoreError  # noqa: E402
from reme_core.openai_agents import ReMeSession  # noqa: E402
from reme_core.schema.blobs import make_blob  # noqa: E402
from tests.support.images import IMAGE, base64_in, blobs_in  # noqa: E402
from tests.support.rule_model import RuleModel  # noqa: E402

set_tracing_disabled(disabled=True)

LONG = b64encode(bytes(range(256)) * 60).decode()

ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "こんにちは 😊"},
    {
        "role": "user",
        "content": [{"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": "data:x"}],
    },
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAA"},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "rain in Oslo"}]},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It rains", "annotations": []}],
    },
    {"type": "item_reference", "id": "x-1"},
    {"role": "system", "content": "Robert'); DROP TABLE students;--"},
]


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe(working_dir=tmp_path, llm=None, embedding=None) as opened:
        yield opened


@pytest.fixture
def session(memory: ReMe) -> ReMeSession:
    return ReMeSession("chat-1", memory, user_id="ana")


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


def says(*texts: str) -> ScriptedModel:
    return ScriptedModel([[assistant_message(text)] for text in texts])


def text_of(item: Any) -> str:
    content = item.get("content", item.get("output"))
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


async def said(memory: ReMe, user_id: str = "ana", session_id: str | None = "chat-1") -> list[str]:
    page = await memory.find_messages(user_id=user_id, session_id=session_id)
    return [item.message.full_text for item in page.messages]


def _in_thread(agent: Any, text: Any, **options: Any) -> Any:
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        return Runner.run_sync(agent, text, **options)


async def run(way: str, agent: Any, text: Any, **options: Any) -> Any:
    if way == "run":
        return await Runner.run(agent, text, **options)
    if way == "run_sync":
        return await asyncio.to_thread(_in_thread, agent, text, **options)
    result = Runner.run_streamed(agent, text, **options)
    async for _ in result.stream_events():
        pass
    return result


every_way = pytest.mark.parametrize("way", ["run", "run_sync", "run_streamed"])


def test_it_is_a_session_of_the_sdk(session: ReMeSession) -> None:
    assert isinstance(session, Session)


async def test_items_of_every_kind_come_back_equal_and_in_order(session: ReMeSession) -> None:
    await session.add_items(ITEMS[:3])
    await session.add_items(ITEMS[3:])
    assert await session.get_items() == ITEMS


async def test_a_limit_returns_the_newest_items_in_order(session: ReMeSession) -> None:
    assert await session.get_items() == []
    await session.add_items(ITEMS)
    assert await session.get_items(limit=2) == ITEMS[-2:]
    assert await session.get_items(limit=99) == ITEMS
    assert await session.get_items(limit=0) == []


async def test_the_settings_of_the_session_limit_what_is_shown(memory: ReMe) -> None:
    session = ReMeSession("chat-1", memory, user_id="ana", session_settings=SessionSettings(limit=3))
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS[-3:]
    assert await session.get_items(limit=5) == ITEMS[-5:]


async def test_popping_returns_and_removes_the_last_item(session: ReMeSession) -> None:
    assert await session.pop_item() is None
    await session.add_items(ITEMS)
    assert await session.pop_item() == ITEMS[-1]
    assert await session.get_items() == ITEMS[:-1]
    assert [await session.pop_item() for _ in ITEMS] == [*ITEMS[-2::-1], None]


async def test_clearing_leaves_no_item_of_this_session_alone(memory: ReMe, session: ReMeSession) -> None:
    other = ReMeSession("chat-2", memory, user_id="ana")
    await session.add_items(ITEMS)
    await other.add_items(ITEMS[:1])
    await session.clear_session()
    assert (await session.get_items(), await other.get_items()) == ([], ITEMS[:1])


async def test_items_added_from_many_threads_at_once_are_all_there(session: ReMeSession) -> None:
    items = [{"role": "user", "content": f"Message {number}"} for number in range(20)]
    with ThreadPoolExecutor(max_workers=5) as threads:
        list(threads.map(lambda item: asyncio.run(session.add_items([item])), items))
    assert sorted(map(text_of, await session.get_items())) == sorted(map(text_of, items))


@pytest.mark.parametrize("item", ["a text", {"role": "user", "content": object()}, None, {1, 2}])
async def test_an_item_that_is_no_json_is_refused_and_none_is_kept(
    memory: ReMe, session: ReMeSession, item: object
) -> None:
    with pytest.raises(InvalidInputError, match=r"items\[1\]: wanted a JSON object"):
        await session.add_items([ITEMS[0], item])
    assert (await session.get_items(), await said(memory)) == ([], [])


@given(
    item=st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=6,
        ),
    ),
    kind=st.sampled_from(["message", "function_call", "function_call_output", "reasoning", {}]),
    role=st.sampled_from(["user", "assistant", None, []]),
    content=st.text(st.characters(codec=None))
    | st.lists(st.dictionaries(st.sampled_from(["type", "text"]), st.text())),
)
def test_any_json_object_comes_back_equal(item: dict[str, Any], kind: Any, role: Any, content: Any) -> None:
    given_item = {**item, "type": kind, "role": role, "content": content, "output": content, "arguments": content}

    async def there_and_back() -> list[Any]:
        with TemporaryDirectory() as folder:
            async with ReMe(working_dir=folder, llm=None, embedding=None) as memory:
                session = ReMeSession("s", memory, user_id="u")
                await session.add_items([given_item])
                return await session.get_items()

    assert asyncio.run(there_and_back()) == [given_item]


async def test_a_call_whose_arguments_no_store_keeps_comes_back_and_is_kept_as_text(
    memory: ReMe, session: ReMeSession
) -> None:
    written = f'{{"n": {"9" * 3000}}}'
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": written}
    await session.add_items([call])
    assert await session.get_items() == [call]
    assert written in (await said(memory))[0]


def test_names_that_can_be_none_are_refused_at_once(memory: ReMe) -> None:
    for user_id in ("", " "):
        with pytest.raises(InvalidInputError, match="whose session"):
            ReMeSession("chat-1", memory, user_id=user_id)
    with pytest.raises(InvalidInputError, match="session_id"):
        ReMeSession("", memory, user_id="ana")
    with pytest.raises(ConfigurationError, match="wanted a ReMe"):
        ReMeSession("chat-1", "memory.db", user_id="ana")  # type: ignore[arg-type]


async def test_a_closed_memory_is_told(tmp_path: Path) -> None:
    async with ReMe(working_dir=tmp_path, llm=None, embedding=None) as memory:
        session = ReMeSession("chat-1", memory, user_id="ana")
    with pytest.raises(StoreClosedError):
        await session.add_items(ITEMS)


async def test_a_write_that_is_cancelled_is_whole(session: ReMeSession) -> None:
    adding = asyncio.ensure_future(session.add_items(ITEMS))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert await session.get_items() == ITEMS


@every_way
async def test_the_model_is_shown_the_turns_before(session: ReMeSession, way: str) -> None:
    model = says("San Francisco", "California")
    agent = Agent(name="test", model=model)
    await run(way, agent, "What city is the Golden Gate Bridge in?", session=session)
    result = await run(way, agent, "What state is it in?", session=session)
    assert result.final_output == "California"
    shown = [text_of(item) for item in model.last_call.input]
    assert shown == ["What city is the Golden Gate Bridge in?", "San Francisco", "What state is it in?"]


@every_way
async def test_lists_as_input_and_a_callback_work_as_with_the_sessions_of_the_sdk(
    session: ReMeSession, way: str
) -> None:
    await session.add_items([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}])
    model = says("Remy")
    config = RunConfig(session_input_callback=lambda old, new: [item for item in old if item["role"] == "user"] + new)
    asked = [{"role": "user", "content": "Your name?"}]
    await run(way, Agent(name="test", model=model), asked, session=session, run_config=config)
    assert model.last_call.input == [{"role": "user", "content": "Hello"}, *asked]


@every_way
async def test_tools_and_handoffs_are_kept_with_their_outputs(memory: ReMe, session: ReMeSession, way: str) -> None:
    expert = Agent(name="expert", model=says("Take an umbrella"))
    first = ScriptedModel(
        [
            [function_call("weather", {"city": "Oslo"}, call_id="c1")],
            [function_call("transfer_to_expert", {}, call_id="c2")],
        ]
    )
    agent = Agent(name="front", model=first, tools=[weather], handoffs=[handoff(expert)])
    result = await run(way, agent, "What do I take to Oslo?", session=session)
    assert result.final_output == "Take an umbrella"
    kinds = [item.get("type", "message") for item in await session.get_items()]
    assert kinds == ["message", *["function_call", "function_call_output"] * 2, "message"]
    assert (await said(memory))[:3] == ["What do I take to Oslo?", 'weather({"city": "Oslo"})', "rain in Oslo"]
    page = await memory.find_messages(user_id="ana", session_id="chat-1")
    assert page.messages[1].message.call_ids == page.messages[2].message.result_ids == ("c1",)


async def test_the_run_overrides_the_limit_of_the_session(session: ReMeSession) -> None:
    await session.add_items([{"role": "user", "content": f"Turn {number}"} for number in range(10)])
    model = says("Got it")
    config = RunConfig(session_settings=SessionSettings(limit=2))
    await Runner.run(Agent(name="test", model=model), "New", session=session, run_config=config)
    assert [text_of(item) for item in model.last_call.input] == ["Turn 8", "Turn 9", "New"]


async def test_compaction_by_the_sdk_stands_on_it(memory: ReMe, session: ReMeSession) -> None:
    class Compacting:
        async def compact(self, **_: Any) -> Any:
            compacted = [{"type": "compaction", "encrypted_content": "gAA"}]
            return type("Compacted", (), {"output": compacted, "usage": None, "id": "x"})()

    client: Any = type("Client", (), {"responses": Compacting()})()
    wrapped = OpenAIResponsesCompactionSession("chat-1", session, client=client, compaction_mode="input")
    await wrapped.add_items([{"role": "user", "content": "I live in Lisbon"}, ITEMS[5]])
    await wrapped.run_compaction({"force": True})
    assert [item["type"] for item in await session.get_items()] == ["compaction"]
    assert await said(memory) == ["I live in Lisbon", "It rains"]


async def test_what_the_sdk_encrypts_before_comes_back_and_is_not_read(memory: ReMe, session: ReMeSession) -> None:
    pytest.importorskip("cryptography", reason="the SDK encrypts with it")
    from agents.extensions.memory import EncryptedSession

    wrapped = EncryptedSession("chat-1", session, encryption_key="a secret", ttl=600)
    await wrapped.add_items(ITEMS[:1])
    assert (await wrapped.get_items(), await said(memory)) == (ITEMS[:1], [])


async def test_what_was_said_is_found_in_another_session(memory: ReMe, session: ReMeSession) -> None:
    agent = Agent(name="test", model=says("Noted, Friday."))
    await Runner.run(agent, "My flight to Oslo is on Friday", session=session)
    found = await memory.retrieve("When is the flight to Oslo?", user_id="ana")
    assert "user: My flight to Oslo is on Friday" in found.text
    assert await said(memory) == ["My flight to Oslo is on Friday", "Noted, Friday."]


async def test_instructions_and_reasoning_are_items_and_nothing_that_was_said(
    memory: ReMe, session: ReMeSession
) -> None:
    await session.add_items(ITEMS)
    assert await said(memory) == [
        "こんにちは 😊",
        "Look\n[embedded data]",
        'weather({"city": "Oslo"})',
        "rain in Oslo",
        "It rains",
    ]


async def test_what_is_removed_and_added_again_is_said_once(memory: ReMe, session: ReMeSession) -> None:
    talk = [{"role": "user", "content": text} for text in ("yes", "no", "yes")]
    await session.add_items(talk)
    await session.pop_item()
    await session.pop_item()
    await session.add_items(talk[1:])
    assert await said(memory) == ["yes", "no", "yes"]
    await session.clear_session()
    await session.add_items(talk)
    assert await said(memory) == ["yes", "no", "yes"]
    assert await session.get_items() == talk


async def test_what_is_said_again_later_is_said_twice(memory: ReMe, session: ReMeSession) -> None:
    flight = {"role": "user", "content": "My flight is on Friday"}
    await session.add_items([flight])
    await session.add_items([flight])
    assert await said(memory) == ["My flight is on Friday"] * 2
    await session.clear_session()
    await session.add_items([{"role": "user", "content": "Hello"}])
    await session.add_items([flight])
    again = ReMeSession("chat-1", memory, user_id="ana")
    await again.clear_session()
    await session.add_items([flight])
    assert (await said(memory)).count("My flight is on Friday") == 4


async def test_who_adds_items_again_after_a_failure_says_nothing_twice(tmp_path: Path) -> None:
    async with ReMe(working_dir=tmp_path, llm=None, embedding=None) as memory:
        session = ReMeSession("chat-1", memory, user_id="ana")
        await session.add_items(ITEMS[:1])
        holder = sqlite3.connect(tmp_path / "memory.db")
        holder.execute(
            "CREATE TRIGGER full BEFORE INSERT ON openai_agents_items BEGIN SELECT raise(ABORT, 'full'); END"
        )
        holder.commit()
        with pytest.raises(StoreError):
            await session.add_items([{"role": "user", "content": "said once"}])
        holder.execute("DROP TRIGGER full")
        holder.commit()
        holder.close()
        await session.add_items([{"role": "user", "content": "said once"}])
        assert (await said(memory)).count("said once") == 1
        assert [text_of(item) for item in await session.get_items()][1:] == ["said once"]


async def test_what_was_said_stays_when_items_go_and_goes_with_its_user(memory: ReMe, session: ReMeSession) -> None:
    await session.add_items(ITEMS)
    await session.clear_session()
    assert "rain in Oslo" in await said(memory)
    await session.add_items(ITEMS)
    erased = await memory.delete_all_memories(user_id="ana")
    assert erased.adapter_rows == {"openai_agents_items": len(ITEMS)}
    assert (await session.get_items(), await said(memory)) == ([], [])
    await session.add_items(ITEMS[:1])
    assert (await session.get_items(), await said(memory)) == (ITEMS[:1], ["こんにちは 😊"])


async def test_nothing_of_deleted_items_stays_in_the_file(memory: ReMe, session: ReMeSession, tmp_path: Path) -> None:
    await session.add_items([{"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "Zanzibar"}])
    await session.clear_session()
    await session.add_items([{"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "Timbuktu"}])
    await memory.delete_all_memories(user_id="ana")
    content = await asyncio.to_thread(lambda: b"".join(path.read_bytes() for path in tmp_path.glob("memory.db*")))
    assert b"Zanzibar" not in content
    assert b"Timbuktu" not in content


async def test_two_users_with_the_same_session_share_nothing(memory: ReMe, session: ReMeSession) -> None:
    bob = ReMeSession("chat-1", memory, user_id="bob")
    await session.add_items([{"role": "user", "content": "Ana's secret"}])
    await bob.add_items([{"role": "user", "content": "Bob's secret"}])
    assert [text_of(item) for item in await bob.get_items()] == ["Bob's secret"]
    assert await said(memory, "bob") == ["Bob's secret"]
    await bob.clear_session()
    await memory.delete_all_memories(user_id="bob")
    assert [text_of(item) for item in await session.get_items()] == ["Ana's secret"]


async def test_two_memory_spaces_with_the_same_user_share_nothing(tmp_path: Path, session: ReMeSession) -> None:
    await session.add_items(ITEMS)
    async with ReMe("other", tmp_path, llm=None, embedding=None) as other:
        assert await ReMeSession("chat-1", other, user_id="ana").get_items() == []


async def test_with_a_chat_model_memories_are_made_of_runs_in_the_background(tmp_path: Path) -> None:
    async with ReMe(working_dir=tmp_path, llm=RuleModel(), embedding=None) as memory:
        session = ReMeSession("chat-1", memory, user_id="ana")
        await Runner.run(Agent(name="test", model=says("Nice!")), "Ana lives in Lisbon", session=session)
        await memory.flush()
        [made] = (await memory.list_memories(user_id="ana")).memories
        assert made.content == "Ana lives in Lisbon"


_CHILD = """
import asyncio, os, sys
from reme_core import ReMe
from reme_core.openai_agents import ReMeSession
async def main():
    async with ReMe(working_dir=sys.argv[1], llm=None, embedding=None) as memory:
        session = ReMeSession("chat-1", memory, user_id="ana")
        for number in range(25):
            await session.add_items([{"role": "user", "content": f"{sys.argv[2]} {number}"}])
        os._exit(0)  # nothing that was acknowledged waits for a close
asyncio.run(main())
"""


async def test_two_processes_on_one_session_lose_nothing_and_keep_their_order(
    memory: ReMe, session: ReMeSession, tmp_path: Path
) -> None:
    commands = [[sys.executable, "-c", _CHILD, str(tmp_path), name] for name in ("first", "second")]
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda command: subprocess.run(command, env=_environment(), check=True), commands))
    texts = [text_of(item) for item in await session.get_items()]
    for name in ("first", "second"):
        assert [text for text in texts if text.startswith(name)] == [f"{name} {number}" for number in range(25)]
    assert len(texts) == 50
    assert (await memory.stats(user_id="ana")).messages == 50


async def test_another_process_goes_on_with_the_session(memory: ReMe, session: ReMeSession, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CHILD, str(tmp_path), "before"]
    done = await asyncio.to_thread(subprocess.run, command, env=_environment(), check=True)
    assert done.returncode == 0
    model = says("Indeed")
    await Runner.run(Agent(name="test", model=model), "And now?", session=session)
    assert [text_of(item) for item in model.last_call.input][-2:] == ["before 24", "And now?"]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_the_module_loads_no_framework() -> None:
    code = "import sys, reme_core.openai_agents; print(sorted({'agents', 'openai'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], env=_environment(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_an_image_that_no_store_takes_costs_no_turn(memory: ReMe, session: ReMeSession) -> None:
    parts = [{"type": "input_image", "image_url": url} for url in ("sha256:" + "0" * 64, "DATA:image/png;base64,*")]
    items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "Look"}, *parts]}]
    await session.add_items(items)
    assert await session.get_items() == items
    assert [item.message.text for item in (await memory.find_messages(user_id="ana")).messages] == ["Look"]


def looks(url: str, text: str = "My new door") -> dict[str, Any]:
    part = {"type": "input_image", "image_url": url}
    return {"role": "user", "content": [{"type": "input_text", "text": text}, part]}


def shows(url: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": url}]}


async def test_an_image_that_is_said_and_shown_is_one_blob_and_base64_in_no_table(
    memory: ReMe, session: ReMeSession, tmp_path: Path
) -> None:
    image = IMAGE[:200_000]
    data = b64encode(image).decode()
    url = f"data:image/png;base64,{data}"
    file = {"type": "input_file", "filename": "door.png", "file_data": data}
    drawn = {"type": "image_generation_call", "id": "i", "result": data, "status": "completed"}
    items: list[Any] = [looks(url), {"role": "user", "content": [file]}, shows(url), drawn]
    for name in ("chat-1", "chat-2"):
        other = ReMeSession(name, memory, user_id="ana")
        await other.add_items(items)
        assert await other.get_items() == items
    found = await memory.find_messages(user_id="ana", keyword="door")
    assert len({ref for item in found.messages for ref in item.message.blob_references}) == 1
    path = tmp_path / "memory.db"
    assert (await asyncio.to_thread(blobs_in, path), await asyncio.to_thread(base64_in, path)) == ([image], [])
    assert await session.pop_item() == drawn


async def test_bytes_go_with_the_last_item_that_shows_them_and_stay_with_what_was_said(
    memory: ReMe, session: ReMeSession
) -> None:
    said, shown = (f"data:image/png;base64,{LONG[:-4]}{end}" for end in ("AAAA", "BBBB"))
    other = ReMeSession("chat-2", memory, user_id="ana")
    await session.add_items([shows(said), looks(said), shows(shown)])
    await other.add_items([shows(shown)])
    assert (await memory.stats(user_id="ana")).blobs == 2
    await session.clear_session()
    assert await other.get_items() == [shows(shown)]
    assert await other.pop_item() == shows(shown)
    assert (await memory.stats(user_id="ana")).blobs == 1
    await other.add_items([shows(shown)])
    assert await other.get_items() == [shows(shown)]


async def test_a_mark_that_somebody_wrote_comes_back_as_it_was(memory: ReMe, session: ReMeSession) -> None:
    mark = f"reme-base64:{make_blob(b64decode(LONG), None).ref}"
    await session.add_items([shows(f"data:;base64,{LONG}")])
    for user_id in ("ana", "bob"):
        theirs = ReMeSession("chat-2", memory, user_id=user_id)
        for item in (shows(mark), shows(f"{mark},{LONG[:-4]}CCCC")):
            await theirs.add_items([item])
            assert await theirs.get_items(limit=1) == [item]


async def test_bytes_that_are_gone_are_told(memory: ReMe, session: ReMeSession, tmp_path: Path) -> None:
    await session.add_items([shows(f"data:;base64,{LONG}")])
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        connection.execute("DELETE FROM blobs")
    connection.close()
    with pytest.raises(CorruptDataError, match="missing"):
        await session.get_items()
