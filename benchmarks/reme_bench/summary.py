"""Sums of a file of results: means with intervals, differences from baselines, and the systems of two files in one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from reme_bench import changes, evidence
from reme_bench.evidence import auroc, interval
from reme_bench.results import ALL, Paired, Results, ResultsFileError, Row, Summary

ABSTENTION, TOKENS, REACHED = "abstention AUROC", "tokens to 80 %", "80 % reached"
# Of a normal distribution, for a 95 % interval.
_Z = 1.96


def as_result(row: evidence.Row, notes_within: int | None = None) -> Row:
    """Return the row of a file of what a system found for a question, with the notes of a budget if one is named."""
    question = row.question
    return Row(
        system=row.system,
        conversation=question.conversation,
        question_id=question.question_id,
        question=question.text,
        category=question.category,
        answerable=question.answerable,
        figures=row.figures | (changes.figures(row) if row.figures else {}),
        top_score=row.scores[0] if row.scores else None,
        milliseconds=row.milliseconds,
        ids=tuple(row.ids),
        tokens_to_80=row.tokens_to_80,
        gold=question.gold,
        notes=None if notes_within is None else row.notes.get(notes_within),
    )


def summarised(results: Results) -> Results:
    """Return the results with means and differences made anew of their rows."""
    rows = {system.name: [row for row in results.rows if row.system == system.name] for system in results.systems}
    summary = [entry for name, own in rows.items() for entry in _summary(name, own)]
    baselines = [system.name for system in results.systems if system.kind == "baseline"]
    paired = [
        entry
        for system in results.systems
        if system.kind != "baseline"
        for name in baselines
        for entry in _paired(rows[system.name], rows[name])
    ]
    return results.model_copy(update={"summary": tuple(summary), "paired": tuple(paired)})


def merged(results: Results, more: Results) -> Results:
    """Put the systems of a second file beside those of a first; of one that both have, the second's counts.

    Raises:
        ResultsFileError: They are about other questions.
    """
    if results.dataset.sha256 != more.dataset.sha256 or _asked(results) != _asked(more):
        told = f"{results.dataset.name} ({len(_asked(results))}) and {more.dataset.name} ({len(_asked(more))})"
        message = f"two files of results are about other questions: {told}; run both on one file of the data set"
        raise ResultsFileError(message)
    new = {system.name for system in more.systems}
    systems = (*(system for system in results.systems if system.name not in new), *more.systems)
    rows = (*(row for row in results.rows if row.system not in new), *more.rows)
    versions = results.versions | more.versions
    return summarised(results.model_copy(update={"systems": systems, "rows": rows, "versions": versions}))


def _asked(results: Results) -> set[tuple[str, str]]:
    return {_question(row) for row in results.rows}


def _question(row: Row) -> tuple[str, str]:
    """Return what names a question: ids may begin anew in each conversation."""
    return row.conversation, row.question_id


def figures(row: Row) -> dict[str, float]:
    """Figures of a row as they are summed up: those of its evidence, its tokens and its marks."""
    told = dict(row.figures)
    if f"any@{evidence.PLACES[0]}" in told:  # a whole ranking was looked at
        told[REACHED] = float(row.tokens_to_80 is not None)
    if row.tokens_to_80 is not None:
        told[TOKENS] = float(row.tokens_to_80)
    if row.marks is not None:
        told |= {"strict": float(row.marks.strict), "lenient": float(row.marks.lenient)}
    return told


def _summary(system: str, rows: Sequence[Row]) -> Iterator[Summary]:
    categories = [ALL, *sorted({row.category for row in rows})]
    for category in categories:
        part = [figures(row) for row in rows if category in {ALL, row.category}]
        for figure in _names(part):
            values = [told[figure] for told in part if figure in told]
            low, high = interval(values)
            mean = statistics.fmean(values)
            yield Summary(system=system, category=category, figure=figure, mean=mean, low=low, high=high, n=len(values))
    scored = [(row.top_score or 0.0, row.answerable) for row in rows]
    positive, negative = ([score for score, answerable in scored if answerable is side] for side in (True, False))
    if positive and negative and any(row.top_score for row in rows):
        mean = auroc(positive, negative)
        low, high = auroc_interval(mean, len(positive), len(negative))
        yield Summary(system=system, category=ALL, figure=ABSTENTION, mean=mean, low=low, high=high, n=len(rows))


def auroc_interval(area: float, positive: int, negative: int) -> tuple[float, float]:
    """95 % interval of an AUROC over so many of each side, by its standard error.

    Source: Hanley and McNeil 1982, The meaning and use of the area under a receiver operating characteristic curve.
    """
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (positive - 1) * (q1 - area**2) + (negative - 1) * (q2 - area**2)
    half = _Z * math.sqrt(max(variance, 0.0) / (positive * negative))
    return max(area - half, 0.0), min(area + half, 1.0)


def _paired(rows: Sequence[Row], plain: Sequence[Row]) -> Iterator[Paired]:
    beside = {_question(row): figures(row) for row in plain}
    pairs = [(figures(row), beside.get(_question(row), {})) for row in rows]
    for figure in _names(told for told, _ in pairs):
        gaps = [told[figure] - other[figure] for told, other in pairs if figure in told and figure in other]
        if gaps:
            low, high = interval(gaps)
            yield Paired(
                system=rows[0].system,
                baseline=plain[0].system,
                figure=figure,
                difference=statistics.fmean(gaps),
                low=low,
                high=high,
                n=len(gaps),
            )


def _names(told: Iterable[dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for figures in told for name in figures))
