"""ReMe 0.3 with its default store (Chroma): `add_memory` and the search of its memory handler.

Its `summarize_memory` and `retrieve_memory` are agents and need a chat model; without one each message is one memory,
added by `add_memory` and found by the vector search that the retriever's own tool does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

os.environ.update(ANONYMIZED_TELEMETRY="False")

from protocol import LIMIT, Job, Note, Session, main
from reme import ReMe

T = TypeVar("T")


class Memories:
    def __init__(self, reme: ReMe, runner: asyncio.Runner, user: str, extract: bool) -> None:
        self._reme, self._runner, self._user, self._extract = reme, runner, user, extract

    def _wait(self, work: Coroutine[object, object, T]) -> T:
        return self._runner.run(work)

    def write(self, session: Session) -> None:
        if self._extract:
            told = [
                {"role": m.role, "name": m.name, "content": m.content, "time_created": m.created_at.replace("T", " ")}
                for m in session.messages
            ]
            self._wait(self._reme.summarize_memory(messages=told, user_name=self._user))
            return
        for message in session.messages:
            self._wait(
                self._reme.add_memory(
                    message.said,
                    user_name=self._user,
                    message_time=message.created_at,
                    message_id=message.message_id,
                )
            )

    def search(self, question: str) -> Iterator[Note]:
        handler = self._reme.get_memory_handler(self._user)
        for node in self._wait(handler.search(question, limit=LIMIT)):
            ids = (node.metadata["message_id"],) if "message_id" in node.metadata else ()
            yield Note(node.content, node.message_time, ids)


@contextmanager
def opened(job: Job, user: str) -> Iterator[Memories]:
    folder = Path(job.folder) / user
    folder.mkdir(parents=True)
    reme = ReMe(
        working_dir=str(folder),
        enable_logo=False,
        log_to_console=False,
        log_to_file=False,
        llm_api_key="none",
        llm_base_url=job.chat_url or job.embedding_url,
        default_llm_config={"model_name": job.chat_model},
        embedding_api_key="none",
        embedding_base_url=job.embedding_url,
        default_embedding_model_config={"model_name": job.embedding_model, "dimensions": job.dimension},
        target_user_names=[user],
    )
    with asyncio.Runner() as runner:
        runner.run(reme.start())
        yield Memories(reme, runner, user, extract=bool(job.chat_url))
        runner.run(reme.close())


if __name__ == "__main__":
    main(opened, ("reme-ai", "chromadb"))
