"""HaluMem: twenty users and an assistant, 3,467 questions (Chen and others 2025, arXiv 2511.03506).

Evidence is labelled by memories, and these by the session that they come of: a session counts as found where one of its
messages is, and as held by the words of the memory that its messages have. All questions are asked when everything has
been told, not, as its own harness does, each after its session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, JsonValue

from reme_bench.conversations import Conversation, Turn
from reme_bench.datasets.source import Source, json_items, text_of
from reme_bench.evidence import Change, Question, answer_words
from reme_core.text import terms

_TIME = "%b %d, %Y, %H:%M:%S"
# Of its six kinds: asks for what was never said.
_UNANSWERABLE = "Memory Boundary"
_CHANGES: Mapping[str, Change] = {"Dynamic Update": "update", "Memory Conflict": "contradiction"}


class _Said(BaseModel):
    role: str
    content: str
    timestamp: str


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
        asked = [
            _question(user, place, number, given, told)
            for place, session in enumerate(user.sessions)
            for number, given in enumerate(session.questions or ())
        ]
        kept = tuple(question for question in asked if question.evidence or not question.answerable)
        yield Conversation(user.uuid, tuple(turn for turns in told for turn in turns), kept)


def _turns(user: str, place: int, session: _Session) -> list[Turn]:
    return [
        Turn(
            message_id=f"{user}/{place}:{number}",
            session_id=f"{user}/{place}",
            name="",
            role=said.role,
            text=said.content,
            created_at=datetime.strptime(said.timestamp, _TIME).isoformat(),  # noqa: DTZ007  # none is given
        )
        for number, said in enumerate(session.dialogue)
        if said.content.strip()
    ]


def _question(user: _User, place: int, number: int, given: _Asked, told: Sequence[Sequence[Turn]]) -> Question:
    answerable, gold = given.question_type != _UNANSWERABLE, text_of(given.answer)
    evidence: dict[int, str] = {}
    for memory in (given.evidence or ()) if answerable else ():
        content = (memory if isinstance(memory, str) else memory.memory_content).strip()
        session = _session_of(content, user.sessions[: place + 1])
        if session is not None and told[session]:
            held = _held(content, told[session])
            evidence[session] = f"{evidence.get(session, '')} {held}".strip()
    name = {session: told[session][0].session_id for session in evidence}
    return Question(
        conversation=user.uuid,
        question_id=f"{user.uuid}/{place}/{number}",
        text=given.question,
        category=given.question_type,
        evidence={name[session]: held for session, held in evidence.items()},
        answer_words=answer_words(gold, (), (turn.text for session in evidence for turn in told[session])),
        answerable=answerable,
        said_at={name[session]: told[session][0].created_at or "" for session in evidence},
        label_of={turn.message_id: name[session] for session in evidence for turn in told[session]},
        gold=gold,
        change=_CHANGES.get(given.question_type),
    )


def _session_of(content: str, sessions: Sequence[_Session]) -> int | None:
    """Return the last session up to the question's that a memory comes of."""
    places = (
        place
        for place in reversed(range(len(sessions)))
        if any(point.memory_content.strip() == content for point in sessions[place].memory_points or ())
    )
    return next(places, None)


def _held(memory: str, turns: Sequence[Turn]) -> str:
    """Return the words of a memory that its session says."""
    said = {term for turn in turns for term in terms(turn.text)}
    return " ".join(word for word in memory.split() if (found := set(terms(word))) and found <= said)


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
