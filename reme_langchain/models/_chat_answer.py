"""Conversion of an answer of LangChain's chat models into a `ChatResult`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import JsonValue

from reme_core import parse_answer
from reme_core.errors import ModelOutputError
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import ContentBlock, Message, OtherBlock, TextBlock, ToolCallBlock, Usage, new_id, shown
from reme_core.schema.plain import as_object, clean_json, clean_text, is_kept, usable_id

Reason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "other"]

# As OpenAI, Anthropic, Google, Mistral, Cohere, Bedrock and Ollama call them, in lower case.
_REASON_FIELDS = ("finish_reason", "stop_reason", "finishReason", "stopReason", "done_reason")
_REASONS: Mapping[str, Reason] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "complete", "eos", "end"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("tool_calls", "tool_use", "tool_call", "function_call"), "tool_calls"),
    **dict.fromkeys(("content_filter", "safety", "refusal", "recitation", "prohibited_content"), "content_filter"),
}
_ADVICE: Mapping[Reason, str] = {
    "length": "all tokens went elsewhere, such as into thinking: raise `max_tokens`",
    "content_filter": "the provider's filter held the answer back",
}


def result_of(said: object, request: ChatRequest, name: str) -> ChatResult:
    """Return the core's result; its usage has no time yet.

    Raises:
        ModelOutputError: It is no message and no text, nothing was said, or no JSON where it was asked for.
    """
    answer = AIMessage(content=said) if isinstance(said, str) else said
    if not isinstance(answer, BaseMessage):
        msg = f"{name}: wanted a message or a text, found {shown(said)}"
        raise ModelOutputError(msg, raw=shown(said))
    text = clean_text(str(answer.text))
    calls = _calls(answer) if isinstance(answer, AIMessage) else []
    reason = _reason(answer.response_metadata, has_calls=bool(calls))
    if not text.strip() and not calls:
        msg = f"{name}: the model said nothing (finish reason {reason!r}): {_ADVICE.get(reason, 'ask again')}"
        raise ModelOutputError(msg, raw=text)
    thoughts = clean_text(_thoughts(answer))
    blocks: list[ContentBlock] = [OtherBlock(kind="thinking", data=thoughts)] if thoughts else []
    blocks += [TextBlock(text=text)] if text else []
    try:
        message = Message(role="assistant", content=(*blocks, *calls))
    except ValueError as exc:  # larger than a message may be
        msg = f"{name}: the model's message can't be kept: it is larger than a message may be"
        raise ModelOutputError(msg, raw=text) from exc
    # A model may call tools before it gives the JSON that was asked for.
    wanted = None if calls else request.response_schema
    parsed = parse_answer(text, wanted.schema) if wanted else None
    return ChatResult(message=message, usage=_usage(answer), finish_reason=reason, parsed=parsed)


def _calls(answer: AIMessage) -> list[ToolCallBlock]:
    """Read tool calls, malformed ones last. Ids that are missing or given twice are replaced: each needs its own."""
    given: list[tuple[str | None, str | None, dict[str, JsonValue] | str]] = [
        (call["id"], call["name"], _arguments(call["args"])) for call in answer.tool_calls
    ]
    given += [(call["id"], call["name"], clean_text(call["args"] or "")) for call in answer.invalid_tool_calls]
    return list(_blocks(given))


def _blocks(given: Iterable[tuple[str | None, str | None, dict[str, JsonValue] | str]]) -> Iterable[ToolCallBlock]:
    seen: set[str] = set()
    for call_id, name, arguments in given:
        own = usable_id(call_id) if call_id else ""
        if not own or own in seen:
            own = f"call_{new_id()}"
        seen.add(own)
        yield ToolCallBlock(call_id=own, name=clean_text(name or ""), arguments=arguments)


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


def _reason(metadata: Mapping[str, object], *, has_calls: bool) -> Reason:
    """Return why the answer ended; a provider that says nothing has simply stopped."""
    told = next((value for field in _REASON_FIELDS if isinstance(value := metadata.get(field), str) and value), "stop")
    reason = _REASONS.get(told.lower(), "other")
    return "tool_calls" if has_calls and reason == "stop" else reason
