"""After `delete_all_memories` nothing of a user can be read from the bytes on disk, and the others lost nothing."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from reme_core import ReMe
from reme_core.ports import ClaimJob, CleanOffloads, HoldOffloads, PutOffloads, SettleJob, UseMemory
from reme_core.schema import Erased, Job, OffloadKind, OffloadRecord, Scope, ToolCallResult, utc_now
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from reme_core.text import pack_terms, terms
from tests.support.file_checks import bytes_on_disk, problems_of_file
from tests.support.snapshots import snapshot

GONE, STAYS = Scope(memory_space="space", user_id="secretuser"), Scope(memory_space="space", user_id="keepuser")


class Life:
    """A user's random life; every word of it begins with the user's own syllables, and is noted."""

    def __init__(self, reme: ReMe, store: LocalStore, scope: Scope, chance: random.Random) -> None:
        self.reme, self.store, self.scope, self.chance = reme, store, scope, chance
        self.prefix = scope.user_id.removesuffix("user")
        self.words: set[str] = set()
        self.ids: list[str] = []
        self.held: list[str] = []

    def word(self) -> str:
        word = f"{self.prefix}{self.chance.choice('äbc猫')}{self.chance.randrange(300)}q"
        self.words.add(word)
        return word

    def text(self) -> str:
        return " ".join(self.word() for _ in range(self.chance.choice([1, 3, 10, 60, 400, 1500])))

    async def step(self) -> None:
        user = self.scope.user_id
        steps = ("say", "say", "add", "add", "add", "update", "update", "close", "delete", "promise", "offload", "call")
        match self.chance.choice(steps):
            case "say":
                said = {
                    "role": "user",
                    "name": self.word(),
                    "content": self.text(),
                    "id": f"{self.word()}{len(self.ids)}",
                }
                kept = await self.reme.summary([said], user_id=user, session_id=self.word())
                self.ids += [*kept.message_ids, *kept.block_ids]
            case "add":
                drafts = [
                    {"content": self.text(), "memory_target": self.word(), "when_to_use": self.word(), "metadata": {self.word(): self.word()}}  # noqa: E501
                ]  # fmt: skip
                [stored] = await self.reme.add_memories(drafts, user_id=user, run_id=self.word(), reason=self.word())
                self.ids.append(stored.memory_id)
                self.held.append(stored.memory_id)
            case "update" if self.held:
                await self.reme.update_memory(self.chance.choice(self.held), user_id=user, content=self.text())
            case "close" if self.held:
                memory = await self.reme.get_memory(self.chance.choice(self.held), user_id=user)
                await self.reme.update_memory(memory.memory_id, user_id=user, valid_to=memory.valid_from)
            case "delete" if self.held:
                await self.reme.delete_memory(self.held.pop(self.chance.randrange(len(self.held))), user_id=user)
            case "promise":
                await self.promise()
            case "offload":
                await self.offload()
            case "call":
                await self.call()
            case _:
                pass

    async def offload(self) -> None:
        session, now = self.word(), utc_now()
        kept = [
            OffloadRecord(session_id=session, kind=OffloadKind.TEXT, text=self.text(), name=self.word()),
            OffloadRecord(session_id=session, kind=OffloadKind.TOOL_RESULT, text=self.text(), message_id=self.word()),
        ]
        self.ids += await self.store.put_offloads(self.scope, PutOffloads(offloads=kept, hold=True))
        held = frozenset(item.reference for item in kept[: self.chance.randrange(3)])
        await self.store.hold_offloads(self.scope, HoldOffloads(session_id=session, references=held, now=now))
        if self.chance.random() < 0.3:
            await self.store.clean_offloads(self.scope, CleanOffloads(max_bytes=20_000, idle_since=now))

    async def call(self) -> None:
        made = [
            ToolCallResult(tool_name=self.word(), input={self.word(): self.word()}, output=self.text(), success=success)
            for success in (True, False)
        ]
        self.ids += (await self.store.add_tool_calls(self.scope, made)).added
        if self.held:
            await self.store.record_uses(self.scope, [UseMemory(memory_id=self.chance.choice(self.held))])

    async def promise(self) -> None:
        now = utc_now()
        promised = Job(kind="work", payload={self.word(): self.text()}, created_at=now, due_at=now)
        await self.store.add_jobs(self.scope, [promised])
        self.ids.append(promised.job_id)
        hold = timedelta(seconds=1)
        claim = ClaimJob(owner=self.word(), now=now, hold=hold, is_gone=lambda _: True, kinds=("work",))
        taken = await self.store.claim_job(self.scope, claim)
        if taken is not None:
            self.ids.append(taken.run_id)
            outcome: Literal["done", "retry", "dead"] = self.chance.choice(("done", "retry", "dead"))
            failure = SettleJob(
                job_id=taken.job_id, owner=claim.owner, outcome=outcome, error=self.word(), raw=self.text()
            )
            await self.store.settle_job(self.scope, failure)


@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_of_an_erased_user_is_left_in_the_bytes_on_disk(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, synchronous="NORMAL")
    reme = ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(16), vector_store=store)
    chance = random.Random(seed)
    gone, stays = Life(reme, store, GONE, chance), Life(reme, store, STAYS, chance)
    for step in range(160):
        await (gone if chance.random() < 0.5 else stays).step()
        if step % 50 == 0:
            await reme.retrieve("words of 猫", user_id="secretuser")
    kept = await snapshot(store, STAYS)
    before = bytes_on_disk(path)
    assert b"secret" in before

    erased = await reme.delete_all_memories(user_id="secretuser")

    raw = bytes_on_disk(path)
    assert erased.memories + erased.messages + erased.events > 50
    assert erased.jobs > 1
    assert erased.offloads > 1
    assert erased.tool_calls > 1
    assert b"secret" not in raw.lower()
    assert not [item for item in gone.ids if item.encode() in raw]
    hashed = {pack_terms([term]) for word in gone.words for term in terms(word) if term.startswith("secret")}
    assert not [term for term in hashed if term in raw]
    assert await snapshot(store, STAYS) == kept
    found = await reme.retrieve(sorted(stays.words)[0], user_id="keepuser")
    assert found.results
    assert problems_of_file(path) == []
    await store.close()
    assert b"secret" not in bytes_on_disk(path).lower()


async def test_an_erased_user_starts_anew(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(16)) as reme:
        message = {"role": "user", "content": "tea", "id": "m", "created_at": "2026-01-01"}
        for _ in range(3):
            await reme.summary([message], user_id="alice", session_id="s")
            await reme.add_memories([{"content": "likes tea", "memory_id": "x"}], user_id="alice")
            assert len((await reme.retrieve("tea", user_id="alice")).results) == 2
            erased = await reme.delete_all_memories(user_id="alice")
            assert (erased.memories, erased.messages, erased.blocks, erased.events) == (1, 1, 1, 1)
            assert (await reme.retrieve("tea", user_id="alice")).results == ()
        assert await reme.delete_all_memories(user_id="nobody") == Erased(pages_cleared=True)


async def test_calls_that_hold_nothing_leave_no_name_behind(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as reme:
        await reme.summary([], user_id="passer-by", session_id="s")
        await reme.add_memories([], user_id="passer-by")
        await reme.retrieve("tea", user_id="passer-by")
        await reme.stats(user_id="passer-by")
    assert b"passer-by" not in bytes_on_disk(tmp_path / "memory.db")
