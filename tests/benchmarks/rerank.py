"""Reranking by somebody who answers as a model would: 60 questions asked as files, answered beside them, scored.

    python tests/benchmarks/rerank.py --ask DIR [--locomo FILE] [--beam FILE]
        writes NNNN.request.json, the body of each request as it goes over the wire
    python tests/benchmarks/rerank.py --score DIR [--locomo FILE] [--beam FILE] [--json FILE]
        reads NNNN.answer, the text that the model says, and prints the figures

30 questions each of LoCoMo (categories 1 to 4) and BEAM, drawn once and for all from conversations that the prompt was
not written on; words alone, no vectors. Whoever answers sees one request and nothing else. Answers to requests that the
code would no longer make are refused: ask again.

The figures: recall@5 and @10 of the labelled evidence; and of the words of the gold answer that the question lacks, the
share in the lines (day, speaker, text) of the results that fit 1,024 tokens. The ceiling puts the evidence among the
texts shown first. Intervals: 10,000 bootstrap samples of questions, the pairs kept together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from bars import SHARED

from reme_core import Hit, ReMe, RerankingRetriever
from reme_core.errors import ModelUnavailableError
from reme_core.models.endpoint_failures import EndpointDialect
from reme_core.models.openai_chat import chat_body
from reme_core.ports import ChatModel, ChatRequest, ChatResult
from reme_core.schema import parse_time
from reme_core.testing import FixedClock, ScriptedChatModel
from reme_core.text import estimate_tokens, query_terms, terms

SEED = 13
EACH = 30
# On these the prompt was written.
LOOKED_AT = {"26", "41", "beam-1", "beam-3", "beam-5"}
FIRST, BUDGET = 50, 1024
METRICS = ("recall@5", "recall@10", f"answer's words in {BUDGET:,} tokens")
SAMPLES = 10_000

Item = dict[str, Any]


def body_of(request: ChatRequest) -> Item:
    return chat_body(request, model="hand", temperature=None, dialect=EndpointDialect())


@dataclass(frozen=True)
class Sampled:
    number: str
    data: str
    talk: Item
    question: Item

    @property
    def evidence(self) -> set[str]:
        return set(self.question["evidence"])


@dataclass
class Parking:
    """A `ChatModel` that parks each request as a file, and gives no answer."""

    folder: Path
    number: str = ""

    async def chat(self, request: ChatRequest) -> ChatResult:
        text = json.dumps(body_of(request), ensure_ascii=False, indent=1)
        (self.folder / f"{self.number}.request.json").write_text(text)
        raise ModelUnavailableError("it is parked")


@dataclass
class Answered:
    """A `ChatModel` that answers from the files beside parked requests; knows which of these are others by now."""

    folder: Path
    number: str = ""
    stale: set[str] = field(default_factory=set)

    async def chat(self, request: ChatRequest) -> ChatResult:
        parked = self.folder / f"{self.number}.request.json"
        taken = parked.with_name(f"{parked.name}.taken")  # as it is called once somebody has it
        if json.loads((taken if taken.exists() else parked).read_text()) != body_of(request):
            self.stale.add(self.number)
        return await ScriptedChatModel([(self.folder / f"{self.number}.answer").read_text().strip()]).chat(request)


class Perfect:
    """A `ChatModel` that knows which of the texts are evidence."""

    def __init__(self, plain: Sequence[Hit], evidence: set[str]) -> None:
        order = [number for number, hit in enumerate(plain, 1) if evidence.intersection(hit.message_ids)]
        self._answer = json.dumps({"order": order or [1]})

    async def chat(self, request: ChatRequest) -> ChatResult:
        return await ScriptedChatModel([self._answer]).chat(request)


def sample(files: dict[str, Path]) -> list[Sampled]:
    """Draw the questions: the same ones whatever the code, in the order of files, conversations and questions."""
    drawn: list[Sampled] = []
    for data, path in files.items():
        talks = [talk for talk in json.loads(path.read_text()) if talk["conversation"] not in LOOKED_AT]
        fit = [(talk, q) for talk in talks for q in talk["questions"] if q["evidence"] and q["category"] != 5]
        chosen = sorted(random.Random(SEED).sample(range(len(fit)), min(EACH, len(fit))))
        drawn += [Sampled(f"{len(drawn) + n:04}", data, *fit[place]) for n, place in enumerate(chosen, 1)]
    return drawn


def line_of(hit: Hit) -> str:
    day = hit.observed_at or hit.created_at
    return f"{f'{day:%Y-%m-%d}, {day.day} {day:%B %Y}' if day else ''} {hit.name or hit.role or ''}: {hit.memory}"


def measured(item: Sampled, ten: Sequence[Hit], budgeted: Sequence[Hit]) -> tuple[float, ...]:
    """Return the figures of one question; the last is not a number where no word of an answer is to be found."""
    places = list(dict.fromkeys(message_id for hit in ten for message_id in hit.message_ids))
    answer = item.question.get("answer") or " ".join(item.question.get("rubric") or ())
    wanted = set(query_terms(str(answer))) - set(query_terms(item.question["question"]))
    shown = set(terms("\n".join(map(line_of, budgeted))))
    return (
        *(len(item.evidence & set(places[:k])) / len(item.evidence) for k in (5, 10)),
        len(wanted & shown) / len(wanted) if wanted else float("nan"),
    )


async def figures(memory: ReMe, item: Sampled) -> tuple[tuple[float, ...], bool]:
    """Return the figures of one question, and whether nothing failed."""
    query = item.question["question"]
    ten = await memory.retrieve(query, user_id="reader", limit=10)
    budgeted = await memory.retrieve(query, user_id="reader", token_budget=BUDGET)
    return measured(item, ten.results, budgeted.results), not ten.degraded


async def run(items: Sequence[Sampled], files: Parking | Answered) -> list[Item]:
    """Ask each question of a memory of its conversation: plainly, reranked by the files, and reranked perfectly."""
    rows: list[Item] = []
    for _, group in groupby(items, key=lambda item: item.talk["conversation"]):
        asked = list(group)
        sessions = asked[0].talk["sessions"]
        last = max(parse_time(message["created_at"]) for session in sessions for message in session["messages"])
        clock = FixedClock(last + timedelta(days=1))
        with tempfile.TemporaryDirectory() as folder:
            async with (
                ReMe("rerank", folder, llm=None, embedding=None, clock=clock) as plain,
                ReMe("rerank", folder, llm=None, embedding=None, clock=clock) as reranked,
            ):
                for session in sessions:
                    await plain.summary(session["messages"], user_id="reader", session_id=session["session_id"])
                rows += [await one(item, plain, reranked, files) for item in asked]
    return rows


async def one(item: Sampled, plain: ReMe, reranked: ReMe, files: Parking | Answered) -> Item:
    def by(model: ChatModel) -> ReMe:
        reranked.set_retriever(RerankingRetriever(model, first=FIRST))
        return reranked

    files.number = item.number
    found = await plain.retrieve(item.question["question"], user_id="reader", limit=FIRST)
    row = {"number": item.number, "data": item.data, "question_id": item.question["question_id"]}
    row["plain"], _ = await figures(plain, item)
    row["reranked"], row["usable"] = await figures(by(files), item)
    row["ceiling"], _ = await figures(by(Perfect(found.results, item.evidence)), item)
    return row


def interval(differences: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    rng = np.random.default_rng(SEED)
    means = differences[rng.integers(0, len(differences), (SAMPLES, len(differences)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return round(100 * float(low), 1), round(100 * float(high), 1)


def table(rows: Sequence[dict[str, Any]], *, scored: bool) -> list[dict[str, Any]]:
    """Return the figures in percent, for each set of data and for all."""
    lines: list[dict[str, Any]] = []
    for name in (*dict.fromkeys(row["data"] for row in rows), "all"):
        part = [row for row in rows if name in {row["data"], "all"}]
        values = {way: np.array([row[way] for row in part]) for way in ("plain", "reranked", "ceiling")}
        for place, metric in enumerate(METRICS):
            known = ~np.isnan(values["plain"][:, place])
            of = {way: 100 * float(value[known, place].mean()) for way, value in values.items()}
            line = {"data": name, "figure": metric, "questions": int(known.sum())}
            line |= {way: round(value, 1) for way, value in of.items() if scored or way != "reranked"}
            if scored:
                line["gain"] = round(of["reranked"] - of["plain"], 1)
                line["interval"] = interval((values["reranked"] - values["plain"])[known, place])
            lines.append(line)
    return lines


def show(lines: Sequence[dict[str, Any]]) -> str:
    columns = list(lines[0])
    cells = [columns, *[[str(line[column]) for column in columns] for line in lines]]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)


def ask(items: Sequence[Sampled], folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        print(f"{folder} is not empty: give a new folder, so that no answer is taken for that to another request")
        return 2
    rows = asyncio.run(run(items, Parking(folder)))
    requests = [json.loads(path.read_text()) for path in sorted(folder.glob("*.request.json"))]
    tokens = [sum(estimate_tokens(message["content"]) for message in request["messages"]) for request in requests]
    print(f"{len(requests)} requests of {min(tokens):,} to {max(tokens):,} tokens, {sum(tokens):,} in all, in {folder}")
    print(show(table(rows, scored=False)))
    return 0


def score(items: Sequence[Sampled], folder: Path, out: Path | None) -> int:
    missing = [item.number for item in items if not (folder / f"{item.number}.answer").exists()]
    if missing:
        print(f"{len(missing)} answers are missing in {folder}: {' '.join(missing)}")
        return 2
    files = Answered(folder)
    rows = asyncio.run(run(items, files))
    if files.stale:
        print(f"{len(files.stale)} requests are no longer what would be asked, such as {min(files.stale)}: ask again")
        return 2
    unusable = [row["number"] for row in rows if not row["usable"]]
    lines = table(rows, scored=True)
    print(show(lines))
    print(f"answers that named no text, which keeps the plain order: {' '.join(unusable) or 'none'}")
    if out is not None:
        out.write_text(json.dumps({"table": lines, "questions": rows}, indent=1))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--ask", type=Path, metavar="DIR")
    what.add_argument("--score", type=Path, metavar="DIR")
    parser.add_argument("--locomo", type=Path, default=SHARED / "locomo_dev.json")
    parser.add_argument("--beam", type=Path, default=SHARED / "beam_dev.json")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    files = {"LoCoMo": options.locomo, "BEAM": options.beam}
    for path in files.values():
        if not path.exists():
            print(f"the data set is not here ({path}); give its path")
            return 2
    logging.getLogger("reme").setLevel(logging.ERROR)  # each request that is parked is told of otherwise
    items = sample(files)
    return ask(items, options.ask) if options.ask else score(items, options.score, options.json)


if __name__ == "__main__":
    sys.exit(main())
