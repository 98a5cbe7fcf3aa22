"""Options that every command has: the scope, and the folder of the memory file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reme_core.errors import InvalidInputError, NotFoundError, ReMeError
from reme_core.facade.config import FILE_NAME, UNSET
from reme_core.facade.reme import ReMe

# A command asks once: no next question finds more. Some 500,000 messages are loaded in this time.
_LOADING_WAIT_S = 10.0


class NoFileError(NotFoundError):
    """There is no memory file in a folder; looking must not make one."""

    def __init__(self, path: Path) -> None:
        """Name the file that is missing."""
        ReMeError.__init__(self, f"there is no memory in {str(path)!r} yet: add something first, or check --dir")
        self.missing = (str(path),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """The options that every command has.

    Attributes:
        user: The user, None if not named.
        shared: The shared scope of the space is meant.
        space: The memory space.
        folder: The folder of the file.
        wait_s: How long to wait for another process that is writing.
    """

    user: str | None
    shared: bool
    space: str
    folder: str
    wait_s: float

    @property
    def user_id(self) -> str:
        """The user id of the scope; a scope is never guessed (InvalidInputError)."""
        if self.shared:
            return ""
        if not self.user:
            msg = "whose memory? Give --user NAME or set REME_USER (or --shared for the shared scope of the space)"
            raise InvalidInputError(msg)
        return self.user

    @property
    def file(self) -> Path:
        """The path of the file."""
        return Path(self.folder).expanduser() / FILE_NAME

    def check_file(self) -> None:
        """Refuse to look where nothing was ever written.

        Raises:
            NoFileError: There is no file.
            InvalidInputError: The folder has no name.
        """
        if not self.folder.strip():
            msg = "--dir is empty: give the path of a folder"
            raise InvalidInputError(msg)
        if not self.file.exists():
            raise NoFileError(self.file)

    def open(self, *, with_llm: bool = False, with_embedding: bool = False) -> ReMe:
        """Make the memory; models, where wanted, are those that the environment names."""
        return ReMe(
            self.space,
            self.folder,
            llm=UNSET if with_llm else None,
            embedding=UNSET if with_embedding else None,
            vector_store={
                "backend": "local_file",
                "busy_timeout_s": self.wait_s,
                "loading_wait_s": _LOADING_WAIT_S,
            },
        )
