"""Writing pages: only over what was read last; where somebody else has written meanwhile, both stay."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from reme_core.errors import ConflictError
from reme_core.files.folder import MAX_FILE_BYTES, Stamp, mapped_errors, open_regular, write_draft, write_file
from reme_core.private_drafts import private_draft, sync_folder

if sys.platform != "win32":
    import fcntl

_NEW_FILE = 0o600


def write_page(path: Path, data: bytes, *, expected: str | None, tidy: bool = True) -> Stamp:
    """Write a page in place of the one that was read; return its stamp.

    Args:
        path: Where.
        data: What it says from now on.
        expected: The SHA-256 that it had when it was read; None: there was none.
        tidy: See `private_draft`; False: whoever writes many pages of a folder has their names survive, all at once.

    Raises:
        ConflictError: It says something else by now. Nothing was written; or, where an editor was just writing into
            the file that this one replaced, what it wrote stands in the copy that the message names.
        StorageFullError: No room; the old one is there, whole.
        StoreAccessError: The system refuses it.
    """
    with mapped_errors(path):
        if expected is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with private_draft(path, tidy=tidy) as draft:
                write_draft(draft, data, _mode(path))  # waits for the disk, and so before its turn
                with _turn(path.parent):
                    stamp = _replace(path, draft, expected)
                if tidy:
                    sync_folder(path.parent)
        except FileNotFoundError:
            msg = f"{str(path)!r} is gone: nothing was written"
            raise ConflictError(msg) from None
    return stamp


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Let one process at a time look at a page of a folder and write it: between the two, nobody sees the other.

    Editors take no turns; what they write into the file meanwhile is kept as a copy.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return _NEW_FILE


def _replace(path: Path, draft: Path, expected: str | None) -> Stamp:
    """Put a draft in place of what was read; see `write_page` (FileNotFoundError: it is gone)."""
    late = None
    if expected is None and not path.is_symlink() and not path.exists():
        draft.replace(path)
    else:
        with open_regular(path) as old:
            _check(path, old.read(MAX_FILE_BYTES + 1), expected)
            draft.replace(path)
            old.seek(0)
            late = old.read(MAX_FILE_BYTES + 1)  # of an editor that had opened it before and wrote after the first look
    status = path.stat()
    if late is not None and hashlib.sha256(late).hexdigest() != expected:
        kept = keep_both(path, late, datetime.fromtimestamp(status.st_mtime).astimezone())
        msg = f"{str(path)!r} was written by somebody else in the same moment: that is kept as {kept.name!r}"
        raise ConflictError(msg)
    return status.st_size, status.st_mtime_ns


def keep_both(path: Path, data: bytes, at: datetime) -> Path:
    """Write a version beside the file that it was meant for, as `name (conflict 2026-11-22 1042).md`; return where."""
    for number in range(1, 1000):
        more = "" if number == 1 else f" {number}"
        copy = path.with_name(f"{path.stem} (conflict {at:%Y-%m-%d %H%M}{more}){path.suffix}")
        if not copy.exists():
            break
    else:
        msg = f"{str(path)!r} has a thousand copies of conflicts of this minute: look through them and remove them"
        raise ConflictError(msg)
    with mapped_errors(copy):
        write_file(copy, data, mode=_NEW_FILE)
    return copy


def _check(path: Path, data: bytes, expected: str | None) -> None:
    if hashlib.sha256(data).hexdigest() != expected:
        msg = f"{str(path)!r} was changed since it was read: nothing was written; read it again"
        raise ConflictError(msg)
