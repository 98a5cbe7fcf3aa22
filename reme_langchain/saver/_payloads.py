"""Payloads: long base64 and bytes inside of serialised values, kept once for each user, apart from the value.

They are cut out of the bytes that a serialiser made, and where they were stands beside what is left, in a row of a type
of its own. So no value can imitate a place, and each comes back byte for byte, whatever was taken for base64.

A thread has a row for each payload that it refers to, by its SHA-256. The bytes are in one of these rows among the
threads of a user, and the others are empty; before the row with the bytes goes, one of the others gets them.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from hashlib import sha256
from typing import TypeAlias

import ormsgpack

from reme_core import SqlConnection
from reme_core.errors import CorruptDataError
from reme_core.schema.blobs import LONG_BASE64
from reme_langchain.saver._deflate import inflated

APART = "reme/apart"  # the type of what is left: [type, bytes, cuts]
PAYLOAD = "reme/bytes"  # the type of the row of a payload
Payloads: TypeAlias = Sequence[tuple[bytes, bytes]]
"""The SHA-256 of bytes, and these."""
Cut: TypeAlias = tuple[int, bytes, bool]
"""A place in what is left, the SHA-256 of what was taken out there, and whether that was base64."""
_Span: TypeAlias = tuple[int, int, bool]
"""Begin and end in a serialised value, and whether it is base64."""


def take_out(type_: str, data: bytes) -> tuple[bytes, list[Cut], Payloads] | None:
    """Return what is left of a serialised value, where something was taken out, and that; None: nothing is so long."""
    if len(data) < LONG_BASE64:
        return None
    rest, cuts, payloads, done = bytearray(), list[Cut](), dict[bytes, bytes](), 0
    for begin, end, is_base64 in _spans(type_, data):
        payload = _decoded(data[begin:end]) if is_base64 else data[begin:end]
        if payload is not None:
            rest += data[done:begin]
            digest = sha256(payload).digest()
            cuts.append((len(rest), digest, is_base64))
            payloads[digest] = payload
            done = end
    return (bytes(rest + data[done:]), cuts, list(payloads.items())) if cuts else None


def put_back(stored: bytes, find: Callable[[bytes], bytes]) -> tuple[str, bytes]:
    """Return type and bytes of a serialised value as they were before `take_out`; `find` has the payloads."""
    left, sealed, cuts = ormsgpack.unpackb(stored)
    type_, rest = inflated(left, sealed)
    parts, done = list[bytes](), 0
    for at, digest, is_base64 in cuts:
        payload = find(digest)
        parts += (rest[done:at], b64encode(payload) if is_base64 else payload)
        done = at
    return type_, b"".join((*parts, rest[done:]))


def cuts_of(stored: bytes) -> list[bytes]:
    """Return the SHA-256 of what was taken out of a value."""
    return [digest for _, digest, _ in ormsgpack.unpackb(stored)[2]]


def _decoded(text: bytes) -> bytes | None:
    """Return what base64 stands for; None where that would not come back character by character."""
    try:
        payload = b64decode(text, validate=True)
    except binascii.Error:
        return None
    return payload if b64encode(payload) == text else None


# Values of msgpack but for longer texts and bytes, of which, as of extensions, the heads alone.
# Source: https://github.com/msgpack/msgpack/blob/master/spec.md#formats.
_SHORT = re.compile(
    b"(?:%s)*+"
    % b"|".join(
        [
            rb"[\x00-\xa0\xc0\xc2\xc3\xe0-\xff]++",
            rb"[\xcc\xd0\xd4-\xd8].",
            rb"[\xc7\xcd\xd1\xdc\xde].{2}",
            rb"\xc8.{3}",
            rb"[\xca\xce\xd2\xdd\xdf].{4}",
            rb"\xc9.{5}",
            rb"[\xcb\xcf\xd3].{8}",
            *(b"%c.{%d}" % (0xA0 + length, length) for length in range(1, 32)),
        ]
    ),
    re.DOTALL,
)
_HEADS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}  # of bytes and texts: how long their length is
_LAST_OF_BYTES = 0xC6


def _spans(type_: str, data: bytes) -> Iterator[_Span]:
    """Yield what is long in a serialised value: bytes, and what looks like base64."""
    if type_ in {"bytes", "bytearray"}:
        yield 0, len(data), False
    elif type_ != "msgpack":
        yield from _base64_in(data, 0, len(data))
    elif _has_samples(data) or _may_hold_bytes(data):  # takes a part of what looking at each value does
        at, size = 0, len(data)
        while (at := _short_until(data, at)) < size and (width := _HEADS.get(data[at])) is not None:
            begin = at + 1 + width
            end = begin + int.from_bytes(data[at + 1 : begin])
            if LONG_BASE64 <= end - begin <= size - begin:
                yield from [(begin, end, False)] if data[at] <= _LAST_OF_BYTES else _base64_in(data, begin, end)
            at = end


def _may_hold_bytes(data: bytes) -> bool:
    """Whether something in a value of msgpack looks like the head of long bytes."""
    for head, width in ((b"\xc5", 2), (b"\xc6", 4)):
        at = data.find(head)  # in most values there is none
        while at >= 0:
            begin = at + 1 + width
            if LONG_BASE64 <= int.from_bytes(data[at + 1 : begin]) <= len(data) - begin:
                return True
            at = data.find(head, at + 1)
    return False


def _short_until(data: bytes, at: int) -> int:
    found = _SHORT.match(data, at)
    return at if found is None else found.end()


_RUN = re.compile(rb"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{%d,}={0,2}" % LONG_BASE64)
_STEP = 251  # a prime, with which no rows of one length keep step
_SAMPLES = re.compile(rb"[A-Za-z0-9+/]{%d}" % (LONG_BASE64 // _STEP))


def _has_samples(data: bytes) -> bool:
    """Whether there may be long base64: of ordinary text, too many letters are none of it."""
    return _SAMPLES.search(data[::_STEP]) is not None


def _base64_in(data: bytes, begin: int, end: int) -> Iterator[_Span]:
    """Yield the runs of base64 in a text, each as long as it can be decoded."""
    text = data[begin:end]  # what stands before it is no part of it
    for found in _RUN.finditer(text) if _has_samples(text) else ():
        start, stop = found.span()
        yield begin + start, begin + stop - (stop - start) % 4, True


def keep_payload(connection: SqlConnection, thread: int, digest: bytes, payload: bytes) -> bytes:
    """Return what the row of a payload is to hold in a thread: nothing where another thread of the user has it."""
    _take_turn(connection, thread, "_shared")
    found = connection.execute(f"{_OTHERS} AND length(b.data) > 0 LIMIT 1", (digest, thread, thread)).fetchone()
    return payload if found is None else b""


def find_payload(connection: SqlConnection, thread: int, digest: bytes) -> bytes:
    """Return a payload to which a value of a thread refers.

    Raises:
        CorruptDataError: It is missing, or is not what was kept.
    """
    row = connection.execute(_HELD, (digest, thread, thread)).fetchone()
    if row is None or sha256(row[0]).digest() != digest:
        what = "missing" if row is None else "others than were kept"
        msg = f"a checkpoint refers to the bytes {digest.hex()}, which are {what}: restore a backup"
        raise CorruptDataError(msg)
    return bytes(row[0])


def read_whole(connection: SqlConnection, thread: int, stored: bytes) -> tuple[str, bytes]:
    """Return a value of a thread with what was taken out of it (CorruptDataError: some of it is missing)."""
    return put_back(stored, partial(find_payload, connection, thread))


def hand_on(connection: SqlConnection, thread: int, wanted: Set[bytes] = frozenset()) -> None:
    """Give payloads that a thread is about to lose, all but those `wanted`, to others of its user that have rows."""
    _take_turn(connection, thread)
    for id_, digest, size in connection.execute(_OF_THREAD, (thread,)).fetchall():
        if not size or digest in wanted:
            continue
        heirs: Sequence[tuple[int, int]] = connection.execute(_OTHERS, (digest, thread, thread)).fetchall()
        if heirs and not any(held for _, held in heirs):
            connection.execute(_GIVE, (id_, heirs[0][0]))


def _take_turn(connection: SqlConnection, thread: int, kind: str = "") -> None:
    """Let nobody else of a thread's user hand payloads on, nor look for some unless `_shared`, until the end.

    Locks of the rows themselves would be waited for crosswise, which a server ends after a second only.
    """
    if not connection.dialect.is_file:
        connection.execute(
            f"SELECT pg_advisory_xact_lock{kind}(hashtextextended('langgraph payloads', erased_with))"  # noqa: S608
            " FROM langgraph_threads WHERE id = ? AND erased_with IS NOT NULL",
            (thread,),
        )


# Written so that a file finds them by an index of these rows alone.
_ROWS = f"""FROM langgraph_blobs b JOIN langgraph_threads t ON t.id = b.thread
    WHERE b.type = '{PAYLOAD}' AND b.digest = ?"""
_OWNER = "(SELECT erased_with FROM langgraph_threads WHERE id = ?)"
_OTHERS = f"SELECT b.id, length(b.data) {_ROWS} AND b.thread <> ? AND t.erased_with = {_OWNER}"
_HELD = f"SELECT b.data {_ROWS} AND (t.id = ? OR t.erased_with = {_OWNER}) AND length(b.data) > 0 LIMIT 1"
_OF_THREAD = f"SELECT id, digest, length(data) FROM langgraph_blobs WHERE thread = ? AND type = '{PAYLOAD}'"  # noqa: S608  # ours
_GIVE = "UPDATE langgraph_blobs SET data = (SELECT data FROM langgraph_blobs WHERE id = ?) WHERE id = ?"
