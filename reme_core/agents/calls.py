"""Tool calls and their answers, exactly one for each call; and faults of an answer, told to the model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from reme_core.errors import ToolFeedback
from reme_core.ports import ChatResult, Tool, ToolContext
from reme_core.schema import Message, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.steps.flow import for_each
from reme_core.text.prompts import shortened
from reme_core.tools.base import check_arguments

MAX_ANSWER_CHARS = 25_000
"""Of one answer: some 6,000 tokens of English. Our own tools that read messages stop a little earlier (`ANSWER_CHARS`)
and say what they left out; this holds for searches with long memories, and for tools of other makers."""


async def answer_calls(
    calls: Sequence[ToolCallBlock],
    tools: Mapping[str, Tool],
    context: ToolContext,
    *,
    last: frozenset[str] = frozenset(),
) -> list[Message]:
    """Run tool calls and return their answers, one message each, in the order of the calls.

    Calls next to each other whose tools are concurrent run at once, others one after the other; those of the tools in
    `last` run after all others. What the model got wrong (an unknown tool, arguments, what a tool says by
    `ToolFeedback`) is answered in words.

    Raises:
        ReMeError: Of the first tool that failed; the calls at its side are cancelled, later ones are not made.
    """

    async def answer(call: ToolCallBlock) -> Message:
        return await _answer(call, tools, context)

    answers: dict[str, Message] = {}
    for part in ([call for call in calls if call.name not in last], [call for call in calls if call.name in last]):
        for together in _side_by_side(part, tools):
            said = await for_each(answer, together)
            answers |= {call.call_id: answer for call, answer in zip(together, said, strict=True)}
    return [answers[call.call_id] for call in calls]


def _side_by_side(calls: Sequence[ToolCallBlock], tools: Mapping[str, Tool]) -> Iterator[list[ToolCallBlock]]:
    together: list[ToolCallBlock] = []
    for call in calls:
        tool = tools.get(call.name)
        # a call of an unknown tool does nothing, so it parts no others
        if tool is None or tool.is_concurrent:
            together.append(call)
            continue
        if together:
            yield together
            together = []
        yield [call]
    if together:
        yield together


async def _answer(call: ToolCallBlock, tools: Mapping[str, Tool], context: ToolContext) -> Message:
    is_error = False
    try:
        output = await _run(call, tools, context)
    except ToolFeedback as feedback:
        output, is_error = str(feedback), True
    result = ToolResultBlock(call_id=call.call_id, name=call.name, output=_bounded(output), is_error=is_error)
    return Message(role="tool", content=(result,), created_at=context.clock.now())


async def _run(call: ToolCallBlock, tools: Mapping[str, Tool], context: ToolContext) -> str:
    tool = tools.get(call.name)
    if tool is None:
        msg = f"there is no tool {call.name!r}; there are: {', '.join(tools) or 'none'}"
        raise ToolFeedback(msg)
    return await tool.run(check_arguments(tool.name, tool.arguments, call.arguments), context)


def _bounded(output: str) -> str:
    """Return what a message can hold of an answer: no NUL, no lone surrogates, and not without end."""
    text = output.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")
    left_out = len(text) - MAX_ANSWER_CHARS
    if left_out > 0:
        text = f"{text[:MAX_ANSWER_CHARS]}\n[{left_out} more characters left out: ask for less at once]"
    return text or "(no answer)"


MAX_CALLS = 64
"""Tool calls of one answer; a model that asks for more has lost its way (as `MAX_ITEMS` of tools)."""

# Other names are refused by endpoints once they stand in a conversation (OpenAI API reference, function names).
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SHOWN_CHARS = 2000


def tool_calls(message: Message) -> list[ToolCallBlock]:
    """Return the tool calls of an answer, in order."""
    return [block for block in message.content if isinstance(block, ToolCallBlock)]


def tool_results(message: Message) -> list[ToolResultBlock]:
    """Return the answers to tool calls in a message, in order."""
    return [block for block in message.content if isinstance(block, ToolResultBlock)]


def fault_of(result: ChatResult, *, may_call: bool) -> str | None:
    """Say what makes an answer unusable, in words for the model; None if it can be used."""
    calls = tool_calls(result.message)
    if result.finish_reason == "length":
        return "it was cut off at the length limit: write less, and fewer tool calls at once"
    if not calls:
        return None if result.message.text.strip() else "it was empty: call a tool, or answer in words"
    if not may_call:
        return "it called a tool, and there are no more tool calls: answer in words, from what you know now"
    if len(calls) > MAX_CALLS:
        return f"it had {len(calls)} tool calls; at most {MAX_CALLS} are allowed in one answer"
    if twice := [call_id for call_id, count in Counter(call.call_id for call in calls).items() if count > 1]:
        return f"{len(twice)} ids of tool calls were given twice: each call needs an id of its own"
    if any(_TOOL_NAME.fullmatch(call.name) is None for call in calls):
        return "the name of a tool held other characters than letters, digits, '_', '-' and '.'"
    if result.message.result_ids:
        return "it held the result of a tool: call the tool, and its result will be given to you"
    return None


def complaint(said: Message | None, fault: str) -> list[Message]:
    """Return what is said instead of an unusable answer: its text without its calls, and what was wrong with it.

    So no call stays unanswered, and the roles alternate, as some chat templates demand.
    """
    text = "" if said is None else said.text.strip()
    return [
        Message(role="assistant", content=(TextBlock(text=shortened(text, _SHOWN_CHARS) or "(unusable answer)"),)),
        Message(role="user", content=(TextBlock(text=f"Your last answer can't be used: {fault}. Answer again."),)),
    ]
