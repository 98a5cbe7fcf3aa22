# asserts are what a contract suite is made of
"""What a transcript that keeps jobs as well promises about those that follow from new blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from reme_core.errors import ConflictError, JobNotFoundError
from reme_core.ports import (
    AppendMessages,
    BlockSummary,
    FindMessages,
    ListBlocks,
    Planner,
    SettleJob,
    Slicer,
    Store,
)
from reme_core.schema import Block, Job, Message
from reme_core.testing.store_values import ALICE, BOB, block
from tests.contract.suites.job_values import claimed, job
from tests.contract.suites.transcript_messages import SESSION, append, found, several


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

    async def test_jobs_of_new_blocks_are_added_and_returned(self, store: Store) -> None:
        said, told = several(3), list[tuple[Sequence[Message], Sequence[Block]]]()

        def plan(messages: Sequence[Message], blocks: Sequence[Block]) -> list[Job]:
            told.append((messages, blocks))
            return one_job_a_block(messages, blocks)

        await append(store, said[0])
        appended = await store.append(ALICE, said_and_planned(*said[1:], planner=plan))
        assert [item.message_ids for item in appended.blocks] == [(said[0].message_id, said[1].message_id)]
        [(messages, blocks)] = told
        assert (list(messages), tuple(blocks)) == (said[:2], appended.blocks)
        assert [item.payload for item in appended.jobs] == [{"block": appended.blocks[0].block_id}]
        assert await store.list_jobs(ALICE) == list(appended.jobs)
        assert await store.job_scopes(ALICE.memory_space) == [ALICE]

    async def test_without_new_blocks_nothing_is_planned(self, store: Store) -> None:
        said = several(2)

        def fail(_: Sequence[Message], __: Sequence[Block]) -> list[Job]:
            pytest.fail("there are no blocks to plan for")

        assert (await store.append(ALICE, said_and_planned(planner=fail))).jobs == ()
        assert (await store.append(ALICE, said_and_planned(said[0], planner=fail))).jobs == ()
        assert (await store.append(ALICE, said_and_planned(said[1], slicer=None, planner=fail))).jobs == ()
        assert len((await store.append(ALICE, said_and_planned(*said))).jobs) == 1
        assert (await store.append(ALICE, said_and_planned(*said, planner=fail))).jobs == ()
        assert len(await store.list_jobs(ALICE)) == 1

    async def test_a_plan_that_fails_leaves_messages_blocks_and_jobs_unwritten(self, store: Store) -> None:
        said = several(2)

        def fail(_: Sequence[Message], __: Sequence[Block]) -> list[Job]:
            msg = "no plan"
            raise RuntimeError(msg)

        with pytest.raises(RuntimeError, match="no plan"):
            await store.append(ALICE, said_and_planned(*said, planner=fail))
        await store.add_jobs(ALICE, [job(f"job of block of {said[0].message_id}", payload={"another": "job"})])
        with pytest.raises(ConflictError):
            await store.append(ALICE, said_and_planned(*said))
        assert await found(store, FindMessages()) == []
        assert (await store.list_blocks(ALICE, ListBlocks())).blocks == ()
        assert [item.payload for item in await store.list_jobs(ALICE)] == [{"another": "job"}]

    async def test_the_entry_of_the_index_is_written_with_the_job(self, store: Store) -> None:
        said = several(3)
        appended = await store.append(ALICE, said_and_planned(*said))
        [made], [promised] = appended.blocks, appended.jobs
        taken = await claimed(store)
        told = [summed_up(made.block_id, "Alice met a zebra."), summed_up("a block that is gone", "nothing")]
        await store.settle_job(
            ALICE, SettleJob(job_id=promised.job_id, owner=taken.owner, outcome="done", summaries=told)
        )
        [after] = await store.get_blocks(ALICE, [made.block_id])
        entry = {"summary": "Alice met a zebra.", "summary_author": "a model"}
        assert after == made.model_copy(update=entry)
        assert (await store.list_blocks(ALICE, ListBlocks())).blocks == (after,)
        assert await found(store, FindMessages(unsliced=True)) == said[2:]
        await store.put_blocks(ALICE, [made, after])
        assert await store.get_blocks(ALICE, [made.block_id]) == [after]

    async def test_whoever_does_not_hold_the_job_writes_nothing_into_the_index(self, store: Store) -> None:
        appended = await store.append(ALICE, said_and_planned(*several(2)))
        [made], [promised] = appended.blocks, appended.jobs
        told = [summed_up(made.block_id, "Alice met a zebra.")]
        await claimed(store)
        stranger = SettleJob(job_id=promised.job_id, owner="stranger", outcome="done", summaries=told)
        with pytest.raises(ConflictError):
            await store.settle_job(ALICE, stranger)
        with pytest.raises(JobNotFoundError):
            await store.settle_job(BOB, replace(stranger, owner="worker"))
        assert await store.get_blocks(ALICE, [made.block_id]) == [made]
