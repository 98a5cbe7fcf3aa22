"""Jobs that distil blocks into memories, and their payload on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from reme_core.errors import ConfigurationError, RunError
from reme_core.ports import FindMessages, Store, Target
from reme_core.schema import EXTRACTIVE, UTC_NAME, Job, MemoryType, Message, Scope, StoredMessage, read_zone
from reme_core.steps.distillation import Distilled, Distiller, DistilTask, Guidance, UsageCounter

SUMMARY = "summary"
"""The kind of job that distils blocks into memories."""


class SummaryPayload(BaseModel):
    """What a summary job is about, to and from the JSON on disk.

    Attributes:
        session_id: The session.
        block_ids: Its blocks.
        memory_type: The only type of memory to make.
        guidance: What the application wants, as it was when the job was promised.
        timezone: The user's, by its IANA name.
        targets: What an earlier attempt has left to do; None: everything.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    session_id: str
    block_ids: tuple[str, ...]
    memory_type: MemoryType | None = None
    guidance: Guidance = Guidance()
    timezone: str = UTC_NAME
    targets: tuple[Target, ...] | None = None

    def write(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @classmethod
    def read(cls, job: Job) -> SummaryPayload:
        """Read what `write` wrote (RunError: it is something else)."""
        try:
            return cls.model_validate(job.payload)
        except ValidationError as exc:
            msg = f"the payload of job {job.job_id!r} is none of a summary: drop the job, the messages stay"
            raise RunError(msg) from exc


NOT_GUIDED = "instructions, types and examples are for the simple summarizer: set_summarizer(SimpleSummarizer())"
"""What is said where somebody else is to follow them."""

# What a reader needs to know who "she" is; and where to look for it, past what was said at the same moment.
_BEFORE, _LOOKED_AT = 6, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryWorker:
    """A `Worker` that hands the blocks of a job to a distiller.

    Attributes:
        store: Where the blocks are.
        distiller: Makes memories of them.
        is_guided: Whether it follows what the application wants; if not, jobs with such wishes wait for one that does.
    """

    store: Store
    distiller: Distiller
    is_guided: bool = False

    async def work(self, scope: Scope, job: Job, meter: UsageCounter) -> Distilled:
        """Work out what a job changes; see `Worker.work`."""
        return await self.distiller.distil(scope, await self._task(scope, job, meter))

    async def _task(self, scope: Scope, job: Job, meter: UsageCounter) -> DistilTask:
        payload = SummaryPayload.read(job)
        if payload.guidance != Guidance() and not self.is_guided:
            raise ConfigurationError(NOT_GUIDED)
        blocks = await self.store.get_blocks(scope, payload.block_ids)
        ids = [message_id for block in blocks for message_id in block.message_ids[block.repeats :]]
        messages = tuple(item.message for item in await self.store.get_messages(scope, ids))
        before = await self._before(scope, payload.session_id, messages)
        return DistilTask(
            run_id=job.run_id,
            session_id=payload.session_id,
            blocks=tuple(blocks),
            messages=messages,
            before=tuple(item.message for item in before),
            thread=await self._thread(scope, before),
            memory_type=payload.memory_type,
            guidance=payload.guidance,
            zone=_zone(payload.timezone),
            targets=payload.targets,
            meter=meter,
        )

    async def _before(self, scope: Scope, session_id: str, messages: Sequence[Message]) -> Sequence[StoredMessage]:
        """Return the last messages of a session before these, in order."""
        if not messages:
            return ()
        # Those said at the same moment count as well: what comes before is told by the order of appending.
        until = messages[0].created_at + timedelta(microseconds=1)
        query = FindMessages(session_id=session_id, said_to=until, newest_first=True, limit=_LOOKED_AT)
        page = (await self.store.find_messages(scope, query)).messages
        ids = [item.message.message_id for item in page]
        first = ids.index(messages[0].message_id) + 1 if messages[0].message_id in ids else len(ids)
        return page[first : first + _BEFORE][::-1]

    async def _thread(self, scope: Scope, before: Sequence[StoredMessage]) -> str:
        """Return what a model has written of the block that the last of these messages lies in."""
        block_id = before[-1].block_id if before else None
        if block_id is None:
            return ""
        [block] = await self.store.get_blocks(scope, [block_id])
        return "" if block.summary_author == EXTRACTIVE else block.summary


def _zone(name: str) -> tzinfo:
    try:
        return read_zone(name)
    except ValueError as exc:  # it was known where the job was promised
        raise ConfigurationError(str(exc)) from exc
