"""The chat model over an OpenAI-compatible endpoint keeps the contract."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import pytest

from reme_core.errors import ContextTooLongError, ModelOutputError, ModelRejectedError
from reme_core.models import OpenAIChat
from reme_core.schema import Message
from reme_core.testing.chat_model_contract import Answer, ChatModelContract
from tests.support.openai_server import Call, Completion, OpenAIServer, Reply, Status


class TestOpenAIChat(ChatModelContract):
    @pytest.fixture
    def answering(self) -> Iterator[Callable[[Sequence[Answer]], OpenAIChat]]:
        with OpenAIServer() as server:

            def make(answers: Sequence[Answer]) -> OpenAIChat:
                server.replies(*map(reply_for, answers))
                return OpenAIChat("any", base_url=server.base_url, api_key="sk-test", max_retries=0)

            yield make


def reply_for(answer: Answer) -> Reply:
    match answer:
        case Message():
            calls = [
                Call(
                    block.call_id,
                    block.name,
                    block.arguments if isinstance(block.arguments, str) else json.dumps(block.arguments),
                )
                for block in answer.content
                if block.type == "tool_call"
            ]
            return Completion(text=answer.text or None, calls=calls)
        case ModelOutputError():
            return Completion(text=None)
        case ContextTooLongError():
            return Status(400, "This model's maximum context length is 10 tokens.", code="context_length_exceeded")
        case ModelRejectedError():
            return Status(401, "Incorrect API key provided.", code="invalid_api_key")
        case _:
            return Status(503)
