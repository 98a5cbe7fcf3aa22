"""Messages with the bytes of their images and files again, for models and for files that go elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from reme_core.errors import BlobNotFoundError
from reme_core.ports import Store
from reme_core.schema import Blob, Message, Scope


async def with_bytes(
    store: Store, scope: Scope, messages: Iterable[Message], *, without: Collection[str] = ()
) -> list[Message]:
    """Return messages with data URLs in place of references; what the scope doesn't hold, or is left out, stays."""
    given = list(messages)
    blobs: dict[str, Blob] = {}
    for ref in dict.fromkeys(ref for message in given for ref in message.blob_references):
        if ref not in without:
            try:
                blobs[ref] = await store.get_blob(scope, ref)
            except BlobNotFoundError:  # the mark of somebody else's JSON
                continue
    return [message.joined(blobs) if blobs else message for message in given]
