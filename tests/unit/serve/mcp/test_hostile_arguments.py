"""Arguments as hostile or confused models write them: each is answered, in words that a model can act on."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core import ReMe
from reme_core.serve.mcp.caller import Caller
from reme_core.serve.mcp.options import McpOptions, Profile
from reme_core.serve.mcp.tools import INTERNAL, call_tool
from reme_core.serve.service import make_service
from tests.unit.serve.mcp.conftest import principal

ARGUMENTS = {
    "recall": {"query": "q", "token_budget": 100, "types": ["personal"], "since": "2024-01-01", "until": "2025-01-01"},
    "remember": {"content": "c", "about": "a", "valid_from": "2024", "valid_to": "2025"},
    "record": {"session": "s", "messages": [{"role": "user", "content": "c", "created_at": "2024-01-01"}]},
    "get_memory": {"id": "i"},
    "revise": {"id": "i", "content": "c"},
    "forget": {"ids": ["i"], "dry_run": True},
    "recent": {"since": "2024-01-01", "limit": 3},
    "task_lessons": {"task": "t"},
    "status": {},
    "search": {"query": "q"},
    "fetch": {"id": "i"},
}
PYTHON = re.compile(
    r"Traceback|pydantic|NoneType|\bNone\b|\bdict\b|\bstr\b|\bint\b|TypeError|ValueError|Error\b|reme_core|File \"|"
    r"memory_id|session_id|memory_type|start_time|end_time|user_id|self\b|<class|object at 0x|\.replace\("
)
TEXTS = st.text() | st.sampled_from(
    [
        "",
        " ",
        "\0",
        "\ud800",
        "a\udfffb",
        "x" * 200_000,
        "../../etc/passwd",
        "' OR 1=1 --",
        "*" * 600,
        "\u202e",
        "99999-99-99",
        "0001-01-01",
        "10000",
        "2024-13",
        "-5",
        "1e999",
        "{}",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.sampled_from([10**400, -(2**63), 2**64]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def loop():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def caller(loop, tmp_path_factory):
    service = make_service(ReMe("space", tmp_path_factory.mktemp("hostile"), llm=None, embedding=None))
    yield Caller(principal(), service.memories.home)
    loop.run(service.memories.home.close())


def profile_of(tool):
    return McpOptions(profile=Profile.CHATGPT if tool in {"search", "fetch"} else Profile.DEFAULT)


def check(result):
    """Check that a failure is told in our words, which hold nothing of Python's."""
    if not result.is_error:
        return
    words = result.content[0].text
    words.encode()
    assert words != INTERNAL
    quoted = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "", words)  # what was found is quoted as it came
    assert not PYTHON.search(quoted), words


@pytest.mark.parametrize("tool", ARGUMENTS)
@settings(deadline=None, max_examples=60)
@given(st.data())
def test_each_tool_answers_whatever_stands_in_the_place_of_an_argument(loop, caller, tool, data):
    names = st.sampled_from([*ARGUMENTS[tool], "space", "__class__", "x"])
    replaced = data.draw(st.dictionaries(names, VALUES, max_size=3))
    check(loop.run(call_tool(profile_of(tool), caller, tool, {**ARGUMENTS[tool], **replaced})))


@settings(deadline=None, max_examples=60)
@given(
    st.fixed_dictionaries(
        {"role": VALUES, "content": VALUES}, optional=dict.fromkeys(("id", "name", "created_at", "x"), VALUES)
    )
)
def test_a_message_of_any_form_is_kept_or_refused(loop, caller, message):
    check(loop.run(call_tool(profile_of("record"), caller, "record", {"session": "s", "messages": [message]})))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["recall", "remember", "recent", "record"]), TEXTS)
def test_a_time_of_any_form_is_read_or_refused(loop, caller, tool, time):
    names = {"recall": ("since", "until", "as_of"), "remember": ("valid_from", "valid_to"), "recent": ("since",)}
    given = {**ARGUMENTS[tool], **dict.fromkeys(names.get(tool, ()), time)}
    if tool == "record":
        given["messages"] = [{"role": "user", "content": "c", "created_at": time}]
    check(loop.run(call_tool(profile_of(tool), caller, tool, given)))


@pytest.mark.parametrize("tool", ARGUMENTS)
def test_an_unknown_argument_is_refused_by_its_name(loop, caller, tool):
    result = loop.run(call_tool(profile_of(tool), caller, tool, {**ARGUMENTS[tool], "user_id": "bob"}))
    assert result.is_error
    assert f"{tool}.user_id: is not a known field" in result.content[0].text


def test_a_failure_of_ours_is_told_and_logged_without_its_words(loop, caller, monkeypatch, caplog):
    async def broken(*_: object, **__: object) -> None:
        raise KeyError("".join(("sec", "ret")))  # the log quotes this line

    monkeypatch.setattr(type(caller.memory), "stats", broken)
    result = loop.run(call_tool(McpOptions(), caller, "status", {}))
    assert result.is_error
    assert result.content[0].text == INTERNAL
    assert "KeyError" in caplog.text
    assert "in broken" in caplog.text
    assert "secret" not in caplog.text
