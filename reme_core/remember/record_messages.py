"""Summarizer without a model: messages are made durable, sliced, indexed and embedded."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from reme_core.errors import ModelError, PartialFailureError, ReMeError
from reme_core.ports import Appended, AppendMessages, Embedder, Planner, Store, SummaryRequest
from reme_core.schema import Block, Message, Scope, SummaryResult, Usage
from reme_core.steps.embedding import degraded_by, embed_waiting
from reme_core.steps.slicing import Slicing, make_block, open_tail, slice_messages


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbatimSummarizer:
    """A `Summarizer` that invents nothing: what was said is kept, cut into blocks, and found again.

    Attributes:
        store: Where it goes.
        embedder: Gives messages vectors; None leaves them to their words.
        slicing: Where blocks begin.
    """

    store: Store
    embedder: Embedder | None = None
    slicing: Slicing = field(default_factory=Slicing)

    async def summarize(self, scope: Scope, request: SummaryRequest) -> SummaryResult:
        """Keep the messages; see `Summarizer.summarize`. Without messages it finishes what is left of the session."""
        begun = time.perf_counter()
        appended = await self.append(scope, request)
        result = recorded(request, appended).model_copy(update={"usage": Usage(milliseconds=since(begun))})
        if request.background:
            return result
        try:
            usage, degraded = await self.embed(scope, appended)
        except ReMeError as exc:  # a dimension that the store refuses
            msg = f"the messages are kept and found by their words; embedding them failed: {exc} Call flush() later."
            raise PartialFailureError(msg, done=result, failures=[exc]) from exc
        spent = Usage(embedding_calls=usage.embedding_calls, milliseconds=since(begun))
        return result.model_copy(update={"usage": spent, "degraded": degraded})

    async def append(self, scope: Scope, request: SummaryRequest, planner: Planner | None = None) -> Appended:
        """Put the messages, their blocks and the jobs that follow from these on disk, in one write."""
        return await self.store.append(
            scope,
            AppendMessages(
                session_id=request.session_id,
                messages=request.messages,
                want_vectors=self.embedder is not None,
                slicer=lambda waiting: self._blocks(request, waiting),
                planner=planner,
                on_conflict=request.on_conflict,
            ),
        )

    async def embed(self, scope: Scope, appended: Appended | None = None) -> tuple[Usage, tuple[str, ...]]:
        """Give the messages that wait for one their vectors, or say why they wait on; see `embed_waiting`."""
        if self.embedder is None:
            return Usage(), ()
        first = None if appended is None else appended.waiting
        try:
            return await embed_waiting(self.store, self.embedder, scope, first=first), ()
        except ModelError as exc:
            return Usage(), (degraded_by(exc, "texts without vectors are found by their words"),)

    def _blocks(self, request: SummaryRequest, waiting: Sequence[Message]) -> list[Block]:
        end = len(waiting) if request.ends_session else open_tail(waiting)
        return [make_block(request.session_id, piece) for piece in slice_messages(waiting[:end], self.slicing)]


def recorded(request: SummaryRequest, appended: Appended) -> SummaryResult:
    """Say what an append has put on disk."""
    return SummaryResult(
        session_id=request.session_id,
        message_ids=tuple(appended.renamed.get(item.message_id, item.message_id) for item in request.messages),
        known_message_ids=appended.known,
        block_ids=tuple(block.block_id for block in appended.blocks),
        job_ids=tuple(job.job_id for job in appended.jobs),
    )


def since(begun: float) -> float:
    """Return the milliseconds since a reading of `time.perf_counter`."""
    return (time.perf_counter() - begun) * 1000
