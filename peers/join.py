"""Joins what the systems wrote into one file of results, takes a judge's marks into it, and makes the table of it.

Pure functions over values; `run.py` reads and writes the files.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypedDict

from reme_bench.conversations import Conversation
from reme_bench.evidence import PLACES, Question, evidence_held, recall_at, words_held
from reme_bench.results import ALL, Dataset, Machine, Marks, NotMeasured, Results, Row, System
from reme_bench.runner import milliseconds
from reme_bench.summary import REACHED, TOKENS, summarised

from reme_core import Hit

BEGIN, END = "<!-- peers: made by `make peers` from peers/results.json -->", "<!-- end of peers -->"
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


class Counts(TypedDict):
    """What a system asked of the endpoint."""

    model_calls: int
    prompt_tokens: int
    completion_tokens: int


class Output(TypedDict):
    """A script's file."""

    versions: dict[str, str]
    not_measured: list[dict[str, str]]
    conversations: list[ConversationOutput]


def system_of(name: str, output: Output, counts: Counts) -> System:
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
        append_ms=milliseconds([spent for talk in talks for spent in talk["writes_ms"]]),
        search_ms=milliseconds([question["ms"] for question in asked]),
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
        question="",
        category=question.category,
        answerable=question.answerable,
        figures=figures,
        milliseconds=answered["ms"],
    )


def _names_messages(asked: Iterable[QuestionOutput]) -> bool:
    return any(note["ids"] for answered in asked for note in answered["notes"])


def results_of(
    systems: Sequence[System], rows: Sequence[Row], versions: Mapping[str, str], dataset: Dataset, made_at: datetime
) -> Results:
    """Put the systems into one file; of the data set it holds ids and figures, and no text."""
    machine = Machine(python=platform.python_version(), platform=platform.platform(), cpus=os.cpu_count() or 1)
    return _summed(
        Results(
            made_at=made_at,
            dataset=dataset,
            machine=machine,
            versions=dict(versions),
            systems=tuple(systems),
            rows=tuple(rows),
        )
    )


def _summed(results: Results) -> Results:
    """Sum up, without what asks for a ranking beyond the budget."""
    whole = summarised(results)
    kept = tuple(entry for entry in whole.summary if entry.figure not in {TOKENS, REACHED})
    return whole.model_copy(update={"summary": kept})


def marked(
    results: Results, marks: Mapping[str, Mapping[str, Sequence[int]]], key: Mapping[str, Sequence[str]]
) -> Results:
    """Take a judge's marks: {question id: {letter: [strict, lenient]}}; `key` names the system behind each letter.

    Raises:
        ValueError: A mark is of a system or a question that the results don't have.
    """
    given = {
        (key[question][place], question): Marks.model_validate(dict(zip(("strict", "lenient"), pair, strict=True)))
        for question, letters in marks.items()
        for place, pair in ((ord(letter) - ord("a"), pair) for letter, pair in letters.items())
    }
    unknown = given.keys() - {(row.system, row.question_id) for row in results.rows}
    if unknown:
        raise ValueError(f"marks of {sorted(unknown)[0]}, which the results don't have: judge the sheets of this run")
    rows = tuple(
        row.model_copy(update={"marks": given.get((row.system, row.question_id), row.marks)}) for row in results.rows
    )
    return _summed(results.model_copy(update={"rows": rows}))


def table(results: Results) -> str:
    """Make the table of the README, with what was measured on what above it and what was not below."""
    head = ("system", EVIDENCE, WORDS, RECALL, "answers", "session stored", "question", "on disk", "model calls")
    lines = [_cells(head), _cells(["---"] + ["---:"] * (len(head) - 1))]
    lines += [_cells(_line(results, system)) for system in results.systems]
    lacking = [
        f"- {system.name}: {entry.what}: {entry.why.rstrip('.')}."
        for system in results.systems
        for entry in system.not_measured
    ]
    told = ["Not measured:", "", *lacking] if lacking else []
    return "\n".join([_heading(results), "", *lines, "", _legend(results), *([""] if told else []), *told])


def in_readme(readme: str, results: Results) -> str:
    """Put the table between its two marks (ValueError: the README lacks them)."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"the README needs one line {BEGIN!r} and one {END!r}; the table stands between them")
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{table(results)}\n{END}{rest.split(END)[1]}"


def _heading(results: Results) -> str:
    data, machine = results.dataset, results.machine
    names = sorted({row.conversation for row in results.rows})
    which = f"conversation{'s' if len(names) > 1 else ''} {', '.join(names)}"
    versions = ", ".join(f"{name} {version}" for name, version in sorted(results.versions.items()))
    return (
        f"Measured on {results.made_at:%Y-%m-%d} with {data.name} ({which}: {data.messages:,} messages, "
        f"{data.questions} questions), {machine.cpus} cores, the same "
        f"vectors for all (all-MiniLM-L6-v2), no chat model unless a name says so: {versions}."
    )


def _legend(results: Results) -> str:
    marked_rows = {row.question_id for row in results.rows if row.marks}
    answers = (
        f"Answers: right ones of {len(marked_rows)} questions, strictly and leniently judged, one reader a system."
        if marked_rows
        else "Answers were not judged."
    )
    return (
        "Shares in percent, with the half width of their 95 % interval; times are medians in milliseconds on "
        f"a shared machine, without the making of vectors. {answers}"
    )


def _line(results: Results, system: System) -> list[str]:
    size = "" if system.bytes is None else f"{system.bytes / 1e6:.1f} MB"
    stored = "" if system.append_ms is None else f"{system.append_ms.p50:,.0f}"
    found = "" if system.search_ms is None else f"{system.search_ms.p50:,.0f}"
    shares = [_share(results, system.name, figure) for figure in (EVIDENCE, WORDS, RECALL)]
    return [system.name, *shares, _answers(results, system.name), stored, found, size, _calls(system)]


def _share(results: Results, name: str, figure: str) -> str:
    for entry in results.summary:
        if (entry.system, entry.category, entry.figure) == (name, ALL, figure):
            return f"{100 * entry.mean:.1f} ±{50 * (entry.high - entry.low):.1f}"
    return ""


def _answers(results: Results, name: str) -> str:
    marks = [row.marks for row in results.rows if row.system == name and row.marks]
    if not marks:
        return ""
    strict, lenient = (100 * sum(getattr(mark, kind) for mark in marks) / len(marks) for kind in ("strict", "lenient"))
    return f"{strict:.1f}, {lenient:.1f}"


def _calls(system: System) -> str:
    if system.search_ms is None:
        return ""
    return (
        f"{system.model_calls} ({(system.prompt_tokens + system.completion_tokens) / 1000:,.0f}k tokens)"
        if system.model_calls
        else "0"
    )


def _cells(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"
