"""Conversations that are no two-person English chat: never below plain BM25, through the public API."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
from pathlib import Path

from figures import Figure
from reme_bench.bm25 import bm25_order

from reme_core import ReMe

SETS = Path(__file__).with_name("small_sets")
PLACES = 10


async def _ours(conversation: dict) -> list[float]:
    shares = []
    with tempfile.TemporaryDirectory() as folder:
        async with ReMe("small", folder, llm=None, embedding=None) as memory:
            for session in conversation["sessions"]:
                await memory.summary(session["messages"], user_id="u", session_id=session["session_id"])
            for question in conversation["questions"]:
                found = await memory.retrieve(question["question"], user_id="u", limit=PLACES)
                first = {message_id for hit in found.results for message_id in hit.message_ids}
                shares.append(len(first & set(question["evidence"])) / len(question["evidence"]))
    return shares


def _baseline(conversation: dict) -> list[float]:
    messages = [message for session in conversation["sessions"] for message in session["messages"]]
    texts = [message["content"] for message in messages]
    shares = []
    for question in conversation["questions"]:
        first = {messages[place]["message_id"] for place in bm25_order(question["question"], texts)[:PLACES]}
        shares.append(len(first & set(question["evidence"])) / len(question["evidence"]))
    return shares


def measure() -> list[Figure]:
    figures = []
    for path in sorted(SETS.glob("*.json")):
        loaded = json.loads(path.read_text(encoding="utf-8"))
        for conversation in loaded if isinstance(loaded, list) else [loaded]:
            ours = 100 * statistics.fmean(asyncio.run(_ours(conversation)))
            plain = 100 * statistics.fmean(_baseline(conversation))
            baseline = f"plain BM25 {plain:.1f}"
            figures.append(
                Figure(f"recall@10, {path.stem}, words alone", round(ours, 1), "%", round(plain, 1), False, baseline)
            )
    return figures
