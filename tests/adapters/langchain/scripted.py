"""A LangChain chat model that says what a test wrote down for it, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import PrivateAttr

Said: TypeAlias = str | AIMessage | BaseException
Step: TypeAlias = Said | Callable[[list[BaseMessage]], Said]


@dataclass
class Asked:
    """One request: the messages, and what was bound to the model (tools, tool_choice, ...)."""

    messages: list[BaseMessage]
    bound: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Everything that was sent, in one text."""
        return "\n".join(
            f"{message.type}: {message.text} {getattr(message, 'tool_calls', '')}" for message in self.messages
        )


class ScriptedChat(BaseChatModel):
    """Answers each call with the next step, and with `ok` when there is none left (`strict`: that fails).

    A step is a text, an `AIMessage`, an exception, which is raised, or a function of the messages that returns one.
    """

    strict: bool = False
    _steps: list[Step] = PrivateAttr(default_factory=list)
    _asked: list[Asked] = PrivateAttr(default_factory=list)

    def __init__(self, steps: Sequence[Step] = (), *, strict: bool = False) -> None:
        super().__init__(strict=strict)
        self._steps = list(steps)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def asked(self) -> list[Asked]:
        """The requests so far, in order."""
        return self._asked

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=list(tools), **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._asked.append(Asked(list(messages), kwargs))
        if self._steps:
            step = self._steps.pop(0)
        elif self.strict:
            raise AssertionError(f"call {len(self._asked)} of a script that has ended")
        else:
            step = "ok"
        said = step if isinstance(step, (str, AIMessage, BaseException)) else step(messages)
        if isinstance(said, BaseException):
            raise said
        message = AIMessage(content=said) if isinstance(said, str) else said
        return ChatResult(generations=[ChatGeneration(message=message)])


def calling(name: str, args: dict[str, Any] | None = None, *, call_id: str = "call-1", text: str = "") -> AIMessage:
    """Return a message that calls one tool."""
    return AIMessage(content=text, tool_calls=[{"name": name, "args": args or {}, "id": call_id}])
