"""Random identifiers."""

from __future__ import annotations

import uuid


def new_id() -> str:
    """Return 32 hexadecimal characters of a random UUID (version 4), never derived from content."""
    return uuid.uuid4().hex
