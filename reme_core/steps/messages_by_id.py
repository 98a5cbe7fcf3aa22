"""Lookup of messages by id, where some may be missing."""

from __future__ import annotations

from collections.abc import Iterable

from reme_core.errors import MessageNotFoundError
from reme_core.ports import Store
from reme_core.schema import Scope, StoredMessage


async def find_messages_by_id(store: Store, scope: Scope, message_ids: Iterable[str]) -> dict[str, StoredMessage]:
    """Return those messages that the scope holds, by id, in the order named; others are left out."""
    ids = list(message_ids)
    if not ids:
        return {}
    try:
        stored = await store.get_messages(scope, ids)
    except MessageNotFoundError as exc:
        missing = frozenset(exc.missing)
        stored = await store.get_messages(scope, [name for name in ids if name not in missing])
    return {item.message.message_id: item for item in stored}
