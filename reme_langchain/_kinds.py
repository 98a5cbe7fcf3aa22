"""The memory types that tools and retrievers may be given."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.errors import ConfigurationError
from reme_core.schema import MemoryType, shown

ALL_KINDS = tuple(
    map(
        str,
        (MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.TOOL, MemoryType.IDENTITY, MemoryType.SUMMARY),
    )
)


def check_kinds(given: object) -> tuple[str, ...]:
    """Return the types as a tuple (ConfigurationError)."""
    return check_words(given, ALL_KINDS, "kinds")


def check_words(given: object, known: Sequence[str], what: str) -> tuple[str, ...]:
    """Return a choice of known words, at least one, each once (ConfigurationError)."""
    listed = tuple(given) if isinstance(given, list | tuple | set | frozenset) else ()
    if not listed or any(item not in known for item in listed) or len(set(listed)) != len(listed):
        msg = f"{what}: wanted a list of some of {', '.join(known)}, each once, found {shown(given)}"
        raise ConfigurationError(msg)
    return tuple(map(str, listed))
