"""Facts that change: which of several tellings is found first, and what `as_of` leaves out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime

from reme_bench.evidence import Question, Row, recall_at

_PLACES = 10


def time_between(said_at: Mapping[str, str]) -> str | None:
    """Halfway between the newest message and the last one before it; None where all are of one time."""
    times = sorted({datetime.fromisoformat(at) for at in said_at.values()})
    return None if len(times) < 2 else (times[-2] + (times[-1] - times[-2]) / 2).isoformat()


def newest_first(ids: Sequence[str], said_at: Mapping[str, str]) -> float | None:
    """1.0 if the newest of the evidence messages in the first ten stands above the others, else 0.0.

    None where fewer than two are there, or all are of one time.
    """
    found = [message_id for message_id in ids[:_PLACES] if message_id in said_at]
    times = [datetime.fromisoformat(said_at[message_id]) for message_id in found]
    return None if len(set(times)) < 2 else float(times[0] == max(times))


def newer_left_out(ids: Sequence[str], said_at: Mapping[str, str], as_of: str) -> float:
    """1.0 if no evidence message later than `as_of` was found, else 0.0."""
    return float(_said(said_at, as_of, later=True).isdisjoint(ids))


def older_found(ids: Sequence[str], said_at: Mapping[str, str], as_of: str) -> float:
    """Share of the evidence messages up to `as_of` among the first ten."""
    return recall_at(ids, _said(said_at, as_of, later=False), _PLACES)


def _said(said_at: Mapping[str, str], as_of: str, *, later: bool) -> set[str]:
    parting = datetime.fromisoformat(as_of)
    return {message_id for message_id, at in said_at.items() if (datetime.fromisoformat(at) > parting) == later}


def asked_as_of(question: Question) -> str | None:
    """The time to ask an updated fact as of, between its older and its newest telling; None for other questions."""
    return time_between(question.said_at) if question.change == "update" else None


def figures(row: Row) -> dict[str, float]:
    """Figures of one question about a fact that was told again; none of another."""
    question = row.question
    if question.change is None:
        return {}
    first = newest_first(list(dict.fromkeys(question.labels(row.ids))), question.said_at)
    told = {} if first is None else {"newest first": first}
    if len(question.evidence) > 1:
        told["both sides@10"] = float(row.figures["recall@10"] == 1)
    if row.as_of is not None and row.ids_as_of is not None:
        told["as_of, newer left out"] = newer_left_out(question.labels(row.ids_as_of), question.said_at, row.as_of)
    return told


def table(rows: Sequence[Row]) -> dict[str, str]:
    """Percent (and the number of questions it is the mean of) of one system; "-" where it wasn't asked."""
    updates = [row for row in rows if row.question.change == "update"]
    sides = [row for row in rows if row.question.change == "contradiction" and len(row.question.evidence) > 1]
    parted = [(row, row.as_of, row.ids_as_of) for row in updates if row.as_of and row.ids_as_of is not None]
    return {
        "update: of those found in ten, the newest first": _mean(
            [newest_first(r.ids, r.question.said_at) for r in updates]
        ),
        "update: as_of leaves the newer out": _mean(
            [newer_left_out(ids, r.question.said_at, at) for r, at, ids in parted]
        ),
        "update: as_of, the older in the first ten": _mean(
            [older_found(ids, r.question.said_at, at) for r, at, ids in parted]
        ),
        "update: the same without as_of": _mean([older_found(r.ids, r.question.said_at, at) for r, at, _ in parted]),
        "contradiction: both sides in the first ten": _mean([float(r.figures["recall@10"] == 1) for r in sides]),
    }


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{100 * statistics.fmean(known):.1f} ({len(known)})" if known else "-"
