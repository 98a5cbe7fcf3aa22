"""mem0's open-source `Memory` with its default store (Qdrant on disk).

Without a chat model `add(..., infer=False)` keeps each message as it is; with one, `add` extracts memories from each
session. BM25 beside the vectors needs FastEmbed's model `Qdrant/bm25`, which mem0 fetches itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.update(MEM0_TELEMETRY="False", ANONYMIZED_TELEMETRY="False")

from protocol import LIMIT, Job, Note, Session, main


class Memories:
    def __init__(self, memory: object, user: str, infer: bool) -> None:
        self._memory, self._user, self._infer = memory, user, infer

    def write(self, session: Session) -> None:
        if self._infer:
            self._extract(session)
            return
        for message in session.messages:
            self._memory.add(
                [{"role": message.role, "content": message.said}],
                user_id=self._user,
                metadata={"message_id": message.message_id, "said_at": message.created_at},
                infer=False,
            )

    def _extract(self, session: Session) -> None:
        """Hand over the session whole, with its time in the metadata and in the text."""
        told = [{"role": m.role, "content": f"({m.created_at}) {m.said}"} for m in session.messages]
        said_at = session.messages[0].created_at
        self._memory.add(told, user_id=self._user, metadata={"said_at": said_at})

    def search(self, question: str) -> Iterator[Note]:
        found = self._memory.search(question, filters={"user_id": self._user}, top_k=LIMIT)
        for result in found["results"]:
            kept = result.get("metadata") or {}
            ids = (kept["message_id"],) if "message_id" in kept else ()
            yield Note(result["memory"], kept.get("said_at", ""), ids)


def config(job: Job, user: str) -> dict:
    folder = Path(job.folder) / user
    embedder = {
        "model": job.embedding_model,
        "openai_base_url": job.embedding_url,
        "api_key": "none",
        "embedding_dims": job.dimension,
    }
    # A chat model is always named: mem0 makes its client even where nothing is asked of it.
    chat = {"model": job.chat_model, "openai_base_url": job.chat_url or job.embedding_url, "api_key": "none"}
    vectors = {"path": str(folder / "qdrant"), "embedding_model_dims": job.dimension, "on_disk": True}
    return {
        "embedder": {"provider": "openai", "config": embedder},
        "llm": {"provider": "openai", "config": chat},
        "vector_store": {"provider": "qdrant", "config": vectors},
        "history_db_path": str(folder / "history.db"),
    }


@contextmanager
def opened(job: Job, user: str) -> Iterator[Memories]:
    os.environ["MEM0_DIR"] = job.folder
    from mem0 import Memory

    (Path(job.folder) / user).mkdir(parents=True)
    memory = Memory.from_config(config(job, user))
    yield Memories(memory, user, infer=bool(job.chat_url))
    memory.vector_store.client.close()
    memory.close()


def not_measured(job: Job) -> list[dict]:
    """BM25 and spaCy where their models can't be fetched: mem0 goes on by vectors alone and says so in its log."""
    lacking = []
    try:
        from fastembed import SparseTextEmbedding

        SparseTextEmbedding(model_name="Qdrant/bm25")
    except Exception as exc:  # noqa: BLE001  # whatever its downloader raises
        lacking.append({"what": "keyword search (BM25) beside the vectors", "why": f"FastEmbed: {exc}"})
        # As if it weren't installed: it would try for a minute each time that the memory is opened.
        sys.modules["fastembed"] = None
    try:
        import spacy

        spacy.load("en_core_web_sm")
    except Exception as exc:  # noqa: BLE001  # as above
        lacking.append({"what": "lemmas and entities in the ranking", "why": f"spaCy: {str(exc).split('. ')[0]}"})
        sys.modules["spacy"] = None
    return lacking


if __name__ == "__main__":
    main(opened, ("mem0ai", "qdrant-client"), not_measured)
