"""A user's memories as documents, for chains and agents that retrieve."""

from __future__ import annotations

from typing import Annotated, Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr

from reme_core import EventLoopThread, Hit, ReMe
from reme_core.schema import shown_validity
from reme_langchain._opening import open_memory
from reme_langchain._owner import Owner, check_owner, resolve_owner
from reme_langchain._searching import check_kinds, search_memories


def _memory(given: object) -> ReMe:
    return open_memory(given)[0]


class ReMeRetriever(BaseRetriever):
    """Finds memories that answer a query, best first; where there are none, what was said.

    Without a chat model nothing makes memories, and all that a user has are messages. `metadata["layer"]` of a document
    tells `memory` from `message`. Usable from any event loop and thread.

    Attributes:
        memory: A `ReMe`, or a path. What is opened for a path stays open as long as the process.
        owner: Whose: a user id, or a function of the runtime that returns one. None: `user_id` of the run's context, or
            of `config["configurable"]`; decided anew with each call.
        kinds: Memories of these types; messages where `personal` is one of them.
        k: At most so many; `invoke(query, k=...)` overrides it.
        min_score: Leaves out what scores lower, in [0, 1]; `invoke(query, min_score=...)` overrides it. Memories that
            answer the query score 0.5 and more, messages less.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: Annotated[ReMe, BeforeValidator(_memory)]
    owner: Annotated[Owner, BeforeValidator(check_owner)] = None
    kinds: Annotated[tuple[str, ...], BeforeValidator(check_kinds)] = ("personal",)
    k: int = Field(default=4, ge=1)
    min_score: float | None = Field(default=None, ge=0, le=1)

    _loop: EventLoopThread = PrivateAttr()

    def model_post_init(self, context: object, /) -> None:
        """Make the loop of synchronous calls; its thread begins with the first one."""
        super().model_post_init(context)
        self._loop = EventLoopThread(self.memory)

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: ANN401  # the parent's signature
        """Return the documents; of `kwargs`, `k` and `min_score` count.

        Raises:
            ValueError: Nobody is named whose memories are meant.
            InvalidInputError: A query, a `k` or a `min_score` that can't be used.
            ReMeError: What retrieving raises.
        """
        user_id = resolve_owner(self.owner, None, config)
        return super().invoke(input, config, **{**kwargs, "for_user": user_id})

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: ANN401  # the parent's signature
        """Return the documents, as `invoke` does."""
        user_id = resolve_owner(self.owner, None, config)
        return await super().ainvoke(input, config, **{**kwargs, "for_user": user_id})

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        min_score: float | None = None,
        for_user: str | None = None,
    ) -> list[Document]:
        return self._loop.run(self._find(query, k, min_score, for_user or resolve_owner(self.owner, None)))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        min_score: float | None = None,
        for_user: str | None = None,
    ) -> list[Document]:
        return await self._find(query, k, min_score, for_user or resolve_owner(self.owner, None))

    async def _find(self, query: str, k: int | None, min_score: float | None, user_id: str) -> list[Document]:
        found = await search_memories(
            self.memory,
            query,
            user_id=user_id,
            limit=self.k if k is None else k,
            kinds=self.kinds,
            min_score=self.min_score if min_score is None else min_score,
        )
        return [_document(hit) for hit in found]


def _document(hit: Hit) -> Document:
    """Return a memory or a message as a document, under its id; what it does not have is not in the metadata.

    Times are texts in ISO 8601.
    """
    details = {
        "score": hit.score,
        "layer": hit.layer,
        "kind": None if hit.memory_type is None else str(hit.memory_type),
        "target": hit.memory_target,
        "when_to_use": hit.when_to_use or None,
        "created_at": None if hit.created_at is None else hit.created_at.isoformat(),
        "observed_at": None if hit.observed_at is None else hit.observed_at.isoformat(),
        "name": hit.name,
        "role": hit.role,
        "trust": str(hit.trust),
        "session_id": hit.session_id,
        "message_ids": list(hit.message_ids) or None,
        "passage": None if hit.passage is None else list(hit.passage),
        "validity": shown_validity(hit) or None,
        "metadata": dict(hit.metadata) or None,
    }
    known = {name: value for name, value in details.items() if value is not None}
    name = hit.memory_id or next(iter(hit.message_ids), None)
    return Document(id=name, page_content=hit.memory, metadata=known)
