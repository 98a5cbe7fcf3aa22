# asserts are what a contract suite is made of
"""Promises of a transcript about messages: appending, reading, finding."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from reme_core.errors import ConflictError, InvalidInputError, MessageNotFoundError
from reme_core.ports import Appended, AppendMessages, FindMessages, Store
from reme_core.schema import Block, Message, Scope, StoredMessage
from reme_core.testing.store_values import ALICE, BOB, at, block, message

SESSION = "session"
TEXTS_AND_KEYWORDS = (
    ("She is learning to play the VIOLIN", "violin"),
    ("She is learning to play", "learned plays"),
    ("她喜欢在周末打网球", "网球"),
    ("東京で毎朝コーヒーを飲む", "コーヒー"),
    ("그는 서울에서 기타를 배운다", "서울"),
    ("the party 🎉 was in the Grand Hotel", "hotel"),
    ("see reme_core/config.py", "config"),
)


async def append(
    store: Store, *messages: Message, session_id: str = SESSION, scope: Scope = ALICE, want_vectors: bool = False
) -> Appended:
    """Append messages to a session."""
    return await store.append(
        scope, AppendMessages(session_id=session_id, messages=messages, want_vectors=want_vectors)
    )


async def put_block(
    store: Store, *messages: Message, session_id: str = SESSION, scope: Scope = ALICE, summary: str = ""
) -> Block:
    """Slice a block out of a session."""
    made = block(session_id, *messages, summary=summary)
    await store.put_blocks(scope, [made])
    return made


async def found(store: Store, query: FindMessages, *, scope: Scope = ALICE) -> list[Message]:
    """Find messages on all pages."""
    messages: list[Message] = []
    cursor = query.cursor
    while True:
        asked = FindMessages(
            keyword=query.keyword,
            session_id=query.session_id,
            said_from=query.said_from,
            said_to=query.said_to,
            unsliced=query.unsliced,
            limit=query.limit,
            cursor=cursor,
            newest_first=query.newest_first,
        )
        page = await store.find_messages(scope, asked)
        assert len(page.messages) <= query.limit
        messages += [item.message for item in page.messages]
        cursor = page.next_cursor
        if cursor is None:
            return messages


def several(count: int, *, minute: float = 0) -> list[Message]:
    """Build messages of one minute each."""
    return [message(f"message {n}", minute=minute + n) for n in range(count)]


class TranscriptAppending:
    """Messages are added at the end of a session, and never rewritten."""

    async def test_messages_come_back_as_they_were_said(self, store: Store) -> None:
        said = [
            Message.model_validate(data)
            for data in (
                {"role": "user", "name": "Ann", "content": "你好 🎉", "created_at": at(0), "metadata": {"": [1, None]}},
                {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "url": "file:a.png"}]},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c", "function": {"name": "find", "arguments": '{"q": 1.0}'}}],
                },
                {"role": "tool", "tool_call_id": "c", "content": "no"},
                {"role": "system", "content": "be brief", "starts_block": True},
            )
        ]
        ids = tuple(item.message_id for item in said)
        assert await append(store, *said) == Appended(added=ids, known=())
        wanted = [StoredMessage(message=item, session_id=SESSION) for item in said]
        assert await store.get_messages(ALICE, ids) == wanted
        assert await found(store, FindMessages()) == said

    async def test_appending_the_same_again_changes_nothing(self, store: Store) -> None:
        first, second, third = several(3)
        await append(store, first, second)
        answer = await append(store, first, third, second)
        assert answer == Appended(added=(third.message_id,), known=(first.message_id, second.message_id))
        assert await append(store, third) == Appended(added=(), known=(third.message_id,))
        assert await found(store, FindMessages()) == [first, second, third]

    async def test_appending_nothing_adds_nothing(self, store: Store) -> None:
        assert await append(store) == Appended(added=(), known=())
        assert await found(store, FindMessages()) == []

    @pytest.mark.parametrize("difference", ["text", "role", "time", "session"])
    async def test_an_id_with_other_content_conflicts_and_nothing_is_added(self, store: Store, difference: str) -> None:
        first = message("hello", message_id="id")
        await append(store, first)
        others = {
            "text": message("goodbye", message_id="id"),
            "role": message("hello", message_id="id", role="assistant"),
            "time": message("hello", message_id="id", minute=1),
            "session": first,
        }
        session = "other" if difference == "session" else SESSION
        with pytest.raises(ConflictError):
            await append(store, message("before"), others[difference], message("after"), session_id=session)
        assert await found(store, FindMessages()) == [first]

    async def test_what_has_a_taken_id_is_kept_under_another_one_where_that_is_asked_for(self, store: Store) -> None:
        first = message("hello", message_id="id")
        others = [message("goodbye", message_id="id"), message("hello", message_id="id", role="assistant")]
        await append(store, first)
        names: list[str] = []
        for session, said in [(SESSION, others[0]), (SESSION, others[1]), ("other", first)]:
            request = AppendMessages(session_id=session, messages=[said], on_conflict="rename")
            added = await store.append(ALICE, request)
            assert added.added == tuple(added.renamed.values())
            assert set(added.renamed) == {"id"}
            again = await store.append(ALICE, request)
            assert (again.added, again.known, again.renamed) == ((), added.added, added.renamed)
            names += added.added
        assert [item.full_text for item in await found(store, FindMessages())] == ["hello", "goodbye", "hello", "hello"]
        [copy] = await found(store, FindMessages(session_id="other"))
        assert copy.metadata == {"reme_original_id": "id"}
        assert [item.message.message_id for item in await store.get_messages(ALICE, ["id", *names])] == ["id", *names]

    async def test_ids_that_are_free_or_known_are_not_renamed(self, store: Store) -> None:
        first, second = several(2)
        await append(store, first, scope=BOB)
        request = AppendMessages(session_id=SESSION, messages=[first, second], on_conflict="rename")
        ids = (first.message_id, second.message_id)
        assert await store.append(ALICE, request) == Appended(added=ids, known=())
        assert await store.append(ALICE, request) == Appended(added=(), known=ids)

    async def test_messages_keep_the_order_of_appending(self, store: Store) -> None:
        late, early = message("late", minute=9), message("early", minute=1)
        await append(store, late, early)
        between = message("between", minute=5)
        await append(store, between)
        assert await found(store, FindMessages(session_id=SESSION)) == [late, early, between]

    async def test_messages_are_got_in_the_order_asked(self, store: Store) -> None:
        first, second = several(2)
        await append(store, first, second)
        ids = [second.message_id, first.message_id, second.message_id]
        assert [item.message.message_id for item in await store.get_messages(ALICE, ids)] == ids
        assert await store.get_messages(ALICE, []) == []

    async def test_every_unknown_message_is_named(self, store: Store) -> None:
        [known] = several(1)
        await append(store, known)
        with pytest.raises(MessageNotFoundError) as caught:
            await store.get_messages(ALICE, ["no such", known.message_id, "*", ""])
        assert caught.value.missing == ("no such", "*", "")

    async def test_what_is_returned_is_a_copy(self, store: Store) -> None:
        mine = message("hello")
        await append(store, mine)
        for item in (mine, *await found(store, FindMessages())):
            item.metadata["changed"] = True
        assert (await store.get_messages(ALICE, [mine.message_id]))[0].message.metadata == {}


class TranscriptFinding:
    """Finding messages by keyword, time and session, in pages."""

    async def test_an_empty_store_finds_nothing(self, store: Store) -> None:
        page = await store.find_messages(ALICE, FindMessages(keyword="anything"))
        assert (page.messages, page.next_cursor) == ((), None)

    @pytest.mark.parametrize(("text", "keyword"), TEXTS_AND_KEYWORDS)
    async def test_a_keyword_finds_what_holds_it(self, store: Store, text: str, keyword: str) -> None:
        wanted = message(text)
        await append(store, message("完全無関係 quite unrelated 무관한"), wanted)
        assert await found(store, FindMessages(keyword=keyword)) == [wanted]

    async def test_a_keyword_wants_every_word(self, store: Store) -> None:
        both, one = message("a red bicycle"), message("a blue bicycle")
        await append(store, both, one)
        assert await found(store, FindMessages(keyword="bicycle")) == [both, one]
        assert await found(store, FindMessages(keyword="red bicycle")) == [both]
        assert await found(store, FindMessages(keyword="bicycle red")) == [both]
        assert await found(store, FindMessages(keyword="red train")) == []

    @pytest.mark.parametrize("keyword", ["the", "🎉", "?", "*", '"', "a OR b", "'", "red NEAR x", "text:x"])
    async def test_a_keyword_of_any_form_never_widens_the_search(self, store: Store, keyword: str) -> None:
        await append(store, message("zebra"))
        with suppress(InvalidInputError):
            assert await found(store, FindMessages(keyword=keyword)) == []

    async def test_times_include_the_start_and_not_the_end(self, store: Store) -> None:
        said = several(4)
        await append(store, *said)
        assert await found(store, FindMessages(said_from=at(1))) == said[1:]
        assert await found(store, FindMessages(said_to=at(2))) == said[:2]
        assert await found(store, FindMessages(said_from=at(1), said_to=at(3))) == said[1:3]
        assert await found(store, FindMessages(said_from=at(1), said_to=at(1))) == []

    async def test_messages_of_one_session_alone_are_found(self, store: Store) -> None:
        one, two = several(2), several(2)
        await append(store, *one, session_id="one")
        await append(store, *two, session_id="two")
        assert await found(store, FindMessages(session_id="two")) == two
        assert await found(store, FindMessages()) == one + two
        for nobody in ("no such", "*", "On", "%", ""):
            assert await found(store, FindMessages(session_id=nobody)) == []

    async def test_unsliced_messages_are_those_in_no_block(self, store: Store) -> None:
        said = several(4)
        await append(store, *said)
        assert await found(store, FindMessages(unsliced=True)) == said
        made = await put_block(store, said[0], said[1])
        assert await found(store, FindMessages(unsliced=True)) == said[2:]
        assert [item.block_id for item in await store.get_messages(ALICE, [m.message_id for m in said])] == [
            made.block_id,
            made.block_id,
            None,
            None,
        ]

    async def test_all_conditions_hold_together(self, store: Store) -> None:
        said = [message(f"{word} text", minute=n) for n, word in enumerate(["zebra", "zebra", "horse", "zebra"])]
        await append(store, *said)
        await append(store, message("zebra elsewhere", minute=3), session_id="other")
        await put_block(store, said[0])
        query = FindMessages(keyword="zebra", session_id=SESSION, said_from=at(0), said_to=at(99), unsliced=True)
        assert await found(store, query) == [said[1], said[3]]

    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8])
    async def test_pages_of_any_size_partition_what_is_found(
        self, store: Store, size: int, *, newest_first: bool
    ) -> None:
        said = several(7, minute=0)
        await append(store, *said[:3], session_id="a")
        await append(store, *said[3:5], session_id="b")
        await append(store, *said[5:], session_id="a")
        wanted = said[::-1] if newest_first else said
        assert await found(store, FindMessages(limit=size, newest_first=newest_first)) == wanted
        zebras = FindMessages(keyword="message", session_id="a", limit=size, newest_first=newest_first)
        assert await found(store, zebras) == [item for item in wanted if item not in said[3:5]]

    async def test_a_page_goes_on_where_the_last_one_ended_though_others_were_added(self, store: Store) -> None:
        said = several(4)
        await append(store, *said)
        first = await store.find_messages(ALICE, FindMessages(limit=2, newest_first=True))
        await append(store, message("newer", minute=50))
        rest = await found(store, FindMessages(limit=2, newest_first=True, cursor=first.next_cursor))
        assert rest == [said[1], said[0]]

    @pytest.mark.parametrize("cursor", ["", "x", "-1", "*", "{}", "null", "e30=", "é", "' OR 1=1 --"])
    async def test_a_cursor_that_is_not_ours_is_refused(self, store: Store, cursor: str) -> None:
        await append(store, *several(2))
        with pytest.raises(InvalidInputError):
            await store.find_messages(ALICE, FindMessages(cursor=cursor))

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_limit_below_one_is_refused(self, store: Store, limit: int) -> None:
        with pytest.raises(InvalidInputError):
            await store.find_messages(ALICE, FindMessages(limit=limit))

    async def test_a_cursor_of_another_scope_shows_nothing_of_it(self, store: Store) -> None:
        mine = several(4)
        await append(store, *mine)
        theirs: Sequence[Message] = several(4)
        await append(store, *theirs, scope=BOB)
        cursor = (await store.find_messages(ALICE, FindMessages(limit=2))).next_cursor
        with suppress(InvalidInputError):
            assert set(await ids(store, FindMessages(cursor=cursor), BOB)) <= {item.message_id for item in theirs}


async def ids(store: Store, query: FindMessages, scope: Scope) -> list[str]:
    """Return the ids of the messages found."""
    return [item.message_id for item in await found(store, query, scope=scope)]
