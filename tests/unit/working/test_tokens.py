"""Each message is counted once, whatever is asked; a counter's nonsense is refused."""

from __future__ import annotations

import gc
import weakref
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core.errors import InvalidInputError
from reme_core.models import CharacterTokenCounter
from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    OtherBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from reme_core.working.messages_to_keep import ContextLimits, check_context
from reme_core.working.tokens import FILE_TOKENS, IMAGE_TOKENS, TokenLedger
from tests.support.conversations import conversations


class CountingCounter:
    """Counts characters, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def count(self, text: str) -> int:
        self.asked += 1
        return len(text)


class Says:
    """Answers what it was told to."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def count(self, text: str) -> int:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # a counter that doesn't keep to its port


def said(text: str) -> Message:
    return Message(role="user", content=(TextBlock(text=text),))


def tokens(*content: ContentBlock) -> int:
    return TokenLedger(CountingCounter()).count_message(Message(role="user", content=content))


def test_texts_names_arguments_outputs_and_vendors_data_are_counted() -> None:
    empty = tokens(ToolResultBlock(call_id="a", output=""))
    assert tokens(ToolResultBlock(call_id="a", output="x" * 50)) == empty + 50
    assert tokens(TextBlock(text="x" * 50)) == tokens(TextBlock(text="x")) + 49
    short = tokens(ToolCallBlock(call_id="a", name="look", arguments="{}"))
    assert tokens(ToolCallBlock(call_id="a", name="look", arguments={"a": "é"})) == short + len('{"a": "é"}') - 2
    assert tokens(ToolCallBlock(call_id="a", name="look at", arguments="{}")) == short + 3
    other = tokens(OtherBlock(kind="thinking"))
    assert tokens(OtherBlock(kind="thinking", data={"a": [1, 2]})) == other + len('{"a": [1, 2]}') - len("null")


def test_base64_in_what_a_vendor_or_a_tool_sent_counts_as_a_file_and_not_as_text() -> None:
    source = {"type": "base64", "data": b64encode(bytes(300_000)).decode()}
    held = tokens(OtherBlock(kind="tool_result", data={"output": [{"type": "image", "source": source}]}))
    assert FILE_TOKENS < held < FILE_TOKENS + 300


def test_an_image_or_a_file_counts_a_fixed_number_and_its_words() -> None:
    one = tokens(ImageBlock(url="https://example.com/" + "a" * 500))
    assert one == tokens(ImageBlock(url="data:image/png;base64," + "A" * 900)) >= IMAGE_TOKENS
    assert tokens(ImageBlock(url="https://example.com/a", caption="a cat")) == one + 5
    carried = tokens(FileBlock(url="data:application/pdf;base64,AAAA"))
    assert carried >= FILE_TOKENS
    assert tokens(FileBlock(url="data:application/pdf;base64,AAAA", name="a.pdf")) == carried + 5
    assert tokens(FileBlock(url="https://example.com/a.pdf")) < 50


def test_a_name_counts() -> None:
    ledger = TokenLedger(CountingCounter())
    named = said("hello").model_copy(update={"name": "Alice"})
    assert ledger.count_message(named) == ledger.count_message(said("hello")) + 6


def test_a_message_is_counted_once() -> None:
    counter = CountingCounter()
    ledger = TokenLedger(counter)
    messages = [said(f"message {number}") for number in range(100)]
    first = ledger.count_messages(messages)
    assert counter.asked == 100
    assert ledger.count_messages(messages) == first
    assert sum(map(ledger.count_message, messages)) == first
    assert ledger.count_messages(messages[20:80]) == sum(map(ledger.count_message, messages[20:80]))
    assert ledger.count_messages(tuple(messages[::-1])) == first
    assert counter.asked == 100


def test_a_context_that_grows_costs_what_is_new_whether_it_is_over_or_not() -> None:
    for window in (1_000_000, 1_000):
        counter = CountingCounter()
        ledger = TokenLedger(counter)
        messages = [said(f"message {number}") for number in range(300)]
        limits = ContextLimits(max_input_length=window)
        for new in range(5):
            prompt, summary = "be kind, " * 20, "it went well, " * 20
            check_context(messages, limits=limits, ledger=ledger, system_prompt=prompt, summary=summary)
            assert counter.asked == 302 + new
            messages.append(said(f"and {new}"))


def test_a_view_with_the_same_id_is_counted_for_itself() -> None:
    ledger = TokenLedger(CountingCounter())
    whole = said("x" * 1_000)
    view = whole.model_copy(update={"content": (TextBlock(text="x" * 10),)})
    assert ledger.count_message(whole) - ledger.count_message(view) == 990
    assert ledger.count_messages([whole, whole]) - ledger.count_messages([whole, view]) == 990


class ReadingLedger(TokenLedger):
    """Notes which messages were looked at."""

    def __init__(self) -> None:
        super().__init__(CountingCounter())
        self.read: list[str] = []

    def count_message(self, message: Message) -> int:
        self.read.append(message.text)
        return super().count_message(message)


def test_of_a_sequence_that_goes_on_only_what_is_new_is_looked_at() -> None:
    ledger = ReadingLedger()
    talks = [[said(f"talk {talk}, message {number}") for number in range(50)] for talk in range(4)]
    for talk in talks:
        ledger.count_messages(talk)
    ledger.read.clear()
    for number in range(3):  # the talks take turns
        for talk in talks:
            talk.append(said(f"and {number}"))
            assert ledger.count_messages(talk) == sum(len(message.text) + 4 for message in talk)
    assert ledger.read == [f"and {number}" for number in range(3) for _ in talks]


def test_what_branches_off_a_counted_sequence_is_counted_right() -> None:
    ledger = TokenLedger(CountingCounter())
    messages = [said("x" * number) for number in range(1, 60)]
    others = [said("y" * number) for number in range(1, 4)]
    for end, other in ((59, 0), (30, 1), (30, 2), (59, 1), (59, 2), (10, 1), (59, 0)):
        branch = [*messages[:end], others[other]]
        assert ledger.count_messages(branch) == sum(map(ledger.count_message, branch))
    both = [*messages, others[0], others[1]]
    assert ledger.count_messages(both) == sum(map(ledger.count_message, both))


def test_only_the_last_sequences_keep_their_messages() -> None:
    ledger = TokenLedger(CountingCounter())
    first = weakref.ref(message := said("the first one"))
    ledger.count_messages([message])
    del message
    for number in range(4):
        ledger.count_messages([said(f"another {number}")])
    gc.collect()
    assert first() is None
    assert len(ledger._counted) == 4


def test_messages_that_are_gone_are_forgotten() -> None:
    ledger = TokenLedger(CountingCounter())
    message = said("hello")
    ledger.count_message(message)
    gone = weakref.ref(message)
    del message
    gc.collect()
    assert gone() is None
    assert not ledger._counted


def test_what_stands_beside_the_texts_of_a_message_is_counted_with_it() -> None:
    ledger = TokenLedger(CountingCounter(), beside=lambda message: 800 if message.name else 0)
    message = said("a picture")
    named = message.model_copy(update={"name": "A"})
    assert ledger.count_message(named) == ledger.count_message(message) + 800 + 2


def test_the_last_texts_are_remembered_and_the_older_ones_forgotten() -> None:
    counter = CountingCounter()
    ledger = TokenLedger(counter)
    for number in range(40):
        text = f"{number:03}" + "x" * 100
        assert ledger.count_text(text) == ledger.count_text(text) == 103
    assert counter.asked == 40
    assert len(ledger._texts) == 16


def test_threads_share_a_ledger() -> None:
    ledger = TokenLedger(CountingCounter())
    messages = [said("x" * number) for number in range(1, 400)]
    ends = [*range(1, 399, 2), *range(398, 0, -3)] * 4
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda end: ledger.count_messages(messages[:end]), ends))
    alone = TokenLedger(CountingCounter())
    assert found == [sum(map(alone.count_message, messages[:end])) for end in ends]


@pytest.mark.parametrize("answer", [-1, True, 1.0, None, "7"])
def test_a_counter_that_gives_no_number_of_tokens_is_named(answer: object) -> None:
    ledger = TokenLedger(Says(answer))
    with pytest.raises(InvalidInputError, match=r"Says\.count, found"):
        ledger.count_text("hello")
    with pytest.raises(InvalidInputError, match=r"Says\.count, found"):
        ledger.count_messages([said("hello")])


def test_an_exception_of_a_counter_passes_and_nothing_wrong_is_remembered() -> None:
    failing = Says(OSError("no vocabulary"))
    ledger, message = TokenLedger(failing), said("hello")
    with pytest.raises(OSError, match="no vocabulary"):
        ledger.count_messages([message])
    failing.answer = 3
    assert ledger.count_messages([message]) == ledger.count_message(message) == 7


def test_an_empty_text_is_not_asked_for() -> None:
    ledger = TokenLedger(Says(-1))
    assert ledger.count_text("") == 0
    assert ledger.count_messages([]) == 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(conversations(max_messages=300), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=8))
def test_what_is_remembered_is_what_is_counted(messages: list[Message], slices: list[tuple[int, int]]) -> None:
    ledger = TokenLedger(CharacterTokenCounter())
    for begin, end in slices:
        part = messages[begin:end]
        assert ledger.count_messages(part) == sum(map(TokenLedger(CharacterTokenCounter()).count_message, part))
