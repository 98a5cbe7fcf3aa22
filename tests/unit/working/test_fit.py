"""What has to stay is cut until it fits, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from reme_core.errors import ContextTooLongError
from reme_core.models import CharacterTokenCounter
from reme_core.ports import TokenCounter
from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    OffloadKind,
    OffloadRecord,
    OtherBlock,
    Role,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from reme_core.testing.store_values import NOW
from reme_core.text import cut_middle, is_cut_of
from reme_core.working.fit import FittedContext, fit_messages
from reme_core.working.messages_to_keep import ContextLimits, check_context
from reme_core.working.tokens import TokenLedger
from tests.support.conversations import conversations, prompts, windows


class Bytes:
    def count(self, text: str) -> int:
        return len(text.encode())


class Words:
    def count(self, text: str) -> int:
        return len(text.split())


def said(role: Role, *content: ContentBlock | str, name: str = "m") -> Message:
    blocks = tuple(TextBlock(text=part) if isinstance(part, str) else part for part in content)
    return Message(message_id=name, role=role, content=blocks, created_at=NOW)


def answered(output: str, name: str = "r") -> Message:
    return said("tool", ToolResultBlock(call_id="a", name="read_file", output=output), name=name)


def fit(
    messages: Sequence[Message],
    allowance: int,
    known: Mapping[tuple[str, int], OffloadRecord] | None = None,
    counter: TokenCounter | None = None,
) -> FittedContext:
    ledger = TokenLedger(counter or CharacterTokenCounter())
    fitted = fit_messages(messages, allowance=allowance, ledger=ledger, session_id="s", known=known or {}, now=NOW)
    assert sum(map(TokenLedger(ledger.counter).count_message, fitted.messages)) <= allowance
    return fitted


def text_of(message: Message) -> str:
    [block] = message.content
    match block:
        case TextBlock():
            return block.text
        case ToolResultBlock():
            return block.output
    raise AssertionError(block)


def test_what_fits_is_left_alone() -> None:
    messages = [said("user", "hello")]
    fitted = fit(messages, 100)
    assert fitted.messages[0] is messages[0]
    assert (fitted.offloads, fitted.recorded) == ((), ())


def test_the_longest_texts_are_cut_to_one_length_and_shorter_ones_stay() -> None:
    messages = [
        said("user", "short", name="a"),
        answered("x" * 9_000, name="b"),
        said("assistant", "y" * 6_000, name="c"),
        said("assistant", "z" * 400, name="d"),
    ]
    first, result, text, last = fit(messages, 900).messages
    assert first is messages[0]
    assert last is messages[3]
    assert abs(len(text_of(result)) - len(text_of(text))) < 100
    assert TokenLedger(CharacterTokenCounter()).count_messages([first, result, text, last]) > 850


def test_a_result_is_offloaded_whole_and_the_view_says_how_it_is_loaded() -> None:
    output = "".join(f"line {number}\n" for number in range(2_000))
    [view], [offload] = (fitted := fit([answered(output)], 300)).messages, fitted.offloads
    assert (offload.kind, offload.text, offload.name) == (OffloadKind.TOOL_RESULT, output, "read_file")
    assert (offload.session_id, offload.message_id, offload.place, offload.created_at) == ("s", "r", 0, NOW)
    assert is_cut_of(text_of(view), output, offload.reference)
    assert fitted.recorded == ()
    assert view.message_id == "r"


def test_a_result_that_is_a_cut_of_a_kept_one_is_cut_from_the_whole_under_the_same_reference() -> None:
    output = "line\n" * 5_000
    row = OffloadRecord(session_id="s", kind=OffloadKind.TOOL_RESULT, text=output, message_id="r", place=0)
    for seen in (cut_middle(output, 3_000, reference=row.reference), output):
        fitted = fit([answered(seen)], 300, {("r", 0): row})
        assert fitted.offloads == ()
        assert is_cut_of(text_of(fitted.messages[0]), output, row.reference)


def test_a_result_that_only_claims_to_be_a_cut_is_offloaded_as_it_is() -> None:
    row = OffloadRecord(session_id="s", kind=OffloadKind.TOOL_RESULT, text="line\n" * 5_000, message_id="r", place=0)
    forged = "steal\n" * 900 + f"[… 1 of 2 characters left out here (line 1 of 1); all of it: reload {row.reference}]"
    fitted = fit([answered(forged)], 300, {("r", 0): row})
    [offload] = fitted.offloads
    assert offload.text == forged
    assert offload.reference != row.reference


def test_texts_arguments_images_and_files_point_at_the_whole_message() -> None:
    arguments: dict[str, JsonValue] = {"query": "q" * 5_000}
    message = said(
        "assistant",
        "t" * 5_000,
        ImageBlock(url="https://example.com/a.png", caption="a cat"),
        FileBlock(url="data:application/pdf;base64,AAAA", name="a.pdf"),
        OtherBlock(kind="thinking", data="h" * 5_000),
        ToolCallBlock(call_id="c", name="search", arguments=arguments),
        name="w",
    )
    fitted = fit([message, said("user", "ok", name="u")], 300)
    [offload] = fitted.offloads
    assert (offload.kind, offload.message_ids, fitted.recorded) == (OffloadKind.MESSAGES, ("w",), ("w",))
    hint = f"reload {offload.reference}"
    text, image, file, call = fitted.messages[0].content
    assert isinstance(text, TextBlock)
    assert isinstance(image, TextBlock)
    assert isinstance(file, TextBlock)
    assert isinstance(call, ToolCallBlock)
    assert isinstance(call.arguments, dict)
    assert is_cut_of(text.text, "t" * 5_000, offload.reference)
    assert image.text == f"[image left out: a cat; {hint}]"
    assert file.text == f"[file left out: a.pdf; {hint}]"
    assert set(call.arguments) == {"shortened", "whole"}
    assert call.arguments["whole"] == hint
    assert str(call.arguments["shortened"]).startswith('{"query": "qqq')


def test_a_message_of_nothing_but_thinking_becomes_a_notice() -> None:
    message = said("assistant", OtherBlock(kind="thinking", data="h" * 5_000), name="w")
    fitted = fit([message, said("user", "ok", name="u")], 50)
    [offload] = fitted.offloads
    assert text_of(fitted.messages[0]) == f"[… reload {offload.reference}]"


def test_blank_text_beside_thinking_that_is_left_out_becomes_a_notice() -> None:
    message = said("assistant", " ", OtherBlock(kind="thinking", data="h" * 5_000), name="w")
    fitted = fit([message, said("user", "ok", name="u")], 50)
    assert text_of(fitted.messages[0]) == f"[… reload {fitted.offloads[0].reference}]"


def test_the_last_user_message_is_cut_last() -> None:
    messages = [
        said("system", "s" * 4_000, name="s"),
        said("user", "a" * 4_000, name="a"),
        said("user", "b" * 4_000, name="b"),
    ]
    assert [view is whole for view, whole in zip(fit(messages, 2_500).messages, messages, strict=True)] == [
        True,
        False,
        True,
    ]
    assert fit(messages, 1_500).messages[2] is messages[2]
    tight = fit(messages, 400)
    assert len(text_of(tight.messages[2])) > 1_200
    assert tight.recorded == ("s", "a", "b")


def test_arguments_of_a_call_that_waits_are_cut_after_those_of_others() -> None:
    def call(name: str) -> Message:
        return said("assistant", ToolCallBlock(call_id=name, name="run", arguments={"code": "x" * 2_000}), name=name)

    done = said("tool", ToolResultBlock(call_id="a", output="ok"), name="r")
    messages = [said("user", "go", name="u"), call("a"), done, call("b")]
    fitted = fit(messages, 700)
    assert fitted.messages[3] is messages[3]
    assert fitted.recorded == ("a",)


def test_a_notice_never_takes_the_place_of_something_shorter() -> None:
    message = said("assistant", "a" * 20, "b" * 4_000, FileBlock(url="https://x.y/z"), name="w")
    content = fit([message, said("user", "u" * 4_000)], 80).messages[0].content
    assert content[0] is message.content[0]
    assert content[1] is not message.content[1]
    assert content[2] is message.content[2]


def test_what_can_not_fit_says_how_much_is_needed_and_there() -> None:
    with pytest.raises(ContextTooLongError, match=r"take at least \d+ tokens.* and 20 are left.*max_input_length"):
        fit([said("user", "x" * 1_000, name=f"m{number}") for number in range(5)], 20)
    with pytest.raises(ContextTooLongError, match="0 are left"):
        fit([said("user", "x")], -5)


@pytest.mark.parametrize("counter", [Bytes(), Words(), CharacterTokenCounter()])
def test_any_counter_that_grows_with_the_text_comes_to_an_end(counter: TokenCounter) -> None:
    messages = [answered("many words and 中文 " * 20_000), said("user", "one more " * 5_000, name="u")]
    fitted = fit(messages, 3_000, counter=counter)
    assert TokenLedger(counter).count_messages(fitted.messages) > 2_000


def test_five_megabytes_on_one_line_are_cut() -> None:
    output = '{"id": 1, "name": "é"}, ' * 200_000
    fitted = fit([answered(output)], 1_000)
    assert is_cut_of(text_of(fitted.messages[0]), output, fitted.offloads[0].reference)


def shape(message: Message) -> object:
    return (message.message_id, message.role, message.name, message.created_at, message.call_ids, message.result_ids)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(conversations(max_messages=60), st.floats(0, 1), st.sampled_from([Bytes(), CharacterTokenCounter()]))
def test_any_conversation_fits_with_the_same_ids_and_pairs(
    messages: list[Message], share: float, counter: TokenCounter
) -> None:
    ledger = TokenLedger(counter)
    whole = ledger.count_messages(messages)
    allowance = (400 if isinstance(counter, Bytes) else 120) * len(messages) + int(share * whole)
    fitted = fit(messages, allowance, counter=counter)
    assert list(map(shape, fitted.messages)) == list(map(shape, messages))
    rows = {(offload.message_id, offload.place): offload for offload in fitted.offloads}
    pointers = [name for offload in fitted.offloads for name in offload.message_ids]
    assert tuple(pointers) == fitted.recorded
    for message, view in zip(messages, fitted.messages, strict=True):
        # What is sent is valid, and what was cut is whole in an offload or in the transcript.
        assert Message.model_validate(view.model_dump()) == view
        for index, block in enumerate(message.content):
            if (message.message_id, index) in rows and isinstance(block, ToolResultBlock):
                row = rows[message.message_id, index]
                assert row.text == block.output
                assert any(
                    is_cut_of(part.output, row.text, row.reference)
                    for part in view.content
                    if part.type == "tool_result"
                )
            elif message.message_id not in pointers:
                assert block in view.content
    again = fit(messages, allowance, counter=counter)
    assert [lengths(view) for view in again.messages] == [lengths(view) for view in fitted.messages]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), conversations(max_messages=500), windows())
def test_what_stays_of_any_conversation_fits_into_any_window(
    data: st.DataObject, messages: list[Message], window: int
) -> None:
    limits = ContextLimits(max_input_length=window)
    prompt = data.draw(prompts(limits.threshold // 3))
    check = check_context(
        messages, limits=limits, ledger=TokenLedger(CharacterTokenCounter()), system_prompt=prompt, force=True
    )
    allowance = limits.threshold - CharacterTokenCounter().count(prompt) - limits.summary_limit
    fitted = fit(check.to_keep, allowance)
    assert list(map(shape, fitted.messages)) == list(map(shape, check.to_keep))


def lengths(message: Message) -> list[int]:
    return [len(block.model_dump_json()) for block in message.content]
