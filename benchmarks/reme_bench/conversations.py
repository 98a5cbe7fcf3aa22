"""Conversations with questions as values that every data set is read into, with ids that are unique in a file.

`read` reads the form of our own, which `tests/benchmarks/small_sets/README.md` of the repository describes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from reme_bench.evidence import Change, Question, answer_words
from reme_core.retrieval import message_text

# BEAM's questions without an answer, and LoCoMo's adversarial ones, whose evidence only looks like an answer.
_UNANSWERABLE = frozenset({"abstention", "5"})
_CHANGES: Mapping[str, Change] = {"knowledge_update": "update", "contradiction_resolution": "contradiction"}


@dataclass(frozen=True)
class Turn:
    """One message as `summary` takes it, and as the baselines read it."""

    message_id: str
    session_id: str
    name: str
    role: str
    text: str
    created_at: str | None

    @property
    def embedded(self) -> str:
        """The text that is embedded and searched by words: with the name before it, where there is one."""
        return message_text(self.name, self.text)

    def as_message(self) -> dict[str, str]:
        """Return the message as `summary` takes it."""
        given = {"message_id": self.message_id, "name": self.name, "role": self.role, "content": self.text}
        return {key: value for key, value in {**given, "created_at": self.created_at}.items() if value}


@dataclass(frozen=True)
class Conversation:
    """One talk, in the order told, and what is asked about it."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    def sessions(self) -> dict[str, list[Turn]]:
        """Return the turns of each session, by its id."""
        sessions: dict[str, list[Turn]] = {}
        for turn in self.turns:
            sessions.setdefault(turn.session_id, []).append(turn)
        return sessions


@dataclass(frozen=True, kw_only=True)
class LabelledQuestion:
    """A question as a data set gives it: `evidence` are ids of messages, those that nobody has are passed over."""

    question_id: str
    text: str
    category: str
    evidence: Iterable[str]
    gold: str | None = None
    rubric: Sequence[str] = ()
    answerable: bool = True
    change: Change | None = None
    asked_at: str | None = None


def conversation(name: str, turns: Iterable[Turn], asked: Iterable[LabelledQuestion]) -> Conversation:
    """Put a conversation together; a question that has an answer and no label for it measures nothing: left out."""
    told = {turn.message_id: turn for turn in turns if turn.text.strip()}
    questions = (_question(name, question, told) for question in asked)
    kept = tuple(question for question in questions if question.evidence or not question.answerable)
    return Conversation(name, tuple(told.values()), kept)


def _question(name: str, asked: LabelledQuestion, told: Mapping[str, Turn]) -> Question:
    ids = [message_id for message_id in dict.fromkeys(asked.evidence) if message_id in told and asked.answerable]
    evidence = {message_id: told[message_id].text for message_id in ids}
    return Question(
        conversation=name,
        question_id=asked.question_id,
        text=asked.text,
        category=asked.category,
        evidence=evidence,
        answer_words=answer_words(asked.gold, asked.rubric, evidence.values()),
        answerable=asked.answerable,
        said_at={message_id: at for message_id in ids if (at := told[message_id].created_at)},
        gold=asked.gold or "\n".join(asked.rubric) or None,
        change=asked.change,
        asked_at=asked.asked_at,
    )


def by_session(question: Question) -> Question:
    """Let all evidence messages of a session count as one, whichever is found: what is before ":" in their ids."""
    sessions: dict[str, str] = {}
    for message_id, text in question.evidence.items():
        session = message_id.partition(":")[0]
        sessions[session] = f"{sessions[session]}\n{text}" if session in sessions else text
    return replace(
        question,
        evidence=sessions,
        label_of={message_id: message_id.partition(":")[0] for message_id in question.evidence},
        said_at={message_id.partition(":")[0]: at for message_id, at in question.said_at.items()},
    )


class _Message(BaseModel):
    message_id: str
    role: str
    content: str | None = None  # none where a tool is called
    name: str | None = None
    created_at: str | None = None


class _Session(BaseModel):
    session_id: str
    messages: list[_Message]


class _Asked(BaseModel):
    question: str
    evidence: list[str]
    question_id: str | None = None
    category: str | int = ""
    answer: str | None = None
    rubric: list[str] = []


class _Talk(BaseModel):
    sessions: list[_Session]
    questions: list[_Asked]
    conversation: str | None = None
    user_id: str | None = None


_TALKS = TypeAdapter(list[_Talk])


def read(path: Path) -> list[Conversation]:
    """Read a file of our own form: a list of conversations, or one (ValidationError, JSONDecodeError: no such file)."""
    return list(talks(path))


def talks(path: Path) -> Iterator[Conversation]:
    """Read the conversations of such a file one by one (ValueError: two messages or questions of one have one id)."""
    given = json.loads(path.read_bytes())
    for number, talk in enumerate(_TALKS.validate_python(given if isinstance(given, list) else [given])):
        name = talk.conversation or talk.user_id or str(number)
        turns = [
            Turn(
                message_id=f"{name}/{message.message_id}",
                session_id=f"{name}/{session.session_id}",
                name=message.name or "",
                role=message.role,
                text=message.content or "",
                created_at=message.created_at,
            )
            for session in talk.sessions
            for message in session.messages
        ]
        asked = [_asked(name, place, question) for place, question in enumerate(talk.questions)]
        _check_unique("messages", [turn.message_id for turn in turns])
        _check_unique("questions", [question.question_id for question in asked])
        yield conversation(name, turns, asked)


def _check_unique(what: str, ids: Sequence[str]) -> None:
    name, count = max(Counter(ids).items(), key=lambda counted: counted[1], default=("", 0))
    if count > 1:
        message = f"{count} {what} with the id {name!r}"
        raise ValueError(message)


def _asked(name: str, place: int, given: _Asked) -> LabelledQuestion:
    category = str(given.category)
    return LabelledQuestion(
        question_id=f"{name}/{place if given.question_id is None else given.question_id}",
        text=given.question,
        category=category,
        evidence=[f"{name}/{message_id}" for message_id in given.evidence],
        gold=given.answer,
        rubric=given.rubric,
        answerable=category not in _UNANSWERABLE,
        change=_CHANGES.get(category),
    )
