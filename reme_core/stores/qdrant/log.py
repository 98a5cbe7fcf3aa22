"""The log of a scope: how a batch is written whole, once, and in an order, on a server that has no transactions.

A batch becomes one point, its commit, which holds every change with its vector. The id of the point is made of the
number of its first event, and it is written as *insert only*: of all writers that read the same state, in whatever
process, one gets its commit in, and the others read again and plan anew. Then the memories are brought to the state
that the commit tells, each unless a later commit has been there, and the commit is marked as applied. A writer that
dies in between leaves a commit that the next call of a store on this scope applies.

Counting uses, or giving a memory the vector that it waited for, is such a commit as well, one without events: it takes
a number of its own, which no event has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from qdrant_client import models

from reme_core.errors import ConflictError, MemoryNotFoundError, StoreUnavailableError
from reme_core.ports import EventQuery, PutMemory, UseMemory, Vector, WriteBatch
from reme_core.rules import (
    WritePlan,
    claim_of,
    claims_of,
    ids_of,
    plan_batch,
    reason_for,
    replaced_elsewhere,
    settle_equal,
    used,
)
from reme_core.schema import Event, Memory, Scope, new_id, utc_now
from reme_core.stores.qdrant import filters
from reme_core.stores.qdrant.backend import Backend
from reme_core.stores.qdrant.points import (
    MEMORY,
    Commit,
    StoredPoint,
    claim_key,
    commit_id_point,
    commit_point,
    dense_of,
    final_vectors,
    memory_id_point,
    outcome_points,
    read_commit,
    read_memory,
)

_ATTEMPTS = 100
"""Each failed attempt is another writer's success, so this many in a row are no chance but an overload."""

_COMMITS_A_PAGE = 128
_POINTS_A_PAGE = 128
_SETTLED = "an equal memory that ends later, or not at all, takes its place"


async def write(backend: Backend, scope: Scope, batch: WriteBatch) -> tuple[Memory, ...]:
    """Write a batch and return the memories that its puts answer with; errors as `MemoryStore.put`."""
    for _ in range(_ATTEMPTS):
        last = await settle(backend, scope)
        held = await _held(backend, scope, batch)
        plan = plan_batch(batch, [item.memory for item in held.values()])
        if not plan.changes:
            return plan.answers
        commit = _commit(batch, plan, held, first=last + 1)
        if await _insert(backend, scope, commit):
            await apply(backend, scope, commit)
            return plan.answers
    raise _overloaded()


async def count_uses(backend: Backend, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
    """Add checked uses to the counts of memories; see `CountsUses.record_uses`."""
    names = list(dict.fromkeys(use.memory_id for use in uses))
    if not names:
        return []
    for _ in range(_ATTEMPTS):
        last = await settle(backend, scope)
        held = await _by_ids(backend, scope, names)
        missing = [name for name in names if name not in held]
        if missing:
            raise MemoryNotFoundError(missing)
        counted = used([item.memory for item in held.values()], uses)
        if await _rewrite(backend, scope, held, counted.values(), number=last + 1):
            return [counted[use.memory_id] for use in uses]
    raise _overloaded()


async def tell_ends_from_replacements(backend: Backend, scope: Scope) -> None:
    """Bring back into what is found the memories that an earlier release took out because they had an end.

    Where one content then stands more than once, one stays current, and the others are superseded by it, each with an
    event. What has been told apart is not looked at again.
    """
    while True:
        last = await settle(backend, scope)
        records = await backend.scroll(scope, filters.ended_before_own_times(scope), limit=_POINTS_A_PAGE)
        if not records:
            return
        held = await _by_ids(backend, scope, [read_memory(record.payload).memory_id for record in records])
        memories = [item.memory for item in held.values()]
        replaced = [there for memory in memories if (there := replaced_elsewhere(memory)) is not memory]
        replaced = replaced or settle_equal([*memories, *await _claimed(backend, scope, memories)])
        if not replaced:
            await _rewrite(backend, scope, held, memories, number=last + 1)
            continue
        puts = [PutMemory(memory=memory, expected_revision=memory.revision) for memory in replaced]
        with suppress(ConflictError):  # somebody else was faster: what is there is looked at anew
            await write(backend, scope, WriteBatch(puts=puts, reason=_SETTLED, actor="migration", at=utc_now()))


async def _claimed(backend: Backend, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
    """Return the memories that are current already and say what one of these says."""
    claims = [claim_key(claim) for memory in memories if (claim := claim_of(memory)) is not None]
    wanted = filters.all_memories(scope, filters.one_of("claim", claims))
    records = await backend.scroll(scope, wanted, limit=len(claims)) if claims else []
    return [read_memory(record.payload) for record in records]


async def _rewrite(
    backend: Backend, scope: Scope, held: Mapping[str, StoredPoint], memories: Iterable[Memory], *, number: int
) -> bool:
    """Write points of memories anew, as held and without events; tell whether nobody else was quicker."""
    vectors = final_vectors((name, item.vector) for name, item in held.items())
    commit = Commit(
        token=new_id(),
        events=(),
        number=number,
        counted=tuple(memories),
        vectors=vectors,
        waiting=frozenset(name for name, item in held.items() if item.waits),
    )
    if not await _insert(backend, scope, commit):
        return False
    await apply(backend, scope, commit)
    return True


async def fill(backend: Backend, scope: Scope, vectors: Mapping[tuple[str, str], Vector | None]) -> None:
    """Give memories that wait their vectors, by id and text; see `FillsVectors.put_vectors`."""
    for _ in range(_ATTEMPTS):
        last = await settle(backend, scope)
        held = await _by_ids(backend, scope, [name for name, _ in vectors])
        waiting = {name: item.memory for name, item in held.items() if item.waits}
        given = {
            name: StoredPoint(memory=waiting[name], vector=vector)
            for (name, text), vector in vectors.items()
            if _says(waiting.get(name), text)
        }
        memories = [item.memory for item in given.values()]
        if not given or await _rewrite(backend, scope, given, memories, number=last + 1):
            return
    raise _overloaded()


def _says(memory: Memory | None, text: str) -> bool:
    return memory is not None and memory.index_text == text


async def waiting_memories(backend: Backend, scope: Scope, limit: int) -> list[Memory]:
    """Return the memories that wait for vectors, oldest first."""
    oldest = models.OrderBy(key="created_at", direction=models.Direction.ASC)
    wanted = filters.all_memories(scope, filters.is_true("waits"))
    return [read_memory(item.payload) for item in await backend.scroll(scope, wanted, limit=limit, order=oldest)]


async def waiting_scopes(backend: Backend, memory_space: str) -> list[Scope]:
    """Return the scopes of a space that have memories that wait, one page of points after the other."""
    found: dict[Scope, None] = {}
    while True:
        wanted = filters.waiting_apart_from(found)
        records = await backend.scroll(Scope(memory_space=memory_space, user_id=""), wanted, limit=_POINTS_A_PAGE)
        if not records:
            return [scope for scope in found if scope.memory_space == memory_space]
        found |= dict.fromkeys(read_memory(record.payload).scope for record in records)


def _overloaded() -> StoreUnavailableError:
    msg = f"{_ATTEMPTS} times in a row another writer was quicker; try again when there are fewer"
    return StoreUnavailableError(msg)


async def settle(backend: Backend, scope: Scope) -> int:
    """Apply what a writer has left behind, and return the last number of the newest commit, 0 if there is none.

    Nobody commits before the commit before is applied, so only the newest can be left behind.
    """
    newest = models.OrderBy(key="first", direction=models.Direction.DESC)
    records = await backend.scroll(scope, filters.all_commits(scope), limit=1, order=newest)
    if not records:
        return 0
    commit = read_commit(records[0].payload)
    if not commit.applied:
        await apply(backend, scope, commit)
    return commit.last


async def count_events(backend: Backend, scope: Scope) -> int:
    """Apply what a writer has left behind, and return how many events the scope has.

    Every number up to the last one is that of an event or of uses; what others count from then on has later ones.
    """
    last = await settle(backend, scope)
    return last - await backend.count(scope, filters.all_commits(scope, filters.counts_uses(), filters.until(last)))


async def events(backend: Backend, scope: Scope, query: EventQuery) -> list[Event]:
    """Return what happened, oldest first."""
    found: list[Event] = []
    after = query.after
    while len(found) < query.limit:
        commits = await _commits(backend, scope, filters.told(scope, query, after))
        for commit in commits:
            found += [event for event in commit.events if _is_asked_for(event, query)]
            after = commit.last
        if len(commits) < _COMMITS_A_PAGE:
            break
    return found[: query.limit]


async def _commits(backend: Backend, scope: Scope, wanted: models.Filter) -> list[Commit]:
    oldest = models.OrderBy(key="first", direction=models.Direction.ASC)
    records = await backend.scroll(scope, wanted, limit=_COMMITS_A_PAGE, order=oldest)
    return [read_commit(record.payload) for record in records]


def _is_asked_for(event: Event, query: EventQuery) -> bool:
    return event.sequence > query.after and (query.memory_id is None or event.memory_id == query.memory_id)


async def _held(backend: Backend, scope: Scope, batch: WriteBatch) -> dict[str, StoredPoint]:
    """Read the memories that a batch touches, with vectors: by their ids, and those that hold what it claims."""
    held = list((await _by_ids(backend, scope, ids_of(batch))).values())
    claims = [claim_key(claim) for claim in claims_of(batch)]
    if claims:
        wanted = filters.all_memories(scope, filters.one_of("claim", claims))
        records = await backend.scroll(scope, wanted, limit=len(claims), vectors=True)
        held += [_read(record) for record in records]
    return {item.memory.memory_id: item for item in reversed(held)}


async def _by_ids(backend: Backend, scope: Scope, names: Iterable[str]) -> dict[str, StoredPoint]:
    """Read the memories that are there, with their vectors."""
    records = await backend.retrieve(scope, [memory_id_point(scope, name) for name in names], vectors=True)
    held = [_read(record) for record in records if record.payload and record.payload.get("kind") == MEMORY]
    return {item.memory.memory_id: item for item in held}


def _read(record: models.Record) -> StoredPoint:
    waits = bool(record.payload and record.payload.get("waits"))
    return StoredPoint(memory=read_memory(record.payload), vector=dense_of(record.vector), waits=waits)


def _commit(batch: WriteBatch, plan: WritePlan, held: dict[str, StoredPoint], *, first: int) -> Commit:
    events = tuple(
        Event(
            sequence=number,
            operation=change.operation,
            memory_id=change.memory_id,
            before=change.before,
            after=change.after,
            reason=reason_for(change.reason, batch),
            run_id=batch.run_id,
            actor=batch.actor,
            at=batch.at,
        )
        for number, change in enumerate(plan.changes, start=first)
    )
    vectors = (
        (name, held[name].vector if change.keeps_vector and name in held else change.vector)
        for name, change in plan.outcome.items()
    )
    waiting = frozenset(
        name
        for name, change in plan.outcome.items()
        if change.wants_vector or (change.keeps_vector and name in held and held[name].waits)
    )
    return Commit(token=new_id(), events=events, vectors=final_vectors(vectors), waiting=waiting)


async def _insert(backend: Backend, scope: Scope, commit: Commit) -> bool:
    """Write a commit, unless another has its number; tell whether it is ours that stands there."""
    point = commit_point(scope, commit)
    await backend.insert(scope, point)
    records = await backend.retrieve(scope, [commit_id_point(scope, commit.first)], vectors=False)
    return bool(records) and read_commit(records[0].payload).token == commit.token


async def apply(backend: Backend, scope: Scope, commit: Commit) -> None:
    """Bring the memories to the state that a commit tells; doing it twice, or late, changes nothing."""
    points: Sequence[models.PointStruct] = outcome_points(scope, commit)
    operations: list[models.UpdateOperation] = [
        backend.upsert_operation(scope, points, filters.older_than(commit.first)),
        *backend.payload_operations(
            scope, commit_id_point(scope, commit.first), {"applied": True}, drop=["vectors", "counted", "waiting"]
        ),
    ]
    await backend.update(scope, operations)
