# asserts are what a contract suite is made of
"""Promises of an offload store about keeping, reading and listing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reme_core.errors import ConflictError, InvalidInputError, MessageNotFoundError, OffloadNotFoundError
from reme_core.ports import AppendMessages, ListOffloads, PutOffloads
from reme_core.schema import OffloadKind, OffloadRecord
from reme_core.testing.store_values import ALICE, BOB, at, message
from tests.contract.suites.offload_values import (
    SESSION,
    Store,
    listed,
    pointer_to,
    put,
    references,
    result_of,
    search,
    text_of,
    texts,
)

TEXTS = (
    "plain",
    "工具的输出 🎾 со строкой\u2028and a separator",
    "line one\r\nline two\rline three\n\n",
    " \t ",
    "\x01\x1b[31mred\x1b[0m\ufeff\ufffe",
    "e\u0301 is not é",
    '{"reload": "0123456789abcdef", "sql": "\'; DROP TABLE offloads; --"}',
)
STRANGE = ("nothing", "' OR '1'='1", '" OR scope:*', "%", "*", "../secret", "0123456789abcde", "块")
OTHERS: Mapping[str, Mapping[str, object]] = {
    "session": {"session_id": "another"},
    "kind": {"kind": OffloadKind.TEXT},
    "name": {"name": "browser"},
    "message": {"message_id": "m2"},
    "place": {"place": 1},
    "text": {"text": "output "},
}


class OffloadKeeping:
    """What left a context is kept, once, all of it or nothing."""

    @pytest.mark.parametrize("text", TEXTS)
    async def test_a_text_comes_back_as_it_was(self, store: Store, text: str) -> None:
        wanted = text_of(text, minute=3, name="что-то 块")
        assert await put(store, wanted) == [wanted.reference]
        assert await store.get_offload(ALICE, wanted.reference) == wanted
        assert await listed(store) == [wanted.info]

    async def test_a_text_of_one_line_and_one_of_many_come_back_whole(self, store: Store) -> None:
        one = text_of("0123456789" * 60_000 + " the end")
        many = text_of("".join(f"line {n}\n" for n in range(30_000)))
        assert await put(store, one, many) == [one.reference, many.reference]
        assert await store.get_offload(ALICE, one.reference) == one
        assert await store.get_offload(ALICE, many.reference) == many
        assert [(info.chars, info.lines) for info in await listed(store)] == [(600_008, 1), (len(many.text), 30_001)]

    async def test_a_tool_result_and_a_pointer_at_messages_come_back_with_where_they_belong(self, store: Store) -> None:
        said = [message(f"said {n}", message_id=f"m{n}") for n in range(3)]
        await store.append(ALICE, AppendMessages(session_id=SESSION, messages=said))
        result, pointer = result_of("output", "not in the transcript yet", place=2), pointer_to("m2", "m0")
        await put(store, result, pointer)
        assert await store.get_offload(ALICE, result.reference) == result
        assert await store.get_offload(ALICE, pointer.reference) == pointer
        assert [(info.bytes, info.message_ids) for info in await listed(store)] == [(6, ()), (0, ("m2", "m0"))]

    async def test_the_same_again_is_kept_once_and_keeps_its_reference(self, store: Store) -> None:
        first = result_of("output", "m1")
        again = result_of("output", "m1", minute=9)
        assert await put(store, first) == [first.reference]
        assert await put(store, again, first, again) == [first.reference] * 3
        assert await listed(store) == [first.info]
        with pytest.raises(OffloadNotFoundError):
            await store.get_offload(ALICE, again.reference)

    async def test_the_same_is_kept_under_exactly_its_reference_if_asked(self, store: Store) -> None:
        first, second = text_of("the same"), text_of("the same")
        await put(store, first)
        for _ in range(2):
            asked = PutOffloads(offloads=[second], exact=True)
            assert await store.put_offloads(ALICE, asked) == [second.reference]
        for item in (first, second):
            assert (await store.get_offload(ALICE, item.reference)).text == "the same"
        assert len(await listed(store)) == 2
        assert await put(store, text_of("the same")) == [first.reference]

    async def test_the_same_twice_in_one_call_is_kept_once(self, store: Store) -> None:
        await store.append(ALICE, AppendMessages(session_id=SESSION, messages=[message("said", message_id="m")]))
        first, second, third, fourth = text_of("a"), text_of("a", minute=1), pointer_to("m"), pointer_to("m")
        assert await put(store, first, third, second, fourth) == [
            first.reference,
            third.reference,
            first.reference,
            third.reference,
        ]
        assert await listed(store) == [first.info, third.info]

    @pytest.mark.parametrize("what", OTHERS)
    async def test_what_differs_in_one_thing_is_kept_beside(self, store: Store, what: str) -> None:
        first = result_of("output", "m1")
        other = OffloadRecord.model_validate({**dict(result_of("output", "m1")), **OTHERS[what]})
        assert await put(store, first, other) == [first.reference, other.reference]
        assert [await store.get_offload(ALICE, item.reference) for item in (first, other)] == [first, other]

    async def test_pointers_at_the_same_messages_in_another_order_are_two(self, store: Store) -> None:
        said = [message(f"said {n}", message_id=f"m{n}") for n in range(2)]
        await store.append(ALICE, AppendMessages(session_id=SESSION, messages=said))
        assert len(set(await put(store, pointer_to("m0", "m1"), pointer_to("m1", "m0"), pointer_to("m0")))) == 3

    async def test_something_else_under_a_taken_reference_conflicts_and_nothing_is_kept(self, store: Store) -> None:
        held = text_of("held", reference="taken")
        await put(store, held)
        with pytest.raises(ConflictError):
            await put(store, text_of("before"), text_of("else", reference="taken"), text_of("after"))
        with pytest.raises(ConflictError):
            await put(store, text_of("one", reference="new"), text_of("two", reference="new"))
        assert await texts(store) == ["held"]
        assert await search(store, "before one") == []
        assert await put(store, text_of("held", reference="taken")) == ["taken"]

    async def test_what_would_point_at_unknown_messages_is_refused_and_nothing_is_kept(self, store: Store) -> None:
        await store.append(ALICE, AppendMessages(session_id=SESSION, messages=[message("said", message_id="known")]))
        await store.append(BOB, AppendMessages(session_id=SESSION, messages=[message("said", message_id="bob's")]))
        with pytest.raises(MessageNotFoundError) as caught:
            await put(store, text_of("before"), pointer_to("known", "none"), pointer_to("bob's"))
        assert list(caught.value.missing) == ["none", "bob's"]
        assert await listed(store) == []

    async def test_keeping_nothing_leaves_nothing(self, store: Store) -> None:
        assert await put(store) == await put(store, hold=True) == []
        assert await listed(store) == []

    @pytest.mark.parametrize("reference", STRANGE)
    async def test_a_reference_that_is_none_is_not_found(self, store: Store, reference: str) -> None:
        await put(store, text_of("held", reference="0123456789abcdef"))
        with pytest.raises(OffloadNotFoundError) as caught:
            await store.get_offload(ALICE, reference)
        assert list(caught.value.missing) == [reference]
        assert await texts(store) == ["held"]

    @pytest.mark.parametrize("reference", ["half \ud83d", "a\0b", ""])
    async def test_a_reference_that_none_can_have_is_an_error(self, store: Store, reference: str) -> None:
        await put(store, text_of("held", reference="a"))
        with pytest.raises((OffloadNotFoundError, InvalidInputError)):
            await store.get_offload(ALICE, reference)

    @pytest.mark.parametrize("reference", [item for item in STRANGE if item != "nothing"])
    async def test_a_reference_of_any_characters_is_taken_as_it_is(self, store: Store, reference: str) -> None:
        other, wanted = text_of("other"), text_of("wanted", reference=reference)
        assert await put(store, other, wanted) == [other.reference, reference]
        assert (await store.get_offload(ALICE, reference)).text == "wanted"
        assert await texts(store) == ["other", "wanted"]

    async def test_what_is_returned_is_a_copy(self, store: Store) -> None:
        wanted = text_of("kept", reference="a", name="name")
        await put(store, wanted)
        [info] = await listed(store)
        for item in (
            wanted,
            await store.get_offload(ALICE, "a"),
            info,
            *[hit.info for hit in await search(store, "kept")],
        ):
            item.__dict__["name"] = item.__dict__["text"] = "changed"
        assert await store.get_offload(ALICE, "a") == text_of("kept", reference="a", name="name")
        assert [item.name for item in await listed(store)] == ["name"]


class OffloadListing:
    """What there is, in the order of keeping, page by page."""

    async def test_offloads_are_listed_in_the_order_of_keeping_or_its_reverse(self, store: Store) -> None:
        kept = [text_of(f"text {n}", minute=-n) for n in range(5)]
        for item in kept:
            await put(store, item)
        wanted = [item.reference for item in kept]
        assert references(await listed(store)) == wanted
        assert references(await listed(store, ListOffloads(newest_first=True))) == wanted[::-1]

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    @pytest.mark.parametrize("newest_first", [False, True])
    async def test_pages_of_any_size_partition_the_list(
        self,
        store: Store,
        limit: int,
        newest_first: bool,  # given by pytest
    ) -> None:
        kept = [text_of(f"text {n}") for n in range(7)]
        await put(store, *kept)
        await put(store, text_of("of Bob"), scope=BOB)
        found = references(await listed(store, ListOffloads(limit=limit, newest_first=newest_first)))
        assert found == [item.reference for item in (kept[::-1] if newest_first else kept)]

    async def test_a_list_is_of_one_session_or_of_some_messages_or_both(self, store: Store) -> None:
        first, second = result_of("one", "m1"), result_of("two", "m2", place=1)
        other = OffloadRecord.model_validate({**dict(result_of("three", "m1")), "session_id": "another"})
        await put(store, first, other, second, text_of("plain"))
        wanted = {
            ListOffloads(session_id="another"): [other],
            ListOffloads(message_ids=("m1", "none")): [first, other],
            ListOffloads(message_ids=("m2", "m1"), session_id=SESSION): [first, second],
            ListOffloads(message_ids=("m2", "m1"), session_id=SESSION, limit=1): [first, second],
            ListOffloads(message_ids=()): [],
            ListOffloads(references=(second.reference, "none", first.reference)): [first, second],
            ListOffloads(references=(first.reference,), session_id="another"): [],
            ListOffloads(references=()): [],
            ListOffloads(message_ids=("%", "'", "m")): [],
            ListOffloads(session_id="none"): [],
        }
        for query, offloads in wanted.items():
            assert references(await listed(store, query)) == [item.reference for item in offloads]

    async def test_a_list_is_of_some_time_of_saying_and_some_kinds(self, store: Store) -> None:
        old = result_of("old", "m1", minute=9).model_copy(update={"said_at": at(1)})
        new, text = result_of("new", "m2", minute=3), text_of("a text", minute=2)
        await put(store, old, new, text)
        results = (OffloadKind.TOOL_RESULT,)
        wanted = {
            ListOffloads(made_from=at(2)): [new, text],
            ListOffloads(made_to=at(3)): [old, text],
            ListOffloads(made_from=at(1), made_to=at(2)): [old],
            ListOffloads(made_from=at(4)): [],
            ListOffloads(kinds=results): [old, new],
            ListOffloads(kinds=results, made_from=at(2), limit=1): [new],
            ListOffloads(kinds=(OffloadKind.TEXT, OffloadKind.MESSAGES)): [text],
            ListOffloads(kinds=()): [],
        }
        for query, offloads in wanted.items():
            assert references(await listed(store, query)) == [item.reference for item in offloads]

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_page_of_nothing_is_refused(self, store: Store, limit: int) -> None:
        with pytest.raises(InvalidInputError):
            await store.list_offloads(ALICE, ListOffloads(limit=limit))

    @pytest.mark.parametrize("cursor", ["", "x", "1", "WyJtZXNzYWdlcyIsIDFd", "' OR 1=1"])
    async def test_a_cursor_of_something_else_is_refused(self, store: Store, cursor: str) -> None:
        await put(store, text_of("kept", minute=1))
        with pytest.raises(InvalidInputError):
            await store.list_offloads(ALICE, ListOffloads(cursor=cursor))

    async def test_what_was_offloaded_when_is_told(self, store: Store) -> None:
        await put(store, text_of("kept", minute=7.25))
        assert [info.created_at for info in await listed(store)] == [at(7.25)]
