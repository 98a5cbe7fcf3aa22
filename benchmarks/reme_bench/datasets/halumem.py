"""HaluMem: twenty users and an assistant, 3,467 questions (Chen and others 2025, arXiv 2511.03506).

Evidence is labelled by memories, and these by the session that they come of: a session counts as found where one of its
messages is, and as held by the words of the memory that its messages have. All questions are asked when everything has
been told, not, as its own harness does, each after its session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, JsonValue

from reme_bench.conversations import Conversation, LabelledQuestion, Turn, by_session, conversation
from reme_bench.datasets.source import Source, json_items, text_of
from reme_bench.evidence import Question
from reme_core.text import terms

_TIME = "%b %d, %Y, %H:%M:%S"
# Of its six kinds: one asks for what was never said, one about a fact that changed. (Memory Conflict puts a false
# premise into the question: nothing was told twice.)
_UNANSWERABLE, _UPDATE = "Memory Boundary", "Dynamic Update"


class _Said(BaseModel):
    role: str
    content: str
    timestamp: str | None = None  # the long file's fillers have that of a message before them, if there is one


class _Memory(BaseModel):
    memory_content: str


class _Asked(BaseModel):
    question: str
    question_type: str
    answer: JsonValue = None
    evidence: list[_Memory | str] | None = None


class _Session(BaseModel):
    dialogue: list[_Said]
    memory_points: list[_Memory] | None = None
    questions: list[_Asked] | None = None


class _User(BaseModel):
    uuid: str
    sessions: list[_Session]


def read(path: Path) -> Iterator[Conversation]:
    """Read a file as published: one user a line."""
    for user in json_items(path, _User):
        told = [_turns(user.uuid, place, session) for place, session in enumerate(user.sessions)]
        last = max((turn.created_at for turns in told for turn in turns if turn.created_at), default=None)
        asked, memories = list[LabelledQuestion](), dict[tuple[str, str], str]()
        for place, session in enumerate(user.sessions):
            for number, given in enumerate(session.questions or ()):
                labels = _labels(given, user.sessions[: place + 1])
                question_id = f"{user.uuid}/{place}/{number}"
                memories |= {(question_id, f"{user.uuid}/{of}"): memory for of, memory in labels.items()}
                evidence = [turn.message_id for of in labels for turn in told[of]]
                asked.append(replace(_asked(question_id, given, evidence), asked_at=last))
        made = conversation(user.uuid, (turn for turns in told for turn in turns), asked)
        yield replace(made, questions=tuple(_by_memory(question, memories) for question in made.questions))


def _turns(user: str, place: int, session: _Session) -> list[Turn]:
    return [
        Turn(
            message_id=f"{user}/{place}:{number}",
            session_id=f"{user}/{place}",
            name="",
            role=said.role,
            text=said.content,
            created_at=None if said.timestamp is None else datetime.strptime(said.timestamp, _TIME).isoformat(),  # noqa: DTZ007  # none is given
        )
        for number, said in enumerate(session.dialogue)
    ]


def _asked(question_id: str, given: _Asked, evidence: Sequence[str]) -> LabelledQuestion:
    return LabelledQuestion(
        question_id=question_id,
        text=given.question,
        category=given.question_type,
        evidence=evidence,
        gold=text_of(given.answer),
        answerable=given.question_type != _UNANSWERABLE,
        change="update" if given.question_type == _UPDATE else None,
    )


def _labels(asked: _Asked, sessions: Sequence[_Session]) -> dict[int, str]:
    """Return the memories that answer a question, by the last session up to its own that each comes of."""
    labels: dict[int, str] = {}
    for memory in asked.evidence or ():
        content = (memory if isinstance(memory, str) else memory.memory_content).strip()
        for place in reversed(range(len(sessions))):
            if any(point.memory_content.strip() == content for point in sessions[place].memory_points or ()):
                labels[place] = f"{labels.get(place, '')} {content}".strip()
                break
    return labels


def _by_memory(question: Question, memories: Mapping[tuple[str, str], str]) -> Question:
    """Let a session count as one, and as held by the words of the memory that it says."""
    whole = by_session(question)
    held = {session: _held(memories[question.question_id, session], said) for session, said in whole.evidence.items()}
    return replace(whole, evidence=held)


def _held(memory: str, said: str) -> str:
    known = set(terms(said))
    return " ".join(word for word in memory.split() if (found := set(terms(word))) and found <= known)


SOURCE = Source(
    name="halumem",
    title="HaluMem",
    files=("HaluMem-Medium.jsonl", "HaluMem-Long.jsonl"),
    where="https://huggingface.co/datasets/IAAR-Shanghai/HaluMem",
    licence="CC BY-NC-ND 4.0: no commercial use, and no changed copy may be handed on",
    form="lines of JSON, one user each, with uuid and sessions of dialogue, memory_points and questions",
    read=read,
    checksums={
        "486fbc130a5c8781a2af27ffa508a1d7855245137aa449c193ac4d29c45634e7": "HaluMem-Medium.jsonl",
        "dfdbed570b402b7b8c17e0d7808fc6f3ae7a53b6144f18feb16bbdd3f55cb0c9": "HaluMem-Long.jsonl",
    },
)
