# asserts are what a contract suite is made of
"""Promises of a memory store about trust classes: filters keep to them, and no memory is above its messages."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from reme_core.errors import UnsupportedFilterError
from reme_core.ports import AppendMessages, MemoryFilter, MessageSearch, PutMemory, Store
from reme_core.schema import Memory, Message, Scope, Source, ToolCallBlock, ToolResultBlock, TrustClass
from reme_core.testing._memory_search import fact, listed
from reme_core.testing._memory_writes import add
from reme_core.testing.store_values import ALICE, BOB, batch, block, changed, memory, message

USER, ASSISTANT, TOOL, WEB = TrustClass


def said() -> list[Message]:
    """Build a message of each class, one of the user's that carries a result, and two that only look like it."""
    result = (*message("tea and a result").content, ToolResultBlock(call_id="c", output="tea"))
    looks_like: JsonValue = {"type": "tool_result", "output": "tea"}
    call = (*message("tea").content, ToolCallBlock(call_id="d", name="look", arguments={"a": looks_like}))
    return [
        message("the user likes tea", message_id="user"),
        message("the assistant likes tea", role="assistant", message_id="assistant"),
        message("the tool likes tea", role="tool", message_id="tool"),
        message("the page likes tea", role="tool", message_id="web").model_copy(update={"metadata": {"trust": "web"}}),
        message("tea", message_id="result").model_copy(update={"content": result}),
        message("raised", role="tool", message_id="raised").model_copy(update={"metadata": {"trust": "user"}}),
        message("tea", message_id="like").model_copy(update={"metadata": {"a": looks_like}}),
        message("tea", role="assistant", message_id="call").model_copy(update={"content": call}),
    ]


async def keep(store: Store, scope: Scope = ALICE) -> None:
    """Append the messages, all of them in one block, named `block`."""
    request = AppendMessages(
        session_id="s", messages=said(), slicer=lambda waiting: [block("s", *waiting, summary="tea", block_id="block")]
    )
    await store.append(scope, request)


def resting_on(*message_ids: str, block_id: str | None = None, scope: Scope = ALICE) -> Memory:
    """Build a memory that comes from these messages."""
    source = Source(block_id=block_id, message_ids=message_ids)
    made = memory(f"tea of {message_ids} {block_id}", scope=scope)
    return changed(made, {"sources": (source,)})


class MemoryTrust:
    """Classes of memories and messages: see `TrustClass`."""

    async def test_filters_by_trust_keep_to_these_classes(self, store: Store) -> None:
        for trust in TrustClass:
            put = fact(trust)
            await add(store, PutMemory(memory=changed(put.memory, {"trust": trust}), vector=put.vector))
        assert await listed(store, MemoryFilter(trust=(USER,))) == {"fact user"}
        assert await listed(store, MemoryFilter(trust=(USER, ASSISTANT))) == {"fact user", "fact assistant"}
        assert await listed(store, MemoryFilter(trust=(WEB,), targets=("self",))) == {"fact web"}
        assert await listed(store, MemoryFilter(trust=(TOOL,), targets=("other",))) == set()
        assert await listed(store, MemoryFilter(trust=())) == set()

    @pytest.mark.parametrize(
        ("names", "trust"),
        [
            (("user",), USER),
            (("user", "assistant"), ASSISTANT),
            (("tool", "assistant"), TOOL),
            (("result",), TOOL),
            (("raised",), TOOL),
            (("user", "web", "assistant"), WEB),
            (("user", "unknown"), USER),
        ],
    )
    async def test_a_memory_has_the_class_of_its_least_trusted_message(
        self, store: Store, names: tuple[str, ...], trust: TrustClass
    ) -> None:
        await keep(store)
        [stored] = await store.put(ALICE, batch(resting_on(*names)))
        assert stored.trust is trust
        [again] = await store.put(ALICE, batch(changed(stored, {"trust": USER})))
        assert again.trust is trust
        assert (await store.get(ALICE, [stored.memory_id])) == [again]

    async def test_what_is_given_is_lowered_and_never_raised(self, store: Store) -> None:
        await keep(store)
        given = changed(resting_on("user"), {"trust": WEB})
        assert [item.trust for item in await store.put(ALICE, batch(given))] == [WEB]

    async def test_a_source_without_messages_is_all_of_its_block(self, store: Store) -> None:
        await keep(store)
        assert [item.trust for item in await store.put(ALICE, batch(resting_on(block_id="block")))] == [WEB]

    async def test_messages_of_another_user_say_nothing_of_a_memory(self, store: Store) -> None:
        await keep(store, BOB)
        [stored] = await store.put(ALICE, batch(resting_on("web", block_id="block")))
        assert stored.trust is USER

    async def test_messages_are_searched_by_trust_and_blocks_can_not_be(self, store: Store) -> None:
        await keep(store)
        for trust, names in (
            (USER, {"user", "like"}),
            (ASSISTANT, {"assistant", "call"}),
            (TOOL, {"tool", "result"}),
            (WEB, {"web"}),
        ):
            search = MessageSearch(text="tea", trust=(trust,))
            for asked in (search, MessageSearch(text="", trust=(trust,), by_time=True)):
                found = await store.search_messages(ALICE, asked)
                assert {item.stored.message.message_id for item in found} - {"raised"} == names
            assert await store.search_messages(BOB, search) == []
            with pytest.raises(UnsupportedFilterError):
                await store.search_blocks(ALICE, search)
