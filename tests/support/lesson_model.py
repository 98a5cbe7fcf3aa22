"""A chat model that draws lessons by rules: an experience for what each request shows, good verdicts, guidelines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from reme_core.ports import ChatRequest, ChatResult
from reme_core.testing import ScriptedChatModel

TASK_NAME = "cooking"


_ADVICE = ("It ended so:", "Patience made the difference: who waits for the steam gets dinner, who doesn't gets none.")


def attempt(task: str, outcome: str, score: float, trajectory_id: str | None = None) -> dict[str, Any]:
    """Return an attempt at a task: it is asked, a tool is called, and there is an outcome."""
    made: dict[str, Any] = {
        "task_id": task,
        "score": score,
        "messages": [
            {"role": "user", "content": f"Please cook {task}."},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": f"call-{task}",
                        "type": "function",
                        "function": {"name": "oven", "arguments": '{"heat": 200}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": f"call-{task}", "content": outcome},
        ],
    }
    return made if trajectory_id is None else {**made, "trajectory_id": trajectory_id}


def lessons_of(request: ChatRequest) -> dict[str, Any]:
    """Answer by rules what is asked in a response schema."""
    assert request.response_schema is not None
    shown = request.messages[-1].text if len(request.messages) == 2 else request.messages[1].text
    numbers = [int(number) for number in re.findall(r'"n":(\d+)', shown)]
    if request.response_schema.name == "verdicts":
        return {"verdicts": [{"n": number, "score": 0.8, "reason": "it is so"} for number in numbers]}
    if request.response_schema.name == "experiences":
        said = re.findall(r'"text":"((?:[^"\\]|\\.)*)"', shown)
        outcomes = [text for text in said if "cook" not in text and "oven(" not in text]
        return {
            "experiences": [
                {
                    "when_to_use": f"When asked so: {said[0]} ({' / '.join(outcomes)})",
                    "content": f"{_ADVICE[len(outcomes) - 1]} {' / '.join(outcomes)}",
                    "tags": ["oven"],
                    "confidence": 0.7,
                    "step_type": "action",
                    "tools_used": ["oven", "rocket"],
                    "messages": numbers[-1:],
                }
            ]
        }
    return {
        "core_function": "Heats food.",
        "success_patterns": ["Give the heat in degrees."],
        "common_issues": ["It burns."],
        "best_practices": ["Look after it."],
    }


class LessonModel:
    """A `ChatModel` that answers by the rules, but for the calls (from 0) that `bad` has something else for."""

    def __init__(self, bad: Callable[[int], Any] = lambda _: None) -> None:
        self.bad = bad
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatResult:
        number = len(self.requests)
        self.requests.append(request)
        step = self.bad(number)
        answer = json.dumps(lessons_of(request)) if step is None else step
        return await ScriptedChatModel([answer]).chat(request)
