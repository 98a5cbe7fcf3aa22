"""The result of checking a file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FileCheck(BaseModel):
    """The outcome of reading all of a local file.

    Attributes:
        path: The file.
        file_bytes: Its size.
        schema_version: The version of its tables.
        rows: How many rows were read, 0 in a file of an older version, whose rows have no digests.
        problems: What is wrong, the first twenty, by table and row and without words of it; empty where nothing is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    file_bytes: int
    schema_version: int
    rows: int
    problems: tuple[str, ...] = ()
