"""Conversion of a chat completion's body, whole or in pieces, into a `ChatResult`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from reme_core.errors import ModelOutputError
from reme_core.models.defaults import Tally
from reme_core.models.json_text import clean_text, load_json, parse_answer
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import ContentBlock, Message, OtherBlock, TextBlock, ToolCallBlock, new_id

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "other"]


class _WireChatModel(BaseModel):
    """What endpoints send: anything may be missing, null or unknown. Not a TypedDict, since it is validated."""

    model_config = ConfigDict(extra="ignore")


class WireFunction(_WireChatModel):
    """The name and the arguments of a tool call."""

    name: str | None = None
    arguments: JsonValue = None


class WireToolCall(_WireChatModel):
    """A tool call, or a piece of one."""

    index: int | None = None
    id: str | None = None
    function: WireFunction = WireFunction()


class WireMessage(_WireChatModel):
    """The model's message, or a piece of one."""

    content: str | list[JsonValue] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[WireToolCall] | None = None


class WireChoice(_WireChatModel):
    """One of the answers; we ask for one."""

    message: WireMessage | None = None
    delta: WireMessage | None = None
    finish_reason: str | None = None


class WireUsage(_WireChatModel):
    """The tokens of the call."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class WireAnswer(_WireChatModel):
    """The body of an answer, or a piece of a stream."""

    choices: list[WireChoice] | None = None
    usage: WireUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UncheckedAnswer:
    """An answer before it is ours: what was said, why it ended, and its raw text for errors."""

    message: WireMessage
    finish_reason: str | None
    raw: str


def parse_wire(data: object, raw: str) -> WireAnswer:
    """Read the JSON of an answer.

    Raises:
        ModelOutputError: It has another form.
    """
    try:
        return WireAnswer.model_validate(data)
    except ValidationError as exc:
        places = ", ".join(sorted({".".join(map(str, item["loc"])) or "the whole" for item in exc.errors()})[:3])
        msg = f"the endpoint's answer is no chat completion (wrong: {places}): it is kept in `raw`; check the base URL"
        # Not chained: pydantic's own text repeats parts of the answer.
        raise ModelOutputError(msg, raw=raw) from None


def read_draft(text: str, tally: Tally) -> UncheckedAnswer:
    """Read the body of a completion and count its tokens.

    Raises:
        ModelOutputError: It is no JSON, no chat completion, or without any answer.
    """
    try:
        data = load_json(text)
    except ValueError as exc:
        msg = (
            f"wanted JSON from the endpoint, found a text of {len(text)} characters (a web page?): "
            "it is kept in `raw`; check the base URL, most end in '/v1'"
        )
        raise ModelOutputError(msg, raw=text) from exc
    answer = parse_wire(data, text)
    count_tokens(answer, tally)
    if not answer.choices or answer.choices[0].message is None:
        msg = "the endpoint's answer holds no message (empty `choices`): it is kept in `raw`"
        raise ModelOutputError(msg, raw=text)
    choice = answer.choices[0]
    return UncheckedAnswer(message=answer.choices[0].message, finish_reason=choice.finish_reason, raw=text)


def count_tokens(answer: WireAnswer, tally: Tally) -> None:
    """Take over the tokens that the endpoint reports; in a stream the last report counts."""
    if answer.usage is not None:
        tally.prompt_tokens = answer.usage.prompt_tokens or 0
        tally.completion_tokens = answer.usage.completion_tokens or 0


def result_of(draft: UncheckedAnswer, request: ChatRequest, tally: Tally) -> ChatResult:
    """Turn a draft into our result.

    Raises:
        ModelOutputError: Nothing was said, or no JSON where it was asked for.
    """
    text = _text(draft.message)
    calls = _tool_calls(draft.message.tool_calls or [])
    reason = _finish_reason(draft.finish_reason, has_calls=bool(calls))
    if not text.strip() and not calls:
        msg = f"the model said nothing (finish reason {reason!r}){_advice(reason)}"
        raise ModelOutputError(msg, raw=draft.raw)
    thoughts = draft.message.reasoning_content
    blocks: list[ContentBlock] = [OtherBlock(kind="thinking", data=clean_text(thoughts))] if thoughts else []
    blocks += [TextBlock(text=text)] if text else []
    try:
        message = Message(role="assistant", content=(*blocks, *calls))
    except ValidationError as exc:
        msg = f"the model's message can't be kept: {exc.errors(include_input=False)[0]['msg']}"
        raise ModelOutputError(msg, raw=draft.raw) from None
    # A model may call tools before it gives the JSON that was asked for.
    wanted = None if calls else request.response_schema
    parsed = parse_answer(text, wanted.schema) if wanted else None
    return ChatResult(message=message, usage=tally.usage("chat"), finish_reason=reason, parsed=parsed)


def _text(message: WireMessage) -> str:
    content = message.content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type", "text") == "text"]
        content = "".join(part for part in parts if isinstance(part, str))
    return clean_text(content or message.refusal or "")


def _tool_calls(calls: list[WireToolCall]) -> list[ToolCallBlock]:
    """Read tool calls. Ids that are missing, unusable or given twice are replaced: each call needs its own."""
    blocks: list[ToolCallBlock] = []
    seen: set[str] = set()
    for call in calls:
        name = clean_text(call.function.name or "")
        arguments = _arguments(call.function.arguments)
        call_id = call.id if call.id and call.id not in seen else f"call_{new_id()}"
        try:
            block = ToolCallBlock(call_id=call_id, name=name, arguments=arguments)
        except ValidationError:
            block = ToolCallBlock(call_id=f"call_{new_id()}", name=name, arguments=arguments)
        seen.add(block.call_id)
        blocks.append(block)
    return blocks


def _arguments(value: JsonValue) -> dict[str, JsonValue] | str:
    """Return the JSON object, or the text as it came where it is none."""
    if isinstance(value, dict):
        return value
    if value is None or value == "":
        return {}
    text = clean_text(value) if isinstance(value, str) else str(value)
    try:
        parsed = load_json(text)
    except ValueError:
        return text
    return parsed if isinstance(parsed, dict) else text


def _finish_reason(reason: str | None, *, has_calls: bool) -> FinishReason:
    match reason:
        case "tool_calls" | "function_call":
            return "tool_calls"
        case "stop":
            return "tool_calls" if has_calls else "stop"
        case "length":
            return "length"
        case "content_filter":
            return "content_filter"
        case _:
            return "other"


def _advice(reason: FinishReason) -> str:
    match reason:
        case "length":
            return ": all tokens went elsewhere, such as into thinking: raise `max_tokens`"
        case "content_filter":
            return ": the endpoint's filter held the answer back"
        case _:
            return ": ask again"


class StreamedAnswer(BaseModel):
    """Puts the pieces of a stream together."""

    message: WireMessage = Field(default_factory=WireMessage)
    finish_reason: str | None = None

    def add(self, piece: WireAnswer) -> str:
        """Take in a piece and return the text that it adds."""
        if not piece.choices:
            return ""
        choice = piece.choices[0]
        self.finish_reason = choice.finish_reason or self.finish_reason
        delta = choice.delta
        if delta is None:
            return ""
        said = _text(delta)
        if said:
            self.message.content = _text(self.message) + said
        if delta.reasoning_content:
            self.message.reasoning_content = (self.message.reasoning_content or "") + delta.reasoning_content
        for call in delta.tool_calls or []:
            self._add_call(call)
        return said

    def _add_call(self, piece: WireToolCall) -> None:
        calls = self.message.tool_calls = self.message.tool_calls or []
        call = next((known for known in calls if _same_call(known, piece, calls)), None)
        if call is None:
            calls.append(piece.model_copy(deep=True))
            return
        call.id = call.id or piece.id
        call.function.name = call.function.name or piece.function.name
        more = piece.function.arguments
        if isinstance(more, str):
            known = call.function.arguments
            call.function.arguments = (known if isinstance(known, str) else "") + more
        elif more is not None:
            call.function.arguments = more

    def draft(self) -> UncheckedAnswer:
        """Return what has come together."""
        return UncheckedAnswer(
            message=self.message, finish_reason=self.finish_reason, raw=self.message.model_dump_json()
        )


def _same_call(known: WireToolCall, piece: WireToolCall, calls: list[WireToolCall]) -> bool:
    """Tell whether a piece goes on with a call: by index; without one, by id; without either, with the last call."""
    if piece.index is not None:
        return known.index == piece.index
    if piece.id:
        return known.id == piece.id
    return known is calls[-1]
