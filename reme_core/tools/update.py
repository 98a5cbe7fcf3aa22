"""The tool that updates memories: what is told better in place, and what has changed as a new memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import Field, JsonValue

from reme_core.errors import ConflictError, ToolFeedback
from reme_core.ports import PutMemory, ToolContext
from reme_core.rules import ChainUpdate, chain_of, join_relations, place
from reme_core.schema import Memory, MemoryType, least_trusted
from reme_core.schema.checks import Id, Metadata, merge_json
from reme_core.schema.tool_calls import is_guideline
from reme_core.steps.targets import (
    StatedTime,
    all_memories,
    joined_sources,
    memories_about,
    said_in,
    target_of,
    trust_of,
    with_stated_times,
)
from reme_core.text import query_terms
from reme_core.tools.base import BaseMemoryToolOp, ToolItem
from reme_core.tools.write import (
    ID_HELP,
    METADATA_HELP,
    NewText,
    Statement,
    check_reserved,
    new_memory,
    own_memories,
    puts_of,
    shown_memory,
    write_of,
)

CHANGED_HELP = (
    "true: things have changed, and what the memory says held until then; it is kept as the past. "
    "false: the same fact, told better or put right."
)


class UpdateItem(ToolItem):
    """A memory and its new text."""

    memory_id: Id = Field(description=ID_HELP)
    memory_content: Statement = Field(description="The whole new text in place of the old one.")
    changed: bool | None = Field(default=None, description=CHANGED_HELP)
    valid_from: StatedTime = Field(
        default=None, description="A new beginning: 2023, 2023-01 or 2023-01-05; left out, it stays."
    )
    valid_to: StatedTime = Field(default=None, description="A new end, alike.")
    metadata: Metadata = Field(
        default_factory=dict, description=f"{METADATA_HELP} Keys that are left out stay; null removes one."
    )


@dataclass(kw_only=True, eq=False)
class UpdateMemoryOp(BaseMemoryToolOp[UpdateItem]):
    """Gives memories a new text; ids stay, and the sources of the run are added to those they had.

    With `keep_past`, a text of what has changed takes the place of the old one instead: the old memory is closed at the
    time from which the new text holds, and what held before stays known. A text that was said earlier takes its place
    among what held before, and the old memory stays; see `place`. The model says by `changed` whether things have
    changed; where it leaves that out, they have if a word of the old text is missing in the new one.

    Attributes:
        keep_past: Offer `changed`; close what has changed, and write the new text as a new memory.
        add_metadata: Offer `metadata`.
    """

    name = "update_memory"
    description = "Replace the text of existing memories, where they have to be corrected or completed."
    item = UpdateItem
    items_name = "memories"

    keep_past: bool = False
    add_metadata: bool = True

    def hidden_fields(self) -> frozenset[str]:
        """Return what the options leave out."""
        offered = {"changed": self.keep_past, "metadata": self.add_metadata}
        return frozenset(name for name, wanted in offered.items() if not wanted)

    async def execute(self, items: Sequence[UpdateItem], context: ToolContext) -> str:
        """Write the changes, all or none; see `BaseMemoryToolOp.execute`."""
        _check_once([item.memory_id for item in items])
        before = await own_memories(context, [item.memory_id for item in items])
        _check_writable(before, items)
        after, closed, known = list[Memory](), list[PutMemory](), list[Memory]()
        for memory, item in zip(before, items, strict=True):
            made = _successor(context, memory, item) if self.keep_past else None
            placed = (
                ChainUpdate(memory=_updated(context, memory, item))
                if made is None
                else await _placed(context, made, memory)
            )
            closed += [PutMemory(memory=ended, expected_revision=ended.revision) for ended in placed.changed]
            (known if placed.memory is None else after).append(placed.memory or memory)
        kept = {memory.memory_id: memory.revision for memory in before}
        expected = [kept.get(memory.memory_id, 0) for memory in after]
        puts = [*closed, *await puts_of(context, after, expected=expected)]
        puts = [put if put.expected_revision else replace(put, on_duplicate="raise") for put in puts]
        try:
            stored = await context.store.put(context.scope, write_of(context, self.name, puts=puts))
        except ConflictError as exc:
            msg = f"nothing was updated: {exc}"
            raise ToolFeedback(msg) from exc
        lines = [f"updated: {shown_memory(memory)}" for memory in stored[len(closed) :]]
        lines += [f"known of the time before already, nothing changed: {shown_memory(memory)}" for memory in known]
        return "\n".join(lines)


def _successor(context: ToolContext, memory: Memory, item: UpdateItem) -> Memory | None:
    """Return the memory that takes the place of one; None where its text is only told better, or put right at once."""
    old, new = frozenset(query_terms(memory.content)), frozenset(query_terms(item.memory_content))
    if not (item.changed if item.changed is not None else not old <= new):
        return None
    text = NewText(
        content=item.memory_content,
        valid_from=item.valid_from,
        valid_to=item.valid_to,
        metadata=_metadata(memory, item),
    )
    made = new_memory(context, target_of(memory), text)
    if made.observed_at == memory.observed_at and made.sources == memory.sources:
        return None
    kept: dict[str, object] = {"when_to_use": memory.when_to_use, "importance": memory.importance}
    if not made.sources:
        kept["trust"] = least_trusted([memory.trust, made.trust])
    return made.model_copy(update=kept)


async def _placed(context: ToolContext, made: Memory, instead_of: Memory) -> ChainUpdate:
    """Give a memory its time among the one that it is to replace and all that this one has replaced; see `place`.

    Two current memories have nothing of that in common, so of several updates at once none sees another one's.
    """
    target, chain = target_of(instead_of), [instead_of]
    if made.valid_from <= instead_of.valid_from:
        wanted = replace(memories_about(target), include_superseded=True)
        chain = chain_of(await all_memories(context.store, context.scope, wanted), (instead_of.memory_id,))
    now = context.clock.now()
    placed = place(chain, made, at=max(now, made.valid_from), named=(instead_of.memory_id,))
    return replace(placed, changed=tuple(item.model_copy(update={"updated_at": now}) for item in placed.changed))


def _metadata(memory: Memory, item: UpdateItem) -> dict[str, JsonValue]:
    return merge_json(memory.metadata, item.metadata)


def _updated(context: ToolContext, memory: Memory, item: UpdateItem) -> Memory:
    sources, said = said_in(context, item.memory_content)
    changes: dict[str, object] = {
        "content": item.memory_content,
        "relations": join_relations(memory.relations, (), content=item.memory_content),
        "metadata": _metadata(memory, item),
        "observed_at": max(memory.observed_at, said),
        "updated_at": context.clock.now(),
        "author": context.author,
        "trust": least_trusted([memory.trust, trust_of(context, sources)]),
        "sources": joined_sources(memory.sources, sources),
    }
    return with_stated_times(memory.model_copy(update=changes), item.valid_from, item.valid_to, context.zone)


def _check_writable(memories: Sequence[Memory], items: Sequence[UpdateItem]) -> None:
    """Refuse a change of a guideline, whose text and numbers belong together, and one that would make one."""
    for memory, item in zip(memories, items, strict=True):
        if is_guideline(memory):
            msg = (
                f"memory {memory.memory_id!r} is the guideline of a tool, which is written from its recorded calls "
                "alone; nothing was updated: add a note with add_memory"
            )
            raise ToolFeedback(msg)
        if memory.memory_type is MemoryType.RECORD:
            msg = f"memory {memory.memory_id!r} is a record with fields, not a text; nothing was updated: leave it"
            raise ToolFeedback(msg)
        check_reserved(target_of(memory), item.metadata)


def _check_once(memory_ids: Sequence[str]) -> None:
    twice = [name for name, count in Counter(memory_ids).items() if count > 1]
    if twice:
        msg = f"memory {twice[0]!r} stands twice in one call; nothing was done: write its new text once"
        raise ToolFeedback(msg)
