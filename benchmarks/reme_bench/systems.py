"""Systems to compare: reme through its public API, and baselines over the same messages."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import numpy as np

from reme_bench.bm25 import bm25_index
from reme_bench.changes import asked_as_of
from reme_bench.conversations import Conversation, Turn
from reme_bench.evidence import BUDGETS, Found, Question, Row, figures_of, message_ids, tokens_to
from reme_core import Hit, ReMe
from reme_core.facade.parts import Settings
from reme_core.models import CharacterTokenCounter
from reme_core.ports import ChatModel, Embedder
from reme_core.retrieval import Candidate, Matrix, fill_budget
from reme_core.schema import Usage, parse_time
from reme_core.schema.hits import found_line
from reme_core.steps.user_input import read_time

WORDS, VECTORS, PLAIN, COSINE, RRF = "words alone", "with vectors", "BM25", "cosine", "RRF"
# Results asked for: enough for twenty distinct messages even where several passages of one are found.
LIMIT = 200
# Of what was found, so much is kept in a row.
_KEPT = 50
# Of reciprocal rank fusion. Source: Cormack, Clarke, Buettcher 2009, Reciprocal rank fusion outperforms Condorcet.
_RRF_K = 60
# Share of the evidence that `tokens_to_80` asks for.
_MOST_OF_IT = 0.8
# Said, since a database that the environment names would be written into otherwise.
OWN_FILE: Settings = {"backend": "local_file"}

Ranking = Callable[[str], Iterable[tuple[Turn, float]]]
MakeRanking = Callable[[Sequence[Turn]], Ranking]
Vectors = Callable[[Sequence[str]], Matrix]


@dataclass
class SystemRun:
    """What one system found and cost: `append_ms` of each session stored, `bytes` on disk, None of what keeps none.

    `degraded` counts the questions that were answered without something, by what the memory says of it.
    """

    rows: list[Row] = field(default_factory=list)
    append_ms: list[float] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    bytes: int | None = None
    degraded: Counter[str] = field(default_factory=Counter)


async def reme(
    conversations: Iterable[Conversation],
    embedder: Embedder | None,
    system: str,
    *,
    one_scope: bool = False,
    llm: ChatModel | None = None,
) -> SystemRun:
    """`summary` each session, `retrieve` each question: one user a conversation, or one for all (`one_scope`)."""
    measured, clock = SystemRun(), _Clock()
    with tempfile.TemporaryDirectory() as folder:
        async with ReMe("benchmark", folder, llm=llm, embedding=embedder, vector_store=OWN_FILE, clock=clock) as memory:
            if one_scope:
                for conversation in conversations:
                    await remember(memory, conversation, "everybody", measured)
            for conversation in conversations:
                user = "everybody" if one_scope else f"conversation-{conversation.name}"
                if not one_scope:
                    await remember(memory, conversation, user, measured)
                for question in conversation.questions:
                    clock.asked_at = parse_time(question.asked_at) if question.asked_at else None
                    measured.rows.append(await answer(memory, user, question, system, measured))
                clock.asked_at = None
        measured.bytes = _size(Path(folder))
    return measured


@dataclass
class _Clock:
    """The time at which a question is asked, for "last week" in it; by default the machine's. A `Clock`."""

    asked_at: datetime | None = None

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        return self.asked_at or datetime.now(UTC)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


async def remember(memory: ReMe, conversation: Conversation, user: str, measured: SystemRun) -> None:
    """Store every session (RuntimeError: a message is left without its vector, where there is an embedder)."""
    for session_id, turns in conversation.sessions().items():
        begun = time.perf_counter()
        kept = await memory.summary([turn.as_message() for turn in turns], user_id=user, session_id=session_id)
        measured.append_ms.append((time.perf_counter() - begun) * 1000)
        measured.usage += kept.usage
    measured.usage += await memory.flush()
    waiting = (await memory.stats(user_id=user)).waiting_for_vectors
    if waiting:
        message = f"{waiting} texts of {conversation.name} have no vector: the run would not measure vectors"
        raise RuntimeError(message)


async def answer(memory: ReMe, user: str, question: Question, system: str, measured: SystemRun) -> Row:
    """Ask one question, and a fact that changed once more as of the time between its tellings."""
    row = row_of(system, question, await ask(memory, user, question, measured))
    as_of = asked_as_of(question)
    if as_of is None:
        return row
    before = await memory.retrieve(question.text, user_id=user, limit=LIMIT, as_of=as_of)
    return replace(row, as_of=as_of, ids_as_of=message_ids(before.results))


async def ask(memory: ReMe, user: str, question: Question, measured: SystemRun) -> Found:
    """Ask once for a ranking, and once for each budget of tokens, as users do."""
    begun = time.perf_counter()
    ranking = await memory.retrieve(question.text, user_id=user, limit=LIMIT)
    spent = (time.perf_counter() - begun) * 1000
    measured.usage += ranking.usage
    measured.degraded.update(ranking.degraded)
    within = {}
    if question.evidence or question.gold is not None:
        for budget in BUDGETS:
            found = await memory.retrieve(question.text, user_id=user, token_budget=budget)
            within[budget] = found.results
    return Found(ranking.results, within, spent)


def row_of(system: str, question: Question, found: Found) -> Row:
    """Return the row of what a system found for a question."""
    return Row(
        system=system,
        question=question,
        ids=message_ids(found.ranking)[:_KEPT],
        scores=[round(hit.score, 6) for hit in found.ranking[:_KEPT]],
        milliseconds=found.milliseconds,
        figures=figures_of(found, question),
        tokens_to_80=tokens_to(_MOST_OF_IT, found.ranking, question) if question.evidence else None,
        notes={budget: notes_of(hits, question.asked_at) for budget, hits in found.in_budget.items()},
    )


def notes_of(hits: Iterable[Hit], asked_at: str | None = None) -> str:
    """Return what was found for a reader: a line each with its day and speaker, in one form for all systems."""
    lines = [found_line(hit) for hit in hits]
    return "\n".join([*([f"(The question is asked on {asked_at}.)"] if asked_at else []), *lines])


def baseline(conversations: Iterable[Conversation], make: MakeRanking, system: str) -> list[Row]:
    """Rank whole messages, none cut: budgets are filled from the top by the rule that `retrieve` fills them by."""
    rows = []
    for conversation in conversations:
        rank = make(conversation.turns)
        for question in conversation.questions:
            begun = time.perf_counter()
            ranked = list(islice(rank(question.text), LIMIT))
            spent = (time.perf_counter() - begun) * 1000
            rows.append(row_of(system, question, found_in_order([_hit(*pair) for pair in ranked], spent)))
    return rows


def _hit(turn: Turn, score: float) -> Hit:
    return Hit(
        memory=turn.text,
        layer="message",
        score=score,
        message_ids=(turn.message_id,),
        name=turn.name or None,
        role=turn.role,
        created_at=read_time(turn.created_at, "created_at"),
    )


def found_in_order(hits: Sequence[Hit], milliseconds: float = 0.0) -> Found:
    """What a ranking gives: budgets are filled from its top."""
    return Found(hits, {budget: _filled(hits, budget) for budget in BUDGETS}, milliseconds)


def _filled(hits: Sequence[Hit], budget: int) -> list[Hit]:
    counter = CharacterTokenCounter()
    candidates = (Candidate(item=i, text=hit.memory, tokens=counter.count(hit.memory)) for i, hit in enumerate(hits))
    return [hits[taken.item] for taken in fill_budget(candidates, budget_tokens=budget)]


def bm25(turns: Sequence[Turn]) -> Ranking:
    """BM25 over all messages."""
    index = bm25_index([turn.embedded for turn in turns])

    def rank(question: str) -> Iterator[tuple[Turn, float]]:
        return ((turns[place], score) for place, score in index(question))

    return rank


def cosine(vectors: Vectors) -> MakeRanking:
    """Cosine of question and message; `vectors` gives unit rows of texts."""

    def make(turns: Sequence[Turn]) -> Ranking:
        matrix = vectors([turn.embedded for turn in turns])

        def rank(question: str) -> Iterator[tuple[Turn, float]]:
            scores = matrix @ vectors([question])[0]
            return ((turns[place], float(scores[place])) for place in np.argsort(-scores, kind="stable"))

        return rank

    return make


def fused(*makes: MakeRanking) -> MakeRanking:
    """Reciprocal rank fusion of whole rankings; equal sums stand in the order told."""

    def make(turns: Sequence[Turn]) -> Ranking:
        ranks = [make_one(turns) for make_one in makes]

        def rank(question: str) -> Iterator[tuple[Turn, float]]:
            scores = dict.fromkeys((turn.message_id for turn in turns), 0.0)
            for ranking in ranks:
                for place, (turn, _) in enumerate(ranking(question), 1):
                    scores[turn.message_id] += 1 / (_RRF_K + place)
            ordered = sorted(turns, key=lambda turn: -scores[turn.message_id])
            return ((turn, scores[turn.message_id]) for turn in ordered)

        return rank

    return make
