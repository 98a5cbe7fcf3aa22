"""Relations on the facade: of one person or thing, and the chain between two."""

from __future__ import annotations

import asyncio
from datetime import datetime

from reme_core.facade.parts import MemoryParts
from reme_core.schema import Neighbours, RelationPath
from reme_core.steps import user_input as inputs


class RelationMethods:
    """The methods of `ReMe` on what memories tell of persons and things to each other."""

    async def neighbours(
        self: MemoryParts,
        name: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        hops: int = 1,
        as_of: datetime | str | None = None,
        limit: int = 100,
    ) -> Neighbours:
        """Return the relations of a person or thing, each with the memory that tells it; `text` is for a prompt.

        Of a name that nobody tells of there are none, and the answer has `near_names`.

        Args:
            name: A name, whatever its case, an alias, or a description such as "Ann's sister"; `user` is who they
                belong to.
            user_id: Whose memories.
            shared: Those of the shared scope, in place of a user's.
            hops: Also the relations of those that it leads to, in so many steps in all.
            as_of: Those that held at this time; those of the current memories unless given.
            limit: At most so many: the nearest first, of these those that were said last.

        Raises:
            InvalidInputError: Something can't be read.
        """
        from reme_core.recall.relations import read_relations

        asked, steps = inputs.read_query(name, "name"), inputs.read_count(hops, "hops")
        most, moment = inputs.read_count(limit, "limit"), inputs.read_time(as_of, "as_of")
        scope = await self._looked_up(user_id, shared=shared)
        known = await read_relations(self._ports.store, scope, as_of=moment)
        return await asyncio.to_thread(known.neighbours, asked, hops=steps, limit=most)

    async def path(
        self: MemoryParts,
        first: str,
        second: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        max_hops: int = 4,
        as_of: datetime | str | None = None,
    ) -> RelationPath:
        """Return the shortest chain of relations between two names, each step with its memory, dates and messages.

        `text` is for a prompt. Where there is none the answer is empty; where a name is not known, with `near_names`.

        Args:
            first: Where it begins, as in `neighbours`.
            second: Where it ends.
            user_id: Whose memories.
            shared: Those of the shared scope, in place of a user's.
            max_hops: At most so many steps.
            as_of: By what held at this time; by the current memories unless given.

        Raises:
            InvalidInputError: Something can't be read.
        """
        from reme_core.recall.relations import read_relations

        begin, end = inputs.read_query(first, "first"), inputs.read_query(second, "second")
        most, moment = inputs.read_count(max_hops, "max_hops"), inputs.read_time(as_of, "as_of")
        scope = await self._looked_up(user_id, shared=shared)
        known = await read_relations(self._ports.store, scope, as_of=moment)
        return await asyncio.to_thread(known.path, begin, end, max_hops=most)
