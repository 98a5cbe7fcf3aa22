"""Messages go into our form and come back as they were."""

import copy
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate

from reme_core.errors import InvalidInputError
from reme_core.schema import (
    FileBlock,
    ImageBlock,
    Message,
    OtherBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    parse_messages,
)
from reme_langchain import from_langchain, to_langchain

CALL = {
    "name": "look",
    "args": {"place": "Bern", "deep": [1, 2.5, None, {"a": True}]},
    "id": "call_1",
    "type": "tool_call",
}
USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, "input_token_details": {"cache_read": 1}}

KNOWN = [
    HumanMessage("Grüezi, 世界 🙂", id="h1", name="Ann Lee"),
    HumanMessage("", id="empty"),
    HumanMessage("   \n", id="blank"),
    HumanMessage([], id="no parts"),
    HumanMessage(["bare", {"type": "text", "text": "part"}], id="h2"),
    HumanMessage([{"type": "text", "text": "one"}], id="h3", additional_kwargs={"lc_source": "reme", "n": {"x": 1}}),
    HumanMessage([{"type": "text", "text": "kept", "cache_control": {"type": "ephemeral"}}], id="h4"),
    HumanMessage(
        [
            {"type": "image", "url": "https://example.org/a.png", "mime_type": "image/png"},
            {"type": "image", "base64": "iVBORw0K", "mime_type": "image/png"},
            {"type": "image_url", "image_url": {"url": "https://example.org/b.png", "detail": "high"}},
            {"type": "image_url", "image_url": "https://example.org/c.png"},
            {"type": "image", "source_type": "base64", "data": "iVBO", "mime_type": "image/jpeg"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}},
            {"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}},
            {"type": "audio", "base64": "UklG", "mime_type": "audio/wav"},
            {"type": "video", "url": "https://example.org/v.mp4"},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
            {"type": "image", "file_id": "f7"},
            {"type": "image", "base64": "aa", "mime_type": "image/\0png"},
            {"no": "type"},
            {"type": 7},
            {"type": "text", "text": 7},
            {"type": "langchain_fields", "data": 1},
        ],
        id="media",
    ),
    SystemMessage("Be brief.", id="s1"),
    AIMessage("Bern.", id="a1", usage_metadata=USAGE, response_metadata={"model_name": "m", "logprobs": [1.5]}),
    AIMessage("", id="a2", tool_calls=[CALL, {**CALL, "id": "call_2"}]),
    AIMessage("", id="a3"),
    AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Let me look.", "annotations": []},
            {"type": "tool_use", "id": "call_1", "name": "look", "input": {}},
        ],
        id="a4",
        tool_calls=[CALL],
    ),
    AIMessage(
        "",
        id="a5",
        tool_calls=[{"name": "", "args": {}, "id": None, "type": "tool_call"}, {**CALL, "id": ""}],
        invalid_tool_calls=[{"name": "look", "args": "{", "id": None, "error": "bad", "type": "invalid_tool_call"}],
    ),
    AIMessage("", id="a6", tool_calls=[{**CALL, "args": {"x": "a\0b", "y": math.inf, "z\ud800": 1 << 80}}]),
    ToolMessage("16 °C", tool_call_id="call_1", id="t1", name="look", artifact={"raw": [1, {"a": None}]}),
    ToolMessage("no", tool_call_id=" \n", id="t2", status="error"),
    ToolMessage("", tool_call_id="", id="t3"),
    ToolMessage(
        ["a", {"type": "image", "url": "https://example.org/a.png"}, {"type": "text", "text": "b\nc", "x": 1}, ""],
        tool_call_id="call_1",
        id="t4",
    ),
    ToolMessage([], tool_call_id="call_1", id="t5"),
    ToolMessage("a\0\ud800", tool_call_id="x" * 600, id="t6", name="n\0"),
    FunctionMessage("4", name="add", id="f1"),
    ChatMessage("hello", role="Narrator", id="c1"),
    ChatMessage("hello", role="assistant", id="c2"),
    HumanMessage("nul \0 and half \udc00 an emoji", id="nul\0id", name="n\ud800"),
    HumanMessage([{"type": "text", "text": "\0"}, "\ud800", {"type": "odd", "v": "\0"}], id="i" * 513),
    HumanMessage("x", id="nested", additional_kwargs={"deep": {"a": {"b": [[[[{}]]]]}}}, example=True),
    HumanMessage("x", id="nan", response_metadata={"p": -math.inf, "text": "\0"}),
]


def back(message: BaseMessage) -> BaseMessage:
    ours = from_langchain([message])
    parse_messages(ours)
    again = [Message.model_validate_json(item.model_dump_json()) for item in ours]
    [result] = to_langchain(again)
    return result


@pytest.mark.requirement("LC-MSG-01")
@pytest.mark.parametrize("message", KNOWN, ids=lambda message: str(message.id)[:8].replace("\0", "_"))
def test_a_message_comes_back_from_its_stored_form_as_it_was_and_is_left_alone(message):
    before = copy.deepcopy(message)
    assert back(message) == before
    assert message == before


TEXTS = st.text(st.characters(codec=None), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=2)
PARTS = (
    TEXTS
    | OBJECTS
    | st.builds(lambda kind, rest: {**rest, "type": kind}, TEXTS, OBJECTS)
    | st.builds(lambda text, rest: {**rest, "type": "text", "text": text}, TEXTS, OBJECTS)
)
CONTENTS = TEXTS | st.lists(PARTS, max_size=3)
COMMON = {
    "content": CONTENTS,
    "id": TEXTS,
    "name": st.none() | TEXTS,
    "additional_kwargs": OBJECTS.filter(lambda given: "tool_calls" not in given),
    "response_metadata": OBJECTS,
}
CALLS = st.lists(
    st.builds(lambda n, a, i: {"name": n, "args": a, "id": i}, TEXTS, OBJECTS, st.none() | TEXTS), max_size=2
)
MESSAGES = st.one_of(
    st.builds(HumanMessage, **COMMON),
    st.builds(SystemMessage, **COMMON),
    st.builds(AIMessage, **COMMON, tool_calls=CALLS),
    st.builds(ToolMessage, **COMMON, tool_call_id=TEXTS, artifact=VALUES, status=st.sampled_from(["success", "error"])),
)


@pytest.mark.requirement("LC-MSG-01")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MESSAGES)
def test_any_message_with_json_values_comes_back_as_it_was(message):
    assert back(message) == message


@pytest.mark.requirement("LC-MSG-01")
def test_the_core_reads_texts_calls_results_and_images():
    read = from_langchain([KNOWN[4], KNOWN[7], KNOWN[10], KNOWN[15], KNOWN[18]])
    assert read[0].role == "user"
    assert read[0].text == "bare\npart"
    assert read[1].content[0] == ImageBlock(url="https://example.org/a.png", media_type="image/png")
    assert read[1].content[1] == ImageBlock(url="data:image/png;base64,iVBORw0K", media_type="image/png")
    assert read[1].content[6] == FileBlock(url="file-1", name="a.pdf")
    assert isinstance(read[1].content[9], OtherBlock)
    assert read[2].content[0] == ToolCallBlock(call_id="call_1", name="look", arguments=CALL["args"])
    assert read[3].content == (ToolResultBlock(call_id="call_1", name="look", output="16 °C"),)
    assert read[4].content[0] == ToolResultBlock(call_id="call_1", output="a\nb\nc\n")


@pytest.mark.requirement("LC-MSG-01")
def test_a_call_and_its_result_keep_the_same_id_where_the_core_needs_another_one():
    call, result = from_langchain(
        [AIMessage("", tool_calls=[{**CALL, "id": "a\nb"}]), ToolMessage("r", tool_call_id="a\nb")]
    )
    assert call.call_ids == result.result_ids


@pytest.mark.requirement("LC-MSG-01")
def test_a_message_without_an_id_keeps_the_one_that_it_is_given():
    first, second = from_langchain([HumanMessage("a"), HumanMessage("a")])
    assert first.message_id != second.message_id
    assert [message.id for message in to_langchain([first, second])] == [first.message_id, second.message_id]


@pytest.mark.requirement("LC-MSG-01")
def test_removals_are_no_messages_and_dictionaries_pairs_and_texts_are_read():
    given = [
        RemoveMessage(id="x"),
        {"role": "user", "content": "a", "id": "1"},
        ("ai", "b"),
        "c",
        {"role": "tool", "content": "d", "tool_call_id": "t"},
    ]
    assert [(message.role, message.full_text) for message in from_langchain(given)] == [
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
        ("tool", "d"),
    ]
    prompt = ChatPromptTemplate.from_messages([("system", "s"), ("user", "{q}")]).invoke({"q": "who?"})
    assert [message.text for message in from_langchain(prompt)] == ["s", "who?"]


@pytest.mark.requirement("LC-MSG-01")
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([HumanMessage("a"), 7], r"messages\[1\]"),
        ([{"content": "a"}], r"messages\[0\]"),
        ([("nobody", "a")], r"messages\[0\]"),
        ([{"role": "tool", "content": "d"}], r"messages\[0\]"),
        ([{"role": "ai", "content": "d", "additional_kwargs": 3}], r"messages\[0\]"),
        ("a text", "put it into a list"),
        (HumanMessage("a"), "put it into a list"),
        (None, "wanted a list"),
    ],
)
def test_what_is_no_message_is_named(given, named):
    with pytest.raises(InvalidInputError, match=named):
        from_langchain(given)


def test_what_is_no_message_of_ours_is_named():
    with pytest.raises(InvalidInputError, match=r"messages\[0\]"):
        to_langchain([HumanMessage("a")])


@pytest.mark.requirement("LC-MSG-01")
def test_an_artifact_that_is_not_json_comes_back_as_json_and_is_never_pickled():
    class Thing:
        def __reduce__(self):
            raise AssertionError("pickled")

    documents = [Document("text", metadata={"page": 1}), (1, 2), {3: b"\x00"}, Thing()]
    result = back(ToolMessage("r", tool_call_id="c", artifact=documents)).artifact
    assert result[0]["page_content"] == "text"
    assert result[0]["metadata"] == {"page": 1}
    assert result[1:3] == [[1, 2], {"3": "b'\\x00'"}]
    assert result[3].startswith("<")


@pytest.mark.requirement("LC-MSG-01")
def test_a_chunk_comes_back_as_its_message():
    chunk = AIMessageChunk("a", id="1", tool_call_chunks=[{"name": "look", "args": "{}", "id": "c", "index": 0}])
    result = back(chunk)
    assert type(result) is AIMessage
    assert result.tool_calls[0]["name"] == "look"


@pytest.mark.requirement("LC-MSG-01")
def test_what_the_core_has_changed_comes_back_changed():
    [said, asked, answered] = from_langchain(
        [
            HumanMessage(["a\0", {"type": "text", "text": "b"}], id="1"),
            AIMessage("", id="2", tool_calls=[{**CALL, "args": {"x": "\0"}}]),
            ToolMessage([{"type": "text", "text": "long", "x": 1}], tool_call_id="c", id="3", artifact=[1]),
        ]
    )
    said = said.model_copy(update={"content": (TextBlock(text="shorter"),)})
    block = asked.content[0].model_copy(update={"arguments": {"x": "y"}})
    asked = asked.model_copy(update={"content": (block,)})
    result = answered.content[0].model_copy(update={"output": "preview of it"})
    answered = answered.model_copy(update={"content": (result,)})
    texts = to_langchain([said, asked, answered])
    assert texts[0].content == "shorter"
    assert texts[1].tool_calls[0]["args"] == {"x": "y"}
    assert texts[2].content == [{"type": "text", "text": "preview of it"}]
    assert texts[2].artifact == [1]


@pytest.mark.requirement("LC-MSG-01")
def test_what_is_written_shares_nothing_with_ours():
    [ours] = from_langchain([AIMessage("", id="1", tool_calls=[CALL], additional_kwargs={"a": [1]})])
    before = ours.model_copy(deep=True)
    [theirs] = to_langchain([ours])
    theirs.additional_kwargs["a"].append(2)
    theirs.tool_calls[0]["args"]["deep"].append(2)
    assert ours == before


def test_our_own_messages_become_those_that_a_model_is_sent():
    ours = Message(
        message_id="m",
        role="tool",
        content=(
            ToolResultBlock(call_id="c1", name="look", output="one"),
            ToolResultBlock(call_id="c2", output="two", is_error=True),
            TextBlock(text="and this"),
        ),
    )
    first, second, third = to_langchain([ours])
    assert (first.id, first.tool_call_id, first.content, first.name) == ("m", "c1", "one", "look")
    assert (second.id, second.tool_call_id, second.status) == ("m-1", "c2", "error")
    assert isinstance(third, HumanMessage)
    malformed = Message(role="assistant", content=(ToolCallBlock(call_id="c", name="look", arguments="{"),))
    [broken] = to_langchain([malformed])
    assert [(call["id"], call["args"]) for call in broken.invalid_tool_calls] == [("c", "{")]
    seen = Message(role="user", content=(TextBlock(text="see"), ImageBlock(url="data:image/png;base64,aa")))
    [image] = to_langchain([seen])
    assert image.content[1] == {"type": "image", "base64": "aa", "mime_type": "image/png"}


@pytest.mark.parametrize(
    "foreign",
    [
        5,
        {"parts": "x"},
        {"odd": 1},
        {"extra": {"content": "b"}},
        {"extra": {"type": "system"}},
        {"usage_metadata": {"input_tokens": "x"}},
        {"type": "function"},
        {"type": "chat"},
        {"calls": [{"id": 3}]},
        {"parts": [{"at": ["text", "deeper"], "part": {"text": 3}, "prefix": "b"}]},
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_metadata_of_others_under_our_key_is_no_form_of_a_message(role, foreign):
    ours = Message(role=role, content=(TextBlock(text="a"),), metadata={"langchain": foreign})
    [message] = to_langchain([ours])
    assert message.content == "a"
    assert isinstance(message, HumanMessage if role == "user" else AIMessage)


def test_what_a_message_cannot_hold_is_left_out_and_told():
    huge = "ü" * (5 << 20)
    [text] = from_langchain([HumanMessage(huge, id="1")])
    assert "characters left out" in text.text[-100:]
    assert text.text.startswith("ü" * 1000)
    [image] = from_langchain([HumanMessage(["see", {"type": "image", "base64": "a" * (45 << 20)}], id="2")])
    assert image.text == "see"
    assert "image" in image.metadata["langchain"]["left_out"][0]
    [result] = from_langchain([ToolMessage("r", tool_call_id="c", id="3", artifact="a" * (9 << 20))])
    [again] = to_langchain([result])
    assert again.content == "r"
    assert again.artifact is None
    [large] = from_langchain([ToolMessage("r", tool_call_id="c", id="4", artifact="a" * (2 << 20))])
    assert len(to_langchain([large])[0].artifact) == 2 << 20
