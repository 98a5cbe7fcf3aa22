"""Puts a `ChatModel` behind `OpenAIServer`: requests over the wire become ours, its answers go back over the wire."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from reme_core.ports import ChatModel, ChatRequest, ChatResult, ResponseSchema, ToolSpec
from reme_core.schema import Message, parse_messages
from reme_core.text import estimate_tokens
from tests.support.openai_server import Answering, Call, Completion, Request


def answering(model: ChatModel) -> Answering:
    """Return a reply that is what this model says; each request asks it in a loop of its own."""

    def reply_to(request: Request) -> Completion:
        return completion_of(asyncio.run(model.chat(request_of(request))))

    return Answering(reply_to)


def request_of(request: Request) -> ChatRequest:
    """Read a request as it came over the wire."""
    body = request.body
    tools = tuple(ToolSpec(**item["function"]) for item in body.get("tools", []))
    choice = body.get("tool_choice", "auto")
    wanted = body.get("response_format", {}).get("json_schema")
    return ChatRequest(
        messages=parse_messages(body["messages"]),
        tools=tools,
        tool_choice=choice if isinstance(choice, str) else choice["function"]["name"],
        response_schema=ResponseSchema(name=wanted["name"], schema=wanted["schema"]) if wanted else None,
    )


def completion_of(result: ChatResult | Message) -> Completion:
    """Write an answer as it goes over the wire."""
    message = result if isinstance(result, Message) else result.message
    calls = [
        Call(
            block.call_id,
            block.name,
            block.arguments if isinstance(block.arguments, str) else json.dumps(block.arguments),
        )
        for block in message.content
        if block.type == "tool_call"
    ]
    return Completion(text=message.text or None, calls=calls)


def all_prompt_tokens(request: Request) -> int:
    """Return an estimate of everything that a request says to the model, tools and answer formats included."""
    extras: list[Any] = [request.body[key] for key in ("tools", "response_format") if key in request.body]
    return request.prompt_tokens + sum(estimate_tokens(json.dumps(extra, ensure_ascii=False)) for extra in extras)
