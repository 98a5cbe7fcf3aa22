"""What happens in a scope is told once and in order, whoever writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import PartialFailureError
from reme_core.recall.activity import ActivityFeed
from reme_core.schema import JobState, make_scope
from reme_core.testing import ScriptedChatModel
from tests.support.rule_model import RuleModel

U: dict[str, Any] = {"user_id": "u"}
BERLIN = {"role": "user", "content": "Alice lives in Berlin", "created_at": "2023-05-08T10:00:00Z", "message_id": "b"}
LISBON = {"role": "user", "content": "Alice moved to Lisbon", "created_at": "2023-06-08T10:00:00Z", "message_id": "l"}


def feed_of(memory: ReMe) -> ActivityFeed:
    return ActivityFeed(store=memory.store, scope=make_scope("space", "u"))


def names(news: Any) -> list[str]:
    return [item.message.message_id for item in news.messages]


async def follow(writer: ReMe, reader: ReMe) -> None:
    """Have one memory write what another one watches, each over the same store."""
    feed = feed_of(reader)
    await writer.summary([BERLIN], **U)
    assert (await feed.begin()).messages == ()
    assert names(await feed.read()) == []
    await writer.summary([BERLIN | {"message_id": "other"}], user_id="v")
    await writer.summary([LISBON], **U)
    news = await feed.read()
    assert names(news) == ["l"]
    told = [(str(item.kind), item.replaced_by and item.replaced_by.content) for item in news.changes]
    assert sorted(told) == [("added", None), ("replaced", "Alice moved to Lisbon")]
    assert {name for item in news.changes for source in item.sources for name in source.message_ids} == {"l"}
    after = await feed.read()
    assert (after.messages, after.changes, after.jobs, after.ended_jobs) == ([], [], [], [])


async def test_what_another_process_writes_is_told_once(tmp_path: Path) -> None:
    writer = ReMe("space", tmp_path, llm=RuleModel(), embedding=None)
    reader = ReMe("space", tmp_path, llm=None, embedding=None)
    async with writer, reader:
        await follow(writer, reader)


async def test_a_feed_may_begin_in_the_past_and_tells_no_older_message(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    recent = [{**BERLIN, "message_id": f"r{n}", "created_at": (now - timedelta(minutes=9 - n))} for n in range(3)]
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary([recent[0], LISBON, recent[1]], **U)
        await memory.add_memory("Alice swims", **U)
        for last in (recent[2], BERLIN):  # what was kept last need not be what was said last
            await memory.summary([last], **U)
            feed = feed_of(memory)
            news = await feed.begin(now - timedelta(hours=1))
            assert names(news) == ["r0", "r1", "r2"]
            assert [item.after and item.after.content for item in news.changes] == ["Alice swims"]
            assert names(await feed.read()) == []


async def test_many_messages_between_two_readings_are_all_told_in_order(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        feed = feed_of(memory)
        await feed.begin()
        said = [{**BERLIN, "message_id": f"m{n}"} for n in range(230)]
        await memory.summary(said, **U)
        assert names(await feed.read()) == [message["message_id"] for message in said]
        await memory.delete_all_memories(**U)
        assert names(await feed.read()) == []
        await memory.summary([LISBON], **U)
        assert names(await feed.read()) == ["l"]


async def test_work_is_told_when_it_begins_fails_and_ends(tmp_path: Path) -> None:
    with ScriptedChatModel(["no JSON", "none", '{"facts": []}']) as model:
        async with ReMe("space", tmp_path, llm=model, embedding=None) as memory:
            feed = feed_of(memory)
            await feed.begin()
            with pytest.raises(PartialFailureError):
                await memory.summary([BERLIN], **U)
            [job] = (await feed.read()).jobs
            assert (job.state, job.attempts) == (JobState.PENDING, 1)
            assert (await feed.read()).jobs == []
            await memory.flush()
            assert [ended.job_id for ended in (await feed.read()).ended_jobs] == [job.job_id]
