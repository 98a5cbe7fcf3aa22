"""A context is split so that calls and results stay together, and what has to stay does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core.errors import InvalidInputError
from reme_core.models import CharacterTokenCounter
from reme_core.schema import ContentBlock, Message, Role, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.working.messages_to_keep import ContextCheck, ContextLimits, check_context
from reme_core.working.tokens import TokenLedger
from tests.support.conversations import conversations, prompts, windows

SMALL = ContextLimits(max_input_length=2_000)  # threshold 1,330, summary 266, reserve 532
LONG = "word " * 430  # 538 tokens


class Chat:
    """A conversation that is written down part by part; `names` are the ids of its messages."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._numbers = count()

    def add(self, role: Role, *content: ContentBlock | str) -> Message:
        blocks = tuple(TextBlock(text=part) if isinstance(part, str) else part for part in content)
        message = Message(message_id=f"m{next(self._numbers)}", role=role, content=blocks)
        self.messages.append(message)
        return message

    def call(self, *call_ids: str, text: str = "x") -> Message:
        calls = [ToolCallBlock(call_id=call_id, name="look", arguments={"text": text}) for call_id in call_ids]
        return self.add("assistant", *calls)

    def result(self, *call_ids: str, text: str = "x") -> Message:
        return self.add("tool", *(ToolResultBlock(call_id=call_id, output=text) for call_id in call_ids))


def split(
    messages: Sequence[Message], limits: ContextLimits = SMALL, *, system_prompt: str = "", force: bool = True
) -> ContextCheck:
    ledger = TokenLedger(CharacterTokenCounter())
    return check_context(messages, limits=limits, ledger=ledger, system_prompt=system_prompt, force=force)


def kept(chat: Chat, limits: ContextLimits = SMALL) -> list[Message]:
    check = split(chat.messages, limits)
    both = {message.message_id for message in (*check.to_keep, *check.to_compact)}
    assert len(check.to_keep) + len(check.to_compact) == len(both) == len(chat.messages)
    return list(check.to_keep)


def test_a_context_below_its_threshold_keeps_everything() -> None:
    chat = Chat()
    chat.add("user", "hello")
    chat.add("assistant", "hello")
    check = split(chat.messages, force=False)
    assert not check.is_over
    assert check.to_compact == ()
    assert list(check.to_keep) == chat.messages
    assert check.tokens == check.message_tokens
    assert 0 < check.ratio < 0.01


def test_all_that_is_sent_is_counted() -> None:
    ledger = TokenLedger(CharacterTokenCounter())
    chat = Chat()
    chat.add("system", "a" * 400)
    chat.add("user", "b" * 400)
    check = check_context(
        chat.messages, limits=SMALL, ledger=ledger, system_prompt="c" * 40, summary="d" * 80, overhead_tokens=7
    )
    assert check.message_tokens == 208
    assert check.taken == 104 + 10 + 7
    assert check.tokens == 208 + 10 + 20 + 7
    assert check.threshold == 1_330


@pytest.mark.parametrize("overhead", [-1, True, 1.5, "7"])
def test_an_overhead_that_is_no_number_of_tokens_is_refused(overhead: int) -> None:
    with pytest.raises(InvalidInputError, match="overhead_tokens"):
        check_context([], limits=SMALL, ledger=TokenLedger(CharacterTokenCounter()), overhead_tokens=overhead)


def test_no_messages_are_no_tokens() -> None:
    check = split([])
    assert (check.tokens, check.to_compact, check.to_keep) == (0, (), ())


def test_the_newest_messages_stay_up_to_the_reserve() -> None:
    chat = Chat()
    for _ in range(4):
        chat.add("user", "word " * 200)
        chat.add("assistant", "word " * 200)
    assert kept(chat) == chat.messages[-2:]


def test_a_user_message_far_back_stays_alone() -> None:
    chat = Chat()
    chat.add("system", "be kind")
    chat.add("user", "old")
    asked = chat.add("user", "do all of it")
    for number in range(20):
        chat.call(f"c{number}", text="word " * 50)
        chat.result(f"c{number}", text="word " * 50)
    stay = kept(chat)
    assert stay[:2] == [chat.messages[0], asked]
    assert stay[2:] == chat.messages[-len(stay) + 2 :]
    assert len(stay) == 2 + 2 * 3


def test_a_call_is_not_parted_from_its_results_by_the_reserve() -> None:
    chat = Chat()
    chat.add("user", "go")
    chat.call("a", "b", "c", text=LONG)
    for name in "abc":
        chat.result(name, text="word " * 40)
    chat.add("assistant", "there")
    assert kept(chat) == [chat.messages[0], chat.messages[-1]]


def test_results_that_come_late_go_with_their_call() -> None:
    chat = Chat()
    chat.call("late", "soon")
    chat.result("soon")
    chat.add("assistant", LONG)
    chat.add("assistant", LONG)
    chat.add("user", "and?")
    late = chat.result("late")
    chat.add("assistant", "fine")
    stay = kept(chat)
    assert late not in stay
    assert stay == [chat.messages[4], chat.messages[6]]


def test_a_message_with_a_late_result_takes_its_other_calls_along() -> None:
    chat = Chat()
    chat.call("old")
    chat.add("assistant", LONG)
    chat.add("assistant", LONG)
    chat.add("user", "and?")
    chat.call("new")
    chat.result("old", "new")
    chat.add("assistant", "fine")
    assert kept(chat) == [chat.messages[3], chat.messages[6]]


def test_calls_of_the_going_turn_that_wait_stay_with_the_results_that_are_there() -> None:
    chat = Chat()
    chat.add("user", "go")
    chat.call("a", "b")
    chat.result("a", text=LONG)
    chat.call("c")
    chat.result("c", text=LONG)
    chat.add("assistant", LONG)
    assert kept(chat) == chat.messages[:3]


def test_a_call_that_nobody_answered_before_the_user_went_on_may_go() -> None:
    chat = Chat()
    chat.call("never")
    chat.add("user", LONG)
    chat.add("assistant", LONG)
    chat.add("user", "go on")
    chat.add("assistant", "yes")
    assert chat.messages[0] not in kept(chat)


def test_the_newest_call_and_its_result_stay_beyond_the_reserve_if_the_threshold_has_room() -> None:
    chat = Chat()
    chat.add("user", LONG)
    chat.add("user", "go")
    chat.call("big")
    chat.result("big", text="word " * 640)
    assert kept(chat) == chat.messages[1:]


def test_the_newest_call_and_its_result_go_if_the_threshold_has_no_room() -> None:
    chat = Chat()
    chat.add("user", "go")
    chat.call("big")
    chat.result("big", text="word " * 1_600)
    assert kept(chat) == chat.messages[:1]


def test_call_ids_that_are_used_again_belong_to_the_nearest_call() -> None:
    chat = Chat()
    for _ in range(30):
        chat.add("user", "go")
        chat.call("call_0", text="word " * 20)
        chat.result("call_0", text="word " * 20)
    stay = kept(chat)
    assert stay == chat.messages[-len(stay) :]
    assert len(stay) > 6


def test_a_result_without_a_call_blocks_nothing() -> None:
    chat = Chat()
    chat.result("nobody", text=LONG)
    chat.add("user", LONG)
    chat.add("assistant", LONG)
    chat.result("nobody")
    assert kept(chat) == [chat.messages[1]]


def test_a_result_before_its_call_is_on_the_side_of_its_call() -> None:
    chat = Chat()
    chat.result("early")
    chat.add("assistant", LONG)
    chat.add("assistant", LONG)
    chat.call("early")
    chat.add("user", "go on")
    assert kept(chat) == chat.messages[-1:]
    chat.messages.pop()
    assert kept(chat) == [chat.messages[0], chat.messages[-1]]


def test_a_user_message_of_results_alone_is_not_the_last_user_message() -> None:
    chat = Chat()
    asked = chat.add("user", "go")
    chat.call("a")
    chat.add("user", ToolResultBlock(call_id="a", output=LONG * 3))
    assert kept(chat) == [asked]


def test_a_last_user_message_with_results_stays_with_their_calls() -> None:
    chat = Chat()
    chat.call("a")
    chat.add("assistant", LONG)
    chat.add("assistant", LONG)
    chat.add("user", ToolResultBlock(call_id="a", output="x"), "and now?")
    assert kept(chat) == [chat.messages[0], chat.messages[-1]]


@pytest.mark.parametrize("limits", [SMALL, ContextLimits(max_input_length=2_000, reserve_tokens=0)])
def test_splitting_what_stays_changes_nothing(limits: ContextLimits) -> None:
    chat = Chat()
    chat.add("user", "go")
    for number in range(30):
        chat.call(f"c{number}", text="word " * 20)
        chat.result(f"c{number}", text="word " * 20)
    stay = kept(chat, limits)
    assert list(split(stay, limits).to_keep) == stay


class ReadMessages(list[Message]):
    """Notes the places that were looked at one by one."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__(messages)
        self.read = set[int]()

    def __getitem__(self, place):
        if isinstance(place, int):
            self.read.add(place)
        return super().__getitem__(place)


def test_of_a_long_context_only_the_end_is_read_for_a_split() -> None:
    chat = Chat()
    for number in range(300):
        chat.add("user", "go")
        chat.call(f"a{number}", f"b{number}", text="word " * 10)
        chat.result(f"a{number}", text="word " * 10)
        chat.result(f"b{number}", text="word " * 10)
    messages = ReadMessages(chat.messages)
    assert split(messages).to_keep
    assert min(messages.read - {0}) > 1_100


def calls_of(messages: Sequence[Message]) -> set[str]:
    return {name for message in messages for name in message.call_ids}


def results_of(messages: Sequence[Message]) -> set[str]:
    return {name for message in messages for name in message.result_ids}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), conversations(max_messages=300), windows())
def test_any_conversation_is_split_into_two_whole_ones(data: st.DataObject, said: list[Message], window: int) -> None:
    limits = ContextLimits(max_input_length=window)
    prompt = data.draw(prompts(limits.threshold // 3))
    ledger = TokenLedger(CharacterTokenCounter())
    before = list(said)
    check = check_context(said, limits=limits, ledger=ledger, system_prompt=prompt)
    assert said == before
    assert check.is_over or check.to_compact == ()
    places = {id(message): place for place, message in enumerate(said)}
    goes, stays = ([places[id(message)] for message in side] for side in (check.to_compact, check.to_keep))
    assert sorted(goes + stays) == list(range(len(said)))
    assert goes == sorted(goes)
    assert stays == sorted(stays)
    # No call without its result or the reverse; those that wait have none, and stay.
    waiting = calls_of(said) - results_of(said)
    assert calls_of(check.to_compact) == results_of(check.to_compact)
    assert calls_of(check.to_keep) - results_of(check.to_keep) == waiting
    assert results_of(check.to_keep) <= calls_of(check.to_keep)
    users = [place for place, message in enumerate(said) if message.role == "user"]
    must = {place for place, message in enumerate(said) if message.role == "system"}
    assert must <= set(stays)
    must |= set(users[-1:]) | {place for place, message in enumerate(said) if waiting & set(message.call_ids)}
    assert must <= set(stays)
    if check.to_compact:
        inside = {name for place in must for name in said[place].call_ids}
        free = [place for place in stays if place not in must and not inside & set(said[place].result_ids)]
        newest = sum(ledger.count_message(said[place]) for place in free)
        held = ledger.count_text(prompt) + sum(ledger.count_message(said[place]) for place in stays)
        assert newest <= limits.reserve(check.taken) or held <= limits.threshold - limits.summary_limit
    again = check_context(check.to_keep, limits=limits, ledger=ledger, system_prompt=prompt, force=check.is_over)
    assert again.to_compact == ()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.integers(0, 60), st.data()), max_size=25))
def test_malformed_conversations_are_split_and_stay_split(parts: list[tuple[Role, int, st.DataObject]]) -> None:
    chat = Chat()
    for role, words, data in parts:
        ids = data.draw(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=3))
        blocks = [
            ToolCallBlock(call_id=name, name="look") if is_call else ToolResultBlock(call_id=name, output="x")
            for is_call, name in ids
        ]
        chat.add(role, *blocks, "word " * words + ".")
    stay = kept(chat, ContextLimits(max_input_length=1_000))
    assert list(split(stay, ContextLimits(max_input_length=1_000)).to_keep) == stay
