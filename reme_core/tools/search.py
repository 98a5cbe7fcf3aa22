"""The tool that searches memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

from reme_core.ports import MemoryFilter, MemorySearch, ScoredMemory, Target, ToolContext, Vector
from reme_core.retrieval import AskedTime, asked_time, names_no_topic
from reme_core.retrieval.embedding import vectors_or_none
from reme_core.retrieval.hits import memory_hit
from reme_core.retrieval.time_question import list_memories_in_time
from reme_core.schema import Memory, MemoryType, bounded_query, shown_beginning, shown_end, trust_field
from reme_core.schema.checks import Text
from reme_core.steps.ask_json import not_blank
from reme_core.steps.targets import ROUTED, TargetName, find_target, note_hits, reachable, target_of
from reme_core.text import json_line, prompt_time, shortened
from reme_core.tools.base import BaseMemoryToolOp, ToolItem, check_at_least_one

NOTHING_FOUND = "no memories found"
_TEXT_CHARS = 4000


class RetrieveItem(ToolItem):
    """A question."""

    query: Annotated[Text, Field(max_length=8000), AfterValidator(not_blank)] = Field(
        description="What you want to know, in words that the memory is likely to use."
    )
    memory_type: Literal["identity", "personal", "procedural", "tool"] | None = Field(
        default=None, description="Only memories of this type."
    )
    memory_target: TargetName | None = Field(
        default=None, description="Only memories about this person, domain or tool, named as the targets are."
    )


@dataclass(kw_only=True, eq=False)
class VectorRetrieveMemoryOp(BaseMemoryToolOp[RetrieveItem]):
    """Finds the memories that come closest to questions, among those that the call may read.

    With an embedder by vector and words, else, and where it fails, by words. Where the context names a type and a
    target, or targets, nothing beyond these is read, whatever the model writes; summary memories apart, where they are
    enabled.

    Attributes:
        enable_summary_memory: Search the summaries of what was said as well; they are of all targets.
        add_memory_type_target: Let the model choose a type and a target.
        top_k: At most this many memories a question; ConfigurationError below 1.
    """

    name = "vector_retrieve_memory"
    description = "Find the memories that come closest to a question."
    item = RetrieveItem
    items_name = "query_items"
    is_concurrent = True

    enable_summary_memory: bool = False
    add_memory_type_target: bool = False
    top_k: int = 20

    def __post_init__(self) -> None:
        """Check the options (ConfigurationError)."""
        check_at_least_one("top_k", self.top_k)
        super().__post_init__()

    def hidden_fields(self) -> frozenset[str]:
        """Return type and target, unless the model may choose them."""
        return frozenset() if self.add_memory_type_target else frozenset({"memory_type", "memory_target"})

    async def execute(self, items: Sequence[RetrieveItem], context: ToolContext) -> str:
        """Search for each question; see `BaseMemoryToolOp.execute`. A memory is shown once, where it comes first."""
        texts = [bounded_query(item.query) for item in items]
        vectors = await vectors_or_none(context.embedder, texts, context.trace)
        shown: set[str] = set()
        parts: list[str] = []
        for item, vector in zip(items, vectors, strict=True):
            found = await self._search(item, vector, context)
            note_hits(context, [memory_hit(one, min(max(one.score, 0.0), 1.0)) for one in found])
            lines = [memory_line(one.memory, context.zone) for one in found if one.memory.memory_id not in shown]
            shown |= {one.memory.memory_id for one in found}
            nothing = "nothing but what is shown above" if found else NOTHING_FOUND
            heading = [f"for {json_line({'query': item.query})}"] if len(items) > 1 else []
            parts.append("\n".join([*heading, *(lines or [nothing])]))
        return "\n\n".join(parts)

    async def _search(self, item: RetrieveItem, vector: Vector | None, context: ToolContext) -> list[ScoredMemory]:
        best: dict[str, ScoredMemory] = {}
        asked = asked_time(item.query, context.clock.now()) if names_no_topic(item.query) else None
        for wanted in await self._filters(item, context):
            for found in await self._found(item.query, vector, wanted, asked, context):
                best.setdefault(found.memory.memory_id, found)
        return sorted(best.values(), key=lambda found: -found.score)[: self.top_k]

    async def _found(
        self, query: str, vector: Vector | None, wanted: MemoryFilter, asked: AskedTime | None, context: ToolContext
    ) -> list[ScoredMemory]:
        if asked is not None:  # "what happened last week" shares no word with what did
            return await list_memories_in_time(context.store, context.scope, wanted, asked, limit=self.top_k)
        search = MemorySearch(text=query, vector=vector, limit=self.top_k, filter=wanted)
        return await context.store.search(context.scope, search)

    async def _filters(self, item: RetrieveItem, context: ToolContext) -> list[MemoryFilter]:
        types = (*ROUTED, MemoryType.RECORD) if item.memory_type is None else (MemoryType(item.memory_type),)
        filters = reachable(context, types)
        if item.memory_target is not None:
            filters = await _about(item.memory_target, filters, context)
        if not self.enable_summary_memory:
            return filters
        if len(filters) == 1 and filters[0].targets is None:  # one search ranks better than two
            return [replace(filters[0], types=(*(filters[0].types or ()), MemoryType.SUMMARY))]
        return [*filters, MemoryFilter(types=(MemoryType.SUMMARY,))]


async def _about(name: str, filters: Sequence[MemoryFilter], context: ToolContext) -> list[MemoryFilter]:
    """Narrow filters to the target that a model has named, in whatever case it wrote the name."""
    known = await context.store.count_targets(context.scope)
    narrowed: list[MemoryFilter] = []
    for wanted in filters:
        for kind in wanted.types or ():
            target = find_target(known, Target(kind, name))
            if target is not None and (wanted.targets is None or target.memory_target in wanted.targets):
                narrowed.append(replace(wanted, types=(kind,), targets=(target.memory_target,)))
    return narrowed


def memory_line(memory: Memory, zone: tzinfo, *, with_target: bool = True) -> str:
    """Write a memory on one line, as models see what was found: id, target (where it may be any), dates, text."""
    fields: dict[str, JsonValue] = {"memory_id": memory.memory_id}
    fields |= {"about": "/".join(target_of(memory))} if with_target else {}
    fields["said"] = prompt_time(memory.observed_at, zone)
    fields |= {"valid_from": begins} if (begins := shown_beginning(memory)) else {}
    fields |= {"valid_to": ends} if (ends := shown_end(memory)) else {}
    if memory.when_to_use:
        fields["when_to_use"] = shortened(memory.when_to_use, _TEXT_CHARS)
    return json_line({**fields, **trust_field(memory.trust), "text": shortened(memory.content, _TEXT_CHARS)})
