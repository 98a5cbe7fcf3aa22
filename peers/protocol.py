"""Protocol of one system beside the others: a job file in, a file of what it did out. Standard library only.

Each script of a system is run as `SCRIPT JOB OUT` by the Python of that system's environment. `Peer` is all that a
script supplies; this module stores, asks, times and fills the budget by one rule for all.
"""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

# A token is four characters, as reme counts without a tokenizer.
CHARACTERS_A_TOKEN = 4
# Results asked for: short messages have some thirty in 1,024 tokens, and duplicates are left out.
LIMIT = 60


@dataclass(frozen=True)
class Message:
    message_id: str
    name: str
    role: str
    content: str
    created_at: str

    @property
    def said(self) -> str:
        """The text with its speaker, as each system stores it."""
        return f"{self.name}: {self.content}" if self.name else self.content


@dataclass(frozen=True)
class Session:
    session_id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class Note:
    """One result as the system gives it; `ids` are the messages it comes from, none where the system doesn't say."""

    text: str
    day: str = ""
    ids: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The note as a reader sees it; the day is the one that the system kept, if it did."""
        return f"- ({self.day[:10]}) {self.text}" if self.day else f"- {self.text}"


@dataclass(frozen=True)
class Job:
    """What a script is given: no gold answer and no evidence.

    `chat_url` None: there is no chat model. `words_alone`: a system that can do without vectors is to do so.
    """

    folder: str
    token_budget: int
    embedding_url: str
    embedding_model: str
    dimension: int
    chat_url: str | None
    chat_model: str
    conversations: list[dict]
    words_alone: bool = False


class Peer(Protocol):
    """One user's memory. Whatever the system answers with is given as notes, best first."""

    def write(self, session: Session) -> None: ...

    def search(self, question: str) -> Iterable[Note]: ...


Open = Callable[[Job, str], AbstractContextManager[Peer]]


@dataclass
class ConversationRun:
    """What a system did with one conversation. Times are milliseconds, `bytes` what it left on disk for it."""

    conversation: str
    writes_ms: list[float] = field(default_factory=list)
    bytes: int = 0
    questions: list[dict] = field(default_factory=list)


def within(notes: Iterable[Note], token_budget: int) -> list[Note]:
    """Notes from the best down that fit; one that is too long is passed over, a line said twice is left out."""
    kept: dict[str, Note] = {}
    left = token_budget
    for note in notes:
        tokens = -(-len(note.line) // CHARACTERS_A_TOKEN)
        if tokens <= left and note.line not in kept:
            kept[note.line] = note
            left -= tokens
    return list(kept.values())


def sessions_of(conversation: dict) -> Iterator[Session]:
    for given in conversation["sessions"]:
        told = tuple(
            Message(m["message_id"], m.get("name") or "", m["role"], m["content"], m["created_at"])
            for m in given["messages"]
        )
        yield Session(given["session_id"], told)


def run(conversation: dict, job: Job, open_peer: Open) -> ConversationRun:
    """Store a conversation session by session, then ask each question once, after one that isn't counted."""
    done = ConversationRun(conversation["conversation"])
    with open_peer(job, done.conversation) as peer:
        for session in sessions_of(conversation):
            begun = time.perf_counter()
            peer.write(session)
            done.writes_ms.append(round(1000 * (time.perf_counter() - begun), 2))
        for place, question in enumerate(conversation["questions"]):
            if not place:
                list(peer.search(question["question"]))
            begun = time.perf_counter()
            found = list(peer.search(question["question"]))
            spent = round(1000 * (time.perf_counter() - begun), 2)
            kept = [asdict(note) | {"line": note.line} for note in within(found, job.token_budget)]
            ranking = list(dict.fromkeys(i for note in found for i in note.ids))
            done.questions.append(
                {"question_id": question["question_id"], "ms": spent, "notes": kept, "ranking": ranking[:LIMIT]}
            )
    return done


def loadable_sqlite() -> None:
    """Put pysqlite3 in the place of a `sqlite3` that can't load sqlite-vec, as some builds of Python have it."""
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        sys.modules["sqlite3"] = importlib.import_module("pysqlite3")


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(open_peer: Open, packages: Sequence[str], not_measured: Callable[[Job], list[dict]] | None = None) -> None:
    """Do the job named first on the command line, write what came of it to the file named second.

    `not_measured` is asked before anything is measured.
    """
    job = Job(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    lacking = not_measured(job) if not_measured else []
    conversations = []
    for conversation in job.conversations:
        before = bytes_of(Path(job.folder))
        done = run(conversation, job, open_peer)
        done.bytes = bytes_of(Path(job.folder)) - before
        conversations.append(asdict(done))
        print(done.conversation, len(done.writes_ms), "sessions", len(done.questions), "questions", flush=True)
    told = {
        "versions": {name: version(name) for name in packages},
        "not_measured": lacking,
        "conversations": conversations,
    }
    Path(sys.argv[2]).write_text(json.dumps(told, ensure_ascii=False), encoding="utf-8")
