"""Preview of a summary: the same slicing, jobs and distilling, over a draft that nobody writes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from reme_core.errors import ConfigurationError, ConflictError, PartialFailureError
from reme_core.ports import Appended, AppendMessages, FindMessages, MessagePage, PutMemory, Store, SummaryRequest
from reme_core.remember.summarizer import DistillingSummarizer
from reme_core.rules import Change
from reme_core.schema import (
    NO_STATEMENTS,
    Block,
    ChangeKind,
    EventKind,
    MemoryChange,
    Message,
    Scope,
    StoredMessage,
    SummaryPreview,
    least_trusted,
)
from reme_core.schema.content_blocks import media_references
from reme_core.steps.distillation import Distilled, UsageCounter
from reme_core.steps.draft_store import DraftStore
from reme_core.steps.message_lines import all_pages, find_messages_by_id
from reme_core.steps.user_input import missing_model_message

_KINDS = {
    EventKind.ADD: ChangeKind.ADDED,
    EventKind.UPDATE: ChangeKind.UPDATED,
    EventKind.SUPERSEDE: ChangeKind.REPLACED,
    EventKind.DELETE: ChangeKind.DELETED,
}


class ConversationDraft(DraftStore):
    """A draft that takes messages and blocks as well, so that a conversation can be distilled that nobody has stored.

    They are found by id, and as what a session said last; searches look at the store below alone. Use it for one scope.
    """

    def __init__(self, store: Store) -> None:
        """Begin without messages; see `DraftStore`."""
        super().__init__(store)
        self._said: dict[str, StoredMessage] = {}
        self._sliced: dict[str, Block] = {}

    async def append(self, scope: Scope, request: AppendMessages) -> Appended:
        """Keep messages and their blocks in the draft; see `Store.append`.

        Raises:
            ConflictError: As there; to rename is not offered.
        """
        request = await self._apart(scope, request)
        held = await find_messages_by_id(self, scope, [message.message_id for message in request.messages])
        new = {m.message_id: m for m in request.messages if not _is_known(m, held, request.session_id)}
        waiting = [*await self._unsliced(scope, request.session_id), *new.values()]
        blocks = [] if request.slicer is None or not waiting else request.slicer(waiting)
        places = {message_id: block.block_id for block in blocks for message_id in block.message_ids[block.repeats :]}
        for message in waiting:
            name = message.message_id
            self._said[name] = StoredMessage(message=message, session_id=request.session_id, block_id=places.get(name))
        self._sliced |= {block.block_id: block for block in blocks}
        jobs = request.planner(waiting, blocks) if request.planner is not None and blocks else ()
        return Appended(added=tuple(new), known=tuple(held), blocks=tuple(blocks), jobs=tuple(jobs))

    async def _apart(self, scope: Scope, request: AppendMessages) -> AppendMessages:
        """Return messages as they would be stored; their bytes are kept nowhere (BlobNotFoundError)."""
        apart = await asyncio.to_thread(lambda: [message.apart() for message in request.messages])
        for message, taken in apart:
            for ref in media_references(message.content):
                if ref not in taken:
                    await self._store.get_blob(scope, ref)
        return replace(request, messages=[message for message, _ in apart])

    async def get_messages(self, scope: Scope, message_ids: Sequence[str]) -> list[StoredMessage]:
        """Return messages by id; see `Store.get_messages`."""
        below = await self._store.get_messages(scope, [name for name in message_ids if name not in self._said])
        found = self._said | {item.message.message_id: item for item in below}
        return [found[name] for name in message_ids]

    async def get_blocks(self, scope: Scope, block_ids: Sequence[str]) -> list[Block]:
        """Return blocks by id; see `Store.get_blocks`."""
        below = await self._store.get_blocks(scope, [name for name in block_ids if name not in self._sliced])
        found = self._sliced | {block.block_id: block for block in below}
        return [found[name] for name in block_ids]

    async def find_messages(self, scope: Scope, query: FindMessages) -> MessagePage:
        """Return messages; see `Store.find_messages`. Of the draft, what was said last in a session before a time.

        If they fill the page, it is the last one.
        """
        end = query.said_to
        if query != FindMessages(session_id=query.session_id, said_to=end, newest_first=True, limit=query.limit):
            return await self._store.find_messages(scope, query)
        said = [item for item in reversed(self._said.values()) if item.session_id == query.session_id]
        own = [item for item in said if end is None or item.message.created_at < end][: query.limit]
        if len(own) == query.limit:
            return MessagePage(messages=tuple(own))
        ids = {item.message.message_id for item in own}
        below = await self._store.find_messages(scope, replace(query, limit=query.limit - len(own)))
        older = [item for item in below.messages if item.message.message_id not in ids]
        return replace(below, messages=(*own, *older))

    async def take(self, scope: Scope, distilled: Distilled) -> None:
        """Keep what a job came to: memories, and what the index is to say of blocks of the draft."""
        puts = [await self._held_to_trust(scope, put) for put in distilled.batch.puts]
        await self.put(scope, replace(distilled.batch, puts=puts))
        for item in distilled.summaries:
            told = {"summary": item.summary, "summary_author": item.author}
            self._sliced[item.block_id] = self._sliced[item.block_id].model_copy(update=told)

    async def _held_to_trust(self, scope: Scope, put: PutMemory) -> PutMemory:
        """Return a put whose memory is no more trusted than the messages that it comes from, as a store sees to it."""
        names = [name for source in put.memory.sources for name in source.message_ids]
        said = (await find_messages_by_id(self, scope, names)).values()
        trust = least_trusted([put.memory.trust, *(item.message.trust for item in said)])
        return replace(put, memory=put.memory.model_copy(update={"trust": trust}))

    async def _unsliced(self, scope: Scope, session_id: str) -> list[Message]:
        query = FindMessages(session_id=session_id, unsliced=True)
        pages = all_pages(lambda cursor: self._store.find_messages(scope, replace(query, cursor=cursor)))
        return [item.message async for page in pages for item in page.messages]


def _is_known(message: Message, held: dict[str, StoredMessage], session_id: str) -> bool:
    there = held.get(message.message_id)
    if there is not None and (there.session_id != session_id or not message.repeats(there.message)):
        msg = (
            f"message {message.message_id!r} exists with other content or in another session: ids are unique in a "
            "scope; leave it out to get a new one"
        )
        raise ConflictError(msg)
    return there is not None


async def preview(
    summarizer: DistillingSummarizer, scope: Scope, request: SummaryRequest, meter: UsageCounter
) -> SummaryPreview:
    """Work out what a summary would write, and write nothing; a job sees what those before it have made.

    `meter` is told what calls cost as they happen.

    Raises:
        ConfigurationError: Nobody does jobs here.
        InvalidInputError: Instructions that nobody follows.
        ConflictError: A message id that is taken by another message.
        ModelError: The model failed.
        PartialFailureError: Agents of some targets failed; `done` is what the others came to.
    """
    if summarizer.worker_over is None:
        raise ConfigurationError(missing_model_message("a preview"))
    draft = ConversationDraft(summarizer.record.store)
    worker = summarizer.worker_over(draft)
    appended = await replace(summarizer, record=replace(summarizer.record, store=draft)).append(scope, request)
    distilled: list[Distilled] = []
    for job in appended.jobs:
        distilled.append(await worker.work(scope, job, meter))
        await draft.take(scope, distilled[-1])
    found = SummaryPreview(
        changes=tuple(_told(draft.changes, summarizer.clock.now())),
        facts=tuple(fact for item in distilled for fact in item.facts),
        rejected=tuple(fact for item in distilled for fact in item.rejected_facts),
        known_message_ids=appended.known,
        usage=meter.usage,
        degraded=tuple(dict.fromkeys(sentence for item in distilled for sentence in item.degraded)),
    )
    failures = [failure for item in distilled for _, failure in item.failures]
    if failures:
        msg = f"a part of the preview failed, and nothing was written: {failures[0]}"
        raise PartialFailureError(msg, done=found, failures=failures) from failures[0]
    return found


def _told(changes: Sequence[Change], at: datetime) -> Iterator[MemoryChange]:
    """Tell changes of statements, each with what would stand in its place."""
    states = {change.memory_id: change.after for change in changes}
    for change in changes:
        state = change.after or change.before
        assert state is not None  # noqa: S101  # a change has one side at least
        if state.memory_type in NO_STATEMENTS:
            continue
        yield MemoryChange(
            kind=_KINDS[change.operation],
            memory_id=change.memory_id,
            memory_type=state.memory_type,
            memory_target=state.memory_target,
            before=change.before,
            after=change.after,
            replaced_by=states.get(state.superseded_by or ""),
            reason=change.reason or "",
            actor=state.author,
            at=at,
        )
