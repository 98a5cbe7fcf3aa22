"""One HTML page of one or several files of results: tables, pictures, and each question with what each system found.

The page stands by itself: no script, nothing from elsewhere, dark where the reader's screen is. Every text of a data
set, a system or a model is escaped, and what nobody would see in it is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reme_bench.report_pictures import IntervalPicture, MeasuredMean, interval_picture, shown
from reme_bench.results import ALL, Milliseconds, Results, Row, Summary, System
from reme_core.errors import InvalidInputError
from reme_core.schema.hits import with_hidden_shown
from reme_core.serve.inspect.pictures import Part, stacked

# Of what was found for a question, so many ids are named; the file of results has all of them.
_IDS_SHOWN = 10
# The figures that the marks of a judge are summed up as.
_MARKS = ("strict", "lenient")
# Figures whose pictures stand first; the others follow in the order of the file, folded.
_PICTURED = (*_MARKS, "first try", "evidence in 1,024", "recall@10", "abstention AUROC", "tokens to 80 %")


class Run(NamedTuple):
    """A file of results; `label` tells it from the others of the same data set, "" where there are none."""

    label: str
    results: Results

    def name(self, system: str) -> str:
        """Return the name of a system on the page."""
        return f"{system} ({self.label})" if self.label else system


class Chart(NamedTuple):
    """A figure of every system: as a picture, and the rows that it is of."""

    figure: str
    picture: IntervalPicture
    rows: Sequence[MeasuredMean]
    share: bool


class AnsweredQuestion(NamedTuple):
    """A question of a data set, and what each system made of it."""

    first: Row
    rows: Sequence[tuple[str, Row]]


@dataclass(frozen=True, slots=True)
class Section:
    """What the page shows of one data set: the runs on it, side by side."""

    runs: Sequence[Run]

    @property
    def systems(self) -> list[tuple[str, System]]:
        """Return every system with its name on the page."""
        return [(run.name(system.name), system) for run in self.runs for system in run.results.systems]

    @property
    def charts(self) -> list[Chart]:
        """Return the figures over all questions."""
        return [self._charted(figure, ALL) for figure in self._figures(ALL)]

    @property
    def categories(self) -> Mapping[str, list[Chart]]:
        """Return the figures of each category, where the questions have more than one."""
        found = [part.category for run in self.runs for part in run.results.summary if part.category != ALL]
        return {name: [self._charted(figure, name) for figure in self._figures(name)] for name in dict.fromkeys(found)}

    @property
    def differences(self) -> list[Chart]:
        """Return each figure of a system less that of another one, question by question."""
        told = [(run, pair) for run in self.runs for pair in run.results.paired]
        made = []
        for figure in dict.fromkeys(pair.figure for _, pair in told):
            rows = [
                MeasuredMean(
                    f"{run.name(pair.system)} less {pair.baseline}", pair.difference, pair.low, pair.high, pair.n
                )
                for run, pair in told
                if pair.figure == figure
            ]
            made.append(_chart(figure, rows, around_zero=True))
        return made

    @property
    def questions(self) -> list[AnsweredQuestion]:
        """Return the questions in the order of the files."""
        by: dict[tuple[str, str], list[tuple[str, Row]]] = {}
        for run in self.runs:
            for row in run.results.rows:
                by.setdefault((row.conversation, row.question_id), []).append((run.name(row.system), row))
        return [AnsweredQuestion(rows[0][1], rows) for rows in by.values()]

    def latency(self, times: str) -> list[tuple[str, Milliseconds, list[Part]]]:
        """Return median and 95th percentile of `search` or `append`, as numbers and as a bar."""
        told = [(name, system.search_ms if times == "search" else system.append_ms) for name, system in self.systems]
        found = [(name, spent) for name, spent in told if spent is not None]
        most, parts = max((spent.p95 for _, spent in found), default=0.0), ("half within", "95 % within")
        return [
            (name, spent, stacked(dict(zip(parts, (spent.p50, spent.p95 - spent.p50), strict=True)), most, parts))
            for name, spent in found
        ]

    def _figures(self, category: str) -> list[str]:
        return list(dict.fromkeys(part.figure for part in self._summaries() if part.category == category))

    def _summaries(self) -> Iterator[Summary]:
        return (part for run in self.runs for part in run.results.summary)

    def _charted(self, figure: str, category: str) -> Chart:
        rows = [
            MeasuredMean(run.name(part.system), part.mean, part.low, part.high, part.n)
            for run in self.runs
            for part in run.results.summary
            if (part.figure, part.category) == (figure, category)
        ]
        return _chart(figure, rows)


def pictured(charts: Sequence[Chart]) -> list[Chart]:
    """Return the figures, those first that say most."""
    return sorted(charts, key=lambda one: _PICTURED.index(one.figure) if one.figure in _PICTURED else len(_PICTURED))


def _chart(figure: str, rows: Sequence[MeasuredMean], *, around_zero: bool = False) -> Chart:
    share = all(abs(value) <= 1 for row in rows for value in row[1:4])
    return Chart(figure, interval_picture(rows, share=share, around_zero=around_zero), rows, share)


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read files of results; those of one data set are told apart by the names of their files.

    Raises:
        InvalidInputError: No file was named.
        ResultsFileError: One is no file of results.
    """
    if not paths:
        msg = "results: name at least one file that `reme bench` wrote"
        raise InvalidInputError(msg)
    read = [(path, Results.read(path)) for path in paths]
    times = Counter(results.dataset.sha256 for _, results in read)
    return [Run(path.stem if times[results.dataset.sha256] > 1 else "", results) for path, results in read]


def render(runs: Sequence[Run]) -> str:
    """Return the page of these runs, those on the same data set side by side."""
    by: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        by.setdefault((run.results.dataset.name, run.results.dataset.sha256), []).append(run)
    sections = [Section(together) for together in by.values()]
    page = _environment().get_template("report.html")
    return page.render(sections=sections, style=_style(), most_ids=_IDS_SHOWN, marked=_MARKS)


def write_report(paths: Sequence[Path], out: Path) -> None:
    """Write the page of these files of results (InvalidInputError, ResultsFileError, OSError)."""
    out.write_text(render(read_runs(paths)), encoding="utf-8")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("reme_bench"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: with_hidden_shown(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"figure": shown, "pictured": pictured, "number": "{:,}".format}
    return made


def _style() -> Markup:
    """Return the style of the inspector with what this page has besides."""
    sources = (files("reme_core.serve.inspect"), files("reme_bench"))
    texts = [source.joinpath("templates", "style.css").read_text(encoding="utf-8") for source in sources]
    return Markup("\n".join(texts))  # noqa: S704  # our own files
