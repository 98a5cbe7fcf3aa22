"""Routing table and identity: the targets that a scope has, and the one text of what the assistant itself is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from reme_core.errors import ConfigurationError, ConflictError, ToolFeedback
from reme_core.ports import PutMemory, Target, ToolContext
from reme_core.schema import Memory, MemoryType
from reme_core.steps.targets import (
    IDENTITY,
    ROUTED,
    TargetName,
    all_memories,
    find_target,
    label,
    may_touch,
    memories_about,
    meta_target,
    read_meta,
)
from reme_core.text import normalise_content, shortened
from reme_core.tools.base import BaseMemoryToolOp, NoArguments, ToolItem
from reme_core.tools.write import NewText, Statement, closed_by, new_memory, puts_of, shown_memory, write_of

MAX_DESCRIPTIONS_BYTES = 1 << 20
"""A file of descriptions is read whole and shown to models; a mebibyte is more than any of them reads."""

_DESCRIPTION_CHARS = 300


def describe_target(target: Target) -> str:
    """Say what memories about a target are."""
    if target == IDENTITY:
        return "what the assistant itself is"
    return f"{target.memory_type} memories about {target.memory_target}"


class AddMetaItem(ToolItem):
    """A new target."""

    memory_type: Literal["personal", "procedural"] = Field(
        description="personal: facts about a person. procedural: how a kind of task is done."
    )
    memory_target: TargetName = Field(description="The name of the person, or of the domain of the tasks.")


class AddMetaMemoryOp(BaseMemoryToolOp[AddMetaItem]):
    """Adds targets to the routing table; one that differs from a known one only in case is that one."""

    name = "add_meta_memory"
    description = "Make a new target to which memories can be handed. What is known already stays as it is."
    item = AddMetaItem
    items_name = "meta_memories"

    async def execute(self, items: Sequence[AddMetaItem], context: ToolContext) -> str:
        """Add what is missing, all or none; see `BaseMemoryToolOp.execute`."""
        known = [entry.target for entry in await read_meta(context.store, context.scope)]
        new: list[Memory] = []
        lines: list[str] = []
        for item in items:
            wanted = Target(MemoryType(item.memory_type), item.memory_target)
            found = find_target(known, wanted)
            wanted = find_target(context.targets or (), wanted) or wanted
            if not may_touch(context, found or wanted):
                msg = f"{label(wanted)} is none of the targets of this call; nothing was added"
                raise ToolFeedback(msg)
            if found is None:
                known.append(wanted)
                new.append(_entry(context, wanted))
            lines.append(f"{'added' if found is None else 'known already'}: {label(found or wanted)}")
        if new:
            puts = [PutMemory(memory=memory) for memory in new]
            await context.store.put(context.scope, write_of(context, self.name, puts=puts))
        return "\n".join(lines)


@dataclass(kw_only=True, eq=False)
class ReadMetaMemoryOp(BaseMemoryToolOp[NoArguments]):
    """Shows the routing table, a line for each target: `- personal(Alice): personal memories about Alice`.

    Descriptions of `memory_metadata_dir` go before those of the routing table; see `read_descriptions`.

    Attributes:
        enable_tool_memory: Show tools as well.
        enable_identity_memory: Show the assistant itself as well.
    """

    name = "read_meta_memory"
    description = "List the targets that there are memories about: their type, name and description."
    item = NoArguments
    is_concurrent = True

    enable_tool_memory: bool = False
    enable_identity_memory: bool = False

    async def execute(self, items: Sequence[NoArguments], context: ToolContext) -> str:
        """List the targets that the call may touch; see `BaseMemoryToolOp.execute`."""
        entries = {entry.target: entry.description for entry in await read_meta(context.store, context.scope)}
        if self.enable_identity_memory:
            entries = {IDENTITY: "", **entries}
        told: Mapping[Target, str] = {}
        if self.memory_metadata_dir is not None:
            told = await asyncio.to_thread(read_descriptions, Path(self.memory_metadata_dir))
        lines = []
        for target, description in entries.items():
            if self._is_shown(target) and may_touch(context, target):
                said = told.get(target) or description or describe_target(target)
                lines.append(f"- {label(target)}: {shortened(' '.join(said.split()), _DESCRIPTION_CHARS)}")
        return "\n".join(lines) or "there are no targets yet"

    def _is_shown(self, target: Target) -> bool:
        match target.memory_type:
            case MemoryType.TOOL:
                return self.enable_tool_memory
            case MemoryType.IDENTITY:
                return self.enable_identity_memory
            case _:
                return True


def read_descriptions(folder: Path) -> dict[Target, str]:
    """Read what a folder says about targets: `personal.json` and so on, each an object from target to description.

    Files that are missing say nothing; a folder that is missing says so.

    Raises:
        ConfigurationError: There is no such folder, or a file is too large, can't be read, or is no such object.
    """
    if not folder.is_dir():
        msg = f"memory_metadata_dir: {str(folder)!r} is not a folder"
        raise ConfigurationError(msg)
    found: dict[Target, str] = {}
    for kind in ROUTED:
        file = folder / f"{kind}.json"
        if file.exists():
            found |= {Target(kind, name): text for name, text in _descriptions(file).items()}
    return found


def _descriptions(file: Path) -> dict[str, str]:
    try:
        with file.open("rb") as source:
            raw = source.read(MAX_DESCRIPTIONS_BYTES + 1)
        if len(raw) > MAX_DESCRIPTIONS_BYTES:
            msg = f"{str(file)!r} has more than {MAX_DESCRIPTIONS_BYTES} bytes: shorten the descriptions"
            raise ConfigurationError(msg)
        value = json.loads(raw)
    except (OSError, ValueError, RecursionError) as exc:
        msg = f"{str(file)!r} can't be read as JSON ({exc}): wanted an object from target to description"
        raise ConfigurationError(msg) from exc
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        msg = f"{str(file)!r}: wanted an object from target to description, each a string"
        raise ConfigurationError(msg)
    return value


def _entry(context: ToolContext, target: Target) -> Memory:
    entry = Target(MemoryType.META, meta_target(target))
    return new_memory(context, entry, NewText(content=describe_target(target)), of_all=True)


async def read_identity(context: ToolContext) -> list[Memory]:
    """Return the current memories of what the assistant is, oldest first; none where the call may not read them."""
    if context.targets is not None and IDENTITY not in context.targets:
        return []
    return list(reversed(await all_memories(context.store, context.scope, memories_about(IDENTITY))))


class ReadIdentityMemoryOp(BaseMemoryToolOp[NoArguments]):
    """Reads what the assistant is."""

    name = "read_identity_memory"
    description = "Read what you yourself are: your name, role, manner and what you were told to be."
    item = NoArguments
    is_concurrent = True

    async def execute(self, items: Sequence[NoArguments], context: ToolContext) -> str:
        """Join the identity memories; see `BaseMemoryToolOp.execute`."""
        return _joined(await read_identity(context)) or "there is no identity memory yet"


class IdentityItem(ToolItem):
    """The whole text of what the assistant is."""

    identity_memory: Statement = Field(
        description="All of what you are from now on: what stays of the present text, and what is new."
    )


class UpdateIdentityMemoryOp(BaseMemoryToolOp[IdentityItem]):
    """Replaces what the assistant is; the old text is closed, not lost."""

    name = "update_identity_memory"
    description = "Replace the text of what you yourself are. Read the present one first, and keep what still holds."
    item = IdentityItem

    async def execute(self, items: Sequence[IdentityItem], context: ToolContext) -> str:
        """Write the new text and close the old one, in one write; see `BaseMemoryToolOp.execute`."""
        if context.targets is not None and IDENTITY not in context.targets:
            msg = f"{self.name}: identity(self) is not among the targets of this call: leave the tool out"
            raise ConfigurationError(msg)
        held, text = await read_identity(context), items[-1].identity_memory
        if held and normalise_content(text) == normalise_content(_joined(held)):
            return "this is what you are already; nothing was changed"
        same = next((memory for memory in held if normalise_content(memory.content) == normalise_content(text)), None)
        kept = same or new_memory(context, IDENTITY, NewText(content=text))
        gone = [memory for memory in held if memory is not same]
        puts = [
            PutMemory(memory=closed_by(memory, kept, context), expected_revision=memory.revision) for memory in gone
        ]
        if same is None:
            puts += await puts_of(context, [kept], expected=[0])
        try:
            await context.store.put(context.scope, write_of(context, self.name, puts=puts))
        except ConflictError as exc:
            msg = f"the identity was changed meanwhile; nothing was written: read it again ({exc})"
            raise ToolFeedback(msg) from exc
        return f"replaced: {shown_memory(kept)}"


def _joined(memories: Sequence[Memory]) -> str:
    return "\n".join(memory.content for memory in memories)
