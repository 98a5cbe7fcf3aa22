"""Files below one root: read, written, moved and removed so that no path, link or race leads out of it.

Every folder on the way is opened by its name in the folder before (`openat` with `O_NOFOLLOW`) and stays open while
something is done in it: a folder that somebody exchanges for a link meanwhile is refused, and what is open is still the
folder that was checked. Only the root itself may be a link, since people choose it. A hard link is a file of the folder
like any other: no tool here makes one to a file elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from reme_core.errors import ConfigurationError
from reme_core.tools.files.open_folder import (
    FOLDER_MODE,
    MAX_READ_BYTES,
    decoded,
    delete_name,
    draft_in,
    is_link,
    open_below,
    put_in_place,
    read_file,
    status,
    sync_names,
)
from reme_core.tools.files.paths import FileRefusedError, Reason, is_offered, split_path, told

_WRITES, _LOCK_WAIT_S, _LOCK_PAUSE_S = 3, 5.0, 0.01

Change: TypeAlias = Callable[[str | None], str]
"""Makes the new text of a file from the old one; None where there is no file. May be called again, and may refuse."""


@dataclass(frozen=True, slots=True)
class FileRoot:
    """A folder that tools may work in; made with mode 0700 when it is first used.

    Attributes:
        path: The folder.
        max_written_bytes: Of one file; a larger one that is there already may only shrink.
        below: The name of the only folder in it whose files may be touched; "" for all.
    """

    path: Path
    max_written_bytes: int = MAX_READ_BYTES
    below: str = ""

    def __post_init__(self) -> None:
        """Check that this system can open files in a folder that is open (ConfigurationError)."""
        if os.open not in os.supports_dir_fd or sys.platform == "win32":
            msg = "file tools: this system can't open a file inside of an open folder; use Linux or macOS"
            raise ConfigurationError(msg)

    def find(self, path: str) -> os.stat_result | None:
        """Return what stands at a path, or None (FileRefusedError: a link, or a path that is refused)."""
        names = split_path(path)
        try:
            with told(path), self.opened(names[:-1], path) as folder:
                return os.fstat(folder) if not names else status(folder, names[-1], path)
        except FileRefusedError as exc:
            if exc.reason in {Reason.MISSING, Reason.NOT_A_FOLDER}:
                return None
            raise

    def read_text(self, path: str) -> str:
        """Return the text of a file, its line ends and byte order mark as they are.

        Raises:
            FileRefusedError: There is none, it is no text in UTF-8, too large, or the path is refused.
        """
        names = _file_names(path)
        with told(path), self.opened(names[:-1], path) as folder:
            return decoded(read_file(folder, names[-1], path)[0], path)

    def write_text(self, path: str, change: Change, *, only_new: bool = False) -> str:
        """Write what a change makes of a file: whole or not at all, on disk before this returns, never through a link.

        An existing file keeps its mode; a new one gets 0600, new folders 0700. Tools of other processes wait; a change
        by anybody else meanwhile makes the change run again on the new text.

        Returns:
            The new text.

        Raises:
            FileRefusedError: What `change` raises; the file is there (`only_new`), too large, changes all the time, or
                the path is refused.
        """
        names = _file_names(path)
        with told(path), self._locked():
            for _ in range(_WRITES):
                written = self._written(names, path, change, only_new=only_new)
                if written is not None:
                    return written
        problem = "is being changed by somebody else: read it again, then try once more"
        raise FileRefusedError(Reason.CHANGED, path, problem)

    def _written(self, names: tuple[str, ...], path: str, change: Change, *, only_new: bool) -> str | None:
        old: bytes | None = None
        found: os.stat_result | None = None
        with contextlib.suppress(FileNotFoundError), self.opened(names[:-1], path) as folder:
            if only_new and status(folder, names[-1], path) is not None:
                problem = "exists already: edit it, or write under another name"
                raise FileRefusedError(Reason.EXISTS, path, problem)
            old, found = read_file(folder, names[-1], path)
            _check_writable(found, path)
        text = change(None if old is None else decoded(old, path))
        new = text.encode("utf-8")
        self._check_size(new, old or b"", path)
        with self.opened(names[:-1], path, create=True) as folder, draft_in(folder, new, found) as draft:
            if names[:-1]:  # the root is held already
                _take_turn(folder)
            return text if put_in_place(folder, draft, folder, names[-1], found) else None

    def _check_size(self, new: bytes, old: bytes, path: str) -> None:
        if len(new) > max(self.max_written_bytes, len(old)):
            most = f"{self.max_written_bytes:,} bytes"
            problem = f"would have {len(new):,} bytes, and a file has at most {most}: use several files"
            raise FileRefusedError(Reason.TOO_LARGE, path, problem)

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; links in there go, and what they lead to stays.

        Raises:
            FileRefusedError: There is nothing, it is a link or the root, or the path is refused.
        """
        names = _file_names(path)
        with told(path), self._locked(), self.opened(names[:-1], path) as folder:
            delete_name(folder, names[-1], path)

    def clear(self) -> None:
        """Remove all that is offered; links and what begins with a dot stay (FileRefusedError)."""
        with told("."), self._locked(), self.opened((), ".") as folder:
            for name in os.listdir(folder):  # noqa: PTH208  # an open folder has no path
                if is_offered(name) and not is_link(folder, name):
                    delete_name(folder, name, name)

    def rename(self, old: str, new: str) -> None:
        """Move a file or a folder to a path where nothing is; folders on the way are made.

        Raises:
            FileRefusedError: EXISTS for the new path, MISSING for the old one; a link, or a path that is refused.
        """
        names, new_names = _file_names(old), split_path(new)
        with told(new), self._locked():
            if self.find(new) is not None:
                problem = "exists already: move or delete it first, or choose another name"
                raise FileRefusedError(Reason.EXISTS, new, problem)
            with told(old), self.opened(names[:-1], old) as source:
                found = status(source, names[-1], old)
                if found is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                if new_names[: len(names)] == names:
                    problem = "can't be moved into itself"
                    raise FileRefusedError(Reason.NAME, old, problem)
                with told(new), self.opened(new_names[:-1], new, create=True) as target:
                    if not put_in_place(source, names[-1], target, new_names[-1], None):
                        problem = "exists already: choose another name"
                        raise FileRefusedError(Reason.EXISTS, new, problem)
                    sync_names(source)

    @contextmanager
    def opened(self, names: tuple[str, ...], path: str, *, create: bool = False) -> Iterator[int]:
        """Open the folder of these names below the root, each in the one before, and hand out its descriptor.

        Args:
            names: Checked names.
            path: What to call it in a refusal.
            create: Make the folders that are not there.

        Raises:
            FileRefusedError: One of them is a link, or no folder; or they are not `below`.
            OSError: The system refuses.
        """
        if self.below and names[:1] != (self.below,):
            problem = f"is not in the folder {self.below!r}, the only one that is open here: name a file in there"
            raise FileRefusedError(Reason.OUTSIDE, path, problem)
        folder = self._opened_root()
        try:
            for name in names:
                below = open_below(folder, name, path, create=create)
                os.close(folder)
                folder = below
            yield folder
        finally:
            os.close(folder)

    def _opened_root(self) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            return os.open(self.path, flags)
        except FileNotFoundError:
            missing = [self.path, *(parent for parent in self.path.parents if not parent.exists())]
            for folder in reversed(missing):
                folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
            return os.open(self.path, flags)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the root for one change: two tools, of any process, never change at the same time."""
        import fcntl  # noqa: PLC0415  # there is none on Windows

        folder = self._opened_root()
        try:
            until = time.monotonic() + _LOCK_WAIT_S
            while True:
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        problem = "is being changed by another program for seconds: try again later"
                        raise FileRefusedError(Reason.CHANGED, ".", problem) from None
                    time.sleep(_LOCK_PAUSE_S)
            yield
        finally:
            os.close(folder)


def _take_turn(folder: int) -> None:
    """Hold an open folder until it is closed: who keeps its pages holds it from the last look to the rename."""
    import fcntl  # noqa: PLC0415  # there is none on Windows

    fcntl.flock(folder, fcntl.LOCK_EX)


def _check_writable(found: os.stat_result, path: str) -> None:
    if not found.st_mode & stat.S_IWUSR:  # a rename would not ask
        problem = "is read-only: leave it as it is, or ask the user"
        raise FileRefusedError(Reason.FAILED, path, problem)


def _file_names(path: str) -> tuple[str, ...]:
    names = split_path(path)
    if not names:
        problem = "is the whole folder: name a file or a folder in it"
        raise FileRefusedError(Reason.NOT_A_FILE, path, problem)
    return names
