"""Watching a folder: a change of a file is taken over within half a second, one of the store within a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePosixPath

from watchfiles import Change, awatch

from reme_core.files.folder import is_page_path

DEBOUNCE_MS = 300
"""How long changes are gathered at most. Source: the specification of files, section 2."""

_QUIET_MS = 50  # after the last change; shorter than anybody waits, longer than an editor writes
_LOOK_MS = 1000  # how often the store is asked what changed there
_MOUNTS = Path("/proc/self/mounts")
# Folders of other machines, whose changes no kernel tells.
_REMOTE = ("nfs", "cifs", "smb", "9p", "fuse.", "afs", "ceph", "virtiofs", "vboxsf", "drvfs")


async def watch_folder(root: Path, sync: Callable[[], Awaitable[object]], stop: asyncio.Event) -> None:
    """Call `sync` after each change of a page and at least once a second, until `stop` is set."""

    def is_ours(_: Change, path: str) -> bool:
        try:
            return is_page_path(PurePosixPath(Path(path).relative_to(root)).as_posix())
        except ValueError:
            return False

    changes = awatch(
        root,
        watch_filter=is_ours,
        debounce=DEBOUNCE_MS,
        step=_QUIET_MS,
        stop_event=stop,
        rust_timeout=_LOOK_MS,
        yield_on_timeout=True,
        force_polling=is_remote(root),
        ignore_permission_denied=True,
    )
    async for _ in changes:
        await sync()


def is_remote(root: Path, mounts: Path = _MOUNTS) -> bool:
    """Tell whether a folder lies on another machine, as far as the system says so; there it has to be looked at."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    kinds = {
        Path(parts[1].replace("\\040", " ")): parts[2] for line in text.splitlines() if len(parts := line.split()) > 2
    }
    below = [place for place in kinds if root.is_relative_to(place)]
    return bool(below) and kinds[max(below, key=lambda place: len(place.parts))].startswith(_REMOTE)
