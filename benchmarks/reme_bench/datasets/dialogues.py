"""Two people's chats as LoCoMo and REALTALK write them down: sessions by number, turns by `dia_id` ("D3:12")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from pydantic import BaseModel, JsonValue, TypeAdapter

from reme_bench.conversations import Conversation, LabelledQuestion, Turn, conversation
from reme_bench.datasets.source import text_of

_SESSION = re.compile(r"session_(\d+)")
# Labels are written in several ways: "D1:3", "D8:6; D9:17", "D:11:26", "D30:05", "D2:4-6", "D1:3.".
# No number has more than four digits: a range is written out.
_LABEL = re.compile(r"D:?(\d{1,4}):(\d{1,4})(?!\d)(?:\s*-\s*(?:D:?(\d{1,4}):)?(\d{1,4})(?!\d))?")


class Utterance(BaseModel):
    """A turn; REALTALK has its own text and time for each."""

    speaker: str
    dia_id: str
    text: str | None = None
    clean_text: str | None = None
    blip_caption: str | None = None
    date_time: str | None = None


class Qa(BaseModel):
    """A question; category 5 of LoCoMo has no answer."""

    question: str
    category: int
    answer: JsonValue = None
    evidence: list[str] = []


_UTTERANCES = TypeAdapter(list[Utterance])


def chat(
    name: str,
    talk: Mapping[str, JsonValue],
    first_speaker: str,
    qas: Sequence[Qa],
    kinds: Mapping[int, str],
    time_form: str,
) -> Conversation:
    """Put a chat together: the first speaker as user, the other as assistant; images by their captions.

    `kinds` names the categories that can be answered, `time_form` how times are written, of a turn or else its session.

    Raises:
        ValueError: There is no session, or a time is written otherwise.
    """
    if not any(_SESSION.fullmatch(key) for key in talk):
        msg = f"no session_1 in {name!r}"
        raise ValueError(msg)
    return conversation(name, _turns(name, talk, first_speaker, time_form), _asked(name, qas, kinds))


def _turns(name: str, talk: Mapping[str, JsonValue], first_speaker: str, time_form: str) -> Iterator[Turn]:
    sessions = sorted((int(match[1]), key) for key in talk if (match := _SESSION.fullmatch(key)))
    for number, key in sessions:
        said_at = talk.get(f"{key}_date_time")
        for turn in _UTTERANCES.validate_python(talk[key] or []):
            at = turn.date_time or (said_at if isinstance(said_at, str) else None)
            yield Turn(
                message_id=f"{name}/{turn.dia_id}",
                session_id=f"{name}/{number}",
                name=turn.speaker,
                role="user" if turn.speaker == first_speaker else "assistant",
                text=_text(turn),
                created_at=datetime.strptime(at, time_form).isoformat() if at else None,  # noqa: DTZ007  # none is given
            )


def _text(turn: Utterance) -> str:
    text = (turn.text if turn.clean_text is None else turn.clean_text) or ""
    return f"{text} [shares {turn.blip_caption}]".strip() if turn.blip_caption else text


def _asked(name: str, qas: Sequence[Qa], kinds: Mapping[int, str]) -> Iterator[LabelledQuestion]:
    for place, qa in enumerate(qas):
        yield LabelledQuestion(
            question_id=f"{name}/{place}",
            text=qa.question,
            category=kinds.get(qa.category, str(qa.category)),
            evidence=[f"{name}/{label}" for label in labels(qa.evidence)],
            gold=text_of(qa.answer),
            answerable=qa.category in kinds,
        )


def labels(written: Iterable[str]) -> Iterator[str]:
    """Read the labels of messages, one by one, ranges written out."""
    for session, first, to_session, last in (match.groups() for text in written for match in _LABEL.finditer(text)):
        within = last is not None and to_session in {None, session}
        for number in range(int(first), int(last if within else first) + 1):
            yield f"D{int(session)}:{number}"
        if last is not None and not within:
            yield f"D{int(to_session)}:{int(last)}"
