"""One thing that `reme doctor` looked at."""

from __future__ import annotations

from dataclasses import dataclass

from reme_core.errors import ReMeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: The thing.
        text: What it is, or what is missing and what to do.
        is_hint: Something works less well than it could.
        error: What is wrong, with its cure; None where nothing is.
    """

    name: str
    text: str
    is_hint: bool = False
    error: ReMeError | None = None

    @property
    def state(self) -> str:
        """The state in a word."""
        return "wrong" if self.error is not None else "hint" if self.is_hint else "ok"


def wrong(name: str, error: ReMeError) -> Finding:
    """Return the finding of something that is wrong."""
    return Finding(name=name, text=str(error), error=error)
