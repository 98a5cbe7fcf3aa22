"""Running a data set: reme and the baselines over the same conversations, and the file of results of it."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Literal

import numpy as np

from reme_bench import systems
from reme_bench.conversations import Conversation
from reme_bench.datasets import Loaded
from reme_bench.results import Dataset, Machine, Milliseconds, NotMeasured, Results, Row, System
from reme_bench.summary import as_result, summarised
from reme_bench.systems import COSINE, PLAIN, RRF, VECTORS, WORDS, MakeRanking, SystemRun
from reme_core.models import CachedEmbedder
from reme_core.ports import ChatModel, Embedder, embedder_name
from reme_core.retrieval import Matrix

_BATCH = 64
# What they are not measured by: they are orders over messages in memory, not memories.
_OF_BASELINES = (
    NotMeasured(what="bytes", why="it keeps nothing on disk"),
    NotMeasured(what="append_ms", why="it is made anew for each conversation"),
)
_VECTORS_BEFORE = NotMeasured(what="embedding in its times", why="vectors are looked up, made for a system before it")
Tell = Callable[[str], None]


async def run(
    loaded: Loaded,
    *,
    embedder: Embedder | None = None,
    llm: ChatModel | None = None,
    notes_within: int | None = None,
    tell: Tell = lambda _: None,
) -> Results:
    """Measure reme by words, with vectors where there is an embedder and with a model where there is one.

    BM25 stands beside it, with vectors cosine and reciprocal rank fusion too. `tell` hears which system's turn it is.
    The rows keep the notes of a budget of tokens, if one is named.

    Raises:
        WrongFileError: The file is something else, anywhere in it: it is read to its end before anything is measured.
    """
    dataset = dataset_of(loaded)
    measured: dict[System, list[Row]] = {}

    async def ours(name: str, vectors: Embedder | None, model: ChatModel | None) -> None:
        tell(name)
        found = await systems.reme(loaded, vectors, name, llm=model)
        missing = (_VECTORS_BEFORE,) if vectors is not None and model is not None else ()
        measured[_system(name, "reme", found, missing)] = [as_result(row, notes_within) for row in found.rows]

    with tempfile.TemporaryDirectory() as folder:
        # One embedding of a text for all systems.
        vectors = None if embedder is None else _cached(embedder, Path(folder))
        await ours(f"reme, {WORDS}", None, None)
        if vectors is not None:
            await ours(f"reme, {VECTORS}", vectors, None)
        if llm is not None:
            await ours("reme, with a model", vectors, llm)
        tell("baselines")
        for name, found in (await baselines(loaded, vectors)).items():
            missing = _OF_BASELINES if name == PLAIN else (*_OF_BASELINES, _VECTORS_BEFORE)
            measured[_system(name, "baseline", found, missing)] = [as_result(row, notes_within) for row in found.rows]
    return results_of(dataset, measured, versions(embedder))


def _cached(embedder: Embedder, folder: Path) -> CachedEmbedder:
    return CachedEmbedder(embedder, folder / "vectors.db", model=embedder_name(embedder))


async def baselines(conversations: Iterable[Conversation], embedder: Embedder | None) -> dict[str, SystemRun]:
    """Rank by BM25, with an embedder by cosine and by the fusion of both too, conversation by conversation."""
    measured: dict[str, SystemRun] = {}
    for conversation in conversations:
        makes: dict[str, MakeRanking] = {PLAIN: systems.bm25}
        if embedder is not None:
            cosine = systems.cosine(await _vectors(conversation, embedder))
            makes |= {COSINE: cosine, RRF: systems.fused(systems.bm25, cosine)}
        for name, make in makes.items():
            measured.setdefault(name, SystemRun()).rows.extend(systems.baseline([conversation], make, name))
    return measured


async def _vectors(conversation: Conversation, embedder: Embedder) -> systems.Vectors:
    """Embed a conversation and its questions, and return what looks the vectors up."""
    given = [turn.embedded for turn in conversation.turns] + [asked.text for asked in conversation.questions]
    texts = list(dict.fromkeys(given))
    parts = [await embedder.embed(texts[at : at + _BATCH]) for at in range(0, len(texts), _BATCH)]
    matrix = np.concatenate([np.zeros((0, embedder.dimension), np.float32), *parts])
    places = {text: place for place, text in enumerate(texts)}

    def lookup(wanted: Sequence[str]) -> Matrix:
        return matrix[[places[text] for text in wanted]]

    return lookup


def results_of(dataset: Dataset, measured: Mapping[System, Sequence[Row]], versions: Mapping[str, str]) -> Results:
    """Put what systems found into a file of results, with its sums."""
    return summarised(
        Results(
            made_at=datetime.now(UTC),
            dataset=dataset,
            machine=Machine(python=platform.python_version(), platform=platform.platform(), cpus=os.cpu_count() or 1),
            versions=dict(versions),
            systems=tuple(measured),
            rows=tuple(row for rows in measured.values() for row in rows),
        )
    )


def dataset_of(loaded: Loaded) -> Dataset:
    """Tell which data set it was, by its checksum too, and how much of it."""
    sizes = [(1, len(conversation.questions), len(conversation.turns)) for conversation in loaded]
    conversations, questions, messages = (sum(column) for column in zip(*sizes, strict=True))
    return Dataset(
        name=loaded.source.title,
        file=loaded.path.name,
        sha256=loaded.sha256,
        checksum_known=loaded.published is not None,
        licence=loaded.source.licence,
        conversations=conversations,
        questions=questions,
        messages=messages,
    )


def milliseconds(spent: Sequence[float]) -> Milliseconds | None:
    """Return median and 95th percentile; None of nothing."""
    if not spent:
        return None
    p50, p95 = np.percentile(spent, (50, 95))
    return Milliseconds(p50=round(float(p50), 3), p95=round(float(p95), 3))


def _system(name: str, kind: Literal["reme", "baseline"], found: SystemRun, missing: Sequence[NotMeasured]) -> System:
    usage = found.usage
    return System(
        name=name,
        kind=kind,
        bytes=found.bytes,
        model_calls=usage.model_calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        append_ms=milliseconds(found.append_ms),
        search_ms=milliseconds([row.milliseconds for row in found.rows]),
        not_measured=(*missing, *_degraded(found)),
    )


def _degraded(found: SystemRun) -> tuple[NotMeasured, ...]:
    return tuple(
        NotMeasured(what=f"{count} of {len(found.rows)} questions as wanted", why=reason)
        for reason, count in found.degraded.items()
    )


def versions(embedder: Embedder | None) -> dict[str, str]:
    """Return the versions of what measures."""
    told = {}
    for name in ("reme-memory", "reme-memory-bench", "numpy"):
        try:
            told[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            told[name] = "not installed"
    return told | ({} if embedder is None else {"embedding model": embedder_name(embedder)})
