"""Stage that builds the query of a task: the task in words, as given or as the conversation tells it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from reme_core.errors import InvalidInputError
from reme_core.schema import ContentBlock, FileBlock, ImageBlock, Message, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.steps.flow import stage
from reme_core.steps.flow_context import FlowContext
from reme_core.tasks.task_values import TaskQuestion

MAX_QUERY_CHARS = 2000
"""Characters of a query that is built: about 500 tokens, which every embedding model in use takes."""

# The task is what experiences are told by, so half of the room is its own; a page of one later message says no more
# about the situation than its beginning and its end.
_TASK_CHARS = 1000
_MESSAGE_CHARS = 500
# A result tells that a call went well or how it failed; its body is the tool's matter.
_RESULT_CHARS = 200
_CALL_CHARS = 100
# Of megabytes only what may be told is gone through.
_READ_CHARS = 8 * _TASK_CHARS
# Less of a message than this is a scrap.
_LEAST_CHARS = 20
_GAP = " … "


@stage
async def build_query(question: TaskQuestion, context: FlowContext) -> TaskQuestion:
    """Fill in the query: the one given, unchanged, else one built from the messages; see `query_of`.

    Raises:
        InvalidInputError: There is neither.
    """
    if question.query.strip():
        return question
    query = query_of(question.messages)
    if not query:
        msg = (
            "query and messages: nothing to search for; give query= (the task in words), "
            "or messages= with the conversation so far"
        )
        raise InvalidInputError(msg)
    return replace(question, query=query)


def query_of(messages: Sequence[Message]) -> str:
    """Tell a task by its conversation: the first user message, then the last messages, at most `MAX_QUERY_CHARS`.

    System messages say who the agent is and not what the task is: they are left out. Tool calls are named, their
    results shortened. Messages stand in their order, one on a line at least; the latest ones go first where room is
    short. Empty, where no message has a text.
    """
    place, task = _task(messages)
    lines: list[str] = []
    room = MAX_QUERY_CHARS - len(task)
    for message in reversed(messages[place + 1 :]):
        text = _told(message)
        if not text:
            continue
        most = min(_MESSAGE_CHARS, room - 1)  # a line break stands before it
        if most < min(len(text), _LEAST_CHARS):
            break
        lines.append(_cut(text, most))
        room -= len(lines[-1]) + 1
    return "\n".join([*([task] if task else []), *reversed(lines)])


def _task(messages: Sequence[Message]) -> tuple[int, str]:
    """Return the place of the first user message that says something, and what it says; -1 if there is none."""
    for place, message in enumerate(messages):
        if message.role == "user" and (text := _told(message)):
            return place, _cut(text, _TASK_CHARS)
    return -1, ""


def _told(message: Message) -> str:
    if message.role == "system":
        return ""
    parts = (" ".join(_cut(_part(block), _READ_CHARS).split()) for block in message.content)
    return " ".join(part for part in parts if part)


def _part(block: ContentBlock) -> str:
    match block:
        case TextBlock():
            return block.text
        case ImageBlock():
            return block.caption or ""
        case FileBlock():
            return block.name or ""
        case ToolCallBlock():
            arguments = block.arguments
            written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            return _cut(f"{block.name}({written})", _CALL_CHARS)
        case ToolResultBlock():
            return _cut(block.output, _RESULT_CHARS)
        case _:
            return ""


def _cut(text: str, most: int) -> str:
    """Return a text, or its head and tail in `most` characters.

    Not `shortened`, whose words about what was left out would be searched for.
    """
    if len(text) <= most:
        return text
    kept = most - len(_GAP)
    tail = kept // 3
    return f"{text[: kept - tail]}{_GAP}{text[len(text) - tail :]}"
