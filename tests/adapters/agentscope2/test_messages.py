"""Messages of AgentScope 2.x become ours, and come back as they were."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from agentscope.message import (
    AssistantMsg,
    Base64Source,
    DataBlock,
    HintBlock,
    Msg,
    SystemMsg,
    ThinkingBlock,
    URLSource,
    Usage,
    UserMsg,
)
from agentscope.message import TextBlock as Text
from agentscope.message import ToolCallBlock as Call
from agentscope.message import ToolResultBlock as Result
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_agentscope.v2.messages import from_agentscope, to_agentscope
from reme_core.errors import InvalidInputError
from reme_core.schema import (
    FileBlock,
    ImageBlock,
    Message,
    OtherBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    read_stored_message,
)

TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)  # NUL and lone surrogates too
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
TIMES = st.sampled_from(["2026-01-02T03:04:05.678", "2026-01-02T03:04:05.678901+02:00", "soon", "0001-01-01"])
COMMON = {"id": TEXTS, "created_at": TIMES, "finished_at": st.none() | TIMES}
MEDIA_TYPES = st.sampled_from(["image/png", "audio/wav", "application/pdf", "", "odd"])
SOURCES = st.builds(
    URLSource, url=st.sampled_from(["https://x.org/a b.png", "file:///tmp/a.wav"]), media_type=MEDIA_TYPES
) | st.builds(Base64Source, data=TEXTS, media_type=MEDIA_TYPES)
TEXT_BLOCKS = st.builds(Text, text=TEXTS, **COMMON)
DATA = st.builds(DataBlock, source=SOURCES, name=st.none() | TEXTS, **COMMON)
PARTS = TEXT_BLOCKS | DATA
INPUTS = TEXTS | st.sampled_from(['{"a": 1}', '{"a":[1,2]}', "[]", '{"a": 1', '{"a": 1, "a": 2}', '{"\\ud800": NaN}'])
CALLS = st.builds(
    Call, id=TEXTS, name=TEXTS, input=INPUTS, state=st.sampled_from(["pending", "asking", "finished"])
)  # fmt: skip
RESULTS = st.builds(
    Result,
    id=TEXTS,
    name=TEXTS,
    output=TEXTS | st.lists(PARTS, max_size=3),
    state=st.sampled_from(["success", "error", "interrupted", "denied", "running"]),
    metadata=OBJECTS,
    created_at=TIMES,
)
THINKING = st.builds(lambda text, more: ThinkingBlock(thinking=text, signature=more), TEXTS, TEXTS)
HINTS = st.builds(HintBlock, hint=TEXTS | st.lists(PARTS, max_size=2), source=st.none() | TEXTS)
ASSISTANT_BLOCKS = st.lists(st.one_of(TEXT_BLOCKS, DATA, CALLS, RESULTS, RESULTS, THINKING, HINTS), max_size=6)


# Fields that later releases of 2.x have added.
LATER = {
    "finished_reason": st.none() | st.sampled_from(["error", "interrupted"]),
    "structured_output": st.none() | OBJECTS,
    "error": st.none() | st.fixed_dictionaries({"message": TEXTS}),
}


@st.composite
def messages(draw: st.DrawFn) -> Msg:
    role = draw(st.sampled_from(["user", "assistant", "system"]))
    blocks = {"user": st.lists(PARTS, max_size=3), "system": st.lists(TEXT_BLOCKS, max_size=3)}
    return Msg(
        name=draw(TEXTS),
        role=role,
        content=draw(blocks.get(role, ASSISTANT_BLOCKS)),
        metadata=draw(OBJECTS),
        created_at=draw(TIMES),
        usage=draw(st.none() | st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9))),
        finished_at=draw(st.none() | TIMES),
        **{name: draw(values) for name, values in LATER.items() if name in Msg.model_fields},
    )


def stored(message: Message) -> Message:
    """Return a message as it comes back from a file."""
    return read_stored_message(message.model_dump_json())


def step() -> Msg:
    return AssistantMsg(
        "Friday",
        [
            ThinkingBlock(thinking="hm", signature="s"),
            Call(id="c1", name="f", input='{"a": 1}'),
            Call(id="c2", name="f", input='{"a": '),
            Result(id="c1", name="f", output="one", state="success"),
            Result(id="c2", name="f", output=[Text(text="two")], state="error"),
            Text(text="done"),
        ],
        usage=Usage(input_tokens=1, output_tokens=2),
    )


@pytest.mark.requirement("AS-MSG-01")
@settings(max_examples=60, deadline=None)
@given(st.lists(messages(), max_size=3))
def test_there_and_back_is_the_identity(msgs: list[Msg]) -> None:
    before = copy.deepcopy(msgs)
    back = to_agentscope([stored(message) for message in from_agentscope(msgs)])
    assert back == before
    assert msgs == before
    assert [msg.model_dump() for msg in back] == [msg.model_dump() for msg in before]


@pytest.mark.requirement("AS-MSG-02")
def test_a_step_with_tools_becomes_calls_results_and_text_and_folds_back_into_one() -> None:
    msg = step()
    said, answered, then = read = from_agentscope(msg)
    assert [message.role for message in read] == ["assistant", "tool", "assistant"]
    assert [message.message_id for message in read] == [msg.id, f"{msg.id}-1", f"{msg.id}-2"]
    assert said.content[1:] == (
        ToolCallBlock(call_id="c1", name="f", arguments={"a": 1}),
        ToolCallBlock(call_id="c2", name="f", arguments='{"a": '),
    )
    assert answered.content == (
        ToolResultBlock(call_id="c1", name="f", output="one"),
        ToolResultBlock(call_id="c2", name="f", output="two", is_error=True),
    )
    assert then.text == "done"
    assert to_agentscope(read) == [msg]


@pytest.mark.requirement("AS-MSG-02")
def test_what_is_left_of_a_message_folds_into_one_with_its_id() -> None:
    msg = step()
    said, _, then = from_agentscope(msg)
    assert [(one.id, len(one.content)) for one in to_agentscope([said, then])] == [(msg.id, 4)]
    assert [(one.id, len(one.content)) for one in to_agentscope([then])] == [(msg.id, 1)]


@pytest.mark.requirement("AS-MSG-02")
def test_the_same_message_twice_comes_back_twice() -> None:
    msg = step()
    assert to_agentscope([*from_agentscope(msg), *from_agentscope(msg)]) == [msg, msg]


@pytest.mark.requirement("AS-MSG-02")
def test_users_and_systems_messages_hold_only_what_they_may() -> None:
    odd = (
        OtherBlock(kind="thinking", data="hm"),
        ToolCallBlock(call_id="c1", name="f", arguments={"a": 1}),
        ImageBlock(url="https://x.org/a.png"),
    )
    user, system = to_agentscope([Message(role="user", content=odd), Message(role="system", content=odd)])
    assert [block.type for block in user.content] == ["text", "text", "data"]
    assert [block.text for block in system.content] == ["hm", 'f({"a": 1})', "[image: https://x.org/a.png]"]


@pytest.mark.requirement("AS-MSG-02")
def test_a_result_from_elsewhere_goes_into_the_message_of_its_call() -> None:
    written = to_agentscope(
        [
            Message(role="user", content=(TextBlock(text="hi"),)),
            Message(role="assistant", content=(ToolCallBlock(call_id="c1", name="f", arguments={"a": 1}),)),
            Message(role="tool", content=(ToolResultBlock(call_id="c1", output="ok", is_error=True),)),
            Message(role="tool", content=(ToolResultBlock(call_id="unknown", output="late"),)),
        ]
    )
    assert [(msg.role, [block.type for block in msg.content]) for msg in written] == [
        ("user", ["text"]),
        ("assistant", ["tool_call", "tool_result"]),
        ("assistant", ["tool_result"]),
    ]
    assert written[1].content[1].state == "error"


@pytest.mark.requirement("AS-MSG-01")
def test_a_message_of_results_alone_stays_one_though_its_call_stands_in_another() -> None:
    """So a resumed reply has it, whose first part was recorded before."""
    asked = AssistantMsg("Friday", [Call(id="c", name="echo", input="{}")])
    answered = AssistantMsg("Friday", [Result(id="c", name="echo", output="hi", state="success")])
    assert to_agentscope(from_agentscope([asked, answered])) == [asked, answered]


@pytest.mark.requirement("AS-MSG-01")
def test_writing_twice_gives_the_same_blocks() -> None:
    ours = [Message(role="user", content=(TextBlock(text="hi"), FileBlock(url="data:text/plain;base64,QUJD")))]
    assert to_agentscope(ours) == to_agentscope(ours)


@pytest.mark.requirement("AS-MSG-01")
@pytest.mark.parametrize(
    ("url", "media_type"),
    [
        ("https://x.org/a.wav?size=1", "audio/x-wav"),
        ("https://x.org/a", "application/octet-stream"),
        ("data:text/plain;base64,QUJD", "text/plain"),
    ],
)
def test_the_media_type_is_guessed_from_the_ending(url: str, media_type: str) -> None:
    [written] = to_agentscope([Message(role="user", content=(FileBlock(url=url),))])
    assert written.content[0].source.media_type == media_type


@pytest.mark.requirement("AS-MSG-01")
def test_a_reference_that_is_no_url_is_told_in_words() -> None:
    [written] = to_agentscope([Message(role="user", content=(FileBlock(url="report.pdf"),))])
    assert written.get_text_content() == "[file: report.pdf]"


@pytest.mark.requirement("AS-MSG-01")
def test_a_time_is_read_as_local_time() -> None:
    [read] = from_agentscope(UserMsg("user", "hi", created_at="2026-01-02T03:04:05.678"))
    assert read.created_at == datetime(2026, 1, 2, 3, 4, 5, 678_000).astimezone(UTC)
    [aware] = from_agentscope(UserMsg("user", "hi", created_at="2026-01-02T03:04:05+02:00"))
    assert aware.created_at == datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)


@pytest.mark.requirement("AS-MSG-01")
def test_blocks_of_the_other_generation_come_as_their_text() -> None:
    metadata: Any = {"agentscope": {"generation": 1, "fields": {"metadata": {"a": 1}, "invocation_id": "i"}}}
    foreign = Message(
        role="assistant",
        content=(
            OtherBlock(kind="thinking", data={"type": "thinking", "thinking": "hm"}),
            OtherBlock(kind="odd", data={"type": "odd", "text": "said"}),
        ),
        metadata=metadata,
    )
    [written] = to_agentscope([foreign])
    assert [block.type for block in written.content] == ["thinking", "text"]
    assert written.content[0].thinking == "hm"
    assert (written.content[1].text, written.metadata) == ("said", {"a": 1})


@pytest.mark.requirement("AS-MSG-03")
def test_media_are_a_short_description_and_never_base64() -> None:
    data = DataBlock(source=Base64Source(data="QUJD" * 1000, media_type="image/png"))
    link = DataBlock(source=URLSource(url="https://x.org/a.mp4", media_type="video/mp4"))
    [read] = from_agentscope(UserMsg("user", [data, link]))
    assert read.full_text == "[image: embedded image/png]\n[video: https://x.org/a.mp4]"
    assert read.text == ""
    [_, answered] = from_agentscope(AssistantMsg("a", [Text(text="t"), Result(id="1", name="f", output=[data, link])]))
    assert answered.full_text == read.full_text


@pytest.mark.requirement("AS-MSG-01")
def test_hostile_fields_never_break_a_message() -> None:
    fields = {"role": "admin", "name": 7, "metadata": "x", "id": None, "usage": 3, "content": "x", "more": 1}
    metadata: Any = {"agentscope": {"generation": 2, "fields": fields}}
    [written] = to_agentscope([Message(role="system", content=(TextBlock(text="hi"),), metadata=metadata)])
    assert (written.role, written.get_text_content(), written.metadata) == ("system", "hi", {})


@pytest.mark.requirement("AS-MSG-01")
def test_what_is_no_message_is_refused_and_none_is_passed_over() -> None:
    assert from_agentscope(None) == from_agentscope([]) == from_agentscope([None]) == []
    for bad in ("text", ["text"], 3, {"role": "user"}):
        with pytest.raises(InvalidInputError, match="wanted a"):
            from_agentscope(bad)
    with pytest.raises(InvalidInputError, match=r"messages\[0\]"):
        to_agentscope([SystemMsg("user", "hi")])
