"""Models of AgentScope 2.x behind the ports of the core. They are used as they are: no key or URL is read from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from agentscope.embedding import EmbeddingModelBase
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.tool import ToolChoice

from reme_agentscope._shared.content_blocks import Plain, text_field
from reme_agentscope._shared.model_calls import (
    AgentScopeChat,
    CheckedEmbedder,
    ModelQuestion,
    check_model,
    checked_dimension,
    no_answer,
    not_an_answer,
    spoken_answer,
)
from reme_agentscope.v2.messages import parsed_arguments, to_agentscope
from reme_core import SpokenAnswer, SpokenCall
from reme_core.ports import ChatModel, Embedder
from reme_core.schema import Message, ToolCallBlock
from reme_core.schema.plain import as_object

_MAX_CHARS = 8_000
_GROWING = ("text", "thinking", "input")


def as_chat_model(model: ChatModelBase) -> ChatModel:
    """Return a chat model of AgentScope as one of the core's: `ReMe(llm=as_chat_model(model))`.

    A temperature and a bound of the answer that a request brings go with it, and are left out where they are refused.

    Raises:
        ConfigurationError: It is no chat model.
    """
    check_model(model, ChatModelBase, "a chat model")
    return AgentScopeChat(model, model.model, partial(_ask, model))


def as_embedder(model: EmbeddingModelBase[Any]) -> Embedder:
    """Return an embedding model of AgentScope as an embedder of the core: `ReMe(embedding=as_embedder(model))`.

    Raises:
        ConfigurationError: It is no embedding model, or does not tell the length of its vectors.
    """
    check_model(model, EmbeddingModelBase, "an embedding model")

    async def rows(texts: list[str]) -> object:
        return (await model(texts)).embeddings

    limit = getattr(model, "context_size", None)  # not in all releases of 2.x
    return CheckedEmbedder(
        model=f"{type(model).__name__}:{model.model}",
        dimension=checked_dimension(model, model.dimensions),
        rows=rows,
        batch=None,
        max_chars=limit if isinstance(limit, int) and limit > 0 else _MAX_CHARS,
    )


async def _ask(model: ChatModelBase, asked: ModelQuestion, options: Mapping[str, object]) -> SpokenAnswer:
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task is not None else 0
    chosen = None if asked.choice is None else ToolChoice(mode=asked.choice)
    sent = to_agentscope(map(_with_objects, asked.messages))
    said = await model(sent, tools=asked.tools, tool_choice=chosen, **options)
    spoken = await _gathered(said, asked.who) if isinstance(said, AsyncGenerator) else _spoken(said, _blocks(said))
    # AgentScope's models swallow cancellation; the first releases of 2.x do not even say so in their answer.
    if task is not None and task.cancelling() > cancelled_before:
        raise asyncio.CancelledError
    return spoken


async def _gathered(chunks: AsyncGenerator[ChatResponse, None], who: str) -> SpokenAnswer:
    """Return the last chunk, which is whole; without one, the deltas of each block put together."""
    whole: ChatResponse | None = None
    newest: ChatResponse | None = None
    usage: object = None
    deltas: dict[tuple[str, str], Plain] = {}
    async with aclosing(chunks):
        async for chunk in chunks:
            newest = chunk
            usage = chunk.usage or usage
            if chunk.is_last:
                whole = chunk
            elif whole is None:
                _add(deltas, _blocks(chunk))
    if newest is None:
        raise no_answer(who)
    return _spoken(newest, list(deltas.values()) if whole is None else _blocks(whole), usage)


def _with_objects(message: Message) -> Message:
    """Return a message whose calls have objects as arguments: many endpoints refuse others."""
    content = tuple(
        block.model_copy(update={"arguments": {"malformed": block.arguments}})
        if isinstance(block, ToolCallBlock) and isinstance(block.arguments, str)
        else block
        for block in message.content
    )
    return message.model_copy(update={"content": content})


def _blocks(said: ChatResponse) -> list[Plain]:
    found: object = said
    if not isinstance(found, ChatResponse):
        raise not_an_answer(found)
    return [as_object(dict(block)) for block in found.content]


def _add(deltas: dict[tuple[str, str], Plain], blocks: list[Plain]) -> None:
    for block in blocks:
        key = (text_field(block, "type"), text_field(block, "id"))
        begun = deltas.get(key)
        if begun is None:
            deltas[key] = block
            continue
        for name in _GROWING:
            if name in begun:
                begun[name] = f"{begun[name]}{block.get(name) or ''}"


def _spoken(said: ChatResponse, blocks: list[Plain], usage: object = None) -> SpokenAnswer:
    # A cancelled model gives this answer instead of the error; not in all releases of 2.x.
    if str(getattr(said, "finished_reason", "")) == "interrupted":
        raise asyncio.CancelledError
    usage = said.usage or usage
    calls = [
        SpokenCall(
            call_id=text_field(block, "id"),
            name=text_field(block, "name"),
            arguments=parsed_arguments(text_field(block, "input")),
        )
        for block in blocks
        if block.get("type") == "tool_call"
    ]
    return spoken_answer(blocks, calls, usage)
