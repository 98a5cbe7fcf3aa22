"""A stand-in for a chat model: it does what prompts ask for, in the plainest way, and so lets experiments run at all.

What it says about quality is nothing. What it shows is the machinery: which tools a variant offers, how many calls a
model that obeys makes of it, and how long the prompts are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from reme_core.ports import ChatRequest, ChatResult, ToolSpec
from reme_core.schema import Message, TextBlock, ToolCallBlock
from reme_core.testing import ScriptedChatModel

ROLES = ("system", "user", "assistant", "tool")
THOUGHT = "The messages name a person and say something about them that is not among the memories shown: keep it."
_TARGET = re.compile(r'\{"memory_target":.*\}')
_MOST = 60

Item = dict[str, Any]


class StandIn:
    """A `ChatModel`. What a person says is what is remembered about them; usage is estimated from the texts."""

    async def chat(self, request: ChatRequest) -> ChatResult:
        schema = request.response_schema
        if schema is None:
            return await ScriptedChatModel([self.act(request)]).chat(request)
        answer = self.facts(request) if schema.name == "facts" else self.decisions(request)
        return await ScriptedChatModel([json.dumps(answer, ensure_ascii=False)]).chat(request)

    def facts(self, request: ChatRequest) -> Item:
        facts = [
            {"type": "personal", "target": speaker(line), "content": line["text"], "messages": [line["n"]]}
            for line in said(request)
        ]
        return {"facts": facts[:_MOST]}

    def decisions(self, request: ChatRequest) -> Item:
        return {"decisions": [{"fact": line["fact"], "action": "add"} for line in shown(request, "facts")]}

    def act(self, request: ChatRequest) -> Message:
        tools = {tool.name: tool for tool in request.tools}
        called = {block.name for message in request.messages for block in message.content if block.type == "tool_call"}
        if "think_tool" in tools and not called:
            return calling(written(tools["think_tool"], [{"reflection": THOUGHT}]))
        if called - {"think_tool"}:
            return answering("done")
        if "hands_off" in tools:
            return calling(self.routed(request, tools))
        new = self.new_memories(request)
        if "add_memory" in tools and new:
            return calling(written(tools["add_memory"], new))
        return answering("done")

    def routed(self, request: ChatRequest, tools: Mapping[str, ToolSpec]) -> list[tuple[str, Item]]:
        people = list(dict.fromkeys(map(speaker, said(request))))
        if not people:
            fields: Any = tools["hands_off"].parameters["properties"]
            none = {"memory_tasks": []} if "memory_tasks" in fields else {}
            thinking = {"thinking": THOUGHT} if "thinking" in fields else {}
            return [("hands_off", {**thinking, **none, "reason": "nobody says anything"})]
        targets = [{"memory_type": "personal", "memory_target": name} for name in people]
        talk = [{"summary_memory": f"{' and '.join(people)} talked: {said(request)[0]['text']}"}] if people else []
        return [
            call
            for name, items in (("add_meta_memory", targets), ("hands_off", targets), ("add_summary_memory", talk))
            for call in written(tools[name], items)
        ]

    def new_memories(self, request: ChatRequest) -> list[Item]:
        found = next((match for message in request.messages if (match := _TARGET.search(message.text))), None)
        if found is None:
            return []
        target = json.loads(found[0])["memory_target"]
        known = {line["text"] for line in shown(request, "memories")}
        texts = dict.fromkeys(line["text"] for line in said(request) if speaker(line) == target)
        return [{"memory_content": text} for text in texts if text not in known][:_MOST]


def shown(request: ChatRequest, name: str) -> list[Item]:
    """Return the JSON lines that a prompt shows in the fence of this name."""
    for message in request.messages:
        lines = message.text.splitlines()
        if f"<{name}>" in lines:
            part = lines[lines.index(f"<{name}>") + 1 : lines.index(f"</{name}>")]
            return [json.loads(line) for line in part if line]
    return []


def said(request: ChatRequest) -> list[Item]:
    """Return what persons said, assistants and tools apart."""
    return [line for line in shown(request, "conversation") if line.get("role", line["by"]) not in {*ROLES} - {"user"}]


def speaker(line: Item) -> str:
    return "self" if line["by"] in ROLES else str(line["by"])


def written(tool: ToolSpec, items: Sequence[Item]) -> list[tuple[str, Item]]:
    """Write calls as the tool's schema wants them: one with a list, or one for each item; with thoughts if required."""
    fields: Any = tool.parameters["properties"]
    thinking = {"thinking": THOUGHT} if "thinking" in fields else {}
    lists = [name for name, field in fields.items() if field.get("type") == "array"]
    if not items:
        return []
    if lists:
        return [(tool.name, {**thinking, lists[0]: list(items)})]
    return [(tool.name, {**thinking, **item}) for item in items]


def calling(wanted: Sequence[tuple[str, Item]]) -> Message:
    if not wanted:
        return answering("done")
    blocks = [
        ToolCallBlock(call_id=f"call-{place}", name=name, arguments=arguments)
        for place, (name, arguments) in enumerate(wanted)
    ]
    return Message(role="assistant", content=tuple(blocks))


def answering(text: str) -> Message:
    return Message(role="assistant", content=(TextBlock(text=text),))
