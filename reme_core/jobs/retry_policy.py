"""Policy of retries, and the holders of jobs: how often one is tried, how long it is held, and who still lives."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reme_core.errors import ConfigurationError
from reme_core.schema import new_id, shown

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a job is tried, and how long it is held.

    Attributes:
        max_attempts: Then it is given up, and waits among the dead ones with its reason.
        first_delay_s: After the first failure; four times as long after each further one, a day at most.
        hold_s: For how long a job is held unless renewed, which is done in time: what another machine must wait for
            after this one has died. On the same machine nobody waits.
        max_scopes: Users whose jobs are done at the same time in the background.
    """

    max_attempts: int = 5
    first_delay_s: float = 30.0
    hold_s: float = 60.0
    max_scopes: int = 8

    def __post_init__(self) -> None:
        """Check the numbers (ConfigurationError, naming the first that makes no sense)."""
        for name, value in (("max_attempts", self.max_attempts), ("max_scopes", self.max_scopes)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                msg = f"retry: {name} is a number of at least 1, found {shown(value)}"
                raise ConfigurationError(msg)
        for name, seconds, least in (("first_delay_s", self.first_delay_s, 0.0), ("hold_s", self.hold_s, 1e-3)):
            if not isinstance(seconds, (int, float)) or not least <= seconds <= _DAY_S:
                msg = f"retry: {name} lies between {least:g} and {_DAY_S:g} seconds, found {shown(seconds)}"
                raise ConfigurationError(msg)

    def delay_s(self, attempts: int) -> float:
        """Return the seconds to wait after so many attempts, the last of which has just failed."""
        return min(self.first_delay_s * 4.0 ** min(attempts - 1, 20), _DAY_S)


_SEPARATOR = "|"


# The one state of this module: the holders that live in this process. What ends without a word, such as a task of an
# event loop that was torn down, is told by its absence.
_LIVING: set[str] = set()


@contextmanager
def holder() -> Iterator[str]:
    """Give a name to one holder in this process, who lives as long as the context.

    The name tells machine, process namespace, process, its start, and a random part.
    """
    name = _SEPARATOR.join((*_here(), new_id()))
    _LIVING.add(name)
    try:
        yield name
    finally:
        _LIVING.discard(name)


def is_gone(owner: str) -> bool:
    """Tell whether a holder has certainly ended: its process has, or it is none of those that live in this one.

    Certain is only what this machine can see: a name from another machine or container, or on a system without
    `/proc`, may be gone or not, and is left to the end of its time.
    """
    parts = owner.split(_SEPARATOR)
    here = _here()
    if len(parts) != len(here) + 1 or parts[:2] != list(here[:2]) or not here[1] or not parts[2].isdigit():
        return False
    if tuple(parts[:4]) == here:
        return owner not in _LIVING
    return _started(parts[2]) != parts[3]


def _here() -> tuple[str, str, str, str]:
    process = str(os.getpid())
    return socket.gethostname().replace(_SEPARATOR, "-"), _namespace(), process, _started(process)


def _namespace() -> str:
    """Return the boot and the namespace that process numbers belong to; empty where the system doesn't tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(process: str) -> str:
    """Return when a process was started, in ticks since boot; empty if there is none, or it is a zombie.

    Source: proc(5), /proc/pid/stat, fields 3 and 22; the name in field 2 may hold blanks and brackets.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in {"Z", "X"} else fields[19]
