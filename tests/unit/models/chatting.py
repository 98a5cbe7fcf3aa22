"""Short ways to write requests and models in tests."""

from __future__ import annotations

from typing import Any

from reme_core.models import OpenAIChat, OpenAIEmbedder
from reme_core.ports import ChatRequest, ResponseSchema, ToolSpec
from reme_core.schema import parse_messages
from tests.support.openai_server import KEY, OpenAIServer

COLOUR = ResponseSchema(
    name="a colour",
    schema={
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    },
)
WEATHER = ToolSpec(name="weather", description="Of a town.", parameters={"type": "object", "properties": {}})


def ask(*messages: Any, **options: Any) -> ChatRequest:
    return ChatRequest(messages=parse_messages(messages or [("user", "What colour is the sky?")]), **options)


def chat_at(server: OpenAIServer, **options: Any) -> OpenAIChat:
    options = {"api_key": KEY, **options}
    return OpenAIChat("a-model", base_url=server.base_url, **options)


def embedder_at(server: OpenAIServer, **options: Any) -> OpenAIEmbedder:
    options = {"api_key": KEY, "dimension": 64, **options}
    return OpenAIEmbedder("a-model", base_url=server.base_url, **options)
