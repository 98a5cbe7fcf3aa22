"""The trust class of a message follows from its role and its parts, that of a memory without one from its author."""

from __future__ import annotations

from typing import Any

import pytest

from reme_core.schema import Hit, Memory, Message, TrustClass, found_line, least_trusted
from reme_core.text import conversation_lines

SAID = {"created_at": "2026-01-05", "message_id": "m"}
RESULT = {"type": "tool_result", "call_id": "c", "output": "ok"}


def message(**fields: Any) -> Message:
    return Message.model_validate({"role": "user", "content": "hello", **SAID, **fields})


@pytest.mark.parametrize(
    ("fields", "trust"),
    [
        ({}, "user"),
        ({"role": "system"}, "user"),
        ({"role": "assistant"}, "assistant"),
        ({"role": "tool"}, "tool"),
        ({"content": [{"type": "text", "text": "so"}, RESULT]}, "tool"),
        ({"metadata": {"trust": "web"}}, "web"),
        ({"role": "tool", "metadata": {"trust": "user"}}, "tool"),
        ({"metadata": {"trust": 0.9}}, "user"),
        ({"metadata": {"trust": ["web"]}}, "user"),
    ],
)
def test_a_role_is_lowered_by_results_and_metadata_and_never_raised(fields: dict[str, Any], trust: str) -> None:
    assert message(**fields).trust == trust


@pytest.mark.parametrize(("author", "trust"), [("user", "user"), ("import", "user"), ("simple", "assistant")])
def test_a_memory_of_before_there_were_classes_has_that_of_its_author(author: str, trust: str) -> None:
    memory = Memory(memory_space="s", user_id="u", content="tea", author=author)
    assert memory.trust == trust
    body = memory.model_dump(mode="json", exclude={"trust"})
    assert Memory.model_validate(body).trust == trust


def test_the_least_trusted_of_several_counts() -> None:
    assert least_trusted([]) is TrustClass.USER
    assert least_trusted([TrustClass.WEB, TrustClass.USER, TrustClass.TOOL]) is TrustClass.WEB


def test_a_repeated_message_is_known_whether_or_not_it_was_marked() -> None:
    marked = message(metadata={"n": 1, "trust": "web"})
    assert message(metadata={"n": 1}).repeats(marked)
    assert not message(metadata={"n": 2}).repeats(marked)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"layer": "memory"}, "- tea"),
        ({"layer": "memory", "trust": "web"}, "- [web] tea"),
        ({"layer": "message", "role": "user", "name": "Ann"}, "- Ann: tea"),
        ({"layer": "message", "role": "assistant", "trust": "assistant"}, "- assistant: tea"),
        (
            {"layer": "message", "role": "assistant", "name": "Friday", "trust": "assistant"},
            "- Friday: tea",
        ),
        ({"layer": "message", "role": "assistant", "name": "User", "trust": "assistant"}, "- [assistant] User: tea"),
        ({"layer": "message", "role": "user", "name": "Ann", "trust": "assistant"}, "- [assistant] Ann: tea"),
        ({"layer": "message", "role": "tool", "name": "grep", "trust": "web"}, "- [web] grep: tea"),
        ({"layer": "message", "role": "tool", "name": "user", "trust": "tool"}, "- [tool] user: tea"),
    ],
)
def test_a_found_line_says_whose_words_it_has_unless_the_speaker_does(fields: dict[str, Any], line: str) -> None:
    assert found_line(Hit.model_validate({"memory": "tea", "score": 1.0, **fields})) == line


def test_a_line_of_a_conversation_says_what_its_role_does_not() -> None:
    assert '"trust"' not in conversation_lines([message(), message(role="tool", name="grep")])
    assert '"role":"tool","trust":"web"' in conversation_lines(
        [message(role="tool", name="fetch", metadata={"trust": "web"})]
    )
