"""The tools that add and delete memories, summaries among them, and what all tools that write share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, JsonValue

from reme_core.errors import ConflictError, MemoryNotFoundError, ToolFeedback
from reme_core.ports import DeleteMemory, PutMemory, Target, ToolContext, WriteBatch
from reme_core.retrieval.embedding import vectors_or_none
from reme_core.rules import replaced
from reme_core.schema import Memory, MemoryType, trust_field
from reme_core.schema.checks import Id, Metadata, Text
from reme_core.schema.memories import MAX_MEMORY_CHARS
from reme_core.schema.tool_calls import GUIDELINE_KEYS
from reme_core.steps.ask_json import not_blank
from reme_core.steps.targets import (
    FROM_HELP,
    SELF,
    TO_HELP,
    StatedTime,
    assigned_target,
    may_touch,
    observed_at,
    said_in,
    target_of,
    trust_of,
    with_stated_times,
)
from reme_core.text import json_line, shortened
from reme_core.tools.base import BaseMemoryToolOp, ToolItem

_SHOWN_CHARS = 200


Statement = Annotated[Text, Field(max_length=MAX_MEMORY_CHARS), AfterValidator(not_blank)]
"""The text of a memory as a model writes it."""

CONTENT_HELP = "The memory: one statement that can be understood by itself, with names and dates written out."
METADATA_HELP = "Further facts about the memory, as a JSON object."
ID_HELP = "The id of the memory, as it was shown."


@dataclass(frozen=True, slots=True, kw_only=True)
class NewText:
    """What a model wants to have remembered; its times as it wrote them."""

    content: str
    when_to_use: str = ""
    valid_from: str | None = None
    valid_to: str | None = None
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
    valid_from: StatedTime = Field(default=None, description=FROM_HELP)
    valid_to: StatedTime = Field(default=None, description=TO_HELP)
    metadata: Metadata = Field(default_factory=dict, description=METADATA_HELP)

    def text(self) -> NewText:
        """Return what is to be remembered."""
        return NewText(
            content=self.memory_content,
            when_to_use=self.when_to_use,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            metadata=self.metadata,
        )


class DeleteItem(ToolItem):
    """A memory to be removed."""

    memory_id: Id = Field(description=ID_HELP)


@dataclass(kw_only=True, eq=False)
class AddMemoryOp(BaseMemoryToolOp[NewItem]):
    """Adds memories of the context's type and target; one that says what a current one says is that one.

    Attributes:
        is_of_all: What is added comes from all messages of the call, not from those that it is closest to.
        add_when_to_use: Offer `when_to_use`.
        add_metadata: Offer `metadata`.
    """

    name = "add_memory"
    description = "Add new memories. What is known already is not added again."
    item: ClassVar[type[ToolItem]] = AddItem
    items_name: ClassVar[str | None] = "memories"
    is_of_all: ClassVar[bool] = False

    add_when_to_use: bool = False
    add_metadata: bool = True

    def hidden_fields(self) -> frozenset[str]:
        """Return what the options leave out."""
        offered = {"when_to_use": self.add_when_to_use, "metadata": self.add_metadata}
        return frozenset(name for name, wanted in offered.items() if not wanted)

    def target(self, context: ToolContext) -> Target:
        """Return what the new memories are about (ConfigurationError, if the context doesn't say so)."""
        return assigned_target(context, self.name)

    async def execute(self, items: Sequence[NewItem], context: ToolContext) -> str:
        """Write the memories, all or none; see `BaseMemoryToolOp.execute`."""
        target, of_all = self.target(context), self.is_of_all
        texts = [item.text() for item in items]
        check_reserved(target, *(text.metadata for text in texts))
        new = [new_memory(context, target, text, of_all=of_all) for text in texts]
        puts = await puts_of(context, new, expected=[0] * len(new))
        stored = await context.store.put(context.scope, write_of(context, self.name, puts=puts))
        lines = []
        for wanted, memory in zip(new, stored, strict=True):
            did = "added" if memory.memory_id == wanted.memory_id else "known already, nothing added"
            lines.append(f"{did}: {shown_memory(memory)}")
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
            await context.store.put(context.scope, write_of(context, self.name, deletes=deletes))
        except (ConflictError, MemoryNotFoundError) as exc:  # somebody else was faster
            msg = f"nothing was deleted: {exc}"
            raise ToolFeedback(msg) from exc
        return "\n".join(f"deleted: {shown_memory(memory)}" for memory in memories)


def new_memory(context: ToolContext, target: Target, text: NewText, *, of_all: bool = False) -> Memory:
    """Make a memory of a run, not written yet: who wrote it and where it comes from are the context's.

    One `of_all` comes from all of the run's messages, another one from those that it is closest to; see `said_in`.

    Raises:
        ToolFeedback: It ends before it begins.
    """
    now = context.clock.now()
    sources, said = (context.sources, observed_at(context)) if of_all else said_in(context, text.content)
    memory = Memory(
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
        trust=trust_of(context, sources),
        sources=sources,
        metadata=dict(text.metadata),
    )
    return with_stated_times(memory, text.valid_from, text.valid_to, context.zone)


async def own_memories(context: ToolContext, memory_ids: Sequence[str]) -> list[Memory]:
    """Return current memories that the call is about.

    Raises:
        ToolFeedback: From a MemoryNotFoundError: some are not there, or are not the call's business, which looks alike.
    """
    try:
        found = await context.store.get(context.scope, memory_ids)
    except MemoryNotFoundError as exc:
        raise unknown_memories(exc.missing) from exc
    strange = [item.memory_id for item in found if not (may_touch(context, target_of(item)) and item.is_current)]
    if strange:
        raise unknown_memories(strange) from MemoryNotFoundError(strange)
    return found


def unknown_memories(memory_ids: Sequence[str]) -> ToolFeedback:
    """Say that there are no such memories."""
    names = ", ".join(repr(name) for name in memory_ids)
    return ToolFeedback(f"no memory {names}; nothing was done: use ids that were shown to you")


async def puts_of(context: ToolContext, memories: Sequence[Memory], *, expected: Sequence[int]) -> list[PutMemory]:
    """Embed memories that are to be written, and expect these revisions; where that fails they wait for vectors."""
    vectors = await vectors_or_none(context.embedder, [memory.index_text for memory in memories], context.trace)
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
    return json_line(
        {"memory_id": memory.memory_id, **trust_field(memory.trust), "text": shortened(memory.content, _SHOWN_CHARS)}
    )


def closed_by(memory: Memory, by: Memory, context: ToolContext) -> Memory:
    """Return a memory as it is when another one has taken its place."""
    return replaced(memory, by).model_copy(update={"updated_at": context.clock.now()})


def check_reserved(target: Target, *metadata: Mapping[str, JsonValue]) -> None:
    """Refuse keys that would make a memory about a tool its guideline, with numbers of calls that nobody counted."""
    reserved = {key for item in metadata for key in item if key in GUIDELINE_KEYS}
    if target.memory_type is MemoryType.TOOL and reserved:
        names = ", ".join(map(repr, sorted(reserved)))
        msg = f"metadata: {names} are reserved for guidelines of tools; nothing was written: use another key"
        raise ToolFeedback(msg)


class SummaryItem(NewItem):
    """A summary."""

    summary_memory: Statement = Field(
        description="What was said and done, by whom and when, in a few sentences that name what one may ask for later."
    )
    metadata: Metadata = Field(default_factory=dict, description=METADATA_HELP)

    def text(self) -> NewText:
        """Return what is to be remembered."""
        return NewText(content=self.summary_memory, metadata=self.metadata)


class AddSummaryMemoryOp(AddMemoryOp):
    """Adds a memory of type `summary`, about the context's target, or about `self` where that names none.

    A summary is of a conversation and not about one of the call's targets, so it may be written whatever these are.
    """

    name = "add_summary_memory"
    description = "Keep a short summary of the conversation, by which its details are found later."
    item = SummaryItem
    items_name = None
    is_of_all = True

    def target(self, context: ToolContext) -> Target:
        """Return what the summary is about."""
        return Target(MemoryType.SUMMARY, context.memory_target or SELF)
