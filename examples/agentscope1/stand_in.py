"""What the examples of this folder share: a model to talk with.

With REME_AGENT_MODEL set (and OPENAI_API_KEY, or REME_AGENT_BASE_URL for a server of your own) it is that model, behind
an OpenAI-compatible endpoint; otherwise a stand-in, which follows a rule of the example.

Needs: pip install 'reme-memory[agentscope1]'
"""

import os
from collections.abc import Callable
from typing import Any

from agentscope.formatter import OpenAIChatFormatter
from agentscope.model import ChatModelBase, ChatResponse, OpenAIChatModel

Rule = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
"""From the messages of a request to the blocks of an answer."""


class StandIn(ChatModelBase):
    """Answers by a rule, without a network."""

    def __init__(self, rule: Rule) -> None:
        super().__init__("stand-in", stream=False)
        self._rule = rule

    async def __call__(self, messages: list[dict[str, Any]], *args: object, **settings: object) -> ChatResponse:
        return ChatResponse(content=self._rule(messages))


def chat_model(rule: Rule) -> ChatModelBase:
    """Return the model that the environment names, or the stand-in."""
    name = os.environ.get("REME_AGENT_MODEL")
    if not name:
        return StandIn(rule)
    address = os.environ.get("REME_AGENT_BASE_URL")
    return OpenAIChatModel(name, client_kwargs={"base_url": address} if address else None, stream=False)


def formatter() -> OpenAIChatFormatter:
    """Return what puts messages into the form of that endpoint."""
    return OpenAIChatFormatter()


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a formatted message."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def said(text: str) -> list[dict[str, Any]]:
    """Return an answer of text alone."""
    return [{"type": "text", "text": text}]
