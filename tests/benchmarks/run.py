"""Measure every bar and print one table: PYTHONPATH=. python tests/benchmarks/run.py [--json FILE].

Exit code 1: one is not held.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType

import beam
import chat_door
import context
import file_memory
import footprint
import http_door
import langchain_middleware
import langchain_saver
import langchain_store
import locomo
import scale
import small
import speed
from figures import Figure, show, write
from reme_bench.conversations import read
from reme_bench.minilm import MiniLM


def retrieval(data: ModuleType) -> list[Figure]:
    if not data.DATA.exists():
        print(f"{data.__name__} is left out: {data.DATA.name} is not at hand", file=sys.stderr)
        return []
    with MiniLM([data.NPZ]) as embedder:
        run = data.compare_all(read(data.DATA), embedder if data.NPZ.exists() else None)
    if run.failure:
        print(f"{data.__name__}, with vectors: {run.failure}", file=sys.stderr)
    return list(data.held(run.rows))


def langchain() -> list[Figure]:
    return [*langchain_store.measure(), *langchain_saver.measure(), *langchain_middleware.bars()]


def speeds() -> list[Figure]:
    return [*speed.measure(), *scale.measure(), *chat_door.measure(), *http_door.measure(), *file_memory.measure()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    evidence = [*retrieval(locomo), *retrieval(beam), *small.measure()]
    figures = [*evidence, *footprint.measure(), *context.measure(), *speeds(), *langchain()]
    print(show(figures))
    if options.json:
        write(figures, options.json)
    return 0 if all(figure.held for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
