"""Cut of a ranking for an answer: so many hits, or as many as fit a budget of tokens, without repetition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from reme_core.ports import Store, TokenCounter
from reme_core.retrieval import Candidate, fill_budget, is_repetition
from reme_core.retrieval.hits import passage_of, text_of
from reme_core.schema import Hit, LeftOut, Scope, TrustClass, least_trusted
from reme_core.steps.message_lines import find_messages_by_id
from reme_core.text import query_terms

DEFAULT_LIMIT = 10
# Measured on 67 questions of a LoCoMo conversation with 1,024 tokens: at a half 90.7 % of the evidence stands there as
# it was said and 94.0 % in some form (85.4 and 92.5 where memories and messages compete for room by score alone).
_SHARE_OF_MEMORIES = 0.5
# What a message is worth of which a memory was taken already: others tell something new. A reader who was given notes
# of four conversations answered 83.5 % of 389 questions with it, 82.3 % without.
_SOURCE_OF_TAKEN = 0.8


Told: TypeAlias = Callable[[Hit, LeftOut], None]
"""Is told what a cut leaves out, and why; of what it is told twice, the last counts, or that it is a result."""


def cut_hits(
    hits: Sequence[Hit],
    counter: TokenCounter,
    *,
    limit: int | None,
    token_budget: int | None,
    tell: Told = lambda *_: None,
) -> tuple[Hit, ...]:
    """Take hits from the top, without repetition: as many as asked for, or as fit a budget of tokens.

    Memories fill at most half of a budget before what was said has had its turn: short as they are, they would leave no
    room for the message that alone has the detail. What either leaves over goes to the other.
    A message of which a memory is there already counts a fifth less than others.
    Into a budget a long message comes as its best passage; what is left over then makes room for whole messages, the
    best one first.
    A replaced memory takes neither the place of the one that replaced it, though both say the same, nor that of a
    message.
    """
    order = _current_first(hits)
    if token_budget is None:
        return tuple(hits[place] for place in sorted(_top(hits, order, limit or DEFAULT_LIMIT, tell)))
    shown = [passage_of(hit) for hit in hits]
    memories = [place for place in order if hits[place].layer == "memory"]
    said = [place for place in order if hits[place].layer != "memory"]
    taken: list[Candidate] = []
    share = int(token_budget * _SHARE_OF_MEMORIES)
    for turn, tokens in ((memories, share), (said, token_budget), (memories, token_budget)):
        room = tokens - sum(candidate.tokens for candidate in taken)
        places = turn if turn is memories else _by_worth(hits, turn, taken)
        taken += fill_budget(
            _not_told(shown, places, taken, counter, tell),
            budget_tokens=max(room, 0),
            beside=taken,
            on_left_out=lambda candidate, rule: tell(hits[candidate.item], rule),
        )
    first = sorted(candidate.item for candidate in taken)[:limit]
    return _completed([(hits[place], shown[place]) for place in first], counter, token_budget)


def _current_first(hits: Sequence[Hit]) -> list[int]:
    """Return the places of hits as they are looked at: what was replaced comes after what replaced it and repeats it.

    Without `include_superseded` no hit is replaced by another one, and the order is that of the hits.
    """
    place_of = {hit.memory_id: place for place, hit in enumerate(hits) if hit.memory_id}
    after: dict[int, int] = {}
    for place, hit in enumerate(hits):
        follower = place_of.get(hit.superseded_by) if hit.superseded_by else None
        if follower is not None and follower > place and _says_the_same(hit, hits[follower]):
            after[place] = follower
    return sorted(range(len(hits)), key=lambda place: (_last_of(after, place), place in after, -place))


def _last_of(after: Mapping[int, int], place: int) -> int:
    while place in after:  # each one lies further down: this ends
        place = after[place]
    return place


def _says_the_same(hit: Hit, other: Hit) -> bool:
    return is_repetition(hit.memory, other.memory) or is_repetition(other.memory, hit.memory)


def _not_told(
    hits: Sequence[Hit], places: Sequence[int], taken: Sequence[Candidate], counter: TokenCounter, tell: Told
) -> Iterator[Candidate]:
    """Give the hits at these places that are not taken and say something that no memory taken says."""
    names = _names(hits)
    above = [hits[candidate.item] for candidate in taken if hits[candidate.item].superseded_by not in names]
    used = {candidate.item for candidate in taken}
    for place in places:
        if place in used:
            continue
        if is_told(hits[place], above):
            tell(hits[place], LeftOut.REPETITION)
            continue
        yield Candidate(item=place, text=text_of(hits[place]), tokens=counter.count(hits[place].memory))


def _by_worth(hits: Sequence[Hit], places: Sequence[int], taken: Sequence[Candidate]) -> list[int]:
    sources = frozenset(name for candidate in taken for name in hits[candidate.item].message_ids)
    return sorted(places, key=lambda place: -_worth(hits[place], sources))


def _worth(hit: Hit, sources: frozenset[str]) -> float:
    is_source = hit.layer == "message" and not sources.isdisjoint(hit.message_ids)
    return hit.score * _SOURCE_OF_TAKEN if is_source else hit.score


def _top(hits: Sequence[Hit], order: Sequence[int], limit: int, tell: Told) -> list[int]:
    """Return the places of the first hits that say something else."""
    taken = fill_budget(
        _untold(hits, order, tell),
        budget_tokens=None,
        limit=limit,
        on_left_out=lambda candidate, rule: tell(hits[candidate.item], rule),
    )
    return [candidate.item for candidate in taken]


def _untold(hits: Sequence[Hit], order: Sequence[int], tell: Told) -> Iterator[Candidate]:
    """Give the hits of which no memory above says all, in this order."""
    names = _names(hits)
    above: list[Hit] = []
    for place in order:
        hit = hits[place]
        if is_told(hit, above):
            tell(hit, LeftOut.REPETITION)
        else:
            yield Candidate(item=place, text=text_of(hit), tokens=0)
        if hit.layer == "memory" and hit.superseded_by not in names:
            above.append(hit)


def _names(hits: Sequence[Hit]) -> frozenset[str]:
    return frozenset(hit.memory_id for hit in hits if hit.memory_id)


def _completed(taken: Sequence[tuple[Hit, Hit]], counter: TokenCounter, token_budget: int) -> tuple[Hit, ...]:
    """Return what is shown of each hit, the whole of it where a budget has room beside what is shown of the others."""
    room = token_budget - sum(counter.count(shown.memory) for _, shown in taken)
    results = []
    for whole, shown in taken:
        more = counter.count(whole.memory) - counter.count(shown.memory) if shown.is_passage else 0
        results.append(whole if shown.is_passage and more <= room else shown)
        room -= more if results[-1] is whole else 0
    return tuple(results)


def scoring(hits: tuple[Hit, ...], min_score: float | None, tell: Told = lambda *_: None) -> tuple[Hit, ...]:
    """Return the hits that score at least so much; all where None is given."""
    if min_score is None:
        return hits
    for hit in hits:
        if hit.score < min_score:
            tell(hit, LeftOut.MIN_SCORE)
    return tuple(hit for hit in hits if hit.score >= min_score)


def is_told(hit: Hit, above: Sequence[Hit]) -> bool:
    """Tell whether a message says nothing that a memory made of it, higher up, doesn't say in the same words."""
    if hit.layer != "message" or hit.reference is not None:
        return False
    told = [other for other in above if hit.message_ids[0] in other.message_ids]
    if not told:
        return False
    words = frozenset(query_terms(hit.memory))
    return any(words <= frozenset(query_terms(other.memory)) for other in told)


async def with_trust(
    store: Store, memory_space: str, hits: Sequence[Hit], web_tools: Collection[str]
) -> tuple[Hit, ...]:
    """Return hits; what stands for several messages, or for a part of one, has the class of the least trusted.

    A part that left a context, whose message may not be kept yet, is of the web if one of these tools answered it.
    """
    told: list[Hit] = []
    for hit in hits:
        if hit.layer != "summary" and hit.reference is None:
            told.append(hit)
            continue
        found = await find_messages_by_id(store, Scope(memory_space=memory_space, user_id=hit.user_id), hit.message_ids)
        classes = [hit.trust, *(stored.message.trust for stored in found.values())]
        classes += [TrustClass.WEB] if hit.reference is not None and hit.name in web_tools else []
        told.append(hit.model_copy(update={"trust": least_trusted(classes)}))
    return tuple(told)
