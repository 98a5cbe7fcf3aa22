"""Tables of files of results for README and manual, each between two marks of its page."""

from __future__ import annotations

from collections.abc import Sequence

from reme_bench.results import ALL, Results, System

from peers.join import EVIDENCE, RECALL, WORDS

# Marks of the README's table and the manual's, each ended by the other line.
TABLE = "<!-- peers: made by `make peers` from peers/results.json -->"
ANSWERS = "<!-- peers: made by `make peers` from peers/answered.json -->"
END = "<!-- end of peers -->"
STRICT, LENIENT = "strict", "lenient"


def table(results: Results) -> str:
    """Make the table of a file of results, with what was measured on what above it and what was not below."""
    shares = [EVIDENCE, WORDS, RECALL, *((STRICT, LENIENT) if _judged(results) else ())]
    head = ("system", *shares, "session stored", "question", "on disk", "model calls")
    lines = [_cells(head), _cells(["---"] + ["---:"] * (len(head) - 1))]
    lines += [_cells(_line(results, system, shares)) for system in results.systems]
    lacking = [
        f"- {system.name}: {entry.what}: {entry.why.rstrip('.')}."
        for system in results.systems
        for entry in system.not_measured
    ]
    told = ["", "Not measured:", "", *lacking] if lacking else []
    return "\n".join([_heading(results), "", *lines, "", _legend(results), *told])


def answers_line(results: Results) -> str:
    """Make the README's line of the answers that were judged, best first, with the page that says how."""
    shares = {system.name: _share(results, system.name, STRICT) for system in results.systems}
    named = [
        f"{name} {share}" for name, share in sorted(shares.items(), key=lambda pair: pair[1], reverse=True) if share
    ]
    return (
        f"Right answers from such notes, in percent of {_judged(results)} questions, where readers played the models "
        f"that answer and judge ([how](docs/peers.md#answers)): {'; '.join(named)}."
    )


def between(page: str, begin: str, told: str) -> str:
    """Put a text between a mark and the next end of one (ValueError: the page lacks them)."""
    before, mark, rest = page.partition(f"{begin}\n")
    _, end, after = rest.partition(f"\n{END}")
    if not mark or not end or begin in rest:
        raise ValueError(
            f"the page needs one line {begin!r} and a line {END!r} after it: the table stands between them"
        )
    return f"{before}{mark}{told}{end}{after}"


def _judged(results: Results) -> int:
    """Count the questions whose answers have marks."""
    return len({(row.conversation, row.question_id) for row in results.rows if row.marks})


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
    judged = _judged(results)
    made = results.answering
    whom = f"by {made.reader} and judged by {made.judge}" if made else "and judged by readers"
    answers = f"{STRICT}, {LENIENT}: right answers to {judged} questions, answered {whom}; " if judged else ""
    return (
        f"Shares in percent, with the half width of their 95 % interval; {answers}times are medians in milliseconds on "
        "a shared machine, without the making of vectors."
    )


def _line(results: Results, system: System, shares: Sequence[str]) -> list[str]:
    size = "" if system.bytes is None else f"{system.bytes / 1e6:.1f} MB"
    stored = "" if system.append_ms is None else f"{system.append_ms.p50:,.0f}"
    found = "" if system.search_ms is None else f"{system.search_ms.p50:,.0f}"
    told = [_share(results, system.name, figure) for figure in shares]
    return [system.name, *told, stored, found, size, _calls(system)]


def _share(results: Results, name: str, figure: str) -> str:
    for entry in results.summary:
        if (entry.system, entry.category, entry.figure) == (name, ALL, figure):
            return f"{100 * entry.mean:.1f} ±{50 * (entry.high - entry.low):.1f}"
    return ""


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
