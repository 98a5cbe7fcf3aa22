"""The tools that write memories: add, update, delete."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, JsonValue

from reme_core.errors import ConflictError, MemoryNotFoundError, ToolFeedback
from reme_core.ports import DeleteMemory, MemoryFilter, PutMemory, Target, ToolContext, Vector, WriteBatch
from reme_core.retrieval.embedding import try_embedding
from reme_core.rules import Placed, chain_of, place
from reme_core.schema import Memory, MemoryType, Source, Usage
from reme_core.schema.checks import Id, Metadata, Text
from reme_core.schema.memories import MAX_MEMORY_CHARS
from reme_core.schema.tool_calls import GUIDELINE_KEYS, is_guideline
from reme_core.text import json_line, query_terms, shortened
from reme_core.tools.base import BaseMemoryToolOp, ToolItem
from reme_core.tools.targets import all_memories, assigned_target, may_touch, target_of

_SHOWN_CHARS = 200


def _said(value: str) -> str:
    if not value.strip():
        msg = "is empty: a memory is a statement"
        raise ValueError(msg)
    return value


Statement = Annotated[Text, Field(max_length=MAX_MEMORY_CHARS), AfterValidator(_said)]
"""The text of a memory as a model writes it."""

CONTENT_HELP = "The memory: one statement that can be understood by itself, with names and dates written out."
METADATA_HELP = "Further facts about the memory, as a JSON object."
ID_HELP = "The id of the memory, as a search has shown it."


@dataclass(frozen=True, slots=True, kw_only=True)
class NewText:
    """What a model wants to have remembered."""

    content: str
    when_to_use: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


class NewItem(ToolItem):
    """An item that asks for a new memory."""

    @abstractmethod
    def text(self) -> NewText:
        """Return what is to be remembered."""


class AddItem(NewItem):
    """A new memory."""

    when_to_use: Annotated[Text, Field(max_length=MAX_MEMORY_CHARS)] = Field(
        default="", description="In which situations the memory helps; questions are matched against it as well."
    )
    memory_content: Statement = Field(description=CONTENT_HELP)
    metadata: Metadata = Field(default_factory=dict, description=METADATA_HELP)

    def text(self) -> NewText:
        """Return what is to be remembered."""
        return NewText(content=self.memory_content, when_to_use=self.when_to_use, metadata=self.metadata)


class UpdateItem(ToolItem):
    """A memory and its new text."""

    memory_id: Id = Field(description=ID_HELP)
    memory_content: Statement = Field(description=f"The new text in place of the old one. {CONTENT_HELP}")
    metadata: Metadata = Field(
        default_factory=dict, description=f"{METADATA_HELP} Replaces what there is; left out, that stays."
    )


class DeleteItem(ToolItem):
    """A memory to be removed."""

    memory_id: Id = Field(description=ID_HELP)


class AddMemoryOp(BaseMemoryToolOp[NewItem]):
    """Adds memories of the context's type and target; one that says what a current one says is that one.

    Attributes:
        is_of_all: What is added comes from all messages of the call, not from those that it is closest to.
    """

    name = "add_memory"
    description = "Add new memories. What is known already is not added again."
    item: ClassVar[type[ToolItem]] = AddItem
    items_name: ClassVar[str | None] = "memories"
    is_of_all: ClassVar[bool] = False

    def __init__(
        self,
        *,
        add_when_to_use: bool = False,
        add_metadata: bool = True,
        enable_multiple: bool = True,
        enable_thinking_params: bool = False,
        memory_metadata_dir: str | Path | None = None,
    ) -> None:
        """Keep the options.

        Args:
            add_when_to_use: Offer `when_to_use`.
            add_metadata: Offer `metadata`.
            enable_multiple: See `BaseMemoryToolOp`.
            enable_thinking_params: See `BaseMemoryToolOp`.
            memory_metadata_dir: See `BaseMemoryToolOp`.
        """
        offered = {"when_to_use": add_when_to_use, "metadata": add_metadata}
        super().__init__(
            enable_multiple=enable_multiple,
            enable_thinking_params=enable_thinking_params,
            memory_metadata_dir=memory_metadata_dir,
            hidden_fields=frozenset(name for name, wanted in offered.items() if not wanted),
        )

    def target(self, context: ToolContext) -> Target:
        """Return what the new memories are about (ConfigurationError, if the context doesn't say so)."""
        return assigned_target(context, self.name)

    async def execute(self, items: Sequence[NewItem], context: ToolContext) -> str:
        """Write the memories, all or none; see `BaseMemoryToolOp.execute`."""
        target, of_all = self.target(context), self.is_of_all
        texts = [item.text() for item in items]
        _check_reserved(target, *(text.metadata for text in texts))
        new = [new_memory(context, target, text, of_all=of_all) for text in texts]
        puts = await puts_of(context, new, expected=[0] * len(new))
        stored = await context.memories.put(context.scope, write_of(context, self.name, puts=puts))
        lines = []
        for wanted, memory in zip(new, stored, strict=True):
            did = "added" if memory.memory_id == wanted.memory_id else "known already, nothing added"
            lines.append(f"{did}: {shown_memory(memory)}")
        return "\n".join(lines)


class UpdateMemoryOp(BaseMemoryToolOp[UpdateItem]):
    """Gives memories a new text; ids stay, and the sources of the run are added to those they had.

    With `keep_past`, a text that says something else than the old one takes its place instead: the old memory is closed
    at the time when the new text was said, and what held before stays known. A text that was said earlier takes its
    place among what held before, and the old memory stays; see `place`.
    """

    name = "update_memory"
    description = "Replace the text of existing memories, where they have to be corrected or completed."
    item = UpdateItem
    items_name = "memories"

    def __init__(
        self,
        *,
        keep_past: bool = False,
        enable_multiple: bool = True,
        enable_thinking_params: bool = False,
        memory_metadata_dir: str | Path | None = None,
    ) -> None:
        """Keep the options.

        Args:
            keep_past: Close what is replaced by something else, and write the new text as a new memory.
            enable_multiple: See `BaseMemoryToolOp`.
            enable_thinking_params: See `BaseMemoryToolOp`.
            memory_metadata_dir: See `BaseMemoryToolOp`.
        """
        super().__init__(
            enable_multiple=enable_multiple,
            enable_thinking_params=enable_thinking_params,
            memory_metadata_dir=memory_metadata_dir,
        )
        self.keep_past = keep_past

    async def execute(self, items: Sequence[UpdateItem], context: ToolContext) -> str:
        """Write the changes, all or none; see `BaseMemoryToolOp.execute`."""
        _check_once([item.memory_id for item in items])
        before = await own_memories(context, [item.memory_id for item in items])
        _check_writable(before, items)
        after, closed, known = list[Memory](), list[PutMemory](), list[Memory]()
        for memory, item in zip(before, items, strict=True):
            made = _successor(context, memory, item) if self.keep_past else None
            placed = (
                Placed(memory=_updated(context, memory, item)) if made is None else await _placed(context, made, memory)
            )
            closed += [PutMemory(memory=ended, expected_revision=ended.revision) for ended in placed.changed]
            (known if placed.memory is None else after).append(placed.memory or memory)
        kept = {memory.memory_id: memory.revision for memory in before}
        expected = [kept.get(memory.memory_id, 0) for memory in after]
        puts = [*closed, *await puts_of(context, after, expected=expected)]
        puts = [put if put.expected_revision else replace(put, on_duplicate="raise") for put in puts]
        try:
            stored = await context.memories.put(context.scope, write_of(context, self.name, puts=puts))
        except ConflictError as exc:
            msg = f"nothing was updated: {exc}"
            raise ToolFeedback(msg) from exc
        lines = [f"updated: {shown_memory(memory)}" for memory in stored[len(closed) :]]
        lines += [f"known of the time before already, nothing changed: {shown_memory(memory)}" for memory in known]
        return "\n".join(lines)


class DeleteMemoryOp(BaseMemoryToolOp[DeleteItem]):
    """Removes memories."""

    name = "delete_memory"
    description = "Delete memories that are wrong, or that nobody wants to be kept."
    item = DeleteItem
    items_name = "memory_ids"
    plain_items = True

    async def execute(self, items: Sequence[DeleteItem], context: ToolContext) -> str:
        """Remove the memories, all or none; see `BaseMemoryToolOp.execute`."""
        memories = await own_memories(context, list(dict.fromkeys(item.memory_id for item in items)))
        deletes = [DeleteMemory(memory_id=item.memory_id, expected_revision=item.revision) for item in memories]
        try:
            await context.memories.put(context.scope, write_of(context, self.name, deletes=deletes))
        except (ConflictError, MemoryNotFoundError) as exc:  # somebody else was faster
            msg = f"nothing was deleted: {exc}"
            raise ToolFeedback(msg) from exc
        return "\n".join(f"deleted: {shown_memory(memory)}" for memory in memories)


def new_memory(context: ToolContext, target: Target, text: NewText, *, of_all: bool = False) -> Memory:
    """Make a memory of a run, not written yet: who wrote it and where it comes from are the context's.

    One `of_all` comes from all of the run's messages, another one from those that it is closest to; see `said_in`.
    """
    now = context.clock.now()
    sources, said = (context.sources, observed_at(context)) if of_all else said_in(context, text.content)
    return Memory(
        memory_space=context.scope.memory_space,
        user_id=context.scope.user_id,
        memory_type=target.memory_type,
        memory_target=target.memory_target,
        content=text.content,
        when_to_use=text.when_to_use,
        observed_at=said,
        valid_from=said,
        created_at=now,
        updated_at=now,
        author=context.author,
        sources=sources,
        metadata=dict(text.metadata),
    )


def observed_at(context: ToolContext) -> datetime:
    """Return when it was said what a run writes: the time of its last message, or now."""
    return context.messages[-1].created_at if context.messages else context.clock.now()


def said_in(context: ToolContext, content: str) -> tuple[tuple[Source, ...], datetime]:
    """Return which of the run's messages a statement comes from, and when it was said.

    Messages that share half as many of its words as the closest one does, or more; all of them, where none shares any.
    """
    words = frozenset(query_terms(content))
    shares = {item.message_id: len(words & frozenset(query_terms(item.full_text))) for item in context.messages}
    best = max(shares.values(), default=0)
    if not best:
        return context.sources, observed_at(context)
    near = {name for name, share in shares.items() if 2 * share >= best}
    narrowed = [(source, tuple(name for name in source.message_ids if name in near)) for source in context.sources]
    sources = tuple(source.model_copy(update={"message_ids": names}) for source, names in narrowed if names)
    said = max(item.created_at for item in context.messages if shares[item.message_id] == best)
    return sources or context.sources, said


async def own_memories(context: ToolContext, memory_ids: Sequence[str]) -> list[Memory]:
    """Return current memories that the call is about.

    Raises:
        ToolFeedback: From a MemoryNotFoundError: some are not there, or are not the call's business, which looks alike.
    """
    try:
        found = await context.memories.get(context.scope, memory_ids)
    except MemoryNotFoundError as exc:
        raise unknown_memories(exc.missing) from exc
    strange = [item.memory_id for item in found if not (may_touch(context, target_of(item)) and item.is_current)]
    if strange:
        raise unknown_memories(strange) from MemoryNotFoundError(strange)
    return found


def unknown_memories(memory_ids: Sequence[str]) -> ToolFeedback:
    """Say that there are no such memories."""
    names = ", ".join(repr(name) for name in memory_ids)
    return ToolFeedback(f"no memory {names}; nothing was done: use ids as vector_retrieve_memory shows them")


async def puts_of(context: ToolContext, memories: Sequence[Memory], *, expected: Sequence[int]) -> list[PutMemory]:
    """Embed memories that are to be written, and expect these revisions; where that fails they wait for vectors."""
    vectors: Sequence[Vector | None] = [None] * len(memories)
    if context.embedder is not None and memories:
        rows = await try_embedding(context.embedder, [memory.index_text for memory in memories])
        if isinstance(rows, str):
            context.trace.degraded[rows] = None
        else:
            vectors = list(rows)
            context.trace.usage += Usage(embedding_calls=1)
    wants = context.embedder is not None
    return [
        PutMemory(memory=memory, vector=vector, wants_vector=wants, expected_revision=revision)
        for memory, vector, revision in zip(memories, vectors, expected, strict=True)
    ]


def write_of(
    context: ToolContext, reason: str, *, puts: Sequence[PutMemory] = (), deletes: Sequence[DeleteMemory] = ()
) -> WriteBatch:
    """Make a write of the context's run."""
    return WriteBatch(
        puts=puts,
        deletes=deletes,
        reason=reason,
        run_id=context.run_id,
        actor=context.author,
        at=context.clock.now(),
    )


def shown_memory(memory: Memory) -> str:
    """Write a memory on one line: its id, and what it says."""
    return json_line({"memory_id": memory.memory_id, "text": shortened(memory.content, _SHOWN_CHARS)})


def closed_by(memory: Memory, by: Memory, context: ToolContext) -> Memory:
    """Return a memory as it is when another one has taken its place."""
    ended = {
        "valid_to": max(memory.valid_from, by.valid_from),  # what was said later may be distilled first
        "superseded_by": by.memory_id,
        "updated_at": context.clock.now(),
    }
    return memory.model_copy(update=ended)


def _successor(context: ToolContext, memory: Memory, item: UpdateItem) -> Memory | None:
    """Return the memory that takes the place of one; None where its text is only completed, or put right at once."""
    old, new = frozenset(query_terms(memory.content)), frozenset(query_terms(item.memory_content))
    if old <= new:
        return None
    text = NewText(content=item.memory_content, metadata=_metadata(memory, item))
    made = new_memory(context, target_of(memory), text)
    if made.observed_at == memory.observed_at and made.sources == memory.sources:
        return None
    return made.model_copy(update={"when_to_use": memory.when_to_use, "importance": memory.importance})


async def _placed(context: ToolContext, made: Memory, instead_of: Memory) -> Placed:
    """Give a memory its time among the one that it is to replace and all that this one has replaced; see `place`.

    Two memories that hold now have nothing of that in common, so of several updates at once none sees another one's.
    """
    target, chain = target_of(instead_of), [instead_of]
    if made.valid_from <= instead_of.valid_from:
        wanted = MemoryFilter(types=(target.memory_type,), targets=(target.memory_target,), include_superseded=True)
        chain = chain_of(await all_memories(context.memories, context.scope, wanted), (instead_of.memory_id,))
    now = context.clock.now()
    placed = place(chain, made, at=max(now, made.valid_from))
    return replace(placed, changed=tuple(item.model_copy(update={"updated_at": now}) for item in placed.changed))


def _metadata(memory: Memory, item: UpdateItem) -> Mapping[str, JsonValue]:
    return item.metadata if "metadata" in item.model_fields_set else memory.metadata


def _updated(context: ToolContext, memory: Memory, item: UpdateItem) -> Memory:
    sources, said = said_in(context, item.memory_content)
    changes: dict[str, object] = {
        "content": item.memory_content,
        "metadata": dict(_metadata(memory, item)),
        "observed_at": max(memory.observed_at, said),
        "updated_at": context.clock.now(),
        "author": context.author,
        "sources": joined_sources(memory.sources, sources),
    }
    return memory.model_copy(update=changes)


def joined_sources(held: Sequence[Source], more: Sequence[Source]) -> tuple[Source, ...]:
    """Return sources with further ones behind them, each once."""
    return (*held, *(source for source in more if source not in held))


def _check_writable(memories: Sequence[Memory], items: Sequence[UpdateItem]) -> None:
    """Refuse a change of a guideline, whose text and numbers belong together, and one that would make one."""
    for memory, item in zip(memories, items, strict=True):
        if is_guideline(memory):
            msg = (
                f"memory {memory.memory_id!r} is the guideline of a tool, which is written from its recorded calls "
                "alone; nothing was updated: add a note with add_memory"
            )
            raise ToolFeedback(msg)
        _check_reserved(target_of(memory), item.metadata)


def _check_reserved(target: Target, *metadata: Mapping[str, JsonValue]) -> None:
    """Refuse keys that would make a memory about a tool its guideline, with numbers of calls that nobody counted."""
    reserved = {key for item in metadata for key in item if key in GUIDELINE_KEYS}
    if target.memory_type is MemoryType.TOOL and reserved:
        names = ", ".join(map(repr, sorted(reserved)))
        msg = f"metadata: {names} are reserved for guidelines of tools; nothing was written: use another key"
        raise ToolFeedback(msg)


def _check_once(memory_ids: Sequence[str]) -> None:
    twice = [name for name, count in Counter(memory_ids).items() if count > 1]
    if twice:
        msg = f"memory {twice[0]!r} stands twice in one call; nothing was done: write its new text once"
        raise ToolFeedback(msg)
