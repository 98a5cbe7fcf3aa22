"""LangChain's models behind the ports of the core: requests, answers, and the calls between."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from pydantic import JsonValue

from reme_core import (
    CallOptions,
    SpokenAnswer,
    SpokenCall,
    checked_choice,
    foreign_chat,
    function_schema,
    sent_messages,
)
from reme_core.errors import ConfigurationError, ModelOutputError, ModelRejectedError
from reme_core.ports import ChatModel, ChatRequest, ChatResult, Embedder
from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    OtherBlock,
    TextBlock,
    ToolCallBlock,
    Usage,
    is_embedded,
    shown,
)
from reme_core.schema.plain import as_object, clean_json, clean_text, is_kept
from reme_langchain.messages import to_langchain
from reme_langchain.models._embedder import EmbeddingFunction, LangChainEmbedder, NamedModel, is_async, translated

_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")
_MAX_NAME = 64


def sent_to_model(request: ChatRequest) -> list[BaseMessage]:
    """Return the messages to send, with the schema of the answer where one is asked for.

    Thinking and vendor data are not sent. Images go with a user's message where they have a web or data URL; in other
    places, and other references everywhere, are told in words.

    Raises:
        InvalidInputError: There is nothing to send.
    """
    return to_langchain(
        message.model_copy(update={"name": _NOT_IN_NAMES.sub("_", message.name)[:_MAX_NAME] if message.name else None})
        for message in sent_messages(request, said=_said)
    )


def _said(block: ContentBlock, message: Message) -> ContentBlock | None:
    match block:
        case OtherBlock():
            return None
        case ImageBlock() if message.role == "user" and block.url.startswith(("http://", "https://", "data:")):
            return block
        case ImageBlock():
            return TextBlock(text=f"[image: {block.said or _reference(block.url)}]")
        case FileBlock():
            return TextBlock(text=f"[file: {block.said or _reference(block.url)}]")
        case ToolCallBlock() if isinstance(block.arguments, str):
            # Many endpoints refuse a conversation with arguments that are no JSON object.
            return block.model_copy(update={"arguments": {"malformed": block.arguments}})
        case _:
            return block


def _reference(url: str) -> str:
    return "embedded data" if is_embedded(url) else url


Reason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "other"]

# As OpenAI, Anthropic, Google, Mistral, Cohere, Bedrock and Ollama call them, in lower case.
_REASON_FIELDS = ("finish_reason", "stop_reason", "finishReason", "stopReason", "done_reason")
_REASONS: Mapping[str, Reason] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "complete", "eos", "end"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("tool_calls", "tool_use", "tool_call", "function_call"), "tool_calls"),
    **dict.fromkeys(("content_filter", "safety", "refusal", "recitation", "prohibited_content"), "content_filter"),
}


def spoken_answer(said: object, name: str) -> SpokenAnswer:
    """Return what a model said (ModelOutputError: it is no message and no text)."""
    answer = AIMessage(content=said) if isinstance(said, str) else said
    if not isinstance(answer, BaseMessage):
        msg = f"{name}: wanted a message or a text, found {shown(said)}"
        raise ModelOutputError(msg, raw=shown(said))
    return SpokenAnswer(
        text=str(answer.text),
        thoughts=_thoughts(answer),
        calls=_calls(answer) if isinstance(answer, AIMessage) else (),
        usage=_usage(answer),
        reason=_reason(answer.response_metadata),
    )


def _calls(answer: AIMessage) -> list[SpokenCall]:
    """Read tool calls, malformed ones last."""
    calls = [
        SpokenCall(call_id=call["id"], name=call["name"] or "", arguments=_arguments(call["args"]))
        for call in answer.tool_calls
    ]
    return calls + [
        SpokenCall(call_id=call["id"], name=call["name"] or "", arguments=clean_text(call["args"] or ""))
        for call in answer.invalid_tool_calls
    ]


def _arguments(args: Mapping[str, object]) -> dict[str, JsonValue] | str:
    cleaned = {clean_text(key): clean_json(item) for key, item in as_object(args).items()}
    return cleaned if is_kept(cleaned) else shown(cleaned)


def _thoughts(answer: BaseMessage) -> str:
    """Return what the model thought, in the form of most providers; other forms are not read."""
    parts = [part for part in answer.content if isinstance(part, dict)] if isinstance(answer.content, list) else []
    texts = [part.get(str(part["type"])) for part in parts if part.get("type") in {"reasoning", "thinking"}]
    texts.append(answer.additional_kwargs.get("reasoning_content"))
    return "\n".join(text for text in texts if isinstance(text, str))


def _usage(answer: BaseMessage) -> Usage:
    tokens = answer.usage_metadata if isinstance(answer, AIMessage) else None
    if tokens is None:
        return Usage(model_calls=1)
    return Usage(model_calls=1, prompt_tokens=tokens["input_tokens"], completion_tokens=tokens["output_tokens"])


def _reason(metadata: Mapping[str, object]) -> Reason:
    """Return why the answer ended; a provider that says nothing has simply stopped."""
    told = next((value for field in _REASON_FIELDS if isinstance(value := metadata.get(field), str) and value), "stop")
    return _REASONS.get(told.lower(), "other")


Messages: TypeAlias = list[BaseMessage]
Said: TypeAlias = str | AIMessage
ChatFunction: TypeAlias = Callable[[Messages], Said] | Callable[[Messages], Awaitable[Said]]
Source: TypeAlias = Runnable[Messages, object] | ChatFunction


class LangChainChat:
    """A chat model, runnable or function of LangChain behind the core's port. Bound to no event loop."""

    def __init__(
        self,
        model: Runnable[Messages, object] | ChatFunction | NamedModel[BaseChatModel],
        metadata: Mapping[str, object],
    ) -> None:
        """Keep them; nothing is called."""
        self._model = model
        self._metadata = dict(metadata)
        self._options = CallOptions()

    def __repr__(self) -> str:
        """Name the model."""
        return f"LangChainChat({self._name})"

    @property
    def _name(self) -> str:
        model = self._model
        if isinstance(model, NamedModel):
            return model.name
        # A function has a name, an object with __call__ none.
        return (
            type(model).__name__
            if isinstance(model, Runnable)
            else getattr(model, "__qualname__", type(model).__name__)
        )

    async def chat(self, request: ChatRequest) -> ChatResult:
        """Answer a request. A temperature or limit of tokens that the model refuses is left out from then on.

        Raises:
            InvalidInputError: There is nothing to send, or `tool_choice` names no tool of the request.
            ModelUnavailableError: No answer, or none in time; it may pass.
            ModelRejectedError: The model refuses the request as it is, or failed.
            ModelOutputError: The answer has no usable form; `raw` keeps it.
            ContextTooLongError: The request doesn't fit the context window.
        """
        messages, choice = sent_to_model(request), _tool_choice(request)
        # Making a model imports the provider's library, which takes seconds.
        model = await asyncio.to_thread(self._model.get) if isinstance(self._model, NamedModel) else self._model

        async def ask(options: Mapping[str, object]) -> SpokenAnswer:
            said = await self._ask(self._bound(model, request, choice, options), messages)
            return spoken_answer(said, self._name)

        return await foreign_chat(request, self._name, self._options, ask, translated)

    async def _ask(self, model: Source, messages: Messages) -> object:
        if isinstance(model, Runnable):
            config: RunnableConfig | None = {"metadata": dict(self._metadata)} if self._metadata else None
            return await model.ainvoke(messages, config)
        if is_async(model):
            answer = model(messages)
        else:
            answer = await run_in_executor(None, model, messages)  # unlike asyncio's, it survives a StopIteration
        return await answer if inspect.isawaitable(answer) else answer

    def _bound(self, model: Source, request: ChatRequest, choice: str | None, options: Mapping[str, object]) -> Source:
        """Return the model with the request's tools and options."""
        if not isinstance(model, Runnable):
            if request.tools:
                raise ModelRejectedError(_no_tools(self._name))
            return model
        # Of runnables chat models alone bind tools, and those that pass their attributes on, such as configured ones.
        bind_tools = getattr(model, "bind_tools", None)
        bound: Runnable[Messages, object] = model
        if request.tools:
            if bind_tools is None:
                raise ModelRejectedError(_no_tools(self._name))
            chosen = {} if choice is None else {"tool_choice": choice}
            try:
                bound = bind_tools([function_schema(tool) for tool in request.tools], **chosen)
            except Exception as exc:  # NotImplementedError of a model without tools, and whatever providers raise
                raise ModelRejectedError(_no_tools(self._name)) from exc
        return bound.bind(**options) if options and bind_tools is not None else bound


def _no_tools(name: str) -> str:
    return f"{name}: takes no tools: give a chat model that has `bind_tools`, or use the strategies without agents"


def _tool_choice(request: ChatRequest) -> str | None:
    """Return LangChain's word (InvalidInputError); None leaves it to the model.

    `none` is left to it as well: not all providers have a word for it, and some take it for the name of a tool.
    """
    choice = checked_choice(request)
    if choice in [tool.name for tool in request.tools]:
        return choice
    return "any" if choice == "required" else None


def as_chat_model(
    model: BaseChatModel | Runnable[Messages, object] | ChatFunction | str,
    *,
    metadata: Mapping[str, object] | None = None,
) -> ChatModel:
    """Return a chat model of LangChain as one of the core's: `ReMe(llm=as_chat_model(model))`.

    Args:
        model: A chat model; a runnable from messages to a message or a text, such as a model with retries; a function
            from messages to a text or an `AIMessage`, synchronous (it is run in a thread) or not; or a name
            `provider:model`, resolved by LangChain's `init_chat_model` at the first call. Tools need a model that
            binds them; temperature and limits of tokens are told to chat models alone.
        metadata: Joined to the metadata of each run, by which tracers and streams tell these calls apart.

    Raises:
        ConfigurationError: It is none of these; of a name, at the first call, that its package is missing.
    """
    tags = dict(metadata or {})
    if isinstance(model, str):
        return LangChainChat(NamedModel(model, _init_chat_model), tags)
    if not _is_one(model, Runnable):
        msg = f"model: wanted a chat model, a runnable, a function or 'provider:model', found {shown(model)}"
        raise ConfigurationError(msg)
    return LangChainChat(model, tags)


def as_embedder(embed: Embeddings | EmbeddingFunction | str, *, dims: int | None = None) -> Embedder:
    """Return embeddings of LangChain as an embedder of the core: `ReMe(embedding=as_embedder(embeddings))`.

    Args:
        embed: Embeddings; a function from a list of texts to a list of vectors, synchronous (it is run in a thread) or
            not; or a name `provider:model`, resolved by LangChain's `init_embeddings` at the first call.
        dims: The length of the vectors; may be left out where the embeddings tell it as `dimensions`, `dimension` or
            `size`.

    Raises:
        ConfigurationError: It is none of these, or the length is not known; of a name, at the first call, that its
            package is missing.
    """
    if dims is not None and (type(dims) is not int or dims < 1):
        msg = f"dims: wanted the length of the vectors, an int above 0, found {shown(dims)}"
        raise ConfigurationError(msg)
    if isinstance(embed, str):
        return LangChainEmbedder(NamedModel(embed, _init_embeddings), dims)
    if not _is_one(embed, Embeddings):
        msg = f"embed: wanted Embeddings, a function or 'provider:model', found {shown(embed)}"
        raise ConfigurationError(msg)
    embedder = LangChainEmbedder(embed, dims)
    embedder.dimension  # noqa: B018  # raises where nothing tells it
    return embedder


def _is_one(given: object, kind: type) -> bool:
    return isinstance(given, kind) or callable(given)


def _init_chat_model(name: str) -> BaseChatModel:
    from langchain.chat_models import init_chat_model  # noqa: PLC0415  # an extra of its own

    return init_chat_model(name)


def _init_embeddings(name: str) -> Embeddings:
    from langchain.embeddings import init_embeddings  # noqa: PLC0415  # an extra of its own

    return init_embeddings(name)
