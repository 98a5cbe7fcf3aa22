"""Doubles for AgentScope 1.x: a chat model that says what a test wrote down, a formatter, tools, an embedding model."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import zlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from agentscope.agent import ReActAgent
from agentscope.embedding import EmbeddingModelBase, EmbeddingResponse
from agentscope.formatter import FormatterBase
from agentscope.message import Msg, TextBlock, ToolUseBlock
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.model._model_usage import ChatUsage
from agentscope.tool import Toolkit, ToolResponse

Said: TypeAlias = str | list[dict[str, Any]] | dict[str, Any] | ChatResponse | BaseException
Step: TypeAlias = Said | Callable[[list[dict[str, Any]]], Said]


@dataclass
class Asked:
    """One request, copied when it came."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | None = None
    structured_model: Any = None
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Everything that was sent, in one text."""
        return "\n".join(json.dumps(message, ensure_ascii=False, default=str) for message in self.messages)

    @property
    def roles(self) -> list[str]:
        return [message["role"] for message in self.messages]

    @property
    def texts(self) -> list[str]:
        """The text of each message."""
        return [text_of(message["content"]) for message in self.messages]

    @property
    def names(self) -> list[str | None]:
        return [message.get("name") for message in self.messages]


def text_of(content: object) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")


class ScriptedModel(ChatModelBase):
    """Answers each call with the next step, and with `ok` when there is none left (`strict`: that fails).

    A step is a text; a list of blocks; a dict, the structured output; a `ChatResponse`; an exception, which is raised;
    or a function of the messages that returns one of these. `hold`, if set, is waited for before each answer.
    With `stream` an answer comes in chunks, each with everything so far.
    """

    def __init__(self, steps: Sequence[Step] = (), *, stream: bool = False, strict: bool = False) -> None:
        super().__init__("scripted", stream)
        self.steps = list(steps)
        self.strict = strict
        self.asked: list[Asked] = []
        self.hold: asyncio.Event | None = None

    async def __call__(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | None = None,
        structured_model: Any = None,
        **kwargs: Any,
    ) -> ChatResponse | AsyncGenerator[ChatResponse, None]:
        self.asked.append(Asked(copy.deepcopy(messages), copy.deepcopy(tools), tool_choice, structured_model, kwargs))
        if self.hold is not None:
            await self.hold.wait()
        if not self.steps and self.strict:
            msg = f"unexpected call {len(self.asked)}"
            raise AssertionError(msg)
        step: Any = self.steps.pop(0) if self.steps else "ok"
        if callable(step) and not isinstance(step, type):
            step = step(messages)
        if isinstance(step, BaseException):
            raise step
        response = response_of(step, structured=structured_model is not None)
        return chunks_of(response) if self.stream else response


def response_of(said: Any, *, structured: bool = False) -> ChatResponse:
    if isinstance(said, ChatResponse):
        return said
    usage = ChatUsage(input_tokens=7, output_tokens=3, time=0.1)
    if isinstance(said, dict):
        return ChatResponse(content=[TextBlock(type="text", text="")], metadata=said, usage=usage)
    if structured:
        return ChatResponse(content=[TextBlock(type="text", text=str(said))], metadata={"text": said}, usage=usage)
    blocks = [TextBlock(type="text", text=said)] if isinstance(said, str) else said
    return ChatResponse(content=blocks, usage=usage)


async def chunks_of(response: ChatResponse) -> AsyncGenerator[ChatResponse, None]:
    """Yield the response as 1.x models do: each chunk holds everything so far, tool inputs come with the last."""
    begun: list[Any] = []
    for block in response.content:
        if block["type"] == "text":
            half = len(block["text"]) // 2
            yield ChatResponse(content=copy.deepcopy([*begun, {**block, "text": block["text"][:half]}]))
        elif block["type"] == "tool_use":
            yield ChatResponse(content=copy.deepcopy([*begun, {**block, "input": {}}]))
        begun.append(block)
    yield response


def call(name: str, call_id: str = "call-1", **arguments: Any) -> ToolUseBlock:
    """Return a tool call as a block of a step: `[call("echo", text="hi")]`."""
    return ToolUseBlock(type="tool_use", id=call_id, name=name, input=arguments)


class ScriptedFormatter(FormatterBase):
    """Keeps name, role, id and blocks of each message."""

    async def format(self, msgs: list[Msg], **kwargs: Any) -> list[dict[str, Any]]:
        return [
            {"name": msg.name, "role": msg.role, "id": msg.id, "content": copy.deepcopy(msg.content)} for msg in msgs
        ]


async def echo(text: str) -> ToolResponse:
    """Say a text again, word by word.

    Args:
        text (str): The text that is said again.
    """
    return ToolResponse(content=[TextBlock(type="text", text=f"echo: {text}")])


async def failing(text: str) -> ToolResponse:
    """Fail in any case, which the toolkit tells the model.

    Args:
        text (str): Is not looked at.
    """
    raise ValueError(text)


class ScriptedEmbedding(EmbeddingModelBase):
    """Hashed words: texts with words in common are near each other; the same vectors in each process."""

    supported_modalities: ClassVar = ["text"]

    def __init__(self, dimensions: int = 64, *, batch: int | None = None) -> None:
        super().__init__("scripted-embedding", dimensions)
        self.asked: list[list[Any]] = []
        self.failure: BaseException | None = None
        self.batch = batch

    async def __call__(self, text: list[Any], **kwargs: Any) -> EmbeddingResponse:
        self.asked.append(list(text))
        if self.failure is not None:
            raise self.failure
        if self.batch is not None and len(text) > self.batch:
            msg = f"at most {self.batch} texts"
            raise ValueError(msg)
        return EmbeddingResponse(embeddings=[self.vector(item) for item in text])

    def vector(self, item: Any) -> list[float]:
        words = (item["text"] if isinstance(item, dict) else item).lower().replace("?", " ").replace(".", " ").split()
        row = [0.01] * self.dimensions
        for word in words:
            row[zlib.crc32(word.encode()) % self.dimensions] += 1.0
        return row


def user(text: str, name: str = "user") -> Msg:
    return Msg(name, text, "user")


def make_agent(model: ScriptedModel, *, tools: Sequence[Callable[..., Any]] = (), **kwargs: Any) -> ReActAgent:
    """Return a silent agent with these tools; further arguments are those of `ReActAgent`."""
    toolkit = kwargs.pop("toolkit", None) or Toolkit()
    for tool in tools:
        toolkit.register_tool_function(tool)
    given = {"name": "Friday", "sys_prompt": "You help.", "formatter": ScriptedFormatter(), **kwargs}
    agent = ReActAgent(model=model, toolkit=toolkit, **given)
    agent.set_console_output_enabled(False)
    return agent


def undated(text: str) -> str:
    """Return lines of results without their days, which differ from run to run."""
    return re.sub(r"^- \(\d{4}-\d\d-\d\d\) ", "- ", text, flags=re.MULTILINE)
