"""Measure every bar and print one table: PYTHONPATH=. python tests/benchmarks/run.py [--json FILE].

Exit code 1: one is not held.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import context
import footprint
import langchain_middleware
import langchain_saver
import langchain_store
import locomo
import scale
import small
import speed
from figures import Figure, show, write


def retrieval() -> list[Figure]:
    data = locomo.SHARED / "locomo_dev.json"
    if not data.exists():
        print(f"LoCoMo is left out: {data.name} is not at hand", file=sys.stderr)
        return []
    rows = locomo.held(locomo.run(data, locomo.SHARED / "locomo_dev_minilm.npz"))
    plain = locomo.plain_bm25(data)
    return [
        Figure(name, value, "%", bar, False, f"plain BM25 {plain:.1f}" if "recall@10" in name else "")
        for name, value, bar, _ in rows
    ]


def langchain() -> list[Figure]:
    return [*langchain_store.measure(), *langchain_saver.measure(), *langchain_middleware.bars()]


def speeds() -> list[Figure]:
    return [*speed.measure(), *scale.measure()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = [*retrieval(), *small.measure(), *footprint.measure(), *context.measure(), *speeds(), *langchain()]
    print(show(figures))
    if options.json:
        write(figures, options.json)
    return 0 if all(figure.held for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
