"""Evidence recall on conversations, through the public API: `summary` each session, `retrieve` each question.

    python tests/benchmarks/locomo.py [DATA.json [VECTORS.npz]] [--json FILE]

The measure is that of retrieval.md: the share of a question's evidence messages among the first ten results, and among
the results whose text fits 512, 1,024 and 2,048 tokens; questions of categories 1 to 4 that have evidence; one user a
conversation. Vectors come from a dictionary, so nothing is embedded here.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from reme_core import Hit, ReMe
from reme_core.models import CharacterTokenCounter
from reme_core.ports import Embedder
from reme_core.retrieval import bm25_order, message_text

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
BUDGETS = (512, 1024, 2048)
# (without vectors, with the MiniLM vectors), percent
BARS = {"recall@10": (79.0, 82.5), "in 1,024 tokens": (84.0, 87.5)}


class DictionaryEmbedder:
    """Looks vectors up by the SHA-1 of the text; a text that isn't there is an error, not a guess."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            digests, vectors = file["sha1"], file["vectors"].astype(np.float32)
        self._vectors = {digest.tobytes(): vector for digest, vector in zip(digests, vectors, strict=True)}

    @property
    def dimension(self) -> int:
        return 384

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = [self._vectors[hashlib.sha1(text.encode(), usedforsecurity=False).digest()] for text in texts]
        return np.stack(rows) if rows else np.zeros((0, 384), np.float32)


@dataclass(frozen=True)
class Answer:
    conversation: str
    category: int
    recall_10: float
    in_budget: tuple[float, ...]
    milliseconds: float


def recall_at(hits: Sequence[Hit], evidence: set[str], k: int) -> float:
    """Share of the evidence among the first k distinct messages; a hit counts each of its messages as one place."""
    places = list(dict.fromkeys(message_id for hit in hits for message_id in hit.message_ids))
    return len(evidence & set(places[:k])) / len(evidence)


def recall_in(hits: Sequence[Hit], evidence: set[str], budget: int) -> float:
    counter, spent, found = CharacterTokenCounter(), 0, set[str]()
    for hit in hits:
        spent += counter.count(hit.memory)
        if spent > budget:
            break
        found.update(hit.message_ids)
    return len(evidence & found) / len(evidence)


async def measure(conversations: list[dict], embedder: Embedder | None) -> list[Answer]:
    answers: list[Answer] = []
    with tempfile.TemporaryDirectory() as folder:
        async with ReMe("locomo", folder, llm=None, embedding=embedder) as memory:
            for conversation in conversations:
                user = f"conversation-{conversation['conversation']}"
                for session in conversation["sessions"]:
                    await memory.summary(session["messages"], user_id=user, session_id=session["session_id"])
                for question in conversation["questions"]:
                    if question["category"] not in (1, 2, 3, 4) or not question["evidence"]:
                        continue
                    begun = time.perf_counter()
                    found = await memory.retrieve(question["question"], user_id=user, limit=200)
                    spent = (time.perf_counter() - begun) * 1000
                    evidence = set(question["evidence"])
                    answers.append(
                        Answer(
                            conversation=user,
                            category=question["category"],
                            recall_10=recall_at(found.results, evidence, 10),
                            in_budget=tuple(recall_in(found.results, evidence, budget) for budget in BUDGETS),
                            milliseconds=spent,
                        )
                    )
    return answers


def plain_bm25(data: Path) -> float:
    """Recall@10 of BM25 over the same turns, percent: what the ranking is compared with."""
    shares = []
    for conversation in json.loads(data.read_text()):
        messages = [message for session in conversation["sessions"] for message in session["messages"]]
        texts = [message_text(message["name"], message["content"]) for message in messages]
        for question in conversation["questions"]:
            if question["category"] in (1, 2, 3, 4) and question["evidence"]:
                first = {messages[place]["message_id"] for place in bm25_order(question["question"], texts)[:10]}
                shares.append(len(first & set(question["evidence"])) / len(question["evidence"]))
    return 100 * statistics.fmean(shares)


def table(answers: Sequence[Answer]) -> dict[str, float]:
    def mean(values: Sequence[float]) -> float:
        return round(100 * statistics.fmean(values), 1) if values else float("nan")

    row = {"recall@10": mean([a.recall_10 for a in answers])}
    for place, budget in enumerate(BUDGETS):
        row[f"in {budget:,} tokens"] = mean([a.in_budget[place] for a in answers])
    names = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
    for category, name in names.items():
        row[name] = mean([a.recall_10 for a in answers if a.category == category])
    row["ms p50"] = round(statistics.median(a.milliseconds for a in answers), 2)
    row["questions"] = len(answers)
    return row


def run(data: Path, vectors: Path | None) -> dict[str, dict[str, float]]:
    conversations = json.loads(data.read_text())
    results = {"words alone": table(asyncio.run(measure(conversations, None)))}
    if vectors is not None and vectors.exists():
        results["with vectors"] = table(asyncio.run(measure(conversations, DictionaryEmbedder(vectors))))
    return results


def held(results: dict[str, dict[str, float]]) -> list[tuple[str, float, float, bool]]:
    rows = []
    for place, name in enumerate(("words alone", "with vectors")):
        if name in results:
            for figure, bars in BARS.items():
                value = results[name][figure]
                rows.append((f"LoCoMo {figure}, {name}", value, bars[place], value >= bars[place]))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=SHARED / "locomo_dev.json")
    parser.add_argument("vectors", nargs="?", type=Path, default=SHARED / "locomo_dev_minilm.npz")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not options.data.exists():
        print(f"the data set is not here ({options.data}); give its path")
        return 2
    results = run(options.data, options.vectors)
    columns = list(next(iter(results.values())))
    print(" " * 14 + "  ".join(f"{column:>15}" for column in columns))
    for name, row in results.items():
        print(f"{name:<14}" + "  ".join(f"{row[column]:>15}" for column in columns))
    for name, value, bar, ok in held(results):
        print(f"{name}: {value} (bar {bar}) {'held' if ok else 'NOT HELD'}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    return 0 if all(ok for *_, ok in held(results)) else 1


if __name__ == "__main__":
    sys.exit(main())
