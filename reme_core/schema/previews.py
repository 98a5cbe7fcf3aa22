"""Previews: what a summary would remember, as an answer that people, programs and prompts read."""

from __future__ import annotations

from typing import Literal

from reme_core.schema.changes import ChangeKind, MemoryChange, told_change
from reme_core.schema.hits import RejectedFact, fenced
from reme_core.schema.mapping import MappingModel, Usage
from reme_core.schema.memories import Memory, MemoryType


class FactPreview(MappingModel):
    """A fact that a model took from a conversation, and what would become of it.

    Attributes:
        action: `add` makes a memory of it, `update` tells one better, `supersede` replaces some, `delete` takes some
            back, `skip` leaves everything as it is.
        content: What it says, or the better text of an update.
        memory_type: The type of memory that it makes.
        memory_target: Whom or what it is about.
        message_ids: The messages that it was told in.
        memory_ids: The stored memories that it would change.
        compared_with: The stored memories that it was compared with.
    """

    action: Literal["add", "update", "supersede", "delete", "skip"]
    content: str
    memory_type: MemoryType
    memory_target: str
    message_ids: tuple[str, ...] = ()
    memory_ids: tuple[str, ...] = ()
    compared_with: tuple[Memory, ...] = ()


class SummaryPreview(MappingModel):
    """The answer of `preview_summary`; nothing of it is on disk.

    Attributes:
        changes: What would become of memories, all in all: with `before` as they are stored and `after` as they would
            be. Ids of new ones, of their messages' blocks and of runs are of this preview alone.
        facts: Each fact and what would become of it; agents, who write memories themselves, leave none.
        rejected: Facts that the model wrote twice in a form that can't be used.
        known_message_ids: Messages that are stored already, of which nothing is made again.
        usage: What it cost.
        degraded: What failed and was done without, one short sentence each; empty where nothing did.
    """

    changes: tuple[MemoryChange, ...] = ()
    facts: tuple[FactPreview, ...] = ()
    rejected: tuple[RejectedFact, ...] = ()
    known_message_ids: tuple[str, ...] = ()
    usage: Usage = Usage()
    degraded: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The changes, then what facts were compared with, then what would be left out; quoted as data.

        What would replace a memory is told with that one alone.
        """
        replacing = {item.replaced_by.memory_id for item in self.changes if item.replaced_by is not None}
        lines = ["Would be remembered:" if self.changes else "Nothing would be remembered."]
        for item in self.changes:
            if item.kind is ChangeKind.ADDED and item.memory_id in replacing:
                continue
            words, first, second = told_change(item)
            lines.append(f"- {words} ({item.memory_type} / {fenced(item.memory_target)}): {fenced(first, indent=4)}")
            lines += [f"  now: {fenced(second, indent=4)}"] if second else []
        items: list[FactPreview | RejectedFact] = [*self.facts, *self.rejected]
        compared = [_compared(item) for item in items if item.compared_with]
        left_out = [f"- {fenced(item.content, indent=4)} ({fenced(item.reason)})" for item in self.rejected]
        lines += ["Compared with what is known:", *compared] if compared else []
        return "\n".join([*lines, "Would be left out:", *left_out] if left_out else lines)


def _compared(item: FactPreview | RejectedFact) -> str:
    action = item.action if isinstance(item, FactPreview) else "left out"
    known = [f"  known: {fenced(memory.content, indent=4)} (id {memory.memory_id})" for memory in item.compared_with]
    return "\n".join((f"- {action}: {fenced(item.content, indent=4)}", *known))
