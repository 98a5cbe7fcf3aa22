"""`ReMeMemory` keeps every rule, with and without a file; each broken memory is told by one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agentscope.message import Msg

from reme_agentscope.v1.working_memory.memory import ReMeMemory
from tests.adapters.agentscope1.working_memory.memory_rules import RULES, Make, Rule


class _Maker:
    """Makes memories, each on the same location, and closes them."""

    def __init__(self, kind: type[ReMeMemory], location: Path | None) -> None:
        self.made: list[ReMeMemory] = []
        self._kind = kind
        self._location = location

    def __call__(self, **kwargs: Any) -> ReMeMemory:
        if self._location is not None:
            kwargs = {"session_id": f"s{len(self.made)}", **kwargs}
        self.made.append(self._kind(location=self._location, **kwargs))
        return self.made[-1]

    async def close(self) -> None:
        for memory in self.made:
            await memory.close()


@pytest.fixture(params=["in the process", "on disk", "with a budget"])
async def make(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Make]:
    maker = _Maker(ReMeMemory, None if request.param == "in the process" else tmp_path)
    if request.param == "with a budget":
        yield lambda **kwargs: maker(max_tokens=10_000_000, **kwargs)
    else:
        yield maker
    await maker.close()


@pytest.mark.parametrize(
    "rule",
    [pytest.param(check, marks=pytest.mark.requirement(name), id=check.__name__) for name, check in RULES.values()],
)
async def test_the_memory_holds_the_rule_that(rule: Rule, make: Make) -> None:
    await rule(make)


class FalsyWhenEmpty(ReMeMemory):
    def __len__(self) -> int:
        return len(self.content)


class NoCopyOnAdd(ReMeMemory):
    async def add(self, memories: Any, marks: Any = None, *args: object, **kwargs: object) -> None:
        await super().add(memories, marks)
        given = [memories] if isinstance(memories, Msg) else memories
        for place, (kept, kept_marks) in enumerate(self.content):
            same = [msg for msg in given or [] if isinstance(msg, Msg) and msg.id == kept.id]
            self.content[place] = (same[0] if same else kept, kept_marks)


class Reversed(ReMeMemory):
    async def get_memory(self, *args: Any, **kwargs: Any) -> list[Msg]:
        return list(reversed(await super().get_memory(*args, **kwargs)))


class NoSummary(ReMeMemory):
    async def get_memory(self, *args: Any, **kwargs: Any) -> list[Msg]:
        return await super().get_memory(*args, **{**kwargs, "prepend_summary": False})


class SummaryLast(ReMeMemory):
    async def get_memory(self, *args: Any, **kwargs: Any) -> list[Msg]:
        found = await super().get_memory(*args, **kwargs)
        return sorted(found, key=lambda msg: msg.metadata == {"reme": "summary"})


class HintsStay(ReMeMemory):
    async def delete_by_mark(self, mark: Any, *args: object, **kwargs: object) -> int:
        if not isinstance(mark, str | list):
            raise TypeError
        return 0


class MarkUpdateIgnored(ReMeMemory):
    async def update_messages_mark(self, new_mark: Any, old_mark: Any = None, msg_ids: Any = None) -> int:
        return 0


class CompressedDeleted(ReMeMemory):
    async def update_messages_mark(self, new_mark: Any, old_mark: Any = None, msg_ids: Any = None) -> int:
        changed = await super().update_messages_mark(new_mark, old_mark, msg_ids)
        await self.delete_by_mark("compressed")
        return changed


class StateWithoutMarks(ReMeMemory):
    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        return {**state, "content": [[fields, []] for fields, _ in state["content"]]}


class LoadMerges(ReMeMemory):
    def load_state_dict(self, state_dict: Any, strict: bool = True) -> None:
        before = list(self.content)
        super().load_state_dict(state_dict, strict)
        self.content = [*before, *self.content]


class Duplicates(ReMeMemory):
    async def add(self, memories: Any, marks: Any = None, *args: object, **kwargs: object) -> None:
        await super().add(memories, marks)
        if isinstance(memories, Msg):
            self.content.append((memories, []))


class TextOnly(ReMeMemory):
    async def add(self, memories: Any, marks: Any = None, *args: object, **kwargs: object) -> None:
        await super().add(memories, marks)
        for msg, _ in self.content:
            msg.content = msg.get_text_content() or ""


class SortedByTime(ReMeMemory):
    async def get_memory(self, *args: Any, **kwargs: Any) -> list[Msg]:
        return sorted(await super().get_memory(*args, **kwargs), key=lambda msg: msg.timestamp)


class NoneRejected(ReMeMemory):
    async def add(self, memories: Any, marks: Any = None, *args: object, **kwargs: object) -> None:
        if memories is None:
            raise TypeError
        await super().add(memories, marks)


class KeywordsRejected(ReMeMemory):
    async def add(self, memories: Any, marks: Any = None) -> None:  # type: ignore[override]  # that is what is wrong
        await super().add(memories, marks)


MUTANTS = {
    FalsyWhenEmpty: "an_empty_memory_is_true_and_a_state_module",
    NoCopyOnAdd: "later_changes_of_what_was_added_do_not_show",
    Reversed: "the_order_is_that_of_adding_whatever_the_times",
    NoSummary: "a_summary_comes_first_whatever_the_filter",
    SummaryLast: "a_summary_comes_first_whatever_the_filter",
    HintsStay: "delete_by_mark_counts_each_message_once",
    MarkUpdateIgnored: "marks_are_updated_and_counted",
    CompressedDeleted: "an_enum_mark_equals_its_string",
    StateWithoutMarks: "the_state_is_a_snapshot_in_agentscopes_layout",
    LoadMerges: "loading_a_state_replaces_everything",
    Duplicates: "a_known_id_is_not_added_again",
    TextOnly: "every_field_and_block_comes_back",
    SortedByTime: "the_order_is_that_of_adding_whatever_the_times",
    NoneRejected: "none_lists_and_single_messages_are_taken",
    KeywordsRejected: "unknown_keywords_are_accepted",
}


@pytest.mark.parametrize(("mutant", "name"), [pytest.param(*item, id=item[0].__name__) for item in MUTANTS.items()])
async def test_a_broken_memory_is_told_by_its_rule(mutant: type[ReMeMemory], name: str) -> None:
    with pytest.raises((AssertionError, TypeError, pytest.fail.Exception)):
        await RULES[name][1](_Maker(mutant, None))
