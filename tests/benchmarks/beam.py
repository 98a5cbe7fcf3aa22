"""Evidence of talks with an assistant (BEAM), through the public API: `summary` each session, `retrieve` each question.

    python tests/benchmarks/beam.py [DATA.json [VECTORS.npz]] [--one-scope] [--minilm PYTHON] [--json FILE]

By words alone and with MiniLM vectors, beside baselines over the same messages in the same run; one user a
conversation. `--one-scope` puts this file's and LoCoMo's conversations into one scope instead. Exit code 1: a bar is
not held; 2: the data set is not at hand.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import bars
import tables
from compared import Run, bm25_of_users, compare, measure
from figures import Figure
from reme_bench.conversations import Conversation, read
from reme_bench.evidence import Row
from reme_bench.minilm import MiniLM, NoVectorError
from reme_bench.systems import COSINE, PLAIN, VECTORS, WORDS, bm25
from tables import mean

USERS = "BM25, user's turns"
DATA, NPZ = bars.SHARED / "beam_dev.json", bars.SHARED / "beam_dev_minilm.npz"
# Percent, by words alone and with vectors, on the development half. In 1,024 tokens: twenty points above what the
# ranking for short turns found (24.4 and 36.9).
BARS = {"recall@10": (52.0, 60.0), "evidence in 1,024": (44.4, 56.9)}
# Points that all conversations in one scope may lose against a scope each.
ONE_SCOPE_LOSS = 2.0


def compare_all(conversations: Sequence[Conversation], embedder: MiniLM | None) -> Run:
    return compare(conversations, embedder, {PLAIN: bm25, USERS: bm25_of_users})


def held(rows: Sequence[Row]) -> list[Figure]:
    systems = tables.by_system(rows)
    figures = []
    for place, name in enumerate((WORDS, VECTORS)):
        if name not in systems:
            continue
        for figure, least in BARS.items():
            beside = [f"{other} {mean(systems[other], figure)}" for other in (PLAIN, USERS, COSINE) if other in systems]
            value = mean(systems[name], figure)
            figures.append(Figure(f"BEAM {figure}, {name}", value, "%", least[place], False, "; ".join(beside)))
        below = tables.kinds_below(systems, name, PLAIN)
        figures.append(Figure(f"BEAM kinds wholly below BM25, {name}", len(below), "", 0, True, "; ".join(below)))
    return figures


def one_scope(conversations: Sequence[Conversation], embedder: MiniLM | None) -> tuple[Run, list[Figure]]:
    """Ask all questions in one scope of all messages, and in a scope each."""
    rows, figures = list[Row](), list[Figure]()
    for name, used in ((WORDS, None), (VECTORS, embedder)):
        if name == VECTORS and used is None:
            continue
        try:
            apart = measure(conversations, used, f"{name}, a scope each")
            together = measure(conversations, used, f"{name}, one scope", one_scope=True)
        except NoVectorError as exc:
            return Run(rows, str(exc)), figures
        rows += [*apart, *together]
        before, after = mean(apart, "recall@10"), mean(together, "recall@10")
        title, beside = f"recall@10 lost in one scope, {name}", f"a scope each {before}"
        figures.append(Figure(title, round(before - after, 1), "points", ONE_SCOPE_LOSS, True, beside))
    return Run(rows), figures


def main() -> int:
    parser = bars.parser(__doc__ or "", DATA, NPZ)
    parser.add_argument("--one-scope", action="store_true", help="with LoCoMo's, all in one scope")
    given = parser.parse_args()
    if not given.data.exists():
        print(f"the data set is not here ({given.data}); give its path")
        return 2
    conversations, files = read(given.data), [given.vectors]
    if given.one_scope:
        conversations += read(bars.SHARED / "locomo_dev.json")
        files.append(bars.SHARED / "locomo_dev_minilm.npz")
    with MiniLM(files, given.minilm) as embedder:
        used = embedder if given.vectors.exists() else None
        if given.one_scope:
            run, figures = one_scope(conversations, used)
        else:
            run = compare_all(conversations, used)
            figures = held(run.rows)
    return bars.tell(run, figures, given.json)


if __name__ == "__main__":
    sys.exit(main())
