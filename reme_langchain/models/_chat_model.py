"""LangChain's chat models as a chat model of the core."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor

from reme_core.errors import InvalidInputError, ModelError, ModelRejectedError, ModelUnavailableError
from reme_core.ports import ChatRequest, ChatResult, ToolSpec
from reme_langchain.models._chat_answer import result_of
from reme_langchain.models._chat_request import sent_messages
from reme_langchain.models._embedder import is_async
from reme_langchain.models._named_models import NamedModel
from reme_langchain.models._provider_failures import translated

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
        self._refused: frozenset[str] = frozenset()

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
        messages = sent_messages(request)
        # Making a model imports the provider's library, which takes seconds.
        model = await asyncio.to_thread(self._model.get) if isinstance(self._model, NamedModel) else self._model
        started = time.perf_counter()
        said = await self._said(model, messages, request)
        result = result_of(said, request, self._name)
        spent = (time.perf_counter() - started) * 1000
        return replace(result, usage=result.usage.model_copy(update={"milliseconds": spent}))

    async def _said(self, model: Source, messages: Messages, request: ChatRequest) -> object:
        while True:
            options = self._options(request)
            bound = self._bound(model, request, options)
            try:
                async with asyncio.timeout(request.timeout_s):
                    return await self._ask(bound, messages)
            except ModelError:
                raise
            except TimeoutError as exc:
                msg = f"{self._name}: no answer in time: raise `timeout_s`, or try again later"
                raise ModelUnavailableError(msg) from exc
            except Exception as exc:  # providers share no base error; each is mapped, none is dropped
                refused = frozenset(name for name in options if name in str(exc))
                if not refused:
                    raise translated(exc, self._name) from exc
                self._refused |= refused

    def _options(self, request: ChatRequest) -> dict[str, object]:
        options: dict[str, object] = {"temperature": request.temperature, "max_tokens": request.max_tokens}
        return {name: value for name, value in options.items() if value is not None and name not in self._refused}

    async def _ask(self, model: Source, messages: Messages) -> object:
        if isinstance(model, Runnable):
            config: RunnableConfig | None = {"metadata": dict(self._metadata)} if self._metadata else None
            return await model.ainvoke(messages, config)
        if is_async(model):
            answer = model(messages)
        else:
            answer = await run_in_executor(None, model, messages)  # unlike asyncio's, it survives a StopIteration
        return await answer if inspect.isawaitable(answer) else answer

    def _bound(self, model: Source, request: ChatRequest, options: Mapping[str, object]) -> Source:
        """Return the model with the request's tools and options."""
        choice = _tool_choice(request)
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
                bound = bind_tools([_tool(tool) for tool in request.tools], **chosen)
            except Exception as exc:  # NotImplementedError of a model without tools, and whatever providers raise
                raise ModelRejectedError(_no_tools(self._name)) from exc
        return bound.bind(**options) if options and bind_tools is not None else bound


def _no_tools(name: str) -> str:
    return f"{name}: takes no tools: give a chat model that has `bind_tools`, or use the strategies without agents"


def _tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _tool_choice(request: ChatRequest) -> str | None:
    """Return LangChain's word; None leaves it to the model.

    `none` is left to it as well: not all providers have a word for it, and some take it for the name of a tool.
    """
    names = [tool.name for tool in request.tools]
    choice = request.tool_choice
    if choice in names:
        return choice
    if choice == "required" and names:
        return "any"
    if choice in {"auto", "none"}:
        return None
    msg = f"tool_choice {choice!r}: wanted 'auto', 'none', 'required' or one of the request's tools {names!r}"
    raise InvalidInputError(msg)
