"""Doubles for AgentScope 2.x: a chat model that says what a test wrote down, an echo tool, an embedding model."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from agentscope.agent import Agent
from agentscope.embedding import EmbeddingModelBase, EmbeddingResponse
from agentscope.message import HintBlock, Msg, TextBlock, ToolCallBlock, UserMsg
from agentscope.model import ChatModelBase, ChatResponse, ChatUsage
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import ToolBase, ToolChoice, ToolChunk, Toolkit

Said: TypeAlias = str | list[Any] | ChatResponse | BaseException
Step: TypeAlias = Said | Callable[[list[Msg]], Said]


@dataclass
class Asked:
    """One request, copied when it came."""

    messages: list[Msg]
    tools: list[dict[str, Any]] | None = None
    tool_choice: ToolChoice | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Everything that was sent, in one text."""
        return "\n".join(message.model_dump_json() for message in self.messages)

    @property
    def roles(self) -> list[str]:
        return [message.role for message in self.messages]

    @property
    def texts(self) -> list[str]:
        """The text of each message, hints apart."""
        return [message.get_text_content() or "" for message in self.messages]

    @property
    def hints(self) -> list[str]:
        """The hints of all messages."""
        blocks = [block for message in self.messages for block in message.content]
        return [str(block.hint) for block in blocks if isinstance(block, HintBlock)]


class _Formatter:
    supported_input_media_types: ClassVar = ["*"]


class ScriptedModel(ChatModelBase):
    """Answers each call with the next step, and with `ok` when there is none left (`strict`: that fails).

    A step is a text; a list of blocks; a `ChatResponse`; an exception, which is raised; or a function of the messages
    that returns one of these. `hold`, if set, is waited for before each answer. With `stream` an answer comes in
    deltas and then whole; without `ends_whole` the last chunk is left to AgentScope.
    """

    class Parameters(ChatModelBase.Parameters):
        """None."""

    def __init__(
        self,
        steps: Sequence[Step] = (),
        *,
        stream: bool = False,
        strict: bool = False,
        ends_whole: bool = True,
        context_size: int = 100_000,
    ) -> None:
        super().__init__(
            credential=None, model="scripted", parameters=self.Parameters(), stream=stream, context_size=context_size
        )
        self.formatter = _Formatter()
        self.steps = list(steps)
        self.strict = strict
        self.ends_whole = ends_whole
        self.asked: list[Asked] = []
        self.hold: asyncio.Event | None = None

    async def _call_api(
        self,
        model_name: str,
        messages: list[Msg],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: ToolChoice | None = None,
        **kwargs: Any,
    ) -> ChatResponse | AsyncGenerator[ChatResponse, None]:
        self.asked.append(Asked([message.model_copy(deep=True) for message in messages], tools, tool_choice, kwargs))
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
        response = response_of(step)
        return chunks_of(response, ends_whole=self.ends_whole) if self.stream else response

    async def count_tokens(self, messages: list[Msg], tools: list[dict[str, Any]] | None = None) -> int:
        return sum(len(message.model_dump_json()) for message in messages) // 4


def response_of(said: Any) -> ChatResponse:
    if isinstance(said, ChatResponse):
        return said
    blocks = [TextBlock(text=said)] if isinstance(said, str) else said
    return ChatResponse(content=blocks, is_last=True, usage=ChatUsage(input_tokens=7, output_tokens=3, time=0.1))


async def chunks_of(response: ChatResponse, *, ends_whole: bool = True) -> AsyncGenerator[ChatResponse, None]:
    """Yield deltas of each block, and the whole at the end."""
    for block in response.content:
        for part in _halves(block):
            yield ChatResponse(content=[part], is_last=False, id=response.id, usage=response.usage)
    if ends_whole:
        yield response


def _halves(block: Any) -> list[Any]:
    for name in ("text", "thinking", "input"):
        value = getattr(block, name, None)
        if isinstance(value, str):
            half = len(value) // 2
            return [block.model_copy(update={name: part}) for part in (value[:half], value[half:])]
    return [block]


def call(name: str, call_id: str = "call-1", **arguments: Any) -> ToolCallBlock:
    """Return a tool call as a block of a step: `[call("echo", text="hi")]`."""
    return ToolCallBlock(id=call_id, name=name, input=json.dumps(arguments))


class EchoTool(ToolBase):
    """Says a text again, which makes a reply of two steps."""

    name = "echo"
    description = "Say a text again, word by word."
    input_schema: ClassVar = {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The text that is said again."}},
        "required": ["text"],
    }
    is_concurrency_safe = True
    is_read_only = True

    async def check_permissions(self, *args: Any, **kwargs: Any) -> PermissionDecision:
        return PermissionDecision(behavior=PermissionBehavior.ALLOW, message="harmless")

    async def call(self, text: str) -> ToolChunk:
        return ToolChunk(content=[TextBlock(text=f"echo: {text}")])


class ScriptedEmbedding(EmbeddingModelBase[str]):
    """Hashed words: texts with words in common are near each other; the same vectors in each process."""

    def __init__(self, dimensions: int = 64, *, batch_size: int = 10, context_size: int = 8191) -> None:
        super().__init__(
            credential=None,
            model="scripted-embedding",
            dimensions=dimensions,
            parameters=None,
            context_size=context_size,
            batch_size=batch_size,
            max_retries=0,
            retry_delay=0.0,
        )
        self.asked: list[list[str]] = []
        self.failure: BaseException | None = None

    async def _call_api(self, inputs: list[Any], **kwargs: Any) -> EmbeddingResponse:
        self.asked.append(list(inputs))
        if self.failure is not None:
            raise self.failure
        return EmbeddingResponse(embeddings=[self.vector(text) for text in inputs])

    def vector(self, text: str) -> list[float]:
        row = [0.01] * self.dimensions
        for word in text.lower().replace("?", " ").replace(".", " ").split():
            row[zlib.crc32(word.encode()) % self.dimensions] += 1.0
        return row


def user(text: str, name: str = "user") -> Msg:
    return UserMsg(name, text)


def make_agent(model: ScriptedModel, *, tools: Sequence[ToolBase] = (), **kwargs: Any) -> Agent:
    """Return an agent with these tools; further arguments are those of `Agent`."""
    given = {"name": "Friday", "system_prompt": "You help.", "toolkit": Toolkit(tools=list(tools)), **kwargs}
    return Agent(model=model, **given)
