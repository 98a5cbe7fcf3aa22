"""Tables of a file of results that a person reads."""

from __future__ import annotations

from collections.abc import Sequence

from reme_bench.results import ALL, Results, Summary
from reme_bench.summary import ABSTENTION, REACHED, TOKENS

_FOUND = ("recall@5", "recall@10", "any@10", "evidence in 1,024", "words in 1,024", "newest first", ABSTENTION, REACHED)
_SHOWN = (*_FOUND, TOKENS, "first try", "turns right", "tools named", "something found", "strict", "lenient")


def results_table(results: Results) -> str:
    """A line a system: the means that there are over all questions, then what it cost, and what was not measured.

    Where answers were judged, the marks stand there too, and below them who judged by which prompt.
    """
    means = {(entry.system, entry.figure): entry for entry in results.summary if entry.category == ALL}
    figures = [shown for shown in _SHOWN if any(figure == shown for _, figure in means)]
    lines = [["", *figures, "append ms", "search ms", "MB", "model calls", "tokens"]]
    for system in results.systems:
        told = [_cell(means.get((system.name, figure))) for figure in figures]
        spent = ["-" if ms is None else f"{ms.p50:.1f} / {ms.p95:.1f}" for ms in (system.append_ms, system.search_ms)]
        size = "-" if system.bytes is None else f"{system.bytes / 1e6:.1f}"
        used = [str(system.model_calls), str(system.prompt_tokens + system.completion_tokens)]
        lines.append([system.name, *told, *spent, size, *used])
    missing = [f"{system.name}: no {one.what}: {one.why}" for system in results.systems for one in system.not_measured]
    set_ = results.dataset
    head = f"{set_.name}: {set_.conversations} conversations, {set_.messages:,} messages, {set_.questions:,} questions"
    return "\n".join([head, "", aligned(lines), "", "ms: median / 95th percentile", *missing, *_judged(results)])


def _judged(results: Results) -> list[str]:
    answering, prompt = results.answering, results.prompts.judge
    if answering is None or prompt is None:
        return []
    return ["", f"{answering.reader} answered; {answering.judge} judged by this prompt:", "", prompt.strip()]


def _cell(entry: Summary | None) -> str:
    if entry is None:
        return "-"
    if entry.figure == TOKENS:
        return f"{entry.mean:,.0f}"
    return f"{100 * entry.mean:.1f} [{100 * entry.low:.1f}, {100 * entry.high:.1f}]"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Write lines of cells in columns: the first to the left, the others to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )
