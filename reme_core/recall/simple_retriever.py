"""Retriever without a chat model: memories, block summaries and messages, ranked and brought together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from reme_core.errors import InvalidInputError, UnsupportedFilterError
from reme_core.ports import (
    Embedder,
    MemoryFilter,
    MemorySearch,
    MessageSearch,
    OffloadSearch,
    RetrieveRequest,
    ScoredBlock,
    ScoredMemory,
    ScoredMessage,
    ScoredOffload,
    Store,
    TokenCounter,
    Vector,
)
from reme_core.recall.cut import DEFAULT_LIMIT, cut_hits, scoring, with_trust
from reme_core.recall.search_account import AskedFor, SearchAccount
from reme_core.recall.shares import in_place_of, share_and_base, share_of_memory
from reme_core.recall.why_not import explain_search
from reme_core.retrieval import asked_time
from reme_core.retrieval.embedding import try_question
from reme_core.retrieval.hits import (
    MessageMatch,
    block_hit,
    memory_hit,
    message_hit,
    passage_hit,
    passage_scores,
    word_share,
)
from reme_core.retrieval.time_question import asks_by_time, list_by_time, prefer_in_time, telling_terms
from reme_core.schema import (
    EXTRACTIVE,
    STATEMENTS,
    Hit,
    Layer,
    MemoryType,
    OffloadKind,
    RetrieveResult,
    Scope,
    TrustClass,
    Usage,
)
from reme_core.text import query_terms

# What a budget of tokens is filled from.
BUDGET_CANDIDATES = 200
_MOST_CANDIDATES = 1000
# Candidates for each result: some repeat others, and some don't fit any more.
_A_RESULT = 3
_MANY_HITS = 50
# Memories that were replaced are looked for among this many.
_OUTDATED = 30
# A found memory adds at most this to the score of the messages it came from: as a fourth of a perfect match does
# (retrieval.md: facts as extra keys of their messages add 1.6 to recall@10).
_LIFT = 0.25
# So many of the memories that match best stand no lower than the messages they came from.
_LEADERS = 3
# Types that messages may speak of; a question for any other is one for memories alone.
_SPOKEN_TYPES = frozenset({MemoryType.PERSONAL, MemoryType.HISTORY})


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleRetriever:
    """A `Retriever` that calls no chat model: at most one embedding of the question.

    Memories that answer the question lead; below them stand messages and weaker memories by score. A memory that is
    found lifts the messages it came from.

    Attributes:
        store: All layers, and what left contexts: passages of tool results are found beside messages.
        embedder: Embeds the question; None searches by words.
        counter: Counts the tokens of a budget.
        web_tools: Tools that fetch from outside.
    """

    store: Store
    embedder: Embedder | None
    counter: TokenCounter
    web_tools: frozenset[str] = frozenset()

    async def retrieve(self, scope: Scope, request: RetrieveRequest) -> RetrieveResult:
        """Return what was found, best first; see `Retriever.retrieve`."""
        begun = time.perf_counter()
        layers = _layers(request)
        check_request(request)
        by_time = asks_by_time(request)
        account = SearchAccount(explains=request.explain or request.why_not is not None)
        with account.step("embed"):
            vector, without = await self._vector(request.query) if not by_time else (None, ())
        scopes = [scope]
        if request.include_shared and not scope.is_shared:
            scopes.append(Scope(memory_space=scope.memory_space, user_id=""))
        goal = request.limit or DEFAULT_LIMIT
        wanted = goal if request.token_budget is None else _candidates(request.limit)
        while True:
            account.begin(without)
            if by_time:
                found = [await self._list(part, request, layers, wanted, account) for part in scopes]
            else:
                found = [await self._search(part, request, layers, vector, wanted, account) for part in scopes]
            hits = sorted((hit for part in found for hit in part), key=lambda hit: -hit.score)
            # Going to a thread and back takes longer than to cut a few.
            is_long = len(hits) > _MANY_HITS
            cut = partial(self._cut, hits, request, account)
            with account.step("cut"):
                results = await asyncio.to_thread(cut) if is_long else cut()
            # What repeats was left out: where that leaves room and there is more, look further down.
            enough = request.token_budget is not None or len(results) >= goal or wanted > _MOST_CANDIDATES
            if enough or len(hits) < wanted:
                break
            wanted *= 4
        if request.layers is None and request.token_budget is None and not by_time and len(results) < goal:
            room = goal - len(results)
            index = [
                hit for part in scopes for hit in await self._index(part, request, layers, vector, hits, room, account)
            ]
            results = self._cut([*results, *index], request, account)
            hits += index
        results = scoring(results, request.min_score, account.leave_out)
        results = await with_trust(self.store, scope.memory_space, results, self.web_tools)
        explanation = None
        if account.explains:
            explanation = await explain_search(self.store, self.counter, scopes, request, hits, results, account)
        usage = Usage(embedding_calls=0 if vector is None else 1, milliseconds=(time.perf_counter() - begun) * 1000)
        told = tuple(dict.fromkeys(account.degraded))
        return RetrieveResult(results=results, by_time=by_time, usage=usage, degraded=told, explanation=explanation)

    async def _vector(self, query: str) -> tuple[Vector | None, tuple[str, ...]]:
        """Return the vector of a question, if there is an embedder, or what is done without."""
        if self.embedder is None:
            return None, ()
        found = await try_question(self.embedder, query)
        return (None, (found,)) if isinstance(found, str) else (found, ())

    async def _list(
        self, scope: Scope, request: RetrieveRequest, layers: Sequence[Layer], wanted: int, account: SearchAccount
    ) -> list[Hit]:
        about = _memory_search(request, None, wanted)
        search = replace(_message_search(request, None, (), wanted), on_degraded=account.degraded.append)
        account.asked[scope] = AskedFor(layers=layers, words=frozenset(), memories=about, messages=search)
        with account.step("list"):
            found = await list_by_time(self.store, scope, layers, about.filter, search)
        account.moved("in_time", found)
        return found

    async def _search(
        self,
        scope: Scope,
        request: RetrieveRequest,
        layers: Sequence[Layer],
        vector: Vector | None,
        wanted: int,
        account: SearchAccount,
    ) -> list[Hit]:
        memories: list[ScoredMemory] = []
        messages: list[ScoredMessage] = []
        blocks: list[ScoredBlock] = []
        tell, explain = account.degraded.append, account.explains
        about = replace(_memory_search(request, vector, wanted), on_degraded=tell, explain=explain)
        if "memory" in layers:
            with account.step("memories"):
                memories = await self.store.search(scope, about)
        search = replace(_message_search(request, vector, memories, wanted), on_degraded=tell, explain=explain)
        if "message" in layers:
            with account.step("messages"):
                messages = await self.store.search_messages(scope, search)
        if "summary" in layers:
            with account.step("summaries"):
                blocks = await self.store.search_blocks(scope, search)
        names = {scope.user_id, *(item.memory.memory_target for item in memories)}
        names |= {item.stored.message.speaker for item in messages}
        time_asked = asked_time(request.query, request.now)
        words = query_terms(request.query) if time_asked is None else telling_terms(request.query)
        asked = frozenset(words) - {word for name in names for word in query_terms(name)}
        account.asked[scope] = AskedFor(layers=layers, words=asked, memories=about, messages=search)
        distilled = [self._memory_hit(item, asked, vector, account) for item in memories]
        with account.step("outdated"):
            outdated = await self._outdated(scope, request, vector, memories) if messages else frozenset()
        said = [
            message_hit(scope, item, max(item.score, 0.0) / (4 if item.stored.message.message_id in outdated else 2))
            for item in messages
        ]
        account.found(said, messages, factor=0.5)
        account.moved("only_replaced", said)
        with account.step("passages"):
            passages = await self._passages(scope, search, asked, said) if "message" in layers else []
        account.moved("words", passages)
        timed = prefer_in_time(memories, distilled, time_asked)
        account.moved("time_asked", timed)
        placed = [in_place_of(hit, said, leads=place < _LEADERS) for place, hit in enumerate(timed)]
        account.moved("beside_its_messages", placed)
        summed = [block_hit(scope, item, max(item.score, 0.0) / 2) for item in blocks]
        account.found(summed, blocks, factor=0.5)
        return [*placed, *said, *passages, *summed]

    def _memory_hit(
        self, item: ScoredMemory, asked: frozenset[str], vector: Vector | None, account: SearchAccount
    ) -> Hit:
        hit = memory_hit(item, share_of_memory(item, asked, vector))
        if account.explains:
            factor, base = share_and_base(item, asked, vector)
            account.found([hit], [item], factor=factor, base=base)
            account.moved("bounded", [hit])  # the score of a memory is one in [0, 1]
        return hit

    async def _index(
        self,
        scope: Scope,
        request: RetrieveRequest,
        layers: Sequence[Layer],
        vector: Vector | None,
        found: Sequence[Hit],
        wanted: int,
        account: SearchAccount,
    ) -> list[Hit]:
        """Return entries of the block index where too few memories and messages are found: of blocks not among these.

        An entry that quotes its messages has no word that they lack, so only those that a model wrote are looked at.
        """
        if "message" not in layers or request.trust is not None:  # a block has no class
            return []
        known = {name for hit in found for name in (hit.block_id, *hit.block_ids)}
        search = _message_search(request, vector, (), wanted + len(known))
        search = replace(search, on_degraded=lambda _: None, explain=account.explains)
        with account.step("summaries"):
            blocks = await self.store.search_blocks(scope, search)
        blocks = [
            item for item in blocks if item.block.summary_author != EXTRACTIVE and item.block.block_id not in known
        ]
        hits = [block_hit(scope, item, max(item.score, 0.0) / 4) for item in blocks]
        account.found(hits, blocks, factor=0.25)
        return hits

    async def _passages(
        self, scope: Scope, search: MessageSearch, asked: frozenset[str], said: Sequence[Hit]
    ) -> list[Hit]:
        """Return passages of tool results that left a context, with scores beside those of messages.

        Summaries that were replaced, which are offloaded too, say again what their messages say. Whether a result came
        from the web is told by its message, so a filter that takes one class of results and not the other takes none.
        """
        if search.trust is not None and not {TrustClass.TOOL, TrustClass.WEB}.issubset(search.trust):
            return []
        wanted = OffloadSearch(
            text=search.text,
            limit=search.limit,
            session_id=search.session_id,
            made_from=search.said_from,
            made_to=search.said_to,
            kinds=(OffloadKind.TOOL_RESULT,),
        )
        results = await self.store.search_offloads(scope, wanted)
        if len(results) > _MANY_HITS:
            return await asyncio.to_thread(_passage_hits, scope, results, asked, said)
        return _passage_hits(scope, results, asked, said) if results else []

    async def _outdated(
        self, scope: Scope, request: RetrieveRequest, vector: Vector | None, found: Sequence[ScoredMemory]
    ) -> frozenset[str]:
        """Return messages that only memories which were replaced were made of: they come after what is current."""
        if not found or request.as_of is not None or request.include_superseded:
            return frozenset()
        search = _memory_search(replace(request, include_superseded=True), vector, _OUTDATED)
        search = replace(search, on_degraded=lambda _: None)  # the search before it has told
        replaced = [item for item in await self.store.search(scope, search) if not item.memory.is_current]
        return _said_in(replaced) - _said_in(found)

    def _cut(self, hits: Sequence[Hit], request: RetrieveRequest, account: SearchAccount) -> tuple[Hit, ...]:
        limit, budget = request.limit, request.token_budget
        return cut_hits(hits, self.counter, limit=limit, token_budget=budget, tell=account.leave_out)


def _passage_hits(
    scope: Scope, found: Sequence[ScoredOffload], asked: frozenset[str], said: Sequence[Hit]
) -> list[Hit]:
    told = [MessageMatch(word_share(asked, hit.memory), hit.score) for hit in said]
    scores = passage_scores([word_share(asked, item.passage) for item in found], told)
    return [passage_hit(scope, item, score) for item, score in zip(found, scores, strict=True)]


def _said_in(items: Sequence[ScoredMemory]) -> frozenset[str]:
    return frozenset(name for item in items for source in item.memory.sources for name in source.message_ids)


def check_request(request: RetrieveRequest) -> None:
    """Refuse an empty question, and numbers of results or tokens below 1 (InvalidInputError)."""
    for name, value in (("limit", request.limit), ("token_budget", request.token_budget)):
        if value is not None and value < 1:
            msg = f"{name}: wanted at least 1, found {value}"
            raise InvalidInputError(msg)
    if request.min_score is not None and not 0 <= request.min_score <= 1:
        msg = f"min_score: wanted a number from 0 to 1, found {request.min_score}"
        raise InvalidInputError(msg)
    if not request.query.strip() and request.said_from is None and request.said_to is None:
        msg = "query: is empty; give the question in words, a time to see what lies there, or list_memories for all"
        raise InvalidInputError(msg)


def _candidates(limit: int | None) -> int:
    """Return how many are looked at for a budget; each is read whole, so fewer where few are wanted."""
    return BUDGET_CANDIDATES if limit is None else min(BUDGET_CANDIDATES, _A_RESULT * limit)


def _may_be_said(types: Sequence[MemoryType]) -> bool:
    """Tell whether messages answer a question for memories of these types; records beside them are no reason not to."""
    others = frozenset(types) - {MemoryType.RECORD}
    return bool(others) and _SPOKEN_TYPES.issuperset(others)


def _layers(request: RetrieveRequest) -> tuple[Layer, ...]:
    """Return the layers to look at: those asked for, or those to which every filter applies.

    Raises:
        UnsupportedFilterError: A layer was asked for that a filter can't be applied to.
    """
    about_memories = [
        name
        for name, given in (
            ("memory_type", request.types is not None and not _may_be_said(request.types)),
            ("memory_target", request.targets is not None),
            ("metadata", bool(request.metadata)),
        )
        if given
    ]
    about_messages = ["session_id"] if request.session_id is not None else []
    refused: dict[Layer, list[str]] = {
        "memory": about_messages,
        "summary": [*about_memories, *(["trust"] if request.trust is not None else [])],
        "message": about_memories,
    }
    if request.layers is None:
        defaults: tuple[Layer, ...] = ("memory", "message")
        if request.types == (MemoryType.HISTORY,):
            defaults = ("summary", "message")
        chosen = tuple(layer for layer in defaults if not refused[layer])
        if chosen:
            return chosen
    for layer in request.layers or ("memory",):
        if refused[layer]:
            msg = f"the {layer} layer can't be filtered by {' and '.join(refused[layer])}: leave out one of the two"
            raise UnsupportedFilterError(msg)
    return request.layers or ()


def _memory_search(request: RetrieveRequest, vector: Vector | None, wanted: int) -> MemorySearch:
    return MemorySearch(
        text=request.query,
        vector=vector,
        limit=wanted,
        filter=MemoryFilter(
            types=STATEMENTS if request.types is None else request.types,
            targets=request.targets,
            as_of=request.as_of,
            include_superseded=request.include_superseded,
            observed_from=request.said_from,
            observed_to=request.said_to,
            metadata=request.metadata,
            trust=request.trust,
        ),
    )


def _message_search(
    request: RetrieveRequest, vector: Vector | None, memories: Sequence[ScoredMemory], wanted: int
) -> MessageSearch:
    said_to = request.said_to
    if request.as_of is not None:
        known = request.as_of + timedelta(microseconds=1)
        said_to = known if said_to is None else min(said_to, known)
    lifts: dict[str, float] = {}
    for item in memories:
        for source in item.memory.sources:
            for message_id in source.message_ids:
                lifts[message_id] = max(lifts.get(message_id, 0.0), _LIFT * max(item.score, 0.0))
    return MessageSearch(
        text=request.query,
        vector=vector,
        limit=wanted,
        session_id=request.session_id,
        trust=request.trust,
        said_from=request.said_from,
        said_to=said_to,
        now=request.now,
        lifts=lifts,
    )
