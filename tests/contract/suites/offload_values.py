# asserts are what a contract suite is made of
"""Values and small helpers for the contract of offload stores."""

from __future__ import annotations

from dataclasses import replace

from reme_core.ports import (
    CleanOffloads,
    HoldOffloads,
    ListOffloads,
    OffloadSearch,
    PutOffloads,
    ScoredOffload,
    Store,
)
from reme_core.schema import CleanedOffloads, OffloadInfo, OffloadKind, OffloadRecord, Scope, new_reference
from reme_core.testing.store_values import ALICE, at

SESSION = "session"


def text_of(
    text: str, *, minute: float = 0, session_id: str = SESSION, reference: str | None = None, name: str | None = None
) -> OffloadRecord:
    """Build a text that was offloaded `minute` minutes after `NOW`."""
    return OffloadRecord(
        reference=reference or new_reference(),
        session_id=session_id,
        kind=OffloadKind.TEXT,
        text=text,
        name=name,
        created_at=at(minute),
    )


def result_of(text: str, message_id: str, *, place: int = 0, minute: float = 0) -> OffloadRecord:
    """Build the output of a tool."""
    return OffloadRecord(
        session_id=SESSION,
        kind=OffloadKind.TOOL_RESULT,
        text=text,
        name="shell",
        message_id=message_id,
        place=place,
        created_at=at(minute),
    )


def pointer_to(*message_ids: str, minute: float = 0) -> OffloadRecord:
    """Build a pointer at messages."""
    return OffloadRecord(session_id=SESSION, kind=OffloadKind.MESSAGES, message_ids=message_ids, created_at=at(minute))


async def put(store: Store, *offloads: OffloadRecord, hold: bool = False, scope: Scope = ALICE) -> list[str]:
    """Keep offloads."""
    return await store.put_offloads(scope, PutOffloads(offloads=offloads, hold=hold))


async def listed(store: Store, query: ListOffloads | None = None, *, scope: Scope = ALICE) -> list[OffloadInfo]:
    """List offloads on all pages; no page is longer than asked for, and only the last one may be shorter."""
    asked = query or ListOffloads()
    infos: list[OffloadInfo] = []
    while True:
        page = await store.list_offloads(scope, asked)
        infos += page.offloads
        if page.next_cursor is None:
            assert len(page.offloads) <= asked.limit
            return infos
        assert len(page.offloads) == asked.limit
        asked = replace(asked, cursor=page.next_cursor)


async def texts(store: Store, *, scope: Scope = ALICE) -> list[str]:
    """Return the texts of a scope, in the order of keeping; pointers have an empty one."""
    return [(await store.get_offload(scope, info.reference)).text for info in await listed(store, scope=scope)]


async def search(
    store: Store, text: str, *, limit: int = 10, session_id: str | None = None, scope: Scope = ALICE
) -> list[ScoredOffload]:
    """Search, and check of what is found that it stands where it is said to stand, best first, one of each text."""
    hits = await store.search_offloads(scope, OffloadSearch(text=text, limit=limit, session_id=session_id))
    for hit in hits:
        whole = (await store.get_offload(scope, hit.info.reference)).text
        assert hit.passage
        assert whole[hit.offset : hit.offset + len(hit.passage)] == hit.passage
        assert hit.first_line == 1 + whole.count("\n", 0, hit.offset)
        assert 0 < hit.score <= 1
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len({hit.info.reference for hit in hits}) == len(hits) <= limit
    return hits


async def hold(
    store: Store,
    *references: str,
    session_id: str = SESSION,
    minute: float = 0,
    keep_since: float | None = None,
    scope: Scope = ALICE,
) -> None:
    """Say what a session's context refers to."""
    await store.hold_offloads(
        scope,
        HoldOffloads(
            session_id=session_id,
            references=frozenset(references),
            now=at(minute),
            keep_since=None if keep_since is None else at(keep_since),
        ),
    )


async def clean(
    store: Store,
    *,
    older: float | None = None,
    max_bytes: int | None = None,
    idle: float = -60,
    dry_run: bool = False,
    scope: Scope = ALICE,
) -> CleanedOffloads:
    """Clean up what was offloaded before a minute, or is too much; sessions are idle if they said nothing since."""
    older_than = None if older is None else at(older)
    return await store.clean_offloads(
        scope, CleanOffloads(older_than=older_than, max_bytes=max_bytes, idle_since=at(idle), dry_run=dry_run)
    )


def references(infos: tuple[OffloadInfo, ...] | list[OffloadInfo]) -> list[str]:
    """Return the references of offloads, in their order."""
    return [info.reference for info in infos]
