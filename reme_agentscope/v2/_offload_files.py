"""Files of an offloader: data, and texts that the memory would not take. Names follow from content alone."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import re
import tempfile
from pathlib import Path

_HANDLE = re.compile(r"file-[0-9a-f]{32}")


class OffloadFiles:
    """A folder with one part for each user, and in it one for each session. The methods block.

    No name of a user, session or file becomes a path: parts are named by digests.
    """

    def __init__(self, folder: Path, *, user_id: str) -> None:
        """Keep the place; nothing is made."""
        self._folder = folder / "agentscope" / _digest(user_id)

    def put_text(self, session_id: str, text: str) -> str:
        """Return the handle of a text that is on disk; the same text of the same session has the same one.

        Raises:
            OSError: It is not on disk.
        """
        handle = f"file-{_digest(session_id, text)}"
        _write(self._path(session_id, handle), text.encode())
        return handle

    def find_text(self, session_id: str, handle: str) -> str | None:
        """Return a text of this session; None: there is none.

        Raises:
            OSError: It can't be read.
        """
        if not _HANDLE.fullmatch(handle):
            return None
        try:
            return self._path(session_id, handle).read_bytes().decode()
        except FileNotFoundError:
            return None

    def put_data(self, data: bytes, media_type: str) -> Path:
        """Return the file that holds the data, which is on disk.

        Raises:
            OSError: It is not on disk.
        """
        name = hashlib.sha256(data).hexdigest() + (mimetypes.guess_extension(media_type) or ".bin")
        path = (self._folder / "data" / name).absolute()
        _write(path, data)
        return path

    def _path(self, session_id: str, handle: str) -> Path:
        return self._folder / _digest(session_id) / f"{handle}.txt"


def _digest(*parts: str) -> str:
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        whole.update(len(data).to_bytes(8) + data)
    return whole.hexdigest()[:32]


def _write(path: Path, data: bytes) -> None:
    """Write a file that is whole or not there, and survives a power cut."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    for folder in (path.parent, *path.parent.parents[:3]):
        _sync(folder)


def _sync(folder: Path) -> None:
    if os.name == "nt":
        return  # folders can't be opened there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
