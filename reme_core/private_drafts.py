"""Drafts of files that are put in place once they are whole: readable by their owner alone, and never left for long."""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX, _SUFFIX = ".reme-", ".part"


@contextmanager
def private_draft(target: Path) -> Iterator[tuple[Path, int]]:
    """Make an empty draft beside a target; hand out its path and its descriptor. It goes unless it is moved.

    Drafts that killed processes have left in this folder are removed: those of running ones are locked.

    Raises:
        OSError: It can't be made, or what is done within fails so.
    """
    _remove_left_ones(target.parent)
    draft = target.with_name(f"{_PREFIX}{uuid.uuid4().hex}{_SUFFIX}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        _lock(descriptor)
        yield draft, descriptor
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _remove_left_ones(folder: Path) -> None:
    for draft in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):  # gone meanwhile, locked, or not ours
            descriptor = os.open(draft, os.O_RDWR)
            try:
                _lock(descriptor)
                draft.unlink()
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock an open file until it is closed, where the system can (OSError if another process holds it).

    Windows can't, and needs it not: there an open file can't be removed.
    """
    if sys.platform != "win32":
        import fcntl  # noqa: PLC0415  # there is none on Windows

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
