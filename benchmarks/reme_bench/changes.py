"""Facts that change: which of several tellings is found first, and what `as_of` leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reme_bench.evidence import Question, Row, recall_at
from reme_core.schema import parse_time

_PLACES = 10


def time_between(said_at: Mapping[str, str]) -> str | None:
    """Halfway between the newest message and the last one before it; None where all are of one time."""
    times = sorted({parse_time(at) for at in said_at.values()})
    return None if len(times) < 2 else (times[-2] + (times[-1] - times[-2]) / 2).isoformat()


def newest_first(ids: Sequence[str], said_at: Mapping[str, str]) -> float | None:
    """1.0 if the newest of the evidence messages in the first ten stands above the others, else 0.0.

    None where fewer than two are there, or all are of one time.
    """
    found = [message_id for message_id in ids[:_PLACES] if message_id in said_at]
    times = [parse_time(said_at[message_id]) for message_id in found]
    return None if len(set(times)) < 2 else float(times[0] == max(times))


def newer_left_out(ids: Sequence[str], said_at: Mapping[str, str], as_of: str) -> float:
    """1.0 if no evidence message later than `as_of` was found, else 0.0."""
    return float(_said(said_at, as_of, later=True).isdisjoint(ids))


def older_found(ids: Sequence[str], said_at: Mapping[str, str], as_of: str) -> float:
    """Share of the evidence messages up to `as_of` among the first ten."""
    return recall_at(ids, _said(said_at, as_of, later=False), _PLACES)


def _said(said_at: Mapping[str, str], as_of: str, *, later: bool) -> set[str]:
    parting = parse_time(as_of)
    return {message_id for message_id, at in said_at.items() if (parse_time(at) > parting) == later}


def asked_as_of(question: Question) -> str | None:
    """The time to ask an updated fact as of, between its older and its newest telling; None for other questions."""
    return time_between(question.said_at) if question.change == "update" else None


def figures(row: Row) -> dict[str, float]:
    """Figures of one question about a fact that was told again; none of another."""
    question, told = row.question, dict[str, float | None]()
    if question.change is None:
        return {}
    found = question.labels(row.ids)
    told["newest first"] = newest_first(found, question.said_at)
    told["both sides@10"] = float(row.figures["recall@10"] == 1) if len(question.evidence) > 1 else None
    if row.as_of is not None and row.ids_as_of is not None:
        found_as_of = question.labels(row.ids_as_of)
        told["as_of, newer left out"] = newer_left_out(found_as_of, question.said_at, row.as_of)
        told["as_of, older@10"] = older_found(found_as_of, question.said_at, row.as_of)
        told["older@10"] = older_found(found, question.said_at, row.as_of)
    return {name: value for name, value in told.items() if value is not None}
