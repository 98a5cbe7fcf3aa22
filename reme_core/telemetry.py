"""Spans of OpenTelemetry, by its conventions for generative AI; nothing where the application has no OpenTelemetry.

It is never imported from here: an application that wants spans has imported it before. Texts stand in a span only where
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is true.

Source: https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from reme_core.schema import Usage

MemoryOperation = Literal["search_memory", "upsert_memory", "update_memory", "delete_memory"]

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_RECORD_FIELDS = ("results", "memories")

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="HasSpace")


class Span(Protocol):
    """A span under way."""

    def set_attribute(self, key: str, value: str | int) -> None:
        """Note something."""

    def is_recording(self) -> bool:
        """Whether anybody wants to know."""
        ...


class HasSpace(Protocol):
    """A memory of one memory space."""

    _memory_space: str


@contextmanager
def model_span(
    operation: Literal["chat", "embeddings"], model: str, usage: Callable[[], Usage], *, current: bool = True
) -> Iterator[None]:
    """Open a span around a call of a model; at its end `usage` says what it took."""
    attributes = {"gen_ai.operation.name": operation, "gen_ai.provider.name": "openai", "gen_ai.request.model": model}
    with span(f"{operation} {model}", attributes, current=current) as opened:
        try:
            yield
        finally:
            if opened is not None:
                spent = usage()
                opened.set_attribute("gen_ai.usage.input_tokens", spent.prompt_tokens)
                opened.set_attribute("gen_ai.usage.output_tokens", spent.completion_tokens)


@contextmanager
def span(name: str, attributes: Mapping[str, str | int], *, current: bool = True) -> Iterator[Span | None]:
    """Open a span around what is done, with the kind of its failure; None where nobody wants spans.

    Args:
        name: What is done.
        attributes: What is known of it before.
        current: Whether spans opened within are its children; not in a generator, between whose pieces others work.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield None
        return
    opened = trace.get_tracer("reme").start_span(name, kind=trace.SpanKind.CLIENT, attributes=dict(attributes))
    try:
        # The words of an error may quote what was said: its kind is told, and that is all.
        with (
            trace.use_span(opened, record_exception=False, set_status_on_exception=False) if current else nullcontext()
        ):
            yield opened
    except BaseException as exc:
        opened.set_attribute("error.type", type(exc).__qualname__)
        opened.set_status(trace.StatusCode.ERROR)
        raise
    finally:
        opened.end()


def captures_content() -> bool:
    """Whether texts may stand in spans."""
    return os.environ.get(_CAPTURE, "").strip().lower() in {"true", "1", "span_only", "span_and_event"}


def traced(
    operation: MemoryOperation,
) -> Callable[
    [Callable[Concatenate[S, P], Coroutine[Any, Any, T]]], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]
]:
    """Give a method of a memory a span of this operation, with how many records its answer has."""

    def decorate(
        method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        @wraps(method)
        async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            attributes = {"gen_ai.operation.name": operation, "gen_ai.memory.store.id": self._memory_space}
            with span(operation, attributes) as opened:
                answer = await method(self, *args, **kwargs)
                if opened is not None and opened.is_recording():
                    _note_records(opened, answer, args[0] if args else None)
                return answer

        return call

    return decorate


def _note_records(opened: Span, answer: object, first: object) -> None:
    removed = getattr(answer, "memories", None)
    if isinstance(removed, int):  # of a whole scope, which are counted
        opened.set_attribute("gen_ai.memory.record.count", removed)
        return
    records = _records(answer)
    opened.set_attribute("gen_ai.memory.record.count", len(records))
    if captures_content():
        if isinstance(first, str):
            opened.set_attribute("gen_ai.memory.query.text", first)
        opened.set_attribute("gen_ai.memory.records", json.dumps([_told(record) for record in records]))


def _records(answer: object) -> list[object]:
    """Return what an answer is about: its hits or memories, or itself."""
    for name in _RECORD_FIELDS:
        records = getattr(answer, name, None)
        if isinstance(records, (list, tuple)):
            return list(records)
    return list(answer) if isinstance(answer, (list, tuple)) else [answer]


def _told(record: object) -> dict[str, object]:
    fields = {"content": ("content", "memory"), "id": ("memory_id",), "score": ("score",)}
    told: dict[str, object] = {}
    for name, owns in fields.items():
        values = [value for own in owns if (value := getattr(record, own, None)) is not None]
        told |= {name: values[0]} if values else {}
    return told
