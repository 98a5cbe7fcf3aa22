"""Data sets of conversations with questions, read into values whose ids are unique in a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reme_bench.evidence import Question, answer_words
from reme_core.retrieval import message_text

Item = dict[str, Any]
# BEAM's questions without an answer, and LoCoMo's adversarial ones, whose evidence only looks like an answer.
_UNANSWERABLE = frozenset({"abstention", "5"})


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


def read(path: Path) -> list[Conversation]:
    """Read a file of the form that `small_sets/README.md` describes; `name` may be missing."""
    return [_conversation(given) for given in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(given: Item) -> Conversation:
    name = str(given["conversation"])
    turns = tuple(_turn(name, session, message) for session in given["sessions"] for message in session["messages"])
    told = {turn.message_id: turn for turn in turns}
    questions = [_question(name, question, told) for question in given["questions"]]
    # A question that has an answer and no label for it measures nothing.
    kept = tuple(question for question in questions if question.evidence or not question.answerable)
    return Conversation(name, turns, kept)


def _turn(conversation: str, session: Item, message: Item) -> Turn:
    return Turn(
        message_id=f"{conversation}/{message['message_id']}",
        session_id=f"{conversation}/{session['session_id']}",
        name=message.get("name") or "",
        role=message["role"],
        text=message["content"],
        created_at=message["created_at"],
    )


def _question(conversation: str, given: Item, told: dict[str, Turn]) -> Question:
    category = str(given["category"])
    answerable = category not in _UNANSWERABLE
    ids = [f"{conversation}/{message_id}" for message_id in given["evidence"]] if answerable else []
    evidence = {message_id: told[message_id].text for message_id in ids}
    return Question(
        conversation=conversation,
        question_id=f"{conversation}/{given['question_id']}",
        text=given["question"],
        category=category,
        evidence=evidence,
        answer_words=answer_words(given.get("answer"), given.get("rubric", ()), evidence.values()),
        answerable=answerable,
        said_at={message_id: at for message_id in ids if (at := told[message_id].created_at)},
    )
