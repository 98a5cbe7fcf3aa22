"""The journal and the dialogues of a folder: headings with their time and session, and JSON Lines of what was said."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from reme_core.errors import ConflictError
from reme_core.files.dialogs import dialog_line, dialog_path, read_message_id
from reme_core.files.folder import inside, mapped_errors, open_regular, read_page
from reme_core.files.markdown import MarkdownPage
from reme_core.files.writer import write_page
from reme_core.private_drafts import sync_folder
from reme_core.schema import Message

JOURNAL_WRITER = "journal_writer"
"""Who writes the journal of a conversation; a block whose index entry is this writer's is in the journal."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_NO_SESSIONS: Mapping[str, str] = {}
_TRIES = 20  # each fails only where somebody has saved the page within a millisecond


class FilePlace(NamedTuple):
    """Lines of a file, from 1, both inclusive."""

    path: str
    start_line: int
    end_line: int


def add_entry(root: Path, text: str, *, title: str, session_id: str, at: datetime, once: bool = False) -> FilePlace:
    """Append an entry to the page of a day, under a heading with its time, title and session.

    `once`: where the very same entry stands on the page, it is left at that.

    Raises:
        ConflictError: The page changed each time that it was read.
        UnreadableFileError: It can't be read as it is, and so not be written.
        StorageFullError: No room.
        StoreAccessError: The system refuses it.
    """
    path = journal_path(at)
    lines = [entry_heading(at, title, session_id), "", *_LINE_END.split(text.strip("\r\n"))]
    for _ in range(_TRIES):
        try:
            return _append(root, path, lines, at, once=once)
        except ConflictError:
            continue
    msg = f"{path!r} is written by somebody else all the time: try again"
    raise ConflictError(msg)


def journal_path(at: datetime) -> str:
    """Return the page of a day (UTC)."""
    return f"memory/{at:%Y-%m-%d}.md"


def entry_heading(at: datetime, title: str, session_id: str) -> str:
    """Return the heading of an entry: its time, title and session."""
    session = f"session {session_id}" if session_id else ""
    return " · ".join(part for part in (f"## {at:%H:%M}", _one_line(title), _one_line(session)) if part)


def _append(root: Path, path: str, lines: list[str], at: datetime, *, once: bool) -> FilePlace:
    inside(root, path)
    read = read_page(root, path) if (root / path).is_file() else None
    page = MarkdownPage((f"# {at:%Y-%m-%d}\n",)) if read is None else MarkdownPage.parse(read.data)
    there = [line.rstrip("\r\n") for line in page.lines] if once else []
    for first in range(len(there)):
        if there[first : first + len(lines)] == lines:
            return FilePlace(path, first + 1, first + len(lines))
    gap = [""] if page.lines and page.lines[-1].strip() else []
    longer = page.spliced(len(page.lines), len(page.lines), [*gap, *lines])
    write_page(root / path, longer.print(), expected=None if read is None else read.sha256)
    return FilePlace(path, len(longer.lines) - len(lines) + 1, len(longer.lines))


def add_messages(
    root: Path, messages: Sequence[Message], *, sessions: Mapping[str, str] = _NO_SESSIONS, once: bool = False
) -> list[str]:
    """Append messages to the files of their days, a line each; return the files. They are durable then.

    `sessions`: of what session each is, by its id. `once`: those that a file has, by their ids, are left out.

    Raises:
        StorageFullError: No room.
        StoreAccessError: The system refuses it.
    """
    days: dict[str, list[Message]] = {}
    for message in messages:
        days.setdefault(dialog_path(message), []).append(message)
    for path, said in days.items():
        whole = inside(root, path)
        with mapped_errors(whole):
            known = _known_ids(whole) if once else frozenset[object]()
            fresh = [message for message in said if message.message_id not in known]
            if fresh:
                lines = [dialog_line(message, sessions.get(message.message_id, "")) for message in fresh]
                _append_whole(whole, "".join(lines).encode())
    return list(days)


def _known_ids(path: Path) -> frozenset[object]:
    """Return the ids of the messages in a file; lines that are none are passed over."""
    with suppress(FileNotFoundError), open_regular(path) as file:
        return frozenset(map(read_message_id, file))
    return frozenset()


def _append_whole(path: Path, data: bytes) -> None:
    """Append in one write, after the end of a line that a crash may have left without one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    is_new = not path.exists()
    with open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            data = data if file.read(1) == b"\n" else b"\n" + data
        written = os.write(file.fileno(), data)
        if written != len(data):
            raise OSError(28, "No space left on device")
        os.fsync(file.fileno())
    if is_new:
        sync_folder(path.parent)


def _one_line(text: str) -> str:
    return " ".join(text.split())
