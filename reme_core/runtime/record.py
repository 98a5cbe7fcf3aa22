"""The way up without a model: messages made durable, sliced, indexed, embedded."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from reme_core.errors import ConflictError, ModelError, PartialFailureError
from reme_core.ports import AppendMessages, Embedder, FindMessages, IndexedTranscript, SummaryRequest
from reme_core.runtime.embedding import embed_waiting
from reme_core.runtime.slicing import Slicing, make_block, open_tail, slice_messages
from reme_core.schema import Block, Message, Scope, SummaryResult, Usage

_PAGE = 500
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbatimSummarizer:
    """A `Summarizer` that invents nothing: what was said is kept, cut into blocks, and found again.

    Attributes:
        transcript: Where it goes.
        embedder: Gives messages vectors; None leaves them to their words.
        slicing: Where blocks begin.
    """

    transcript: IndexedTranscript
    embedder: Embedder | None = None
    slicing: Slicing = field(default_factory=Slicing)

    async def summarize(self, scope: Scope, request: SummaryRequest) -> SummaryResult:
        """Keep the messages; see `Summarizer.summarize`. Without messages it finishes what is left of the session."""
        begun = time.perf_counter()
        appended = await self.transcript.append(
            scope,
            AppendMessages(
                session_id=request.session_id, messages=request.messages, want_vectors=self.embedder is not None
            ),
        )
        blocks = await self._slice(scope, request)
        result = SummaryResult(
            session_id=request.session_id,
            message_ids=tuple(message.message_id for message in request.messages),
            known_message_ids=appended.known,
            block_ids=tuple(block.block_id for block in blocks),
            usage=Usage(milliseconds=(time.perf_counter() - begun) * 1000),
        )
        if self.embedder is None:
            return result
        try:
            usage = await embed_waiting(self.transcript, self.embedder, scope)
        except ModelError as exc:
            msg = f"the messages are kept and found by their words; embedding them failed: {exc} Call flush() later."
            raise PartialFailureError(msg, done=result, failures=[exc]) from exc
        spent = Usage(embedding_calls=usage.embedding_calls, milliseconds=(time.perf_counter() - begun) * 1000)
        return result.model_copy(update={"usage": spent})

    async def _slice(self, scope: Scope, request: SummaryRequest) -> list[Block]:
        for attempt in range(_ATTEMPTS):
            waiting = await self._unsliced(scope, request.session_id)
            end = len(waiting) if request.ends_session else open_tail(waiting)
            slices = slice_messages(waiting[:end], self.slicing)
            blocks = [make_block(request.session_id, piece) for piece in slices]
            try:
                if blocks:
                    await self.transcript.put_blocks(scope, blocks)
            except ConflictError:  # another writer of this session was quicker: slice what it left
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                return blocks
        return []

    async def _unsliced(self, scope: Scope, session_id: str) -> list[Message]:
        messages: list[Message] = []
        cursor: str | None = None
        while True:
            page = await self.transcript.find_messages(
                scope, FindMessages(session_id=session_id, unsliced=True, limit=_PAGE, cursor=cursor)
            )
            messages += [stored.message for stored in page.messages]
            cursor = page.next_cursor
            if cursor is None:
                return messages
