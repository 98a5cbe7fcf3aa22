# asserts are what a contract suite is made of
"""Promises of a transcript that keeps jobs as well, about those that follow from new blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, cast

import pytest

from reme_core.errors import ConflictError, JobNotFoundError, UnsupportedFilterError
from reme_core.ports import (
    AppendMessages,
    BlockSummary,
    FindMessages,
    JobQueue,
    ListBlocks,
    Planner,
    SettleJob,
    Slicer,
    Transcript,
)
from reme_core.schema import Block, Job, Message
from reme_core.testing._job_values import claimed, job
from reme_core.testing._transcript_messages import SESSION, append, found, several
from reme_core.testing.store_values import ALICE, BOB, block


class PlanningTranscript(Transcript, JobQueue, Protocol):
    """A transcript that is a queue too."""


def planning(store: Transcript) -> PlanningTranscript:
    """Return the transcript as one that keeps jobs; skip the test where it says of itself that it doesn't."""
    if not isinstance(store, JobQueue):
        pytest.skip("this transcript keeps no jobs: it is no JobQueue")
    return cast("PlanningTranscript", store)


def first_two(waiting: Sequence[Message]) -> list[Block]:
    """Cut two messages, and leave the others for later."""
    return [block(SESSION, *waiting[:2], block_id=f"block of {waiting[0].message_id}")] if len(waiting) > 1 else []


def one_job_a_block(_: Sequence[Message], blocks: Sequence[Block]) -> list[Job]:
    """Plan a job for each block."""
    return [job(f"job of {item.block_id}", payload={"block": item.block_id}) for item in blocks]


def summed_up(block_id: str, text: str) -> BlockSummary:
    """Say what the index is to say of a block."""
    return BlockSummary(block_id=block_id, summary=text, author="a model")


def said_and_planned(
    *messages: Message, slicer: Slicer | None = first_two, planner: Planner | None = one_job_a_block
) -> AppendMessages:
    """Build an append that plans jobs."""
    return AppendMessages(session_id=SESSION, messages=messages, slicer=slicer, planner=planner)


class TranscriptJobs:
    """Messages, their blocks and the jobs that follow from these are one write."""

    async def test_jobs_of_new_blocks_are_added_and_returned(self, store: Transcript) -> None:
        both, said, told = planning(store), several(3), list[tuple[Sequence[Message], Sequence[Block]]]()

        def plan(messages: Sequence[Message], blocks: Sequence[Block]) -> list[Job]:
            told.append((messages, blocks))
            return one_job_a_block(messages, blocks)

        await append(both, said[0])
        appended = await both.append(ALICE, said_and_planned(*said[1:], planner=plan))
        assert [item.message_ids for item in appended.blocks] == [(said[0].message_id, said[1].message_id)]
        [(messages, blocks)] = told
        assert (list(messages), tuple(blocks)) == (said[:2], appended.blocks)
        assert [item.payload for item in appended.jobs] == [{"block": appended.blocks[0].block_id}]
        assert await both.list_jobs(ALICE) == list(appended.jobs)
        assert await both.job_scopes(ALICE.memory_space) == [ALICE]

    async def test_without_new_blocks_nothing_is_planned(self, store: Transcript) -> None:
        both, said = planning(store), several(2)

        def fail(_: Sequence[Message], __: Sequence[Block]) -> list[Job]:
            pytest.fail("there are no blocks to plan for")

        assert (await both.append(ALICE, said_and_planned(planner=fail))).jobs == ()
        assert (await both.append(ALICE, said_and_planned(said[0], planner=fail))).jobs == ()
        assert (await both.append(ALICE, said_and_planned(said[1], slicer=None, planner=fail))).jobs == ()
        assert len((await both.append(ALICE, said_and_planned(*said))).jobs) == 1
        assert (await both.append(ALICE, said_and_planned(*said, planner=fail))).jobs == ()
        assert len(await both.list_jobs(ALICE)) == 1

    async def test_a_plan_that_fails_leaves_messages_blocks_and_jobs_unwritten(self, store: Transcript) -> None:
        both, said = planning(store), several(2)

        def fail(_: Sequence[Message], __: Sequence[Block]) -> list[Job]:
            msg = "no plan"
            raise RuntimeError(msg)

        with pytest.raises(RuntimeError, match="no plan"):
            await both.append(ALICE, said_and_planned(*said, planner=fail))
        await both.add_jobs(ALICE, [job(f"job of block of {said[0].message_id}", payload={"another": "job"})])
        with pytest.raises(ConflictError):
            await both.append(ALICE, said_and_planned(*said))
        assert await found(both, FindMessages()) == []
        assert (await both.list_blocks(ALICE, ListBlocks())).blocks == ()
        assert [item.payload for item in await both.list_jobs(ALICE)] == [{"another": "job"}]

    async def test_the_entry_of_the_index_is_written_with_the_job(self, store: Transcript) -> None:
        both, said = planning(store), several(3)
        appended = await both.append(ALICE, said_and_planned(*said))
        [made], [promised] = appended.blocks, appended.jobs
        taken = await claimed(both)
        told = [summed_up(made.block_id, "Alice met a zebra."), summed_up("a block that is gone", "nothing")]
        await both.settle_job(
            ALICE, SettleJob(job_id=promised.job_id, owner=taken.owner, outcome="done", summaries=told)
        )
        [after] = await both.get_blocks(ALICE, [made.block_id])
        entry = {"summary": "Alice met a zebra.", "summary_author": "a model"}
        assert after == made.model_copy(update=entry)
        assert (await both.list_blocks(ALICE, ListBlocks())).blocks == (after,)
        assert await found(both, FindMessages(unsliced=True)) == said[2:]
        await both.put_blocks(ALICE, [made, after])
        assert await both.get_blocks(ALICE, [made.block_id]) == [after]

    async def test_whoever_does_not_hold_the_job_writes_nothing_into_the_index(self, store: Transcript) -> None:
        both = planning(store)
        appended = await both.append(ALICE, said_and_planned(*several(2)))
        [made], [promised] = appended.blocks, appended.jobs
        told = [summed_up(made.block_id, "Alice met a zebra.")]
        await claimed(both)
        stranger = SettleJob(job_id=promised.job_id, owner="stranger", outcome="done", summaries=told)
        with pytest.raises(ConflictError):
            await both.settle_job(ALICE, stranger)
        with pytest.raises(JobNotFoundError):
            await both.settle_job(BOB, replace(stranger, owner="worker"))
        assert await both.get_blocks(ALICE, [made.block_id]) == [made]

    async def test_a_transcript_that_keeps_no_jobs_refuses_to_plan_them(self, store: Transcript) -> None:
        if isinstance(store, JobQueue):
            assert (await store.append(ALICE, said_and_planned(*several(2)))).jobs
            return
        with pytest.raises(UnsupportedFilterError):
            await store.append(ALICE, said_and_planned(*several(2)))
        assert await found(store, FindMessages()) == []
