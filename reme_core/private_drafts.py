"""Drafts of files that are put in place once they are whole: readable by their owner alone, and never left for long."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DRAFT_PREFIX, DRAFT_SUFFIX = ".reme-", ".part"
# What some file systems say of a folder that they can't sync. SQLite passes over every failure of that.
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF}


@contextmanager
def private_draft(target: Path) -> Iterator[Path]:
    """Make an empty draft beside a target; hand out its path. It goes unless it is moved.

    Drafts that killed processes have left in this folder are removed: those of running ones are locked.

    Raises:
        OSError: It can't be made, or what is done within fails so.
    """
    _remove_left_ones(target.parent)
    draft = target.with_name(f"{DRAFT_PREFIX}{uuid.uuid4().hex}{DRAFT_SUFFIX}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        with locked_draft(descriptor):
            yield draft
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def put_in_place(draft: Path, target: Path) -> None:
    """Move a draft to its target, whose name then survives a power cut (OSError)."""
    draft.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a power cut, where the system can do that (OSError: the disk fails)."""
    if sys.platform == "win32":
        return  # folders can't be opened there
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # it may be written and not read
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def remove_left_drafts(folder: int) -> None:
    """Remove from an open folder the drafts that killed processes have left there; nothing is followed."""
    for name in os.listdir(folder):
        if name.startswith(DRAFT_PREFIX) and name.endswith(DRAFT_SUFFIX):
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
            with contextlib.suppress(OSError), locked_draft(os.open(name, flags, dir_fd=folder)):
                os.unlink(name, dir_fd=folder)


def _remove_left_ones(folder: Path) -> None:
    for draft in folder.glob(f"{DRAFT_PREFIX}*{DRAFT_SUFFIX}"):
        # An OSError: it is gone meanwhile, locked, or not ours.
        with contextlib.suppress(OSError), locked_draft(os.open(draft, os.O_RDWR)):
            draft.unlink()


@contextmanager
def locked_draft(descriptor: int) -> Iterator[None]:
    """Hold the lock of an open draft, then close it (OSError if another process holds the lock).

    Windows has no such lock and needs none: there a file that is being written can't be removed.
    """
    if sys.platform == "win32":
        os.close(descriptor)
        yield
    else:
        import fcntl  # noqa: PLC0415  # there is none on Windows

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(descriptor)
