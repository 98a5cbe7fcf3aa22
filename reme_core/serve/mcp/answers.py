"""Answers of the tools: a text for the model, and what a program reads of it.

The structured form holds the text as well: clients such as Claude Code, Codex and OpenCode hand the model this form
alone where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict

from reme_core.schema import Hit
from reme_core.schema.hits import with_hidden_shown
from reme_core.schema.plain import clean_text
from reme_core.serve.mcp.arguments import without_docstring


class Structured(BaseModel):
    """A structured form."""

    model_config = ConfigDict(frozen=True, json_schema_extra=without_docstring)


class Answer(Structured):
    """What a tool answers.

    Attributes:
        text: All of it, for the model; what was said by others is quoted as data.
    """

    text: str


class FoundItem(Structured):
    """Something found: what `get_memory` takes, and how well it answers."""

    id: str
    kind: Literal["memory", "message", "summary"]
    score: float | None = None
    at: str | None = None
    session: str | None = None


class FoundAnswer(Answer):
    """The answer of `recall`, `recent` and `task_lessons`: what was found, in the order of the text."""

    results: list[FoundItem]
    degraded: list[str] | None = None


class IdAnswer(Answer):
    """The answer of `remember` and `revise`: the memory, and whether it was there (`revise`: which one it replaces)."""

    id: str
    known: bool | None = None
    replaced: str | None = None


class RecordAnswer(Answer):
    """The answer of `record`: what is on disk, and the work on it that goes on."""

    session: str
    message_ids: list[str]
    job_ids: list[str]


class MemoryAnswer(Answer):
    """The answer of `get_memory`."""

    id: str
    kind: Literal["memory", "message", "summary"]
    current: bool | None = None
    message_ids: list[str]


class ForgetAnswer(Answer):
    """The answer of `forget`: what went, or would go."""

    ids: list[str]
    dry_run: bool


class StatusAnswer(Answer):
    """The answer of `status`."""

    memories: int
    messages: int
    pending_jobs: int
    dead_jobs: int
    degraded: list[str]


class Document(Structured):
    """A hit of `search`, as OpenAI's connectors have it."""

    id: str
    title: str
    url: str


class SearchAnswer(Structured):
    """The answer of `search`."""

    results: list[Document]


class FetchAnswer(Document):
    """The answer of `fetch`."""

    text: str
    metadata: dict[str, str]


def item_of(hit: Hit, *, is_scored: bool) -> FoundItem:
    """Return what a program reads of a hit."""
    moment = hit.observed_at or hit.created_at
    return FoundItem(
        id=id_of(hit),
        kind=hit.layer,
        score=round(hit.score, 4) if is_scored else None,
        at=None if moment is None else moment.isoformat(timespec="seconds"),
        session=hit.session_id,
    )


def id_of(hit: Hit) -> str:
    """Return the id by which a hit is asked for again."""
    return hit.memory_id or (
        hit.message_ids[0] if hit.layer == "message" and hit.message_ids else hit.block_id or hit.reference or ""
    )


def found_answer(
    text: str, hits: Sequence[Hit], degraded: Sequence[str] = (), *, is_scored: bool = True
) -> FoundAnswer:
    """Return the answer of a tool that finds; what could not do all is told at its end."""
    told = "\n".join((text, *(f"Note: {note}" for note in degraded)))
    return FoundAnswer(
        text=told, results=[item_of(hit, is_scored=is_scored) for hit in hits], degraded=list(degraded) or None
    )


def tool_result(answer: BaseModel) -> CallToolResult:
    """Return an answer as the protocol has it; one without a text of its own is told as JSON."""
    text = answer.text if isinstance(answer, Answer) else answer.model_dump_json(exclude_none=True)
    structured = answer.model_dump(mode="json", exclude_none=True)
    return CallToolResult(content=[TextContent(text=text)], structured_content=structured)


def tool_failure(words: str) -> CallToolResult:
    """Return a failure as the protocol has it: an answer that the model reads and acts on."""
    return CallToolResult(content=[TextContent(text=with_hidden_shown(clean_text(words)))], is_error=True)
