"""LangMem over LangGraph's SQLite store with its vector index, in a namespace for each user.

Without a chat model each message is one item, a session's in one batch, and found by the store's `search`, which is
what LangMem's tools call; with one, `create_memory_store_manager` extracts memories from each session instead.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol import LIMIT, Job, Note, Session, loadable_sqlite, main

loadable_sqlite()

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore
from langmem import create_memory_store_manager


class Messages:
    """Each message is one item of the store, in the form of LangMem's own, with id and time beside its content."""

    def __init__(self, store: SqliteStore, user: str) -> None:
        self._store, self._namespace = store, ("memories", user)

    def write(self, session: Session) -> None:
        told = (
            {"content": message.said, "message_id": message.message_id, "created_at": message.created_at}
            for message in session.messages
        )
        self._store.batch([PutOp(self._namespace, str(uuid.uuid4()), value) for value in told])

    def search(self, question: str) -> Iterator[Note]:
        for item in self._store.search(self._namespace, query=question, limit=LIMIT):
            yield Note(item.value["content"], item.value["created_at"], (item.value["message_id"],))


class Extracted(Messages):
    """Memories of LangMem's manager, which searches what is there before it writes. No message is named."""

    def __init__(self, store: SqliteStore, user: str, job: Job) -> None:
        super().__init__(store, user)
        model = ChatOpenAI(model=job.chat_model, base_url=job.chat_url, api_key="none", timeout=3600, max_retries=0)
        self._manager = create_memory_store_manager(model, store=store, namespace=self._namespace)

    def write(self, session: Session) -> None:
        told = [{"role": m.role, "content": f"({m.created_at}) {m.said}"} for m in session.messages]
        self._manager.invoke({"messages": told})

    def search(self, question: str) -> Iterator[Note]:
        for item in self._store.search(self._namespace, query=question, limit=LIMIT):
            content = item.value["content"]
            yield Note(content["content"] if isinstance(content, dict) else str(content))


@contextmanager
def opened(job: Job, user: str) -> Iterator[Messages]:
    vectors = OpenAIEmbeddings(
        model=job.embedding_model, base_url=job.embedding_url, api_key="none", check_embedding_ctx_length=False
    )
    fields = ["content"] if not job.chat_url else ["$"]
    index = {"dims": job.dimension, "embed": vectors, "fields": fields}
    with SqliteStore.from_conn_string(str(Path(job.folder) / f"{user}.db"), index=index) as store:
        store.setup()
        yield Extracted(store, user, job) if job.chat_url else Messages(store, user)


if __name__ == "__main__":
    main(opened, ("langmem", "langgraph", "langgraph-checkpoint-sqlite"))
