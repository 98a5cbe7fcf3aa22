"""The messages that an agent of one target is shown."""

from __future__ import annotations

import pytest

from reme_core.agents import PersonalSummaryAgentV1Op
from reme_core.agents.targets import concerning
from reme_core.ports import AgentTask, Target
from reme_core.schema import MemoryType, Message, ToolResultBlock
from reme_core.stores import LocalStore
from reme_core.testing import ScriptedChatModel
from reme_core.tools import DraftStore
from tests.unit.agents.acting import call, calling, context_over, message, remember

ANA, TOOL = Target(MemoryType.PERSONAL, "Ana"), Target(MemoryType.TOOL, "search")


def talk(*lines: str) -> tuple[Message, ...]:
    """Messages written `name: text`."""
    return tuple(message(text, name=name) for name, text in (line.split(": ", 1) for line in lines))


def test_of_a_person_who_speaks_it_is_what_they_say_what_names_them_and_what_stands_next_to_it() -> None:
    said = talk(
        "Ben: Hello", "Cleo: Hi", "Ben: How is work?", "ana: Fine!", "Cleo: Great", "Ben: I sold the car",
        "Cleo: Which one?", "Ben: Ask ANA's brother", "Cleo: No", "Ben: The Banana one", "Cleo: Ah",
    )  # fmt: skip
    assert concerning(ANA, said) == [2, 3, 4, 6, 7, 8]
    assert concerning(Target(MemoryType.PERSONAL, "Ana "), said) == [2, 3, 4, 6, 7, 8]


def test_a_word_of_a_name_names_it() -> None:
    said = talk("Ana Sol: Hi", "Ben: Hi", "Cleo: Rain", "Cleo: Snow", "Ben: Ask Sol", "Cleo: Hm", "Ben: Solar")
    assert concerning(Target(MemoryType.PERSONAL, "Ana Sol"), said) == [0, 1, 3, 4, 5]


def test_in_a_script_without_blanks_a_name_stands_within_words() -> None:
    said = talk("小明: 你好", "小红: 嗯", "小刚: 下雨了", "小刚: 下雪了", "小红: 问问小明吧", "小刚: 好")
    assert concerning(Target(MemoryType.PERSONAL, "小明"), said) == [0, 1, 3, 4, 5]


@pytest.mark.parametrize(
    "target",
    [
        Target(MemoryType.PERSONAL, "Dora"),
        Target(MemoryType.PERSONAL, "self"),
        Target(MemoryType.PROCEDURAL, "Ana"),
        Target(MemoryType.IDENTITY, "self"),
        TOOL,
    ],
)
def test_where_it_is_not_clear_it_is_all_of_them(target: Target) -> None:
    said = talk("Ana: My sister Dora writes", "Ben: Oh", "Cleo: Yes", "Ben: And she sings", "Cleo: No")
    assert concerning(target, said) == [0, 1, 2, 3, 4]
    assert concerning(target, ()) == []


def test_of_a_tool_it_is_its_calls_their_results_and_what_names_it() -> None:
    said = (
        message("Find a train"),
        calling(call("search", {"q": "trains"}, "s1"), call("other", {}, "o1")),
        Message(role="tool", content=(ToolResultBlock(call_id="o1", output="nothing"),)),
        Message(role="tool", content=(ToolResultBlock(call_id="s1", output="four"),)),
        message("Thanks"), message("Bye"), message("By the way"), message("Search was slow"), message("Sorry"),
    )  # fmt: skip
    assert concerning(TOOL, said) == [0, 1, 2, 3, 4, 6, 7, 8]


async def test_an_agent_sees_them_with_their_numbers_and_compares_only_them(store: LocalStore) -> None:
    lines = ["Ana: I moved to Oslo", "Ben: Nice", "Cleo: I play chess", "Ben: I do, too", "Cleo: Then let us play"]
    for number in range(30):
        await remember(store, f"Ana plays chess with friend {number}", ANA)
    await remember(store, "Ana wants to live in Oslo", ANA)
    async with ScriptedChatModel(["done"]) as model:
        context = context_over(
            DraftStore(store), model=model, memory_type=ANA.memory_type, memory_target="Ana", elsewhere=("Ben",)
        )
        task = AgentTask(workspace_id="space", memory_target="Ana", messages=talk(*lines))
        await PersonalSummaryAgentV1Op().run(task, context)
    shown = model.requests[0].messages[1].text
    assert [line[:6] for line in shown.splitlines() if '"by":' in line] == ['{"n":1', '{"n":2']
    assert "Ana wants to live in Oslo" in shown
    assert "chess" not in shown
    assert '{"memory_target":"Ana"}\n{"elsewhere":["Ben"]}' in shown
