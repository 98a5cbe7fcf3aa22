"""Joins what the systems wrote, or several runs of them, into one file of results: pure functions over values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TypedDict

from reme_bench import runner
from reme_bench.conversations import Conversation
from reme_bench.evidence import PLACES, Question, evidence_held, recall_at, words_held
from reme_bench.results import NotMeasured, Results, Row, System
from reme_bench.summary import merged, summarised

from reme_core import Hit

EVIDENCE, WORDS, RECALL = "evidence in 1,024", "words in 1,024", "recall@10"
NO_IDS = NotMeasured(what="evidence", why="it doesn't say which messages a result comes from")


class NoteOutput(TypedDict):
    """One note as a script writes it; `line` is what a reader sees."""

    text: str
    day: str
    ids: list[str]
    line: str


class QuestionOutput(TypedDict):
    """One question as a script answered it."""

    question_id: str
    ms: float
    notes: list[NoteOutput]
    ranking: list[str]


class ConversationOutput(TypedDict):
    """One conversation of a script's file."""

    conversation: str
    writes_ms: list[float]
    bytes: int
    questions: list[QuestionOutput]


class Output(TypedDict):
    """A script's file."""

    versions: dict[str, str]
    not_measured: list[dict[str, str]]
    conversations: list[ConversationOutput]


def system_of(name: str, output: Output, counts: Mapping[str, int]) -> System:
    """Sum up one system's run."""
    talks = output["conversations"]
    asked = [question for talk in talks for question in talk["questions"]]
    lacking = tuple(NotMeasured.model_validate(given) for given in output["not_measured"])
    return System(
        name=name,
        kind="reme" if name.startswith("reme,") else "peer",
        bytes=sum(talk["bytes"] for talk in talks),
        model_calls=counts["model_calls"],
        prompt_tokens=counts["prompt_tokens"],
        completion_tokens=counts["completion_tokens"],
        append_ms=runner.milliseconds([spent for talk in talks for spent in talk["writes_ms"]]),
        search_ms=runner.milliseconds([question["ms"] for question in asked]),
        not_measured=lacking if _names_messages(asked) else (*lacking, NO_IDS),
    )


def failed(name: str, why: str) -> System:
    """Name a system that could not be run at all."""
    return System(name=name, kind="peer", not_measured=(NotMeasured(what="everything", why=why),))


def rows_of(name: str, output: Output, conversations: Sequence[Conversation]) -> list[Row]:
    """Measure each answer against its evidence; ids are those that the loader makes."""
    questions = {question.question_id: question for talk in conversations for question in talk.questions}
    asked = [(talk["conversation"], answered) for talk in output["conversations"] for answered in talk["questions"]]
    with_ids = _names_messages(answered for _, answered in asked)
    return [
        _row(name, conversation, questions[answered["question_id"]], answered, with_ids)
        for conversation, answered in asked
    ]


def _row(name: str, conversation: str, question: Question, answered: QuestionOutput, with_ids: bool) -> Row:
    hits = [
        Hit(memory=note["text"], layer="message", score=0.0, message_ids=tuple(note["ids"]))
        for note in answered["notes"]
    ]
    figures = {WORDS: words_held(hits, question.answer_words)} if question.answer_words else {}
    if with_ids:
        figures[EVIDENCE] = evidence_held(hits, question.evidence, question.label_of)
        ids = question.labels(answered["ranking"])
        figures |= {f"recall@{k}": recall_at(ids, question.evidence.keys(), k) for k in PLACES}
    return Row(
        system=name,
        conversation=conversation,
        question_id=question.question_id,
        question=question.text,
        category=question.category,
        answerable=question.answerable,
        figures=figures,
        milliseconds=answered["ms"],
        gold=question.gold,
        notes="\n".join(note["line"] for note in answered["notes"]),
    )


def _names_messages(asked: Iterable[QuestionOutput]) -> bool:
    return any(note["ids"] for answered in asked for note in answered["notes"])


def joined(runs: Sequence[Results]) -> Results:
    """Put the systems of several runs on the same questions into one file, with sums made anew of all rows.

    Of a system that several have, the last one's counts; date, machine and models of answers are the first's.

    Raises:
        ResultsFileError: They are about other questions.
    """
    return summarised(reduce(merged, runs))


def without_texts(results: Results) -> Results:
    """Return the results without what the data set or a reader says: ids and figures alone."""
    blank: dict[str, object] = {"question": "", "gold": None, "notes": None, "answer": None}
    rows = tuple(row.model_copy(update=blank) for row in results.rows)
    return results.model_copy(update={"rows": rows})
