"""Models of AgentScope 1.x behind the ports of the core. They are used as they are: no key or URL is read from them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from types import MappingProxyType

from agentscope import formatter as formatters
from agentscope.embedding import EmbeddingModelBase
from agentscope.formatter import FormatterBase
from agentscope.model import ChatModelBase, ChatResponse

from reme_agentscope._shared.content_blocks import Plain, arguments_of, json_text, text_field
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
from reme_agentscope.v1.messages import to_agentscope
from reme_core import SpokenAnswer, SpokenCall
from reme_core.ports import ChatModel, Embedder
from reme_core.schema import Message, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.schema.plain import as_object

# The usual models take 8,192 tokens.
_MAX_CHARS = 8_000
_BATCH = 32
# By name: not all of them are there in all releases of 1.x. All other models take OpenAI's form.
_FORMATTERS = MappingProxyType(
    {
        "AnthropicChatModel": "AnthropicChatFormatter",
        "GeminiChatModel": "GeminiChatFormatter",
        "OllamaChatModel": "OllamaChatFormatter",
        "OpenAIResponseModel": "OpenAIResponseChatFormatter",
    }
)


def as_chat_model(model: ChatModelBase, *, formatter: FormatterBase | None = None) -> ChatModel:
    """Return a chat model of AgentScope as one of the core's: `ReMe(llm=as_chat_model(model))`.

    A temperature and a bound of the answer that a request brings go with it, and are left out where they are refused.

    Args:
        model: Any chat model, streaming or not.
        formatter: Writes the messages for it. None: that of AgentScope for Anthropic, Gemini, Ollama and OpenAI's
            responses, and plain dictionaries in the form of OpenAI's chats for all others.

    Raises:
        ConfigurationError: It is no chat model.
    """
    check_model(model, ChatModelBase, "a chat model")
    return AgentScopeChat(model, model.model_name, partial(_ask, model, formatter or _usual_formatter(model)))


def as_embedder(model: EmbeddingModelBase) -> Embedder:
    """Return an embedding model of AgentScope as an embedder of the core: `ReMe(embedding=as_embedder(model))`.

    Raises:
        ConfigurationError: It is no embedding model, or does not tell the length of its vectors.
    """
    check_model(model, EmbeddingModelBase, "an embedding model")
    modalities = getattr(model, "supported_modalities", None)  # some subclasses leave it out
    has_blocks = isinstance(modalities, list | tuple) and bool({"image", "video", "audio"} & set(modalities))

    async def rows(texts: list[str]) -> object:
        items: list[object] = [{"type": "text", "text": text} for text in texts] if has_blocks else list(texts)
        # By position: the parameter is `text` in some classes, `inputs` in others.
        return (await model(items)).embeddings

    # Some classes divide what they are given, others send all at once.
    batch = getattr(model, "batch_size_limit", None)
    return CheckedEmbedder(
        model=f"{type(model).__name__}:{model.model_name}",
        dimension=checked_dimension(model, getattr(model, "dimensions", None)),
        rows=rows,
        batch=batch if isinstance(batch, int) and batch > 0 else _BATCH,
        max_chars=_MAX_CHARS,
    )


async def _ask(
    model: ChatModelBase, formatter: FormatterBase | None, asked: ModelQuestion, options: Mapping[str, object]
) -> SpokenAnswer:
    if formatter is None:
        sent = [part for message in asked.messages for part in _dictionaries(message)]
    else:
        sent = await formatter.format(to_agentscope(asked.messages))
    said = await model(sent, tools=asked.tools, tool_choice=asked.choice, **options)
    if isinstance(said, AsyncGenerator):
        return _spoken(*await _last(said, asked.who))
    return _spoken(said, getattr(said, "usage", None))  # what is no answer has none


async def _last(chunks: AsyncGenerator[ChatResponse, None], who: str) -> tuple[ChatResponse, object]:
    """Return the last chunk, which holds everything, and the last usage that was told."""
    last: ChatResponse | None = None
    usage: object = None
    async with aclosing(chunks):
        async for chunk in chunks:
            last = chunk
            usage = getattr(chunk, "usage", None) or usage
    if last is None:
        raise no_answer(who)
    return last, usage


def _usual_formatter(model: ChatModelBase) -> FormatterBase | None:
    for kind in type(model).__mro__:
        if kind.__name__ in _FORMATTERS and kind.__module__.startswith("agentscope."):
            formatter = getattr(formatters, _FORMATTERS[kind.__name__])()
            return formatter if isinstance(formatter, FormatterBase) else None
    return None


def _dictionaries(message: Message) -> Iterable[dict[str, object]]:
    """Yield a message in OpenAI's form: each result on its own, then what was said."""
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    calls = [_call(block) for block in message.content if isinstance(block, ToolCallBlock)]
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    for result in results:
        yield {"role": "tool", "tool_call_id": result.call_id, "content": result.output}
    if calls:
        yield {"role": "assistant", "content": "\n".join(texts) or None, "tool_calls": calls}
    elif texts:
        yield {"role": "user" if message.role == "tool" else message.role, "content": "\n".join(texts)}


def _call(block: ToolCallBlock) -> dict[str, object]:
    # Many endpoints refuse a conversation with arguments that are no JSON object.
    arguments = {"malformed": block.arguments} if isinstance(block.arguments, str) else block.arguments
    function = {"name": block.name, "arguments": json_text(dict(arguments))}
    return {"id": block.call_id, "type": "function", "function": function}


def _spoken(said: object, usage: object) -> SpokenAnswer:
    if not isinstance(said, ChatResponse):
        raise not_an_answer(said)
    content: object = said.content
    parts = content if isinstance(content, list | tuple) else ()
    blocks = [as_object(block) for block in parts if isinstance(block, Mapping)]
    calls = [_spoken_call(block) for block in blocks if block.get("type") == "tool_use"]
    return spoken_answer(blocks, calls, usage)


def _spoken_call(block: Plain) -> SpokenCall:
    arguments = arguments_of(block.get("input"))
    raw = text_field(block, "raw_input")
    if not arguments and raw.strip():  # AgentScope leaves an empty object where a model wrote no JSON
        try:
            arguments = arguments_of(json.loads(raw))
        except (ValueError, RecursionError):
            arguments = raw
    return SpokenCall(call_id=text_field(block, "id"), name=text_field(block, "name"), arguments=arguments)
