"""BEAM: months of talk with an assistant, ten kinds of questions (Tavakoli and others 2025, arXiv 2510.27246)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

from pydantic import BaseModel, JsonValue, RootModel

from reme_bench.conversations import Conversation, LabelledQuestion, Turn, conversation
from reme_bench.datasets.source import Source, read_model, text_of
from reme_bench.evidence import Change

_ANCHOR = "%B-%d-%Y"
# What the generator of the set left at the end of messages: "->-> 1,1", "->-> 2,N/A", "->-> 5,14)", "->-> 2,22, 24".
_MARKER = re.compile(r"\s*->->[\d\s,)/NA]*$")
_CHANGES: Mapping[str, Change] = {"knowledge_update": "update", "contradiction_resolution": "contradiction"}
_QUESTIONS = Path("probing_questions", "probing_questions.json")
# Of chats that have both, the authors ask about the shorter one.
_CHATS = ("chat_trunecated.json", "chat.json")


class _Said(BaseModel):
    id: int
    role: str
    content: str
    time_anchor: str | None = None


class _Batch(BaseModel):
    turns: list[list[_Said]]
    time_anchor: str | None = None


class _Asked(BaseModel):
    question: str
    answer: JsonValue = None
    ideal_answer: JsonValue = None
    ideal_response: JsonValue = None
    ideal_summary: JsonValue = None
    rubric: list[str] = []
    source_chat_ids: JsonValue = None


# As the repository has it, and as its script writes what it downloads: batches without a number.
class _Chat(RootModel[list[_Batch | list[_Said]]]):
    pass


class _Questions(RootModel[dict[str, list[_Asked]]]):
    pass


def folders(path: Path) -> list[Path]:
    """Return the folders of chats in a folder, in the order of their numbers, or the folder itself if it is one."""
    if _is_chat(path):
        return [path]
    named = (place for place in path.glob("*") if place.name.isdecimal() and _is_chat(place))
    return sorted(named, key=lambda place: int(place.name))


def parts(path: Path) -> list[Path]:
    """Name the files that are read, chat by chat."""
    return [file for folder in folders(path) for file in (_chat_of(folder), folder / _QUESTIONS)]


def _is_chat(folder: Path) -> bool:
    return (folder / _QUESTIONS).is_file() and any((folder / name).is_file() for name in _CHATS)


def _chat_of(folder: Path) -> Path:
    return next(folder / name for name in _CHATS if (folder / name).is_file())


def read(path: Path) -> Iterator[Conversation]:
    """Read a folder of chats: each batch is a session, on the day of its anchor, a minute a message."""
    for folder in folders(path):
        name = f"beam-{folder.name}"
        asked = read_model(folder / _QUESTIONS, _Questions).root
        yield conversation(name, _turns(name, read_model(_chat_of(folder), _Chat)), _asked(name, asked))


def _turns(name: str, chat: _Chat) -> Iterator[Turn]:
    anchor: datetime | None = None
    minutes = 0
    for number, batch in enumerate(chat.root, 1):
        told, begun = (list(chain(*batch.turns)), batch.time_anchor) if isinstance(batch, _Batch) else (batch, None)
        for place, said in enumerate(told):
            said_on = _day(said.time_anchor or (None if place else begun))
            if said_on is not None and said_on != anchor:
                anchor, minutes = said_on, 0
            minutes += 1
            yield Turn(
                message_id=f"{name}/{said.id}",
                session_id=f"{name}/{number}",
                name="",
                role=said.role,
                text=_MARKER.sub("", said.content),
                created_at=(anchor + timedelta(minutes=minutes)).isoformat() if anchor else None,
            )


def _day(anchor: str | None) -> datetime | None:
    """Return the day of an anchor; None without one, or where what stands there is no day."""
    try:
        return datetime.strptime(anchor or "", _ANCHOR)  # noqa: DTZ007  # none is given
    except ValueError:
        return None


def _asked(name: str, questions: Mapping[str, list[_Asked]]) -> Iterator[LabelledQuestion]:
    for category, asked in questions.items():
        for place, given in enumerate(asked):
            gold = given.answer or given.ideal_answer or given.ideal_response or given.ideal_summary
            yield LabelledQuestion(
                question_id=f"{name}/{category}/{place}",
                text=given.question,
                category=category,
                evidence=[f"{name}/{number}" for number in _ids(given.source_chat_ids)],
                gold=text_of(gold),
                rubric=given.rubric,
                answerable=category != "abstention",
                change=_CHANGES.get(category),
            )


def _ids(given: JsonValue) -> list[int]:
    """Return the numbers in a list, or in the lists of the sides that are told apart."""
    if isinstance(given, list | dict):
        parts = given.values() if isinstance(given, dict) else given
        return sorted({number for part in parts for number in _ids(part)})
    return [int(given)] if isinstance(given, int | str) and str(given).isdecimal() else []


SOURCE_100K = Source(
    name="beam-100k",
    title="BEAM 100K",
    files=("the folder chats/100K",),
    where="https://github.com/mohammadtavakoli78/BEAM (or its download_dataset.py, which writes test_chats/100K)",
    licence="CC BY-SA 4.0",
    form=f"a folder of numbered chats, each with chat.json and {_QUESTIONS.as_posix()}",
    read=read,
    parts=parts,
)
SOURCE_500K = replace(
    SOURCE_100K,
    name="beam-500k",
    title="BEAM 500K",
    files=("the folder chats/500K",),
    where=SOURCE_100K.where.replace("test_chats/100K", "test_chats/500K"),
)
