"""The simple strategy against its bars: restated facts, tokens, times, and what decisions can reach."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core.errors import ModelOutputError
from reme_core.models import CharacterTokenCounter
from reme_core.models.endpoint_failures import response_format
from reme_core.ports import ChatRequest, MemorySearch
from reme_core.schema import Memory, MemoryType, Message
from reme_core.steps.distillation import DistilTask
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder, ScriptedChatModel
from tests.support.temporary_store import TemporaryStore
from tests.unit.remember.distilling import (
    NOW,
    OTHER,
    SCOPE,
    all_of,
    choose,
    decision,
    decisions,
    distiller,
    fact,
    facts,
    known,
    say,
    shown,
    store_of,
    task_of,
)

EMBEDDERS = pytest.mark.parametrize("embedder", [None, HashedEmbedder()], ids=["words", "vectors"])
THINGS = ("tea", "jazz", "chess", "Rome", "dogs", "skiing", "bread", "maps", "rain", "tulips")
VERBS = ("enjoys", "avoids", "studies", "remembers")
FACTS = [
    f"Alice {verb} {thing} since {2000 + place}"
    for place, (verb, thing) in enumerate((verb, thing) for verb in VERBS for thing in THINGS)
]


def words_of(text: str) -> tuple[str, ...]:
    """What is the same in two texts that differ in case, order and punctuation."""
    kept = "".join(char if char.isalnum() else " " for char in text.casefold())
    return tuple(sorted(kept.split()))


def restated(text: str, dice: random.Random) -> str:
    words = text.split()
    if dice.random() < 0.5:
        cut = dice.randrange(1, len(words))
        words = [*words[cut:], *words[:cut]]
    said = " ".join(words)
    said = dice.choice([said, said.upper(), said.lower(), said.capitalize()])
    return said + dice.choice(["", ".", "!", " …"])


class PerfectModel:
    """Takes every message for a fact, and skips what a candidate says in other words' order; sees the prompt alone."""

    def __init__(self, target_of: Any) -> None:
        self.target_of = target_of
        self.calls = 0

    async def chat(self, request: ChatRequest) -> Any:
        self.calls += 1
        assert request.response_schema is not None
        answer = self.extract(request) if request.response_schema.name == "facts" else self.reconcile(request)
        return await ScriptedChatModel([answer]).chat(request)

    def extract(self, request: ChatRequest) -> str:
        lines = shown(request, "conversation")
        return facts(*(fact(line["text"], line["n"], target=self.target_of(line["text"])) for line in lines))

    def reconcile(self, request: ChatRequest) -> str:
        texts = {line["n"]: words_of(line["text"]) for line in shown(request, "memories")}
        given = []
        for line in shown(request, "facts"):
            is_known = any(texts[n] == words_of(line["text"]) for n in line["candidates"])
            given.append(decision(line["fact"], "skip" if is_known else "add"))
        return decisions(*given)


@pytest.mark.parametrize(("embedder", "targets"), [(None, 1), (HashedEmbedder(32), 4)], ids=["words, 1", "vectors, 4"])
async def test_forty_facts_restated_in_a_hundred_sessions_stay_forty(
    tmp_path: Path, embedder: HashedEmbedder | None, targets: int
) -> None:
    dice = random.Random(7)

    def target_of(text: str) -> str:
        [verb] = [verb for verb in VERBS if verb in text.lower()]
        return ("Alice", "Bob", "Eve", "Zoë")[VERBS.index(verb) % targets]

    store = LocalStore(tmp_path / "memories.db", synchronous="NORMAL")
    model = PerfectModel(target_of)
    simple = distiller(store, model, embedder=embedder)
    for session in range(100):
        chosen = [FACTS[(session * 8 + place) % 40] for place in range(8)]
        messages = say(*(restated(text, dice) for text in chosen))
        distilled = await simple.distil(SCOPE, task_of(messages, run_id=f"run-{session}"))
        await store.put(SCOPE, distilled.batch)
    held = await all_of(store, current=False)
    assert len(held) <= 44
    assert {words_of(memory.content) for memory in held} == {words_of(text) for text in FACTS}
    found = await store.search(SCOPE, MemorySearch(text="What does Alice enjoy and study?", limit=20))
    assert len({words_of(item.memory.content) for item in found}) == len(found) == 20
    await store.close()


TALK_EN = "I moved to Lisbon last week, and my sister Mia comes to see me in two months. "
TALK_ZH = "我上周搬到了里斯本，妹妹小美两个月后来看我，我还开始学葡萄牙语了。"


def of_length(text: str, chars: int) -> str:
    return (text * (chars // len(text) + 1))[:chars]


def tokens_of(request: ChatRequest) -> int:
    """What a request takes, the form of the answer included, as it is sent."""
    assert request.response_schema is not None
    form = json.dumps(response_format(request.response_schema, "schema"), separators=(",", ":"))
    return sum(map(CharacterTokenCounter().count, (form, *(message.text for message in request.messages))))


async def spend(messages: list[Message], memory: str, facts_told: int, **options: Any) -> int:
    """Return the tokens of a session whose target is known well, and whose facts all have neighbours."""
    store = await store_of(*(known(memory.format(number)) for number in range(20)))
    said = [fact(f"{memory.format('A')}{number}", number % len(messages) + 1) for number in range(facts_told)]
    with ScriptedChatModel([facts(*said), choose()]) as model:
        await distiller(store, model).distil(SCOPE, task_of(messages, **options))
    assert len(shown(model.requests[1], "facts")) > 1
    return sum(map(tokens_of, model.requests))


NURSE_EN = "Alice works as a nurse in the city hospital, ward {}"
NURSE_ZH = "小王在市立医院第{}病区当护士，每周值两次夜班"
# As long as facts of talk are, which are some 110 characters.
LONG_EN = NURSE_EN + ", where she has had two nights a week since her sister Mia was born"
LONG_ZH = NURSE_ZH + "，因为她的妹妹小美出生了"


@pytest.mark.parametrize(
    ("talk", "chars", "memory", "facts_told"),
    [(TALK_EN, 85, NURSE_EN, 10), (TALK_EN, 170, LONG_EN, 25), (TALK_ZH, 30, NURSE_ZH, 10), (TALK_ZH, 53, LONG_ZH, 25)],
    ids=["en", "en, dear", "zh", "zh, dear"],
)
async def test_twenty_short_messages_cost_two_calls_and_three_thousand_tokens(
    talk: str, chars: int, memory: str, facts_told: int
) -> None:
    """Two people of whom one is the assistant for the session, in messages as long as those of LoCoMo are and more."""
    messages = say(*[of_length(talk, chars)] * 20)
    turns = [
        message if place % 2 else message.model_copy(update={"role": "assistant", "name": "Caroline"})
        for place, message in enumerate(messages)
    ]
    assert await spend(turns, memory, facts_told) <= 3000


@pytest.mark.parametrize(
    ("talk", "chars", "memory"), [(TALK_EN, 800, NURSE_EN), (TALK_ZH, 250, NURSE_ZH)], ids=["en", "zh"]
)
async def test_a_chunk_of_long_messages_costs_its_own_tokens_and_fifteen_hundred_a_call(
    talk: str, chars: int, memory: str
) -> None:
    texts = [of_length(talk, chars)] * 20
    own = sum(map(CharacterTokenCounter().count, texts))
    before = tuple(say(*[of_length(talk, 2000)] * 6))
    thread = of_length(talk, 1000)
    assert await spend(say(*texts), memory, 40, before=before, thread=thread) <= own + 2 * 1500


@pytest.mark.parametrize("spoken", ["I moved last week", "I skied yesterday", "In two months I fly to Rome"])
async def test_prompts_show_the_time_of_each_message_with_its_weekday(spoken: str) -> None:
    store = await store_of(known("Alice likes tea"))
    messages = say("hello", spoken, at=datetime(2023, 5, 8, 23, 59, tzinfo=UTC))
    with ScriptedChatModel(
        [facts(fact("Alice skis", 2, valid_from="2023-05")), decisions(decision(1, "add"))]
    ) as model:
        await distiller(store, model).distil(SCOPE, task_of(messages))
    times = [line["at"] for line in shown(model.requests[0], "conversation")]
    assert times == ["2023-05-08 Mon 23:59", "2023-05-09 Tue 00:00"]
    assert shown(model.requests[1], "facts")[0]["since"] == "May 2023"
    assert "2026" not in "".join(message.text for request in model.requests for message in request.messages)


@pytest.mark.parametrize(
    ("spoken", "content", "since"),
    [
        ("I moved to Lisbon last week", "Alice moved to Lisbon in the week of 2023-05-01", "2023-05-01"),
        ("I began to ski yesterday", "Alice began to ski on 2023-05-07", "2023-05-07"),
        ("In two months I fly to Rome", "Alice flies to Rome in July 2023", "2023-07"),
        ("I like tea", "Alice likes tea", ""),
    ],
)
async def test_what_was_said_in_2023_is_stored_with_dates_of_2023(spoken: str, content: str, since: str) -> None:
    with ScriptedChatModel([facts(fact(content, valid_from=since))]) as model:
        distilled = await distiller(TemporaryStore(), model).distil(SCOPE, task_of(say(spoken)))
    [put] = distilled.batch.puts
    assert put.memory.valid_from.year == put.memory.observed_at.year == 2023
    assert put.memory.created_at == NOW


TARGETS = ("Alice", "Bob")
actions = st.sampled_from(["add", "update", "supersede", "skip", "delete"])


@st.composite
def written_decisions(draw: st.DrawFn, request: ChatRequest) -> str:
    numbers = [line["n"] for line in shown(request, "memories")]
    given = []
    for line in shown(request, "facts"):
        # Mostly its own, at times any memory of the prompt, or one that there is not.
        pool = draw(st.sampled_from([line["candidates"], line["candidates"], [*numbers, 77]]))
        named = draw(st.lists(st.sampled_from(pool), max_size=2))
        text = draw(st.sampled_from(["", "Alice has a cat", "Alice likes tea", "new"]))
        given.append(decision(line["fact"], draw(actions), *named, content=text))
    return decisions(*given)


def changed_ids(before: list[Memory], after: list[Memory]) -> set[str]:
    old = {memory.memory_id: memory for memory in before}
    new = {memory.memory_id: memory for memory in after}
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
async def test_no_decision_reaches_beyond_the_candidates_and_every_memory_has_its_messages(data: st.DataObject) -> None:
    kinds = (MemoryType.PERSONAL, MemoryType.TOOL)
    texts = ("Alice likes tea", "Alice likes jazz", "Alice has a cat")
    memories = [
        known(text, memory_target=target, memory_type=kind, scope=scope)
        for scope in (SCOPE, OTHER)
        for kind in kinds
        for target in TARGETS
        for text in texts
        if data.draw(st.booleans())
    ]
    store = await store_of(*memories)
    said = data.draw(
        st.lists(
            st.builds(
                lambda text, target, number, ends: fact(text, number, target=target, valid_to=ends),
                st.sampled_from([*texts, "Alice moved", "Alice sings", "new"]),
                st.sampled_from(TARGETS),
                st.integers(1, 3),
                st.sampled_from(["", "", "2022", "2023-05-08"]),
            ),
            max_size=4,
        )
    )

    def reconcile(request: ChatRequest) -> str:
        return data.draw(written_decisions(request))

    task: DistilTask = task_of(say("one", "two", "three"), block_size=2)
    model = ScriptedChatModel([facts(*said), reconcile, reconcile])
    before = {scope: await all_of(store, scope, current=False) for scope in (SCOPE, OTHER)}
    try:
        distilled = await distiller(store, model).distil(SCOPE, task)
    except ModelOutputError:
        return
    await store.put(SCOPE, distilled.batch)
    after = {scope: await all_of(store, scope, current=False) for scope in (SCOPE, OTHER)}
    assert after[OTHER] == before[OTHER]
    about = {(MemoryType.PERSONAL, item["target"]) for item in said}
    reachable = {memory.memory_id for memory in before[SCOPE] if (memory.memory_type, memory.memory_target) in about}
    new = {memory.memory_id for memory in after[SCOPE]} - {memory.memory_id for memory in before[SCOPE]}
    assert changed_ids(before[SCOPE], after[SCOPE]) <= reachable | new
    ids = {message.message_id for message in task.messages}
    for put in distilled.batch.puts:
        if put.memory.memory_id in new:
            named = [name for source in put.memory.sources for name in source.message_ids]
            assert named
            assert set(named) <= ids
            assert {source.block_id for source in put.memory.sources} <= {"b1", "b2"}
        successor = put.memory.superseded_by
        assert successor is None or successor in {memory.memory_id for memory in after[SCOPE]}
    for memory in after[SCOPE]:
        assert Memory.model_validate(memory.model_dump()) == memory
