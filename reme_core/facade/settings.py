"""Settings as they are handed in, and the mark of those that were left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

FILE_NAME = "memory.db"
"""The local file in the working folder."""

Settings: TypeAlias = Mapping[str, object]
"""Settings as a dictionary with a `backend`, such as `{"backend": "openai", "model": "qwen-plus"}`."""


class Unset:
    """Marks an argument that was left out, so that the environment decides."""

    def __repr__(self) -> str:
        """Say what it stands for."""
        return "from the environment"


UNSET = Unset()
