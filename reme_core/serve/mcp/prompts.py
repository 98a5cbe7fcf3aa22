"""Prompts that a person picks: ask with what memory knows, and hand over to the next session."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from reme_core.schema.checks import not_among
from reme_core.serve.access import Right
from reme_core.serve.mcp import arguments, reading
from reme_core.serve.mcp.arguments import RecallArguments, RecentArguments, read_arguments
from reme_core.serve.mcp.caller import Caller

PROMPTS = [
    Prompt(
        name="recall",
        title="Ask with memory",
        description="A question, with what memory knows about it.",
        arguments=[PromptArgument(name="query", description="The question", required=True)],
    ),
    Prompt(
        name="handover",
        title="Hand over",
        description="Have what matters of this session kept for the next one.",
        arguments=[],
    ),
]
_HANDOVER = """\
This session ends. Keep for the next one what it needs, with the tool remember, one call for each fact: the goal, what
was decided and why, what is done, what is open, and where things lie. Leave out what the notes below say already, and
what can be read in the project. Where one of them holds no more, call revise. Then answer with the next step in one
sentence."""


def offered_prompts(rights: Collection[Right]) -> list[Prompt]:
    """Return the prompts that a caller with these rights sees: handing over writes."""
    return [prompt for prompt in PROMPTS if Right.READ in rights and (prompt.name == "recall" or Right.WRITE in rights)]


async def get_prompt(caller: Caller, name: str, given: Mapping[str, str] | None) -> GetPromptResult:
    """Return a prompt (MCPError: there is none of this name; ReMeError)."""
    caller.principal.require(Right.READ)
    match name:
        case "recall":
            text = await _recall(caller, given)
        case "handover":
            text = await _handover(caller, given)
        case _:
            raise MCPError(INVALID_PARAMS, not_among("prompt", name, [prompt.name for prompt in PROMPTS]))
    return GetPromptResult(messages=[PromptMessage(role="user", content=TextContent(text=text))])


async def _recall(caller: Caller, given: Mapping[str, str] | None) -> str:
    asked = read_arguments("recall", arguments.SearchArguments, given)
    found = await reading.recall(caller, RecallArguments(query=asked.query))
    return f"{found.text}\n\n{asked.query}"


async def _handover(caller: Caller, given: Mapping[str, str] | None) -> str:
    read_arguments("handover", arguments.EmptyArguments, given)
    notes = await reading.recent(caller, RecentArguments())
    return f"{_HANDOVER}\n\n{notes.text}"
