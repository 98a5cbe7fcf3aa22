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

_PREFIX, _SUFFIX = ".reme-", ".part"
# What some file systems say of a folder that they can't sync. SQLite passes over every failure of that.
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF}


@contextmanager
def private_draft(target: Path, *, tidy: bool = True) -> Iterator[Path]:
    """Make an empty draft beside a target; hand out its path. It goes unless it is moved.

    Drafts that killed processes have left in this folder are removed: those of running ones are locked. Who writes many
    files of a folder leaves that to the first of them: `tidy=False`.

    Raises:
        OSError: It can't be made, or what is done within fails so.
    """
    if tidy:
        remove_left_drafts(target.parent)
    with contextlib.ExitStack() as lock:
        draft = target.with_name(new_draft(target.parent, lock)[0])
        try:
            yield draft
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


def new_draft(folder: Path | int, lock: contextlib.ExitStack) -> tuple[str, int]:
    """Make an empty draft in a folder, which may be an open one; return its name and its descriptor, for its owner.

    It is locked as long as `lock` lasts, which closes it. One that somebody took for a left one, in the moment before
    it was locked, is made again (OSError).
    """
    while True:
        name = f"{_PREFIX}{uuid.uuid4().hex}{_SUFFIX}"
        place, within = _place(folder, name)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(place, flags, 0o600, dir_fd=within)
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            lock.enter_context(_locked(descriptor))
            os.stat(place, dir_fd=within, follow_symlinks=False)
            return name, descriptor
        lock.close()


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


def remove_left_drafts(folder: Path | int) -> None:
    """Remove from a folder, which may be an open one, the drafts that killed processes have left; nothing is followed.

    What can't be removed stays: it is locked, gone meanwhile, or not ours.
    """
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208  # an open folder has no path
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
                place, within = _place(folder, name)
                with contextlib.suppress(OSError), _locked(os.open(place, flags, dir_fd=within)):
                    os.unlink(place, dir_fd=within)


def _place(folder: Path | int, name: str) -> tuple[Path | str, int | None]:
    """Return a path, and the open folder that it lies in, if it is to be opened there."""
    return (folder / name, None) if isinstance(folder, Path) else (name, folder)


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
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
