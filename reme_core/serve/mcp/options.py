"""Options of MCP: which tools are offered, and whether they may write."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from reme_core.errors import InvalidInputError
from reme_core.schema import shown


class Profile(StrEnum):
    """Which tools are offered: all nine, or the two that OpenAI's connectors ask for."""

    DEFAULT = "default"
    CHATGPT = "chatgpt"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """What is offered to every caller.

    Attributes:
        profile: Which tools.
        read_only: Only those that read, whatever a key allows.
    """

    profile: Profile = Profile.DEFAULT
    read_only: bool = False


def read_profile(value: str) -> Profile:
    """Read the name of a profile (InvalidInputError)."""
    if value == "files":
        msg = "profile 'files' comes with a later release: take 'default', or 'chatgpt'"
        raise InvalidInputError(msg)
    try:
        return Profile(value)
    except ValueError:
        msg = f"profile: wanted one of {', '.join(Profile)}, found {shown(value)}"
        raise InvalidInputError(msg) from None
