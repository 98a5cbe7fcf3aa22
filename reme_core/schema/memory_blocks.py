"""Memory blocks: named, bounded texts that stand in a prompt; how a memory keeps one, and how a prompt shows it.

A memory block is no block of a session, which is a slice of what was said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from reme_core.schema.checks import Id, Text, check_id
from reme_core.schema.mapping import MappingModel
from reme_core.schema.times import UtcTime

DEFAULT_LIMIT_TOKENS = 500
"""Of a text. Source: MemGPT (Letta 0.3), 2,000 characters for each of persona and human, at 4 characters a token."""

MAX_LIMIT_TOKENS = 1 << 16
"""A fourth of the characters that a memory may have."""

MAX_LABEL_CHARS = 64
MAX_DESCRIPTION_CHARS = 1000

Access: TypeAlias = Literal["own", "read", "write"]
"""A block of the user's own, or a shared one that was granted for reading, or for writing as well."""


class BlockSettings(BaseModel):
    """What the metadata of a memory of type `block` say; keys that are not known stay as they are.

    Attributes:
        description: What the block is for.
        limit_tokens: What its text may have.
        read_only: Whether only the application may change it.
        shared: For an entry that is no block but the grant of a shared one: what is granted.
        shared_id: The memory that holds the shared block.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, defer_build=True)

    description: Annotated[Text, Field(max_length=MAX_DESCRIPTION_CHARS)] = ""
    limit_tokens: Annotated[int, Field(ge=1, le=MAX_LIMIT_TOKENS)] = DEFAULT_LIMIT_TOKENS
    read_only: bool = False
    shared: Literal["read", "write"] | None = None
    shared_id: Id | None = None


def check_label(value: str) -> str:
    """Accept the label of a memory block: 1 to 64 characters that can be seen, no blanks at its ends.

    Raises:
        ValueError: Naming what is wrong.
    """
    check_id(value)
    if len(value) > MAX_LABEL_CHARS:
        msg = f"has {len(value)} characters, at most {MAX_LABEL_CHARS} are allowed: put the rest into the description"
        raise ValueError(msg)
    if not value.isprintable():
        msg = f"has characters that nobody sees: {value!r}"
        raise ValueError(msg)
    return value


def check_block(label: str, metadata: Mapping[str, JsonValue]) -> None:
    """Refuse what no memory of type `block` may have for its target or metadata (ValueError)."""
    try:
        check_label(label)
    except ValueError as exc:
        msg = f"memory_target, the label of a memory block, {exc}"
        raise ValueError(msg) from exc
    BlockSettings.model_validate(metadata)


class MemoryBlock(MappingModel):
    """A memory block as one user sees it.

    Attributes:
        label: Its name, unique among the blocks of the user.
        text: What it says; may be empty.
        description: What it is for.
        tokens: Of the text, as the memory's token counter counts.
        limit_tokens: What the text may have.
        read_only: Whether only the application may change it.
        access: `own`; of a shared block `read` or `write`, as it was granted.
        memory_id: The memory that keeps it, for `history`; of a shared block, of the shared scope.
        revision: What `expected_revision` is compared with.
        updated_at: When it was last changed.
        author: Who changed it last: `user`, or the name of an agent.
    """

    label: str
    text: str
    description: str = ""
    tokens: int
    limit_tokens: int
    read_only: bool = False
    access: Access = "own"
    memory_id: str
    revision: int
    updated_at: UtcTime
    author: str

    @property
    def is_editable(self) -> bool:
        """Whether the tools of a model may change it."""
        return not self.read_only and self.access != "read"
