"""The memories of a service: each space has one, on the store and with the settings of the service's own."""

from __future__ import annotations

from datetime import UTC, datetime

from reme_core import ReMe
from reme_core.serve.memories import Memories
from reme_core.testing import FixedClock, HashedEmbedder, ScriptedChatModel
from tests.unit.facade.test_timezone import LATE, facts, times_of

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


class WordCounter:
    def count(self, text):
        return len(text.split())


async def test_another_space_has_the_models_and_the_settings_of_the_first(tmp_path):
    counter, clock, embedder = WordCounter(), FixedClock(NOON), HashedEmbedder()
    with ScriptedChatModel([facts()]) as model:
        home = ReMe(
            "space",
            tmp_path,
            llm=model,
            embedding=embedder,
            clock=clock,
            token_counter=counter,
            timezone="Europe/Berlin",
            embed_messages=False,
        )
        async with Memories(home) as memories:
            other = await memories.of("other")
            await other.summary([LATE], user_id="ana")
            assert (other.memory_space, other.database, other.clock) == ("other", home.database, clock)
            assert (other.llm, other.embedder, other.token_counter) == (model, embedder, counter)
            assert await memories.of("other") is other
            assert await memories.of("space") is home
            assert (await home.stats(user_id="ana")).messages == 0
    assert times_of(model) == ["2023-05-09 Tue 00:30+02:00"]


async def test_another_space_asks_agents_where_the_first_does(tmp_path):
    with ScriptedChatModel([]) as model:
        home = ReMe("space", tmp_path, llm=model, embedding=None, use_agentic_mode=True, language="zh")
        async with Memories(home) as memories:
            other = await memories.of("other")
            assert type(other._retriever) is type(home._retriever)  # what is asked, without a script
