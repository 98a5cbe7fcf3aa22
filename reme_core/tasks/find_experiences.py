"""Search for a task: its query, as given or as the conversation tells it, what is found, and the whole flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reme_core.errors import InvalidInputError
from reme_core.ports import ListMemories, MemoryFilter, MemorySearch, ScoredMemory, Vector
from reme_core.retrieval.embedding import try_question
from reme_core.retrieval.hits import memory_hit
from reme_core.schema import Hit, Memory, MemoryType, Message, Scope, Usage
from reme_core.steps.flow import FlowContext, stage
from reme_core.tasks.task_values import RetrievalFlow, TaskAnswer, TaskQuestion
from reme_core.tasks.tell_experiences import rerank as order_by_model
from reme_core.tasks.tell_experiences import rewrite as write_by_model
from reme_core.tasks.tell_experiences import show
from reme_core.text import normalise_content, query_terms, terms

MAX_QUERY_CHARS = 2000
"""Characters of a query that is built: about 500 tokens, which every embedding model in use takes."""

# The task is what experiences are told by, so half of the room is its own; a page of one later message says no more
# about the situation than its beginning and its end.
_TASK_CHARS = 1000
_MESSAGE_CHARS = 500
# A result tells that a call went well or how it failed; its body is the tool's matter.
_MOST_CHARS = {"tool_result": 200, "tool_call": 100}
# Of megabytes only what may be told is gone through.
_READ_CHARS = 8 * _TASK_CHARS
# Less of a message than this is a scrap.
_LEAST_CHARS = 20
_GAP = " … "


@stage
async def build_query(question: TaskQuestion, context: FlowContext) -> TaskQuestion:
    """Fill in the query: the one given, unchanged, else one built from the messages; see `query_of`.

    Raises:
        InvalidInputError: There is neither.
    """
    if question.query.strip():
        return question
    query = query_of(question.messages)
    if not query:
        msg = (
            "query and messages: nothing to search for; give query= (the task in words), "
            "or messages= with the conversation so far"
        )
        raise InvalidInputError(msg)
    return replace(question, query=query)


def query_of(messages: Sequence[Message]) -> str:
    """Tell a task by its conversation: the first user message, then the last messages, at most `MAX_QUERY_CHARS`.

    System messages say who the agent is and not what the task is: they are left out. Tool calls are named, their
    results shortened. Messages stand in their order, one on a line at least; the latest ones go first where room is
    short. Empty, where no message has a text.
    """
    place, task = _task(messages)
    lines: list[str] = []
    room = MAX_QUERY_CHARS - len(task)
    for message in reversed(messages[place + 1 :]):
        text = _told(message)
        if not text:
            continue
        most = min(_MESSAGE_CHARS, room - 1)  # a line break stands before it
        if most < min(len(text), _LEAST_CHARS):
            break
        lines.append(_cut(text, most))
        room -= len(lines[-1]) + 1
    return "\n".join([*([task] if task else []), *reversed(lines)])


def _task(messages: Sequence[Message]) -> tuple[int, str]:
    """Return the place of the first user message that says something, and what it says; -1 if there is none."""
    for place, message in enumerate(messages):
        if message.role == "user" and (text := _told(message)):
            return place, _cut(text, _TASK_CHARS)
    return -1, ""


def _told(message: Message) -> str:
    """Return what a message says in one line; of a result its ends, of a call its name and how it begins."""
    if message.role == "system":
        return ""
    lines = []
    for block in message.content:
        if (block.type == "image" and not block.caption) or (block.type == "file" and not block.name):
            continue  # an address is no word of a task
        text = message.model_copy(update={"content": (block,)}).full_text
        lines.append(" ".join(_cut(text, _MOST_CHARS.get(block.type, _READ_CHARS)).split()))
    return " ".join(line for line in lines if line)


def _cut(text: str, most: int) -> str:
    """Return a text, or its head and tail in `most` characters.

    Not `shortened`, whose words about what was left out would be searched for.
    """
    if len(text) <= most:
        return text
    kept = most - len(_GAP)
    tail = kept // 3
    return f"{text[: kept - tail]}{_GAP}{text[len(text) - tail :]}"


# Weighing moves a memory by a factor of 2.4 at most, so that what belongs into the answer lies not far below it.
_FETCHED, _FETCHED_TIMES = 20, 4
# What nobody believes counts half: a doubted memory comes after every one that is half as near, and is found where
# there is none.
_REFUTED_SHARE = 0.5
# What helped and what did not are a fifth up and down: more than two good matches differ, less than good and bad ones.
_IMPORTANCE_SHARE = 0.2
# The score of what shares nothing with the question and is of its domain; below that of any fair match.
_UNMATCHED = 0.2
# Of a domain with more memories, those made last are looked at.
_MOST_LISTED = 1_000


@stage
async def search(question: TaskQuestion, context: FlowContext) -> TaskAnswer:
    """Find current procedural memories of the scope and, if there is one, of the target of the context.

    With `include_shared`, those of the space's shared scope as well, all in one order: by the store's score, weighed by
    confidence and importance (see `weighed`); ties as the store has them, the user's own first. The query is embedded
    once, if there is an embedder; else, and where it fails, which the trace tells, the words decide. Where a target is
    given and nothing of it shares a word, its best memories are the answer: by confidence, importance and how often
    they helped, with low scores.

    Raises:
        InvalidInputError: An empty query, or a limit below 1.
        StoreError: The store failed.
    """
    _check(question)
    vector = None if context.embedder is None else await try_question(context.embedder, question.query)
    if isinstance(vector, str):
        context.trace.degraded[vector] = None
        vector = None
    elif vector is not None:
        context.trace.usage += Usage(embedding_calls=1)
    parts = [await _found(question, context, scope, vector) for scope in _scopes(question, context.scope)]
    if vector is None:
        parts = on_one_scale(parts, question.query)
    found = [item for part in parts for item in part]
    if context.memory_target is not None and all(item.score <= 0 for item in found):
        found = [item for scope in _scopes(question, context.scope) for item in await _best_of_target(context, scope)]
    return TaskAnswer(question=question, hits=_hits(found, question))


def weighed(score: float, *, importance: float, confidence: float) -> float:
    """Weigh a store's score (at most 1) by how much a memory has helped and how far it is believed, both in [0, 1].

    At the defaults of a memory, importance 0.5 and confidence 1.0, the score stays as it is. It grows with both: by a
    fifth at importance 1; importance 0 takes a fifth away, confidence 0 a half. A score below 0 becomes 0.

    Returns:
        At least 0; up to 1.2, so that what has helped can pass the best match.
    """
    believed = _REFUTED_SHARE + (1.0 - _REFUTED_SHARE) * confidence
    helped = 1.0 + _IMPORTANCE_SHARE * (2.0 * importance - 1.0)
    return max(score, 0.0) * believed * helped


def on_one_scale(parts: Sequence[Sequence[ScoredMemory]], query: str) -> list[list[ScoredMemory]]:
    """Make the scores of searches by words in several scopes comparable.

    Such scores are relative to the best of their own search, so that the best of bad matches looks perfect. The part
    whose best holds most words of the query keeps its scores, those of others shrink by how many fewer theirs holds.
    """
    asked = frozenset(query_terms(query))
    shares = [len(asked & frozenset(terms(part[0].memory.index_text))) if part else 0 for part in parts]
    most = max(shares, default=0)
    factors = [share / most if most else 1.0 for share in shares]
    return [
        [replace(item, score=item.score * factor) for item in part] for part, factor in zip(parts, factors, strict=True)
    ]


def _check(question: TaskQuestion) -> None:
    if question.limit < 1:
        msg = f"limit: wanted at least 1, found {question.limit}"
        raise InvalidInputError(msg)
    if not question.query.strip():
        msg = "query: is empty; give the task in words, or let build_query come before search"
        raise InvalidInputError(msg)


def _scopes(question: TaskQuestion, scope: Scope) -> list[Scope]:
    if not question.include_shared or scope.is_shared:
        return [scope]
    return [scope, Scope(memory_space=scope.memory_space, user_id="")]


async def _found(
    question: TaskQuestion, context: FlowContext, scope: Scope, vector: Vector | None
) -> list[ScoredMemory]:
    target = context.memory_target
    wanted = MemorySearch(
        text=question.query,
        vector=vector,
        limit=max(_FETCHED, _FETCHED_TIMES * max(question.limit, question.candidates or 0)),
        filter=MemoryFilter(types=(MemoryType.PROCEDURAL,), targets=None if target is None else (target,)),
    )
    found = await context.store.search(scope, wanted)
    # A store of others that widens a search must not show one user's memories to another.
    return [item for item in found if _belongs(item.memory, scope, target)]


async def _best_of_target(context: FlowContext, scope: Scope) -> list[ScoredMemory]:
    """Return the memories of the target, the newest first; scores say by how much each has helped when it was used."""
    target = context.memory_target
    wanted = MemoryFilter(types=(MemoryType.PROCEDURAL,), targets=None if target is None else (target,))
    page = await context.store.list_memories(scope, ListMemories(filter=wanted, limit=_MOST_LISTED))
    return [
        ScoredMemory(memory=memory, score=_UNMATCHED * _helped(memory))
        for memory in page.memories
        if _belongs(memory, scope, target)
    ]


def _helped(memory: Memory) -> float:
    """Return a factor: 1 for what was never used, a fifth more at most for what helped, a fifth less for what did not.

    Seen through one use that helped and one that did not (the rule of succession), so that a single use decides little.
    """
    share = min((memory.utility + 1.0) / (memory.freq + 2.0), 1.0)
    return 1.0 + _IMPORTANCE_SHARE * (2.0 * share - 1.0)


def _belongs(memory: Memory, scope: Scope, target: str | None) -> bool:
    return (
        memory.memory_type is MemoryType.PROCEDURAL
        and memory.is_current
        and memory.scope == scope
        and target in {None, memory.memory_target}
    )


def _hits(found: Sequence[ScoredMemory], question: TaskQuestion) -> tuple[Hit, ...]:
    scored = [(item, _weighed(item)) for item in found]
    scored.sort(key=lambda pair: -pair[1])
    once: dict[str, tuple[ScoredMemory, float]] = {}  # what the user and the space have both learnt is told once
    for item, score in scored:
        if score > 0:
            once.setdefault(normalise_content(item.memory.content), (item, score))
    best = list(once.values())[: max(question.limit, question.candidates or 0)]
    hits = (memory_hit(item, min(score, 1.0)) for item, score in best)
    return tuple(hit for hit in hits if question.min_score is None or hit.score >= question.min_score)


def _weighed(item: ScoredMemory) -> float:
    return weighed(item.score, importance=item.memory.importance, confidence=item.memory.confidence)


# As many as a prompt shows at a glance.
_CANDIDATES = 20

retrieval_flow: RetrievalFlow = build_query >> search >> show
"""Without a model: the query, what is found for it, and the text of that."""


@stage
async def widen(question: TaskQuestion, _: FlowContext) -> TaskQuestion:
    """Have more found than asked for, so that a later stage has something to choose from."""
    return replace(question, candidates=max(_CANDIDATES, question.limit))


def make_retrieval_flow(*, rerank: bool = False, rewrite: bool = False) -> RetrievalFlow:
    """Return `retrieval_flow`, with a model that puts the memories in order, or writes the text from them, or both."""
    found = build_query >> widen >> search >> order_by_model if rerank else build_query >> search
    shown = found >> show
    return shown >> write_by_model if rewrite else shown
