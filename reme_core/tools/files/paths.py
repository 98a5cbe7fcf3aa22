"""Paths as models write them: names below a root, checked before any file is touched."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from reme_core.errors import ToolFeedback
from reme_core.schema.hits import HIDDEN, with_hidden_shown

MAX_SEGMENTS = 20
"""Names of one path. Source: the limit of Anthropic's memory stores."""

MAX_NAME_BYTES = 255
"""Of one name in UTF-8: what ext4, APFS and XFS take."""

_SHOWN_CHARS = 200
_SEPARATOR = re.compile("[\t-\r\x1c-\x1f\x85\u2028\u2029]")
_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


class Reason(StrEnum):
    """Why something was not done, for callers that have words of their own for it."""

    OUTSIDE = "outside"
    LINK = "link"
    NAME = "name"
    MISSING = "missing"
    NOT_A_FILE = "not a file"
    NOT_A_FOLDER = "not a folder"
    EXISTS = "exists"
    TOO_LARGE = "too large"
    NOT_TEXT = "not text"
    CHANGED = "changed"
    FAILED = "failed"


class FileRefusedError(ToolFeedback):
    """What a model has to do otherwise with a path; nothing was changed.

    Attributes:
        reason: Why.
        path: Which path.
        problem: What is told about it.
    """

    def __init__(self, reason: Reason, path: str, problem: str) -> None:
        """Tell the problem of a path."""
        super().__init__(f"{shown_path(path)} {problem}")
        self.reason = reason
        self.path = path
        self.problem = problem


def split_path(path: str) -> tuple[str, ...]:
    """Return the names of a path below the root; none for the root itself (`""`, `"."`).

    Raises:
        FileRefusedError: It is absolute, has "..", too many or unusable names, or one that begins with a dot.
    """
    if path.startswith("/"):
        problem = "is absolute: write it relative to the folder, such as notes/today.md, or '.' for all of it"
        raise FileRefusedError(Reason.OUTSIDE, path, problem)
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    if ".." in names:
        problem = "has '..' in it, which could lead out of the folder: write the path without it"
        raise FileRefusedError(Reason.OUTSIDE, path, problem)
    for name in names:
        _check_name(name, path)
    if len(names) > MAX_SEGMENTS:
        problem = f"has {len(names)} names, and a path has at most {MAX_SEGMENTS}: use fewer folders"
        raise FileRefusedError(Reason.NAME, path, problem)
    return names


def _check_name(name: str, path: str) -> None:
    problem = None
    if "\\" in name:
        problem = "has a backslash in it: write / between folders"
    elif not is_readable_name(name):
        problem = "has characters in it that nobody can see: leave them out"
    elif len(name.encode("utf-8")) > MAX_NAME_BYTES:
        problem = f"has a name of more than {MAX_NAME_BYTES} bytes: write a shorter one"
    elif name.startswith("."):
        problem = "has a name that begins with a dot, and those are left to people and their programs: use another name"
    if problem is not None:
        raise FileRefusedError(Reason.NAME, path, problem)


def is_readable_name(name: str) -> bool:
    """Tell whether a name can stand in a listing: on one line, in UTF-8, with nothing unseen that turns its order."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:  # its bytes are none of UTF-8
        return False
    return not HIDDEN.search(name) and not _SEPARATOR.search(name)


def is_offered(name: str) -> bool:
    """Tell whether a name of a folder is listed, searched and opened."""
    return is_readable_name(name) and "\\" not in name and not name.startswith(".")


def shown_path(path: str) -> str:
    """Write a path for a message: quoted, short and on one line."""
    return repr(with_hidden_shown(path[:_SHOWN_CHARS]))


@contextmanager
def told(path: str) -> Iterator[None]:
    """Tell what the system refuses (OSError) in words that help (FileRefusedError)."""
    try:
        yield
    except OSError as exc:
        reason = Reason.FAILED
        if isinstance(exc, FileNotFoundError):
            reason, problem = Reason.MISSING, "does not exist: list the folder to see what there is"
        elif isinstance(exc, NotADirectoryError):
            reason, problem = (
                Reason.NOT_A_FOLDER,
                "is a file, or leads through one: list the folder to see what there is",
            )
        elif exc.errno in _FULL:
            problem = "was not written, since the disk is full: tell the user"
        elif exc.errno in _DENIED:
            problem = (
                "can't be opened or changed, since the system doesn't permit it: use another one, or tell the user"
            )
        else:
            problem = f"could not be used; the system says {exc.strerror or 'no'!r}: try another path, or tell the user"
        raise FileRefusedError(reason, path, problem) from exc
