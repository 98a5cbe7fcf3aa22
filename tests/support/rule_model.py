"""A chat model that follows rules: the same prompt has the same answer, in any process and any order.

It sees only what the prompt shows. Every message of a user is a fact about whom it begins with ("Alice lives in
Berlin"); "moved to" takes the place of "lives in" and of another "moved to", whichever was said first; what a memory
says in the same words is not said again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import Message, TextBlock, ToolCallBlock, Usage
from reme_core.text import estimate_tokens


def words(text: str) -> tuple[str, ...]:
    return tuple(sorted("".join(char if char.isalnum() else " " for char in text.casefold()).split()))


def shown(request: ChatRequest, name: str) -> list[dict[str, Any]]:
    """The JSON lines that a prompt shows in the fence of this name."""
    for message in request.messages:
        lines = message.text.splitlines()
        if f"<{name}>" in lines:
            part = lines[lines.index(f"<{name}>") + 1 : lines.index(f"</{name}>")]
            return [json.loads(line) for line in part if line]
    return []


def contradict(one: str, other: str) -> bool:
    """Whether two texts name homes, of which at least one is somebody's new one."""
    homes = ("lives in", "moved to")
    return all(any(home in text for home in homes) for text in (one, other)) and "moved to" in one + other


class RuleModel:
    """A `ChatModel`. `before` is called with each request, and may wait, fail or end the process."""

    def __init__(self, before: Callable[[ChatRequest], Any] | None = None) -> None:
        self.before = before
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatResult:
        self.requests.append(request)
        if self.before is not None and (waits := self.before(request)) is not None:
            await waits
        if request.response_schema is not None:
            parsed = self._facts(request) if request.response_schema.name == "facts" else self._decisions(request)
            message = say(json.dumps(parsed))
        else:
            parsed, message = None, self._act(request)
        prompt = sum(estimate_tokens(item.full_text) for item in request.messages)
        usage = Usage(model_calls=1, prompt_tokens=prompt, completion_tokens=estimate_tokens(message.full_text))
        return ChatResult(
            message=message,
            usage=usage,
            parsed=parsed,
            finish_reason="tool_calls" if message.call_ids else "stop",
        )

    def _facts(self, request: ChatRequest) -> Any:
        return {
            "facts": [
                {
                    "type": "personal",
                    "target": line["text"].split()[0],
                    "content": line["text"],
                    "messages": [line["n"]],
                }
                for line in shown(request, "conversation")
                if line.get("by") != "assistant"
            ]
        }

    def _decisions(self, request: ChatRequest) -> Any:
        texts = {line["n"]: line["text"] for line in shown(request, "memories")}
        taken: set[int] = set()
        decisions = []
        for line in shown(request, "facts"):
            action, memory = "add", list[int]()
            for n in line["candidates"]:
                if words(texts[n]) == words(line["text"]):
                    action, memory = "skip", []
                    break
                if contradict(line["text"], texts[n]) and n not in taken:
                    action, memory = "supersede", [*memory, n]
            taken |= set(memory)
            decisions.append({"fact": line["fact"], "action": action, "memory": memory})
        return {"decisions": decisions}

    def _act(self, request: ChatRequest) -> Message:
        tools = {tool.name for tool in request.tools}
        if any(message.result_ids for message in request.messages):
            return say("done")
        lines = [line for line in shown(request, "conversation") if line.get("by") != "assistant"]
        if "hands_off" in tools:
            targets = list(dict.fromkeys(line["text"].split()[0] for line in lines))
            items = [{"memory_type": "personal", "memory_target": name} for name in targets]
            if not items:
                return calls(("hands_off", {"memory_tasks": [], "reason": "nobody says anything"}))
            return calls(("add_meta_memory", {"meta_memories": items}), ("hands_off", {"memory_tasks": items}))
        if "add_memory" in tools:
            [target] = (line for line in request.messages[-1].text.splitlines() if '{"memory_target":' in line)
            mine = dict.fromkeys(line["text"] for line in lines if f'"{line["text"].split()[0]}"' in target)
            known = shown(request, "memories")
            new = [{"memory_content": said} for said in mine if said not in {line["text"] for line in known}]
            for said in (item["memory_content"] for item in list(new)):
                old = [line for line in known if contradict(said, line["text"])]
                if not old:
                    continue
                new = [item for item in new if item["memory_content"] != said]
                item = {"memory_id": old[0]["memory_id"], "memory_content": said}
                return calls(("update_memory", {"memories": [item]}), *[("add_memory", {"memories": new})][: len(new)])
            return calls(("add_memory", {"memories": new})) if new else say("done")
        if "vector_retrieve_memory" in tools and request.tool_choice != "none":
            return calls(("vector_retrieve_memory", {"query_items": [{"query": "lives"}]}))
        return say("I have looked it up.")


def say(text: str) -> Message:
    return Message(role="assistant", content=(TextBlock(text=text),))


def calls(*wanted: tuple[str, dict[str, Any]]) -> Message:
    blocks = tuple(
        ToolCallBlock(call_id=f"call-{place}", name=name, arguments=arguments)
        for place, (name, arguments) in enumerate(wanted)
    )
    return Message(role="assistant", content=blocks)
