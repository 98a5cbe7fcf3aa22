"""A chat model that goes wrong at one place of a run, once or for as long as it likes, and otherwise follows rules.

The same misbehaviour can be said by a model that is handed in (`HostileModel`), or go over the wire (`reply_to`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import Message, ToolCallBlock
from reme_core.testing import ScriptedChatModel
from tests.support.openai_server import Reply, Request
from tests.support.rule_model import RuleModel
from tests.support.wire_model import completion_of, request_of

BAD_ID = "bad"
"""Ids of tool calls that are no good begin with this."""

Bad = Any
"""A step of a `ScriptedChatModel`, or a `Reply`."""


def stage_of(request: ChatRequest) -> str:
    """Say which part of a run asks: facts, decisions, verdict, router, agent, or reader (questions and talk)."""
    if request.response_schema is not None:
        return request.response_schema.name
    tools = {tool.name for tool in request.tools}
    if "hands_off" in tools:
        return "router"
    return "agent" if tools & {"add_memory", "update_identity_memory"} else "reader"


def bad_call(name: str, arguments: Any, number: int = 0) -> ToolCallBlock:
    return ToolCallBlock(call_id=f"{BAD_ID}-{number}", name=name, arguments=arguments)


def bad_calls(*wanted: tuple[str, Any]) -> Message:
    return Message(role="assistant", content=tuple(bad_call(*call, place) for place, call in enumerate(wanted)))


class HostileModel:
    """A `ChatModel`; `left` is how often it still goes wrong, `said` how often it has.

    What it has said or called wrongly it does not look back at: it then goes on by the rules as if that had not been.
    """

    def __init__(self, stage: str, bad: Bad | Callable[[ChatRequest], Bad], left: int) -> None:
        self.stage = stage
        self.bad = bad
        self.left = left
        self.said = 0
        self.rules = RuleModel()

    async def chat(self, request: ChatRequest) -> ChatResult:
        if self._goes_wrong(request):
            return await ScriptedChatModel([self._bad(request)]).chat(request)
        return await self._by_the_rules(request)

    def reply_to(self, request: Request) -> Reply:
        """Answer a request over the wire."""
        read = request_of(request)
        if self._goes_wrong(read):
            bad = self._bad(read)
            wired: Reply = completion_of(bad) if isinstance(bad, (ChatResult, Message)) else bad
            return wired
        return completion_of(asyncio.run(self._by_the_rules(read)))

    def _goes_wrong(self, request: ChatRequest) -> bool:
        wrong = self.left > 0 and stage_of(request) == self.stage
        self.left -= wrong
        self.said += wrong
        return wrong

    def _bad(self, request: ChatRequest) -> Bad:
        return self.bad(request) if callable(self.bad) else self.bad

    async def _by_the_rules(self, request: ChatRequest) -> ChatResult:
        forgotten: set[str] = set()
        messages: list[Message] = []
        for message in request.messages:
            if message.role == "user" and "can't be used" in message.text:
                if messages[-1].role == "assistant":
                    messages.pop()  # the answer that is complained of
                continue
            if any(call_id.startswith(BAD_ID) for call_id in message.call_ids):
                forgotten |= set(message.call_ids)
            elif not forgotten & set(message.result_ids):
                messages.append(message)
        result = await self.rules.chat(replace(request, messages=tuple(messages)))
        thinking = {tool.name for tool in request.tools if "thinking" in _required(tool.parameters)}
        blocks = tuple(
            block.model_copy(update={"arguments": {"thinking": "It is new.", **block.arguments}})
            if block.type == "tool_call" and block.name in thinking and isinstance(block.arguments, dict)
            else block
            for block in result.message.content
        )
        return replace(result, message=result.message.model_copy(update={"content": blocks}))


def _required(parameters: Any) -> list[str]:
    return list(parameters.get("required", []))
