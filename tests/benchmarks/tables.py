"""Rows of questions as tables that a person reads, and the figures that bars are held by."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from reme_bench import changes
from reme_bench.evidence import BUDGETS, PLACES, Row, auroc, interval
from reme_bench.tables import aligned

HEADLINE = "recall@10"
FIGURES = (
    *(f"recall@{k}" for k in PLACES),
    *(f"any@{k}" for k in PLACES[:2]),
    *(f"{what} in {budget:,}" for what in ("evidence", "words") for budget in BUDGETS),
)
_TITLES = {
    "update: of those found in ten, the newest first": "newest first",
    "update: as_of leaves the newer out": "as_of, newer left out",
    "update: as_of, the older in the first ten": "as_of, older@10",
    "update: the same without as_of": "older@10",
    "contradiction: both sides in the first ten": "both sides@10",
}
By = Mapping[str, Sequence[Row]]

LEGEND = """\
recall@k: share of a question's evidence messages among the first k distinct messages. any@k: at least one of them.
evidence in B: retrieve(token_budget=B); a message returned whole counts 1, a passage of it the share of its terms.
words in B: share of the gold answer's terms (the rubric's where there is none) that the evidence messages hold at all
  and that occur in the texts returned. Percent, means over questions; [95 % interval, questions resampled].
abstain: AUROC of the first result's score, questions with evidence against those without an answer."""


def by_system(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each system, systems in the order of their first row."""
    systems: dict[str, list[Row]] = {}
    for row in rows:
        systems.setdefault(row.system, []).append(row)
    return systems


def systems_table(systems: By) -> str:
    """A line a system: the means of all figures, the interval of recall@10, abstention and the median time."""
    head = ["", *FIGURES, "recall@10 interval", "abstain", "ms p50"]
    lines = [head]
    for name, rows in systems.items():
        low, high = percent_interval([row.figures[HEADLINE] for row in rows if HEADLINE in row.figures])
        has_scores = any(score for row in rows for score in row.scores)
        area = f"{100 * abstention(rows):.1f}" if has_scores else "nan"
        spent = statistics.median(row.milliseconds for row in rows)
        figures = [f"{mean(rows, figure):.1f}" for figure in FIGURES]
        told = [name, *figures, f"[{low}, {high}]", area, f"{spent:.1f}" if spent else "nan"]
        lines.append(["-" if cell == "nan" else cell for cell in told])
    return aligned(lines)


def kinds_table(systems: By, ours: Sequence[str], plain: str, names: Mapping[str, str] | None = None) -> str:
    """A line a kind of question: recall@10 of each system, and ours less the plain one with its paired interval."""
    lines = [["recall@10 by kind", "n", *systems, *(f"{name} - {plain}" for name in ours)]]
    for kind in kinds(systems[plain]):
        part = of_kind(systems, kind)
        cells = [f"{mean(rows, HEADLINE):.1f}" for rows in part.values()]
        paired = [_paired(part[name], part[plain]) for name in ours]
        lines.append([(names or {}).get(kind, kind), str(len(part[plain])), *cells, *paired])
    return aligned(lines)


def changes_table(systems: By) -> str:
    """A line a measure of facts that change, a column a system."""
    told = {name: _changes_of(rows) for name, rows in systems.items()}
    measures = list(next(iter(told.values())))
    return aligned([["", *told], *[[measure, *(told[name][measure] for name in told)] for measure in measures]])


def _changes_of(rows: Sequence[Row]) -> dict[str, str]:
    """Percent (and the number of questions it is the mean of) of one system; "-" where it wasn't asked."""
    told = [(row.question.change, changes.figures(row)) for row in rows]
    values = {
        title: [given[figure] for change, given in told if title.startswith(f"{change}:") and figure in given]
        for title, figure in _TITLES.items()
    }
    return {
        title: f"{100 * statistics.fmean(known):.1f} ({len(known)})" if known else "-"
        for title, known in values.items()
    }


def kinds(rows: Sequence[Row]) -> list[str]:
    """Return the kinds of question that have figures."""
    return sorted({row.question.category for row in rows if row.figures})


def of_kind(systems: By, kind: str) -> dict[str, list[Row]]:
    """Return the rows with figures of one kind of question."""
    return {
        name: [row for row in rows if row.figures and row.question.category == kind] for name, rows in systems.items()
    }


def kinds_below(systems: By, ours: str, plain: str) -> list[str]:
    """Kinds of question whose paired interval lies wholly below the plain system's."""
    parts = {kind: of_kind(systems, kind) for kind in kinds(systems[plain])}
    return [kind for kind, part in parts.items() if interval(differences(part[ours], part[plain], HEADLINE))[1] < 0]


def _paired(rows: Sequence[Row], plain: Sequence[Row]) -> str:
    gaps = differences(rows, plain, HEADLINE)
    low, high = percent_interval(gaps)
    return f"{100 * statistics.fmean(gaps):+.1f} [{low:+}, {high:+}]"


def mean(rows: Sequence[Row], figure: str) -> float:
    """Mean of a figure in percent, to one decimal; not a number where no row has it."""
    values = [row.figures[figure] for row in rows if figure in row.figures]
    return round(100 * statistics.fmean(values), 1) if values else float("nan")


def percent_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval in percent, to one decimal."""
    low, high = interval(values)
    return round(100 * low, 1), round(100 * high, 1)


def differences(rows: Sequence[Row], others: Sequence[Row], figure: str) -> list[float]:
    """Figure of the rows less that of the others, question by question, where both have it."""
    beside = {row.question.question_id: row.figures for row in others}
    return [
        row.figures[figure] - beside[row.question.question_id][figure]
        for row in rows
        if figure in row.figures and figure in beside[row.question.question_id]
    ]


def abstention(rows: Sequence[Row]) -> float:
    """AUROC of the score of the first result: questions with evidence against those without an answer."""
    best = [(row.scores[0] if row.scores else 0.0, row.question.answerable) for row in rows]
    return auroc([score for score, yes in best if yes], [score for score, yes in best if not yes])
