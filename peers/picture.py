"""The picture of a file of results: a lane a system, its mean and 95 % interval, as an SVG that stands by itself."""

from __future__ import annotations

from html import escape

from reme_bench.report_pictures import IntervalPicture, MeasuredMean, interval_picture, shown
from reme_bench.results import ALL, Results

from peers.join import EVIDENCE, WORDS

FIGURES = (EVIDENCE, WORDS)
_HEAD = 56
_WIDTH = 1000
_STYLE = (
    ".page{fill:#fff}text{fill:#1d2b2b}.tick{stroke:#c5cfcf}.span{stroke:#00796b;stroke-width:5}.mean{fill:#00796b}"
    "@media (prefers-color-scheme:dark){.page{fill:#1e2129}text{fill:#e6eeee}.tick{stroke:#3d4552}"
    ".span{stroke:#4db6ac}.mean{fill:#4db6ac}}"
)


def picture(results: Results) -> str:
    """Draw the figures of every system that has them, one below the other, in percent."""
    parts: list[str] = []
    top = 0
    for figure in FIGURES:
        rows = [
            MeasuredMean(entry.system, entry.mean, entry.low, entry.high, entry.n)
            for entry in results.summary
            if (entry.category, entry.figure) == (ALL, figure)
        ]
        drawn = interval_picture(rows)
        parts.append(f'<g transform="translate(0 {top})">{_panel(figure, drawn)}</g>')
        top += drawn.height + _HEAD
    label = f"{' and '.join(FIGURES)} tokens of each system: means with 95 % intervals"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img" aria-label="{escape(label)}" '
        f'font-family="system-ui, sans-serif" font-size="25">\n<style>{_STYLE}</style>\n'
        f'<rect class="page" width="{_WIDTH}" height="{top}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(figure: str, drawn: IntervalPicture) -> str:
    bottom = drawn.height - 34
    lines = [f'<text x="24" y="38" font-weight="600">{escape(figure)} tokens, percent</text>']
    lines.append(f'<g transform="translate(0 {_HEAD})">')
    lines += [
        f'<line class="tick" x1="{tick.x}" x2="{tick.x}" y1="4" y2="{bottom}"/>'
        f'<text x="{tick.x}" y="{drawn.height - 8}" text-anchor="middle">{escape(tick.text.removesuffix(".0"))}</text>'
        for tick in drawn.ticks
    ]
    for lane in drawn.lanes:
        lines.append(f'<text x="24" y="{lane.y - 16}">{escape(lane.measured.name)}</text>')
        lines.append(f'<text x="976" y="{lane.y - 16}" text-anchor="end">{shown(lane.measured.mean)}</text>')
        lines.append(f'<line class="span" x1="{lane.low}" x2="{lane.high}" y1="{lane.y}" y2="{lane.y}"/>')
        lines.append(f'<circle class="mean" cx="{lane.mean}" cy="{lane.y}" r="9"/>')
    return "\n".join([*lines, "</g>"])
