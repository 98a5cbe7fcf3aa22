"""Dialogues of a folder as messages of the store: what was said is searched, also where the store was lost."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from pydantic import JsonValue

from reme_core.errors import BlobNotFoundError, ConflictError, InvalidInputError, StoreAccessError
from reme_core.files.file_index import UNREAD, DialogMark
from reme_core.files.folder import FileProblem, Stamp, inside, mapped_errors, open_regular, trusted
from reme_core.ports import AppendMessages, Clock, Store
from reme_core.schema import Message, Scope, parse_messages
from reme_core.schema.checks import MAX_ID_CHARS
from reme_core.steps.message_lines import find_all, pieces_of
from reme_core.steps.user_input import read_id
from reme_core.text import with_media_told

if TYPE_CHECKING:
    from _hashlib import HASH

DIALOGS = "dialog"
_NAME = re.compile(r"(\d{4}-\d\d-\d\d)\.jsonl")
_CHUNK = 1 << 20
_MAX_LINE_BYTES = 1 << 26  # as much as a message may have, and the base64 of one image or file as large as they may be


class DialogLine(NamedTuple):
    """A message of a dialogue: its line, from 1, the session, and what was said."""

    line: int
    session_id: str
    message: Message


@dataclass(slots=True)
class Dialogs:
    """The dialogues of one folder.

    Attributes:
        root: The folder.
        store: Where the messages go.
        scope: Whose they are.
        clock: Tells the time.
        wants_vectors: Whether what is new waits for a vector.
        problems: Files or lines that could not be taken over.
    """

    root: Path
    store: Store
    scope: Scope
    clock: Clock
    wants_vectors: bool
    problems: list[FileProblem] = field(default_factory=list)

    async def take_over(self, known: Mapping[str, DialogMark]) -> dict[str, DialogMark]:
        """Add what the store lacks of the dialogues that were changed; return the marks of all that are there.

        Nothing is ever removed: a dialogue tells what was said.
        """
        marks: dict[str, DialogMark] = {}
        try:
            stamps = await asyncio.to_thread(dialog_stamps, self.root)
        except StoreAccessError as exc:
            self.problems.append(FileProblem(DIALOGS, exc.message))
            stamps = {}
        for path, stamp in stamps.items():
            mark = known.get(path, UNREAD)
            if mark[:2] == stamp:
                marks[path] = mark
                continue
            before = len(self.problems)
            lines, size, sha256 = await asyncio.to_thread(self._read, path, mark)
            await self._add(path, lines)
            marks[path] = (size, trusted(stamp)[1], sha256) if len(self.problems) == before else UNREAD
        return marks

    async def _add(self, path: str, lines: Sequence[DialogLine]) -> None:
        for some in pieces_of(lines):
            ids = [line.message.message_id for line in some]
            held = {
                item.message.message_id for item in await find_all(partial(self.store.get_messages, self.scope), ids)
            }
            fresh = {line.message.message_id: line for line in some if line.message.message_id not in held}
            for session_id, run in groupby(fresh.values(), key=lambda line: line.session_id):
                await self._append(path, session_id, [line.message for line in run])

    async def _append(self, path: str, session_id: str, said: Sequence[Message]) -> None:
        request = AppendMessages(session_id=session_id, messages=said, want_vectors=self.wants_vectors)
        try:
            await self.store.append(self.scope, request)
        except ConflictError as exc:
            self.problems.append(FileProblem(path, exc.message))
        except BlobNotFoundError as exc:  # of another store: what was said of images and files is kept
            self.problems.append(FileProblem(path, exc.message))
            gone = set(exc.missing)
            told = [with_media_told(one) if gone.intersection(one.blob_references) else one for one in said]
            await self._append(path, session_id, told)

    def _read(self, path: str, mark: DialogMark) -> tuple[list[DialogLine], int, str]:
        """Read what a dialogue says behind the part that was read before, all of it if that is another one by now.

        Returns:
            The messages, and the size and the SHA-256 of what was read.
        """
        found: list[DialogLine] = []
        try:
            with _opened(self.root, path) as file:
                number, whole = _skip(file, mark)
                while line := file.readline(_MAX_LINE_BYTES):
                    number += 1
                    whole.update(line)
                    if line.strip():
                        self._read_line(path, number, line, found)
                return found, file.tell(), whole.hexdigest()
        except StoreAccessError as exc:
            self.problems.append(FileProblem(path, exc.message))
        except OSError as exc:
            self.problems.append(FileProblem(path, f"can't be read ({exc.strerror}): allow it"))
        return found, UNREAD[0], UNREAD[2]

    def _read_line(self, path: str, number: int, line: bytes, found: list[DialogLine]) -> None:
        try:
            found.append(_parsed(path, number, line))
        except (ValueError, InvalidInputError) as exc:
            what = f"is no message, and was left out ({exc}): correct it, or remove the line"
            self.problems.append(FileProblem(f"{path}:{number}", what))


def dialog_stamps(root: Path) -> dict[str, Stamp]:
    """Return the dialogues of a folder, with their stamps (StoreAccessError: they can't be looked at)."""
    if not (root / DIALOGS).exists():
        return {}
    with mapped_errors(root / DIALOGS), os.scandir(inside(root, DIALOGS)) as entries:
        found = {
            f"{DIALOGS}/{entry.name}": entry.stat(follow_symlinks=False)
            for entry in sorted(entries, key=lambda item: item.name)
            if _NAME.fullmatch(entry.name)
        }
    return {path: (item.st_size, item.st_mtime_ns) for path, item in found.items() if stat.S_ISREG(item.st_mode)}


def _skip(file: BinaryIO, mark: DialogMark) -> tuple[int, HASH]:
    """Pass over what was read before, if the file still begins so; return how many lines that is, and their hash."""
    size, _, sha256 = mark
    whole, number, last = hashlib.sha256(), 0, b""
    while (left := size - file.tell()) > 0 and (data := file.read(min(left, _CHUNK))):
        whole.update(data)
        number += data.count(b"\n")
        last = data[-1:]
    if last == b"\n" and file.tell() == size and whole.hexdigest() == sha256:
        return number, whole
    file.seek(0)
    return 0, hashlib.sha256()


def find_lines(root: Path, wanted: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Return the file and the line, from 1, of messages by their ids; `wanted` says in which file each may be."""
    found: dict[str, tuple[str, int]] = {}
    for path in sorted(set(wanted.values())):
        ids = {message_id: json.dumps(message_id).encode() for message_id, where in wanted.items() if where == path}
        try:
            with _opened(root, path) as file:
                for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), 1):
                    if b'"message_id"' in line and not any(shown in line for shown in ids.values()):
                        continue
                    message_id = read_message_id(line)
                    if message_id in ids and message_id is not None:
                        del ids[message_id]
                        found[message_id] = (path, number)
                    if not ids:
                        break
        except (OSError, StoreAccessError):
            continue
    return found


def dialog_path(message: Message) -> str:
    """Return the file in which a message stands, if it is in one: that of its day."""
    return f"{DIALOGS}/{message.created_at:%Y-%m-%d}.jsonl"


def dialog_line(message: Message, session_id: str) -> str:
    """Write a message as a line."""
    fields = {"session_id": session_id} if session_id else {}
    return json.dumps({**fields, **message.model_dump(mode="json")}, ensure_ascii=False, separators=(",", ":")) + "\n"


def read_for_lines(items: Sequence[object], now: Callable[[], datetime]) -> tuple[Message, ...]:
    """Read messages that can be read again from their lines.

    Raises:
        InvalidInputError: What is broken, an image or file too, or has too many bytes for a line; names it.
    """
    messages = parse_messages(items, now=now)
    for message in messages:
        if message.apart()[1] and (size := len(dialog_line(message, "").encode())) > _MAX_LINE_BYTES - MAX_ID_CHARS * 4:
            msg = f"message {message.message_id!r} has {size} bytes with its images and files: hand them in one by one"
            raise InvalidInputError(msg)
    return messages


def _opened(root: Path, path: str) -> BinaryIO:
    """Open a dialogue for reading (OSError); no link leads out of the folder (StoreAccessError)."""
    return open_regular(inside(root, DIALOGS) / path.rpartition("/")[2])


def _parsed(path: str, number: int, line: bytes) -> DialogLine:
    fields = _loaded(line)
    session_id = read_id(fields.pop("session_id", None) or path.removesuffix(".jsonl"), "session_id")
    day = datetime.strptime(path.rpartition("/")[2], "%Y-%m-%d.jsonl").replace(tzinfo=UTC)
    [message] = parse_messages([fields], now=lambda: day)
    message.apart()  # here a broken image is the fault of this line alone
    return DialogLine(number, session_id, message)


def read_message_id(line: bytes) -> str | None:
    """Return the id of the message in a line of a dialogue; None where it is no message."""
    try:
        message_id = _loaded(line)["message_id"]
    except (ValueError, InvalidInputError):
        return None
    return message_id if isinstance(message_id, str) else None


def _loaded(line: bytes) -> dict[str, JsonValue]:
    """Read a line, with an id that is the same whenever it is read (ValueError, InvalidInputError: it is no object)."""
    try:
        fields = json.loads(line)
    except RecursionError:
        msg = "brackets within brackets without end"
        raise ValueError(msg) from None
    if not isinstance(fields, dict):
        msg = "wanted an object"
        raise InvalidInputError(msg)
    return {"message_id": hashlib.sha256(line.strip()).hexdigest()[:32], **fields}
