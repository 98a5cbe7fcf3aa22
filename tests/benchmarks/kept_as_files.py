"""Conversations kept as files: `FileMemory` writes each, and a new memory that has the tree alone searches it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from reme_bench.conversations import Conversation
from reme_bench.evidence import Question, Row
from reme_bench.minilm import MiniLM
from reme_bench.systems import LIMIT, found_in_order, row_of

from reme_core import FileMemory, Hit, ReMe


def as_files(conversations: Sequence[Conversation], embedder: MiniLM | None, system: str) -> list[Row]:
    """Measure `memory_search` after `rebuild` of each conversation's tree with a new database.

    Raises:
        NoVectorError: A text got no vector, even where the search went on by words.
    """
    rows = [row for conversation in conversations for row in asyncio.run(_searched(conversation, embedder, system))]
    if embedder is not None and embedder.failure is not None:
        raise embedder.failure
    return rows


async def _searched(conversation: Conversation, embedder: MiniLM | None, system: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "files"
        async with ReMe("written", Path(folder) / "written", llm=None, embedding=None) as memory:
            files = FileMemory(root, user_id="ann", memory=memory)
            for session_id, turns in conversation.sessions().items():
                await files.add_dialog([turn.as_message() for turn in turns], session_id=session_id)
        shutil.rmtree(Path(folder) / "written")
        (root / ".reme" / "folder.json").unlink()
        async with ReMe("searched", Path(folder) / "searched", llm=None, embedding=embedder) as memory:
            files = FileMemory(root, user_id="ann", memory=memory)
            report = await files.rebuild()
            assert not report.problems
            await memory.flush()
            waiting = (await memory.stats(user_id="ann")).waiting_for_vectors
            assert embedder is None or not waiting, f"{waiting} texts have no vector"
            return [await _asked(files, question, system) for question in conversation.questions]


async def _asked(files: FileMemory, question: Question, system: str) -> Row:
    begun = time.perf_counter()
    found = await files.memory_search(question.text, max_results=LIMIT, min_score=0.0)
    spent = (time.perf_counter() - begun) * 1000
    hits = [
        Hit(memory=hit.text, layer="message", score=hit.score, message_ids=(hit.message_id,))
        for hit in found
        if hit.message_id is not None
    ]
    return row_of(system, question, found_in_order(hits, spent))
