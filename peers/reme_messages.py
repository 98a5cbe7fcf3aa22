"""reme itself under the same protocol: `summary` of each session, `retrieve` within the budget of tokens.

Without a chat model it keeps messages alone. `words alone` is its default without an embedding model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol import Job, Note, Session, main

from reme_core import ReMe, SyncReMe
from reme_core.models import OpenAIChat, OpenAIEmbedder


class Memories:
    """One user of a memory; a session counts as written once its vectors are there."""

    def __init__(self, memory: SyncReMe, user: str, token_budget: int) -> None:
        self._memory, self._user, self._budget = memory, user, token_budget

    def write(self, session: Session) -> None:
        """Hand over the session as it is."""
        told = [
            {
                "message_id": m.message_id,
                "role": m.role,
                "content": m.content,
                **({"name": m.name} if m.name else {}),
                **({"created_at": m.created_at} if m.created_at else {}),
            }
            for m in session.messages
        ]
        self._memory.summary(told, user_id=self._user, session_id=session.session_id)
        self._memory.flush()

    def search(self, question: str) -> Iterator[Note]:
        """Give the results that `retrieve` puts into the budget, with day and speaker as its `text` shows them."""
        for hit in self._memory.retrieve(question, user_id=self._user, token_budget=self._budget).results:
            at = hit.observed_at if hit.layer == "memory" else hit.created_at
            who = hit.name or hit.role
            said = f"{who}: {hit.memory}" if who and hit.layer != "memory" else hit.memory
            yield Note(said, f"{at:%Y-%m-%d}" if at else "", hit.message_ids)


@contextmanager
def opened(job: Job, user: str) -> Iterator[Memories]:
    """Open a memory in a folder of this user's own."""
    vectors = OpenAIEmbedder(
        job.embedding_model,
        dimension=job.dimension,
        base_url=job.embedding_url,
        api_key="none",
        ask_for_dimension=False,
    )
    chat = OpenAIChat(job.chat_model, base_url=job.chat_url, api_key="none", timeout_s=3600) if job.chat_url else None
    folder = str(Path(job.folder) / user)
    own = {"backend": "local_file"}  # whatever database the environment names
    embedding = None if job.words_alone else vectors
    with ReMe.sync("peers", folder, llm=chat, embedding=embedding, vector_store=own) as memory:
        yield Memories(memory, user, job.token_budget)


if __name__ == "__main__":
    main(opened, ("reme-memory",))
