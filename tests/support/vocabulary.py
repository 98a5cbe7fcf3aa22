"""A small vocabulary in tiktoken's form."""

from __future__ import annotations

import base64
from pathlib import Path

MERGES = (b"th", b"he", b"the", b"in", b" t", b" th", b" the", b"aa", b"aaaa", b"  ", b"or", b"wor", b"word")


def write_vocabulary(file: Path) -> Path:
    """Write all bytes and a few merges; return the file."""
    tokens = [*(bytes([value]) for value in range(256)), *MERGES]
    file.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens)))
    return file
