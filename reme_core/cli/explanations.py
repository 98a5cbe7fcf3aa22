"""Explanations of a search, printed: parts of each score, what was left out, the budget, and the time of each step."""

from __future__ import annotations

from reme_core.cli.items import print_hit
from reme_core.cli.output import Output, counted
from reme_core.schema import ExplainedHit, Explanation, WhyNot

_BAR = 24


def print_explanation(output: Output, explanation: Explanation) -> None:
    """Print how an answer came about: what was compared, best first, and what became of it."""
    for item in explanation.candidates:
        print_hit(output, item.rank, item.hit)
        _print_parts(output, item)
    budget = f" of {explanation.token_budget}" if explanation.token_budget is not None else ""
    taken = sum(item.left_out is None for item in explanation.candidates)
    output.line("results:", f"{taken} of {counted(len(explanation.candidates), 'candidate')}")
    output.line("tokens:", f"{explanation.tokens}{budget}")
    output.line("time:", *(f"{name} {milliseconds:.1f} ms" for name, milliseconds in explanation.steps.items()))
    if explanation.why_not is not None:
        _print_why_not(output, explanation.why_not)


def _print_parts(output: Output, item: ExplainedHit) -> None:
    if item.left_out is not None:
        output.indented(f"left out: {item.left_out.words}", "yellow")
    widest = max((abs(value) for value in item.parts.values()), default=0.0) or 1.0
    for name, value in sorted(item.parts.items(), key=lambda part: -abs(part[1])):
        bar = ("█" if value > 0 else "░") * max(1, round(abs(value) / widest * _BAR))
        output.indented(f"{name.replace('_', ' '):<20} {value:+.3f}  {bar}", "dim")


def _print_why_not(output: Output, why: WhyNot) -> None:
    output.line(f"why not {why.id}:", why.reason, style="bold")
    if why.found is not None and why.place is not None:
        output.indented(f"score {why.found.hit.score:.3f}")
        _print_parts(output, why.found.model_copy(update={"left_out": None}))
