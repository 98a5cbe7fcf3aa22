"""Options of MCP: which tools are offered, and whether they may write."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from reme_core.errors import InvalidInputError
from reme_core.schema import Scope, shown


class Profile(StrEnum):
    """Which tools are offered: the nine, the two that OpenAI's connectors ask for, or those of a folder."""

    DEFAULT = "default"
    CHATGPT = "chatgpt"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class FileFolder:
    """A folder of files, and whose it is: nobody else is let in."""

    root: Path
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """What is offered to every caller.

    Attributes:
        profile: Which tools.
        read_only: Only those that read, whatever a key allows.
        folder: What the tools of the profile `files` work on, and no others; InvalidInputError without one.
    """

    profile: Profile = Profile.DEFAULT
    read_only: bool = False
    folder: FileFolder | None = None

    def __post_init__(self) -> None:
        """Check that there is a folder where one is worked on, and nowhere else."""
        if (self.folder is not None) != (self.profile == Profile.FILES):
            msg = (
                "root: the profile 'files' works on the files of a folder, and no other one does: give both or neither"
            )
            raise InvalidInputError(msg)


def read_profile(value: str) -> Profile:
    """Read the name of a profile (InvalidInputError)."""
    try:
        return Profile(value)
    except ValueError:
        msg = f"profile: wanted one of {', '.join(Profile)}, found {shown(value)}"
        raise InvalidInputError(msg) from None


def read_served_profile(value: str) -> Profile:
    """Read the name of a profile that a service may have: not of one folder, which all its users would share."""
    profile = read_profile(value)
    if profile is Profile.FILES:
        msg = "profile: 'files' works on one folder, which is for `reme mcp`; a service takes default or chatgpt"
        raise InvalidInputError(msg)
    return profile
