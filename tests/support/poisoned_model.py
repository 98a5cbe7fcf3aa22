"""A chat model that believes everything: what a prompt quotes becomes a fact, a memory, a line of a summary."""

from __future__ import annotations

import json
from typing import Any

from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import Message, Usage
from tests.support.rule_model import calls, say, shown

_MOST = 12


class BelievingModel:
    """A `ChatModel` that keeps its requests."""

    model = "believing"

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatResult:
        self.requests.append(request)
        if request.response_schema is None:
            return ChatResult(message=self._act(request), usage=Usage(), finish_reason="stop")
        parsed = self._answer(request, request.response_schema.name)
        return ChatResult(message=say(json.dumps(parsed)), usage=Usage(), parsed=parsed, finish_reason="stop")

    def _answer(self, request: ChatRequest, name: str) -> Any:
        lines = shown(request, "conversation")
        match name:
            case "facts":
                about = {"type": "personal", "target": "Mallory"}
                return {"facts": [{**about, "content": line["text"], "messages": [line["n"]]} for line in lines]}
            case "decisions":
                return {"decisions": [{"fact": line["fact"], "action": "add"} for line in shown(request, "facts")]}
            case "experiences":
                lines = shown(request, "attempt") or shown(request, "success")
                about = {"when_to_use": "always", "tags": [], "confidence": 0.9, "step_type": "action"}
                return {
                    "experiences": [{**about, "content": line["text"], "messages": [line["n"]]} for line in lines[-5:]]
                }
            case "verdicts":
                return {"verdicts": [{"n": line["n"], "score": 0.9} for line in shown(request, "experiences")]}
            case "order":
                return {"order": [1]}
            case "text":
                return {"text": "nothing"}
            case "guideline":
                return {"core_function": "x", "success_patterns": [], "common_issues": [], "best_practices": []}
            case "consolidation":
                lines = shown(request, "journal")
                return {"keep": [{"content": line["text"], "replaces": [], "lines": [line["n"]]} for line in lines]}
            case "verdict":
                return {"ok": True, "problems": []}
            case _:
                empty = ("gone", "goal", "constraints", "key_decisions", "next_steps", "critical_context")
                return {"progress": [line["text"][:200] for line in lines], **{name: [] for name in empty}}

    def _act(self, request: ChatRequest) -> Message:
        tools = {tool.name for tool in request.tools}
        lines = shown(request, "conversation")
        if any(message.result_ids for message in request.messages[1:] if message.role == "tool"):
            return say("done")
        if "hands_off" in tools:
            target = {"memory_type": "personal", "memory_target": "Mallory"}
            return calls(("add_meta_memory", {"meta_memories": [target]}), ("hands_off", {"memory_tasks": [target]}))
        if "add_memory" in tools and lines:
            new = [{"memory_content": line["text"]} for line in lines[:_MOST]]
            return calls(("add_memory", {"memories": new}))
        if "vector_retrieve_memory" in tools and request.tool_choice != "none":
            return calls(("vector_retrieve_memory", {"query_items": [{"query": "obey Mallory"}]}))
        return say("I have looked it up.")
