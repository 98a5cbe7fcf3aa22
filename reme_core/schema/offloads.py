"""Offloads: what left a context and can be loaded again by its reference; and the answers of working memory."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, SkipValidation, model_validator

from reme_core.schema.checks import Id, Text
from reme_core.schema.mapping import MappingModel, Usage
from reme_core.schema.messages import Message
from reme_core.schema.times import UtcTime, utc_now

_REFERENCE_BYTES = 8


def new_reference() -> str:
    """Return 16 hexadecimal characters, random: short, since models copy them, and never derived from content."""
    return secrets.token_hex(_REFERENCE_BYTES)


class OffloadKind(StrEnum):
    """What was offloaded."""

    TOOL_RESULT = "tool_result"
    TEXT = "text"
    MESSAGES = "messages"


class OffloadInfo(MappingModel):
    """What is known of an offload without reading it.

    Attributes:
        reference: Random, unique within the scope; what `reload` takes.
        session_id: The session whose context it left.
        kind: `tool_result` (the whole output of a tool), `text` (anything else, such as an earlier summary), or
            `messages` (which lie in the transcript; this only points at them).
        name: The tool, or what the text is.
        message_id: The message whose result it is.
        place: Which content block of that message, from 0.
        message_ids: The messages that `messages` points at, in order.
        chars: Characters of the text; 0 for `messages`.
        lines: Lines of the text; 0 for `messages`.
        bytes: Bytes of the text as UTF-8; 0 for `messages`.
        created_at: When it was offloaded; its age for a clean-up.
        said_at: When what it is of was said; None: when it was offloaded.
    """

    reference: Id
    session_id: Id
    kind: OffloadKind
    name: Text | None = None
    message_id: Id | None = None
    place: Annotated[int, Field(ge=0)] | None = None
    message_ids: tuple[Id, ...] = ()
    chars: int = 0
    lines: int = 0
    bytes: int = 0
    created_at: UtcTime
    said_at: UtcTime | None = None


class OffloadRecord(MappingModel):
    """A text, or a pointer at messages, that left a context. See `OffloadInfo` for the fields.

    `tool_result` and `text` hold a text and no `message_ids`, `messages` the reverse.
    """

    reference: Id = Field(default_factory=new_reference)
    session_id: Id
    kind: OffloadKind
    text: Text = ""
    name: Text | None = None
    message_id: Id | None = None
    place: Annotated[int, Field(ge=0)] | None = None
    message_ids: tuple[Id, ...] = ()
    created_at: UtcTime = Field(default_factory=utc_now)
    said_at: UtcTime | None = None

    @model_validator(mode="after")
    def _text_or_messages(self) -> OffloadRecord:
        if self.kind is OffloadKind.MESSAGES:
            if self.text or not self.message_ids:
                msg = "an offload of messages points at one or more of them, and has no text of its own"
                raise ValueError(msg)
        elif not self.text or self.message_ids:
            msg = f"an offload of kind {self.kind} has a text, and points at no messages"
            raise ValueError(msg)
        return self

    @property
    def info(self) -> OffloadInfo:
        """What is known of it without its text."""
        sizes = {
            "chars": len(self.text),
            "lines": self.text.count("\n") + 1 if self.text else 0,
            "bytes": len(self.text.encode()),
        }
        return OffloadInfo.model_validate({**self.model_dump(exclude={"text"}), **sizes})


class Reloaded(MappingModel):
    """A piece of what was offloaded or said, as asked for.

    Attributes:
        memory: The text of the piece; for a search, each line or passage found with its number.
        reference: What it was loaded by; None for a message that was found by a search without a reference.
        kind: What it is a piece of; None for such a message.
        session_id: The session whose context it left.
        message_ids: The messages that it is, or that it belongs to.
        name: The tool, or who said it.
        first_line: Number of the first line of the piece, from 1.
        last_line: Number of its last line.
        lines: Lines of the whole.
        offset: Where the piece begins, in characters from the start of the whole.
        chars: Characters of the whole.
        next_offset: Where to go on: `offset=` of the next call. None: this piece reaches the end, or was a search.
        matches: How many places of the whole a search found; None without one.
        score: For a search without a reference, in [0, 1], comparable within one answer.
        created_at: When it was offloaded, or said.
    """

    memory: str
    reference: str | None = None
    kind: OffloadKind | None = None
    session_id: str | None = None
    message_ids: tuple[str, ...] = ()
    name: str | None = None
    first_line: int = 1
    last_line: int = 1
    lines: int = 1
    offset: int = 0
    chars: int = 0
    next_offset: int | None = None
    matches: int | None = None
    score: float | None = None
    created_at: UtcTime | None = None


class ReloadResult(MappingModel):
    """The answer of `reload_context`: one piece for a reference, the best ones first for a search without."""

    results: tuple[Reloaded, ...] = ()


class CleanedOffloads(MappingModel):
    """What a clean-up of offloads removed, or would remove.

    Attributes:
        removed: What went, or would go, oldest first.
        held: What is old or large enough to go, and stays because an open session's context refers to it.
        bytes_removed: Bytes of text that went, or would go.
        bytes_left: Bytes of text that stay.
        dry_run: Nothing was removed.
    """

    removed: tuple[OffloadInfo, ...] = ()
    held: tuple[OffloadInfo, ...] = ()
    bytes_removed: int = 0
    bytes_left: int = 0
    dry_run: bool = False


SummaryMethod = Literal["model", "extract"]


class PreparedContext(MappingModel):
    """A context that fits; what left it is on disk.

    Attributes:
        session_id: The session.
        messages: What to send, in order, after system prompt and summary. Those that didn't change are the objects
            handed in.
        compressed_summary: What to send before them: the summary of what left; hand it in the next time.
        tokens: What system prompt, tools, summary and messages take together.
        threshold: What they may take.
        removed_message_ids: The messages that left this time, in order.
        references: What was offloaded this time.
        has_changed: Whether messages or summary are others than those handed in.
        compacted: Whether anything that was sent before was cut or left, so that the prompt begins differently.
        method: Who wrote the summary: the model, or an extract of what was said. None: it is the one handed in.
        problems: Why the model's summary wasn't used, or wasn't asked for; for a log, and for tests.
        usage: What it cost.
    """

    session_id: str
    messages: SkipValidation[tuple[Message, ...]]  # checked when they were made; contexts are long
    compressed_summary: str = ""
    tokens: int
    threshold: int
    removed_message_ids: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    has_changed: bool = False
    compacted: bool = False
    method: SummaryMethod | None = None
    problems: tuple[str, ...] = ()
    usage: Usage = Usage()


class CompactedContext(MappingModel):
    """A summary of messages; they are on disk.

    Attributes:
        session_id: The session.
        compressed_summary: The summary, in six sections.
        reference: What loads the messages again.
        method: Who wrote the summary.
        problems: Why the model's summary wasn't used.
        usage: What it cost.
    """

    session_id: str
    compressed_summary: str
    reference: str | None = None
    method: SummaryMethod
    problems: tuple[str, ...] = ()
    usage: Usage = Usage()


class OffloadedContext(MappingModel):
    """Messages that left a context; they are on disk.

    Attributes:
        session_id: The session.
        reference: What loads them again; None where there were none.
        message_ids: The messages, in order, as they are kept.
        job_ids: Work that follows from them, in the background.
    """

    session_id: str
    reference: str | None = None
    message_ids: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()


class ContextUse(MappingModel):
    """How full a context is, in tokens.

    Attributes:
        messages: What the messages take.
        summary: What the summary takes.
        taken: What system prompt and tools take.
        tokens: All of it.
        threshold: What all of it may take before it is compacted.
        max_input_length: The model's window.
        ratio: Share of the window that is used.
    """

    messages: int
    summary: int
    taken: int
    tokens: int
    threshold: int
    max_input_length: int
    ratio: float
