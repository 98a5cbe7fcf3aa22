"""`reme capture`: what was said to a coding agent, from its transcript, without asking a model or the network.

It works on the store itself and not on `ReMe`: it runs after each turn of somebody else's program, and loads as little
as it can.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reme_core.cli.transcripts import Transcript
from reme_core.errors import InvalidInputError
from reme_core.jobs.job_runner import JobRunner
from reme_core.ports import FindMessages, Store, SummaryRequest
from reme_core.remember.summarizer import DistillingSummarizer, VerbatimSummarizer
from reme_core.schema import Message, Scope
from reme_core.schema.plain import usable_id
from reme_core.schema.times import SystemClock

MAX_BYTES = 1 << 30
"""A transcript is at most 1 GiB: it is read into memory."""

STANDARD_INPUT = "-"
# So many lie in one write: a client that kills us after its time has those before.
_AT_ONCE = 500
# Of a session, where its transcript was read up to: others may have written into it since.
_NEWEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What was kept of a transcript.

    Attributes:
        session_id: The session.
        messages: How many messages are new.
        unusable: How many lines can't be used.
        unfinished: Whether the last line is still being written.
        jobs: How many jobs are to make memories of them.
    """

    session_id: str
    messages: int = 0
    unusable: int = 0
    unfinished: bool = False
    jobs: int = 0


async def capture(
    store: Store,
    scope: Scope,
    source: str,
    *,
    session_id: str | None = None,
    ends: bool = False,
    makes_jobs: bool = True,
) -> Captured:
    """Keep what a transcript says beyond what is kept of it already; it is on disk when this returns.

    Args:
        store: Where.
        scope: Whose.
        source: The file; `-` is standard input.
        session_id: The session; None: that of the transcript.
        ends: Whether nothing more comes of the session.
        makes_jobs: Whether memories are to be made of it by whoever has a model, where the environment names one.

    Raises:
        InvalidInputError: The file can't be read.
        StoreError: It is not on disk; what was written before is, and the rest is new the next time.
    """
    transcript = Transcript(_bytes(source), name=Path(source).stem.strip("-") or "transcript")
    session = usable_id(session_id) if session_id else transcript.session_id
    clock = SystemClock()
    newest = FindMessages(session_id=session, newest_first=True, limit=_NEWEST)
    known = [item.message for item in (await store.find_messages(scope, newest)).messages]
    read = transcript.messages(known=known, now=clock.now())
    record = VerbatimSummarizer(store=store, embeds_later=bool(os.environ.get("REME_EMBEDDING_MODEL")))
    # Nothing is run here: who has the model does the jobs.
    distilling = DistillingSummarizer(
        record=record, runner=JobRunner(store=store, clock=clock), clock=clock, start=lambda scope: None
    )
    summarizer = distilling if makes_jobs and os.environ.get("REME_LLM_MODEL") else record
    kept = jobs = 0
    for begin in range(0, len(read.messages), _AT_ONCE):
        messages = read.messages[begin : begin + _AT_ONCE]
        result = await summarizer.summarize(scope, _request(session, messages))
        kept += len(messages) - len(result.known_message_ids)
        jobs += len(result.job_ids)
    if ends and (known or read.messages):
        jobs += len((await summarizer.summarize(scope, _request(session, (), ends=True))).job_ids)
    return Captured(session_id=session, messages=kept, unusable=read.unusable, unfinished=read.unfinished, jobs=jobs)


def _request(session: str, messages: Sequence[Message], *, ends: bool = False) -> SummaryRequest:
    return SummaryRequest(
        session_id=session, messages=messages, ends_session=ends, background=True, on_conflict="rename"
    )


def _bytes(source: str) -> bytes:
    if source == STANDARD_INPUT:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        try:
            data = _file_bytes(Path(source).expanduser())
        except (OSError, ValueError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            msg = f"{source!r} can't be read ({reason}): check the path"
            raise InvalidInputError(msg) from exc
    if len(data) > MAX_BYTES:
        msg = f"{source!r} has more than {MAX_BYTES} bytes: no transcript has"
        raise InvalidInputError(msg)
    return data


def _file_bytes(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        msg = "it is a folder, a pipe or a device"
        raise ValueError(msg)
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
