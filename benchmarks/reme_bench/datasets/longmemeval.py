"""LongMemEval: 500 questions, each with a history of its own (Wu and others 2024, arXiv 2410.10813)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, JsonValue

from reme_bench.conversations import Conversation, LabelledQuestion, Turn, by_session, conversation
from reme_bench.datasets.source import Source, json_items, text_of

_TIME = "%Y/%m/%d (%a) %H:%M"
_ABSTENTION = "_abs"


class _Turn(BaseModel):
    role: str
    content: str
    has_answer: bool | None = None


class _Instance(BaseModel):
    question_id: str
    question_type: str
    question: str
    answer: JsonValue
    question_date: str
    haystack_dates: list[str]
    haystack_session_ids: list[str]
    haystack_sessions: list[list[_Turn]]
    answer_session_ids: list[str]


def read(path: Path) -> Iterator[Conversation]:
    """Read a file as published: each question is a conversation, its sessions in the order of their times."""
    for given in json_items(path, _Instance):
        turns = [(turn, said) for turn, said, _ in _turns(given)]
        evidence = [turn.message_id for turn, said in turns if said.has_answer]
        answerable = not given.question_id.endswith(_ABSTENTION)
        asked = LabelledQuestion(
            question_id=given.question_id,
            text=given.question,
            category=given.question_type if answerable else "abstention",
            evidence=evidence
            or [turn.message_id for turn, _, name in _turns(given) if name in given.answer_session_ids],
            gold=text_of(given.answer),
            answerable=answerable,
            change="update" if given.question_type == "knowledge-update" and answerable else None,
            asked_at=_time(given.question_date),
        )
        made = conversation(given.question_id, (turn for turn, _ in turns), [asked])
        yield made if evidence else replace(made, questions=tuple(map(by_session, made.questions)))


def _turns(given: _Instance) -> Iterator[tuple[Turn, _Turn, str]]:
    sessions = zip(given.haystack_dates, given.haystack_session_ids, given.haystack_sessions, strict=True)
    for place, (date, name, session) in enumerate(sorted(sessions, key=lambda session: _time(session[0]))):
        for number, said in enumerate(session):
            prefix = f"{given.question_id}/{place}"
            yield Turn(f"{prefix}:{number}", f"{prefix}/{name}", "", said.role, said.content, _time(date)), said, name


def _time(written: str) -> str:
    return datetime.strptime(written, _TIME).isoformat()  # noqa: DTZ007  # none is given


SOURCE = Source(
    name="longmemeval",
    title="LongMemEval",
    files=("longmemeval_s_cleaned.json", "longmemeval_m_cleaned.json", "longmemeval_oracle.json"),
    where="https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned",
    licence="MIT",
    form="a JSON list of instances with question_id, question_type, haystack_sessions and haystack_dates",
    read=read,
    # At revision 98d7416 of that page.
    checksums={
        "d6f21ea9d60a0d56f34a05b609c79c88a451d2ae03597821ea3d5a9678c3a442": "longmemeval_s_cleaned.json",
        "9d79e5524794a2e6900a3aa9cb7d9152c5a3e8319c9a87c25494ba1eacee495f": "longmemeval_m_cleaned.json",
        "821a2034d219ab45846873dd14c14f12cfe7776e73527a483f9dac095d38620c": "longmemeval_oracle.json",
    },
)
