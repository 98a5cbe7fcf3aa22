"""Rows of questions as tables that a person reads."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from reme_bench import changes
from reme_bench.evidence import BUDGETS, PLACES, Row, abstention, differences, interval, mean, percent_interval
from reme_bench.results import ALL, Results, Summary
from reme_bench.summary import ABSTENTION, TOKENS

HEADLINE = "recall@10"
FIGURES = (
    *(f"recall@{k}" for k in PLACES),
    *(f"any@{k}" for k in PLACES[:2]),
    *(f"{what} in {budget:,}" for what in ("evidence", "words") for budget in BUDGETS),
)
# Of a file of results.
_SHOWN = ("recall@5", "recall@10", "any@10", "evidence in 1,024", "words in 1,024", "newest first", ABSTENTION)
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
    return _aligned(lines)


def kinds_table(systems: By, ours: Sequence[str], plain: str, names: Mapping[str, str] | None = None) -> str:
    """A line a kind of question: recall@10 of each system, and ours less the plain one with its paired interval."""
    lines = [["recall@10 by kind", "n", *systems, *(f"{name} - {plain}" for name in ours)]]
    for kind in kinds(systems[plain]):
        part = of_kind(systems, kind)
        cells = [f"{mean(rows, HEADLINE):.1f}" for rows in part.values()]
        paired = [_paired(part[name], part[plain]) for name in ours]
        lines.append([(names or {}).get(kind, kind), str(len(part[plain])), *cells, *paired])
    return _aligned(lines)


def changes_table(systems: By) -> str:
    """A line a measure of facts that change, a column a system."""
    told = {name: changes.table(rows) for name, rows in systems.items()}
    measures = list(next(iter(told.values())))
    return _aligned([["", *told], *[[measure, *(told[name][measure] for name in told)] for measure in measures]])


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


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def results_table(results: Results) -> str:
    """A line a system: means of a file of results over all questions, then what it cost, and what was not measured."""
    costs = ("tokens to 80 %", "append ms", "search ms", "MB", "model calls", "tokens")
    means = {(entry.system, entry.figure): entry for entry in results.summary if entry.category == ALL}
    lines = [["", *_SHOWN, *costs]]
    for system in results.systems:
        told = [_percent(means.get((system.name, figure))) for figure in _SHOWN]
        tokens = means.get((system.name, TOKENS))
        spent = ["-" if ms is None else f"{ms.p50:.1f} / {ms.p95:.1f}" for ms in (system.append_ms, system.search_ms)]
        size = "-" if system.bytes is None else f"{system.bytes / 1e6:.1f}"
        used = [str(system.model_calls), str(system.prompt_tokens + system.completion_tokens)]
        lines.append([system.name, *told, "-" if tokens is None else f"{tokens.mean:,.0f}", *spent, size, *used])
    missing = [f"{system.name}: no {one.what}: {one.why}" for system in results.systems for one in system.not_measured]
    set_ = results.dataset
    head = f"{set_.name}: {set_.conversations} conversations, {set_.messages:,} messages, {set_.questions:,} questions"
    return "\n".join([head, "", _aligned(lines), "", "ms: median / 95th percentile", *missing])


def _percent(entry: Summary | None) -> str:
    return "-" if entry is None else f"{100 * entry.mean:.1f} [{100 * entry.low:.1f}, {100 * entry.high:.1f}]"
