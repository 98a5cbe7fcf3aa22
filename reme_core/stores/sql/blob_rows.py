"""Images and files as rows, once a scope. Plain functions over a connection; the caller holds the transaction.

Messages stay as long as their user, and so does what they refer to. Sessions of frameworks and items are replaced and
removed: bytes that only these refer to are marked as theirs (`_SPARE`), and go when none of them does any more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from reme_core.errors import BlobNotFoundError, CorruptDataError
from reme_core.ports import AppendMessages
from reme_core.schema import (
    MAX_BLOB_BYTES,
    Blob,
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    Scope,
    is_blob_reference,
)
from reme_core.schema.blobs import APART, blob_reference, references_in, text_apart, text_whole
from reme_core.schema.content_blocks import media_references
from reme_core.stores.sql.bookkeeping import find_scope
from reme_core.stores.sql.connection import AMONG, SqlConnection

_PREFIX = "sha256:"
_SPARE = ";"  # ends the media type of bytes that no message refers to


async def take_apart(request: AppendMessages) -> tuple[AppendMessages, dict[str, dict[str, Blob]]]:
    """Return what is to be appended with references in place of bytes, and these by message (InvalidInputError)."""
    if not any(message.holds_bytes for message in request.messages):
        return request, {}
    apart = await asyncio.to_thread(lambda: [message.apart() for message in request.messages])
    blobs = {message.message_id: taken for message, taken in apart if taken}
    return replace(request, messages=[message for message, _ in apart]), blobs


def put_blobs(connection: SqlConnection, scope: int, messages: Sequence[Message], blobs: Mapping[str, Blob]) -> None:
    """Keep what messages refer to, as far as it isn't there (BlobNotFoundError: neither given nor there)."""
    wanted = list(dict.fromkeys(chain.from_iterable(media_references(message.content) for message in messages)))
    if not wanted and not blobs:
        return
    there = _held(connection, scope, [*wanted, *blobs])
    missing = [ref for ref in wanted if ref not in there and ref not in blobs]
    if missing:
        raise BlobNotFoundError(missing, advice="hand in the bytes, as data or as a data URL")
    _insert(connection, scope, [blob for ref, blob in blobs.items() if ref not in there])
    spare = [ref.removeprefix(_PREFIX) for ref, (media_type, _) in there.items() if media_type.endswith(_SPARE)]
    if spare:
        connection.execute(f"{_KEEP_ALL} AND digest {AMONG}", (scope, json.dumps(spare)))


def _insert(connection: SqlConnection, scope: int, blobs: Iterable[Blob], mark: str = "") -> None:
    statement = "INSERT INTO blobs (scope, digest, media_type, bytes, data) VALUES (?, ?, ?, ?, ?)"
    for blob in blobs:  # one at a time: each may have megabytes
        digest = blob.ref.removeprefix(_PREFIX)
        connection.execute(statement, (scope, digest, blob.media_type + mark, len(blob.data), blob.data))


def keep_apart(connection: SqlConnection, scope: int, text: str) -> str:
    """Return JSON text of a row that is no message, without its long base64, whose bytes are kept."""
    told, blobs = text_apart(text)
    if blobs:
        there = _held(connection, scope, list(blobs))
        _insert(connection, scope, [blob for ref, blob in blobs.items() if ref not in there], _SPARE)
    return told


def put_together(connection: SqlConnection, number: int, text: str, *, where: str = "scope = ?") -> str:
    """Return the text that `keep_apart` was given (CorruptDataError: bytes are missing, or others).

    `number` is that of the scope, or what else `where` finds it by.
    """

    def find(ref: str, most: int) -> Blob:
        found = _read(connection, where, number, ref, most)
        if found is None:
            msg = f"a row refers to the bytes {ref!r}, which are missing: restore a backup"
            raise CorruptDataError(msg)
        return found

    return text_whole(text, find)


# Of what `keep_apart` has written, by the table that holds it.
_REFERRING = {
    "items": (f"SELECT value FROM items WHERE erased_with = ? AND value LIKE '{APART}%'", ()),  # noqa: S608  # ours
    "openai_agents_items": (
        f"SELECT body FROM openai_agents_items WHERE erased_with = ? AND body LIKE '{APART}%'",  # noqa: S608  # ours
        (),
    ),
    "agentscope_messages": (
        "SELECT body FROM agentscope_messages WHERE session IN"
        " (SELECT id FROM agentscope_sessions WHERE erased_with = ?) AND body >= ? AND body < ?",
        (APART.encode(), b"!"),  # bytes that begin so; the blank is followed by `!`
    ),
}


def keep_for_good(connection: SqlConnection, scope: int) -> None:
    """Keep all bytes of a scope as long as it is there, whoever refers to them."""
    connection.execute(_KEEP_ALL, (scope,))


_KEEP_ALL = f"UPDATE blobs SET media_type = rtrim(media_type, '{_SPARE}') WHERE scope = ?"  # noqa: S608  # ours


def kept_type(media_type: str) -> str:
    """Return a media type as `keep_for_good` leaves it."""
    return media_type.rstrip(_SPARE)


def drop_unused(connection: SqlConnection, scope: int) -> None:
    """Remove bytes that neither messages nor anything else of a scope refers to any more; nobody else writes to it."""
    query = f"SELECT digest FROM blobs WHERE scope = ? AND media_type LIKE '%{_SPARE}'"  # noqa: S608  # ours
    spare = {f"{_PREFIX}{digest}" for (digest,) in connection.execute(query, (scope,))}
    tables = set(connection.dialect.table_names(connection)) if spare else set()
    for table, (select, bound) in _REFERRING.items():
        for (body,) in connection.execute(select, (scope, *bound)) if table in tables else ():
            spare -= references_in(body if isinstance(body, str) else bytes(body).decode("utf-8", "replace"))
    gone = [(scope, ref.removeprefix(_PREFIX)) for ref in sorted(spare)]
    connection.executemany("DELETE FROM blobs WHERE scope = ? AND digest = ?", gone)


def with_sizes(connection: SqlConnection, scope: int, messages: Sequence[Message]) -> list[Message]:
    """Return messages whose references say how many bytes there are, whatever their sender said."""
    refs = list(chain.from_iterable(media_references(message.content) for message in messages))
    there = _held(connection, scope, refs) if refs else {}
    if not there:
        return list(messages)
    return [
        message.model_copy(update={"content": tuple(_sized(block, there) for block in message.content)})
        for message in messages
    ]


def _sized(block: ContentBlock, there: Mapping[str, tuple[str, int]]) -> ContentBlock:
    if not isinstance(block, (ImageBlock, FileBlock)) or block.url not in there:
        return block
    media_type, size = there[block.url]
    return block.model_copy(update={"media_type": block.media_type or kept_type(media_type), "size": size})


def _held(connection: SqlConnection, scope: int, refs: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return media type and size of those that are there."""
    digests = json.dumps([ref.removeprefix(_PREFIX) for ref in refs])
    query = f"SELECT digest, media_type, bytes FROM blobs WHERE scope = ? AND digest {AMONG}"  # noqa: S608  # ours
    found = connection.execute(query, (scope, digests))
    return {f"{_PREFIX}{digest}": (media_type, size) for digest, media_type, size in found}


def get_blob(connection: SqlConnection, scope: Scope, ref: str) -> Blob:
    """Return an image or a file (BlobNotFoundError; CorruptDataError: the bytes are others)."""
    number = find_scope(connection, scope)
    known = number is not None and is_blob_reference(ref) and has_blobs(connection)
    found = _read(connection, "scope = ?", number, ref, MAX_BLOB_BYTES) if known else None
    if found is None:
        raise BlobNotFoundError([ref], advice="take the reference from a message, and check memory space and user id")
    return found


def blob_beside(connection: SqlConnection, message: int, ref: str, most: int) -> Blob | None:
    """Return what a message of this row refers to, None where its scope has none, or more bytes (CorruptDataError)."""
    return _read(connection, "scope = (SELECT scope FROM messages WHERE seq = ?)", message, ref, most)


def _read(connection: SqlConnection, where: str, number: int | None, ref: str, most: int) -> Blob | None:
    row = connection.execute(
        f"SELECT media_type, data FROM blobs WHERE {where} AND digest = ? AND bytes <= ?",  # noqa: S608  # ours
        (number, ref.removeprefix(_PREFIX), most),
    ).fetchone()
    if row is None:
        return None
    media_type, data = row
    if blob_reference(data) != ref:
        msg = f"the bytes of {ref!r} are not those that were written: see `reme check`"
        raise CorruptDataError(msg)
    return Blob(ref=ref, media_type=kept_type(media_type), data=bytes(data))


def count_blobs(connection: SqlConnection, scope: int) -> tuple[int, int]:
    """Return how many images and files there are, and how many bytes they have."""
    if not has_blobs(connection):
        return 0, 0
    query = "SELECT count(*), coalesce(sum(bytes), 0) FROM blobs WHERE scope = ?"
    count, size = connection.execute(query, (scope,)).fetchone()
    return int(count), int(size)


def has_blobs(connection: SqlConnection) -> bool:
    """Whether there is a table of them: a database of an older version may be read before it is brought up to date."""
    return connection.dialect.is_file or "blobs" in connection.dialect.table_names(connection)
