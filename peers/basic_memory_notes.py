"""basic-memory through its own tools, `write_note` and `search_notes`: a project a user, a note a session.

A message is an observation of its session's note, in basic-memory's own form: `- [said] text (context)`, with the
message's id as the context. It asks no chat model: whoever writes notes is one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocol import LIMIT, Job, Note, Session, loadable_sqlite, main

loadable_sqlite()
# What a write leaves to the background, its vectors that is, is waited for so long.
_BACKGROUND_S = 600


class Notes:
    def __init__(self, runner: asyncio.Runner, project: str) -> None:
        self._runner, self._project = runner, project
        self._ids: dict[tuple[str, str], str] = {}
        self._written = 0

    def write(self, session: Session) -> None:
        self._written += 1
        title = f"{session.messages[0].created_at[:10]} session {self._written}"
        for message in session.messages:
            self._ids[title, one_line(message.said)] = message.message_id
        content = "\n".join(f"- [said] {one_line(m.said)} ({m.message_id})" for m in session.messages)
        self._runner.run(self._write(title, content))

    async def _write(self, title: str, content: str) -> None:
        """Write a note; it counts as written once its vectors are there."""
        from basic_memory.mcp.tools import write_note

        await write_note(title=title, content=content, directory="sessions", project=self._project)
        background = asyncio.all_tasks() - {asyncio.current_task()}
        if background:
            await asyncio.wait(background, timeout=_BACKGROUND_S)

    def search(self, question: str) -> Iterator[Note]:
        """Give observations in the order found; the file's name holds the day, file and text together the message."""
        from basic_memory.mcp.tools import search_notes

        asked = search_notes(
            query=question,
            project=self._project,
            page_size=LIMIT,
            entity_types=["observation"],
            min_similarity=MIN_SIMILARITY,
            output_format="json",
        )
        for result in self._runner.run(asked)["results"]:
            title = Path(result["file_path"]).stem
            message_id = self._ids.get((title, result["content"]))
            yield Note(result["content"], title[:10], (message_id,) if message_id else ())


# Its default of 0.55 is that of bge-small; MiniLM's similarities lie lower, and it would leave most questions without
# a result.
MIN_SIMILARITY = 0.0


def one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def opened(job: Job, user: str) -> Iterator[Notes]:
    """Settings go by the environment, and before anything of basic-memory is imported."""
    home = Path(job.folder) / user
    home.mkdir(parents=True)
    os.environ.update(
        BASIC_MEMORY_HOME=f"{job.folder}/home",
        BASIC_MEMORY_CONFIG_DIR=f"{job.folder}/config",
        BASIC_MEMORY_SEMANTIC_EMBEDDING_PROVIDER="openai",
        BASIC_MEMORY_SEMANTIC_EMBEDDING_MODEL=job.embedding_model,
        BASIC_MEMORY_SEMANTIC_EMBEDDING_DIMENSIONS=str(job.dimension),
        # Defaults of 2 are for a model in its own process; this is its OpenAI provider's own.
        BASIC_MEMORY_SEMANTIC_EMBEDDING_BATCH_SIZE="64",
        BASIC_MEMORY_SEMANTIC_EMBEDDING_SYNC_BATCH_SIZE="64",
        LOGFIRE_IGNORE_NO_CONFIG="1",
        OPENAI_BASE_URL=job.embedding_url,
        OPENAI_API_KEY="none",
    )
    from basic_memory.mcp.tools import create_memory_project
    from loguru import logger

    logger.remove()
    project = f"conversation-{user}"
    with asyncio.Runner() as runner:
        runner.run(create_memory_project(project_name=project, project_path=str(home)))
        yield Notes(runner, project)


if __name__ == "__main__":
    main(opened, ("basic-memory", "sqlite-vec"))
