"""Answers of working memory."""

from __future__ import annotations

from typing import Literal

from pydantic import SkipValidation

from reme_core.schema.mapping import MappingModel
from reme_core.schema.messages import Message
from reme_core.schema.usage import Usage

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
