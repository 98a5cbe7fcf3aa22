"""Sessions in the file of a memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from agentscope.session import SessionBase

from reme_agentscope import ReMeMemory, ReMePersonalLongTermMemory, ReMeSession
from reme_core import ReMe
from reme_core.errors import ConfigurationError, InvalidInputError, NotFoundError
from reme_core.testing import FixedClock
from tests.adapters.agentscope1.scripted import ScriptedModel, make_agent, user
from tests.support.file_checks import bytes_on_disk


@pytest.fixture
async def reme(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as made:
        yield made


async def test_a_saved_agent_goes_on_in_another_object_over_the_same_file(reme: ReMe, tmp_path: Path) -> None:
    session = ReMeSession(reme)
    assert isinstance(session, SessionBase)
    agent = make_agent(ScriptedModel(), long_term_memory=ReMePersonalLongTermMemory(user_name="ann", reme=reme))
    await agent(user("My rabbit is called Flopsy \ud83d"))
    await session.save_session_state("s.1/a", "ann@example.com", agent=agent)
    await agent.long_term_memory.close()

    async with ReMe("space", tmp_path, llm=None, embedding=None) as again:
        memory = ReMePersonalLongTermMemory(user_name="ann", reme=again)
        resumed = make_agent(ScriptedModel(), long_term_memory=memory)
        await ReMeSession(again).load_session_state("s.1/a", "ann@example.com", agent=resumed)
        await resumed(user("It eats figs"))
        assert "Flopsy" in resumed.model.asked[0].text
        assert "long_term_memory" not in resumed.model.asked[0].names  # the context says it
        kept = (await again.find_messages(user_id="ann")).messages
        assert [item.message.text for item in kept if item.message.role == "user"][1:] == ["It eats figs"]
        assert (await again.retrieve("Flopsy", user_id="ann@example.com")).results == ()  # a state is no memory


async def test_a_session_goes_with_its_user(reme: ReMe, tmp_path: Path) -> None:
    session, memory = ReMeSession(reme), ReMeMemory()
    await memory.add(user("the code is xyzzy"))
    for name in ("ann", "bob"):
        await session.save_session_state("s", name, memory=memory)
    assert (await reme.delete_all_memories(user_id="ann")).store_items == 1
    with pytest.raises(NotFoundError):
        await session.load_session_state("s", "ann", allow_not_exist=False, memory=ReMeMemory())
    await session.load_session_state("s", "bob", allow_not_exist=False, memory=ReMeMemory())
    await reme.delete_all_memories(user_id="bob")
    assert b"xyzzy" not in bytes_on_disk(tmp_path / "memory.db")


async def test_users_and_sessions_are_apart(reme: ReMe) -> None:
    session = ReMeSession(reme)
    memory = ReMeMemory()
    await memory.add(user("said by ann"))
    await session.save_session_state("s", "ann", memory=memory)
    for session_id, user_id in (("s", ""), ("s", "bob"), ("t", "ann")):
        other = ReMeMemory()
        await session.load_session_state(session_id, user_id, memory=other)
        assert await other.size() == 0
        with pytest.raises(NotFoundError, match=r"no session '[st]'"):
            await session.load_session_state(session_id, user_id, allow_not_exist=False, memory=other)
    await session.load_session_state("s", "ann", nothing_saved=ReMeMemory(), memory=(loaded := ReMeMemory()))
    assert await loaded.size() == 1
    with pytest.raises(InvalidInputError):
        await session.save_session_state("s", "../ann", memory=memory)


async def test_a_session_expires_when_it_was_not_saved_for_so_long(tmp_path: Path) -> None:
    clock = FixedClock()
    async with ReMe("space", tmp_path, llm=None, embedding=None, clock=clock) as reme:
        session = ReMeSession(reme, expires_after=timedelta(days=1))
        memory = ReMeMemory()
        await session.save_session_state("old", memory=memory)
        clock.advance(timedelta(hours=23))
        await session.load_session_state("old", allow_not_exist=False, memory=memory)
        clock.advance(timedelta(hours=2))
        with pytest.raises(NotFoundError, match="no session 'old'"):
            await session.load_session_state("old", allow_not_exist=False, memory=memory)
        await session.save_session_state("new", memory=memory)
        assert reme.database.path
        rows = await reme.database.read(lambda c: c.execute("SELECT count(*) FROM items").fetchone(), within=None)
        assert rows == (1,)  # the old one is gone from the file


def test_what_is_no_memory_or_no_time_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="reme: wanted a ReMe"):
        ReMeSession("nope")
    with pytest.raises(ConfigurationError, match="expires_after"):
        ReMeSession(expires_after=timedelta())


async def test_without_a_memory_it_opens_one_and_closes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with ReMeSession() as session:
        assert not (tmp_path / ".reme").exists()
        await session.save_session_state("s", memory=ReMeMemory())
    assert (tmp_path / ".reme" / "memory.db").is_file()
    assert asyncio.all_tasks() == {asyncio.current_task()}
