"""What models cost: written down by every call that asked one, by user, day and purpose, and gone with the user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError, StorageFullError
from reme_core.ports import ItemAddress, PutItem, WriteItems
from reme_core.schema import Scope, Usage
from reme_core.steps import costs
from reme_core.steps.costs import SERVICE_SPACE
from reme_core.testing import FixedClock
from tests.support.rule_model import RuleModel

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def memory_in(folder, clock=None, model=None, space="space"):
    return ReMe(space, folder, llm=model or RuleModel(), embedding=None, clock=clock or FixedClock(NOON))


def told(costs):
    return [(str(cost.day), cost.user_id, cost.purpose, cost.model_calls) for cost in costs]


async def test_each_purpose_has_its_row_a_day_and_a_user(tmp_path):
    clock = FixedClock(NOON)
    async with memory_in(tmp_path, clock) as memory:
        said = [{"role": "user", "content": "Alice lives in Berlin", "created_at": "2023-05-08T10:00:00Z"}]
        result = await memory.summary(said, user_id="alice")
        await memory.summary(said, user_id="bob")
        clock.advance(timedelta(days=1))
        await memory.chat("Where does Alice live?", user_id="alice")
        await memory.flush()
        [first, *rest] = await memory.costs(user_id="alice")
        assert told([first]) == [("2026-05-04", "alice", "summary", result.usage.model_calls)]
        assert (first.prompt_tokens, first.completion_tokens) == (
            result.usage.prompt_tokens,
            result.usage.completion_tokens,
        )
        assert {(str(cost.day), cost.purpose) for cost in rest} == {("2026-05-05", "chat"), ("2026-05-05", "summary")}
        assert await memory.costs(user_id="alice", start_time="2026-05-05") == rest
        assert await memory.costs(user_id="alice", end_time="2026-05-05") == [first]
        assert len(await memory.costs(user_id="bob")) == 1
        assert await memory.costs(user_id="carol") == []
        with pytest.raises(InvalidInputError, match="start_time"):
            await memory.costs(user_id="alice", start_time="soon")


async def test_costs_are_added_up_over_processes_and_spaces_are_apart(tmp_path):
    for space in ("space", "space", "other"):
        async with memory_in(tmp_path, space=space) as memory:
            await memory.summary([("user", "Alice lives in Berlin")], user_id="alice")
    async with memory_in(tmp_path) as memory:
        [row] = await memory.costs(user_id="alice")
        assert row.model_calls >= 2
    async with memory_in(tmp_path, space="other") as other:
        [row] = await other.costs(user_id="alice")
        assert row.model_calls == 1


async def test_a_row_that_this_release_can_not_read_is_nobodys(tmp_path):
    async with memory_in(tmp_path) as memory:
        await memory.summary([("user", "Alice lives in Berlin")], user_id="alice")
        before = await memory.costs(user_id="alice")
        newer = {"memory_space": "space", "user_id": "alice", "purpose": "summary", "spent": {"calls": 3}}
        put = PutItem(address=ItemAddress(namespace=("costs", "2026-05-04"), key="newer"), value=newer)
        await memory.store.write_items(SERVICE_SPACE, WriteItems(writes=[put], at=NOON))
        assert await memory.costs(user_id="alice") == before


async def test_a_call_that_is_noted_between_two_pages_makes_none_count_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "_PAGE", 2)
    async with memory_in(tmp_path) as memory:
        book = costs.CostBook(memory.store, memory.clock)
        scope = Scope(memory_space="space", user_id="alice")
        for _ in range(4):
            await book.add(scope, "chat", Usage(model_calls=1))
        search_items, noted = memory.store.search_items, []

        async def search(space, search):
            page = await search_items(space, search)
            if not noted:
                noted.append(True)
                memory.clock.advance(seconds=1)
                await book.add(scope, "chat", Usage(model_calls=1))
            return page

        monkeypatch.setattr(memory.store, "search_items", search)
        [row] = await memory.costs(user_id="alice")
        assert row.model_calls == 4


async def test_without_a_model_nothing_is_written_down(tmp_path):
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary([("user", "Alice lives in Berlin")], user_id="alice")
        await memory.retrieve("Where does Alice live?", user_id="alice")
        assert await memory.costs(user_id="alice") == []


async def test_erasing_a_user_takes_what_the_user_cost(tmp_path):
    async with memory_in(tmp_path) as memory:
        await memory.summary([("user", "Alice lives in Berlin")], user_id="alice")
        erased = await memory.delete_all_memories(user_id="alice")
        assert erased.store_items == 1
        assert await memory.costs(user_id="alice") == []


async def test_a_cost_that_can_not_be_written_takes_nothing_back(tmp_path, monkeypatch, caplog):
    async with memory_in(tmp_path) as memory:
        write_items = memory.store.write_items

        async def full(space, write):
            if space == SERVICE_SPACE:
                raise StorageFullError("the disk is full")
            return await write_items(space, write)

        monkeypatch.setattr(memory.store, "write_items", full)
        result = await memory.summary([("user", "Alice lives in Berlin")], user_id="alice")
        assert result.memories
        assert "could not be written down" in caplog.text
