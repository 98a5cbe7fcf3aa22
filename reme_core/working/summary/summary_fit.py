"""Last step of every summary: identifiers in use and pointers at what left are added, all below a limit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reme_core.ports import TokenCounter
from reme_core.schema import Message
from reme_core.text import Language, prompt_time
from reme_core.working.summary.identifiers import Identifier, identifiers, is_used, occurs, words_in
from reme_core.working.summary.sections import Section, Summary, clean_line, print_line, summary_of
from reme_core.working.tool_results import drop_references, split_line

LEAST_TOKENS = 60
"""Six headings and one pointer, at four characters a token. With less there are no headings, and the pointer as far as
it fits; with less than that takes, nothing."""

MOST_LINE_CHARS = 400
"""A longer line becomes several."""

_POINTER = re.compile(r"\d+ earlier messages? \(.{1,60}\): details: reload \S+")
_EARLIER = re.compile(r"earlier summary: details: reload \S+")
_ALSO = re.compile(r"also in (?:what left|the earlier summary): .*")
_OLD_POINTERS = 4
# Names that the messages which stay use: so many are looked for, newest first, and so much of the limit they may take.
_MOST_LOOKED_FOR, _NAMES_SHARE, _MOST_NAMES = 300, 0.15, 40
_MESSAGE_CHARS = 20_000
# No section takes more than this share of the limit before the others have had theirs.
_SECTION_SHARE = 0.4
# What stays longest: what is wanted and forbidden; then names in use, what comes next, facts, decisions, what was done.
_RANKS = {
    Section.GOAL: 2,
    Section.CONSTRAINTS: 3,
    Section.NEXT_STEPS: 5,
    Section.CONTEXT: 6,
    Section.DECISIONS: 7,
    Section.PROGRESS: 8,
}
_POINTER_RANK, _EARLIER_RANK, _NAMES_RANK, _OLD_RANK = 0, 1, 4, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """What leaves a context, and what is known of it.

    Attributes:
        messages: What leaves, as it stands in the context, in order.
        previous_summary: The summary so far.
        kept: What stays: its identifiers stay findable.
        reference: Of the offload that points at `messages`.
        references: References that may be cited besides: those of cut tool results and in the summary so far.
        earlier: Of the offload that holds the summary so far.
        limit_tokens: What the summary may take; see `LEAST_TOKENS`.
        window_tokens: The model's window.
        language: Of the prompt; None follows the conversation.
        max_calls: Calls of the model, second attempts included.
    """

    messages: Sequence[Message]
    previous_summary: str = ""
    kept: Sequence[Message] = ()
    reference: str | None = None
    references: frozenset[str] = frozenset()
    earlier: str | None = None
    limit_tokens: int
    window_tokens: int
    language: Language | None = None
    max_calls: int = 32

    @property
    def citable(self) -> frozenset[str]:
        """All references that may be cited."""
        return self.references | {name for name in (self.reference, self.earlier) if name is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class _SummaryLine:
    section: Section
    text: str
    place: int
    rank: int
    age: int  # among lines of one rank, the lower ones stay longer


def without_pointers(summary: Summary) -> Summary:
    """Return a summary without the lines that `finish` adds."""
    context = [line for line in summary.of(Section.CONTEXT) if not _is_ours(line)]
    return summary.with_lines(Section.CONTEXT, context)


def with_citable(summary: Summary, allowed: frozenset[str]) -> Summary:
    """Return a summary without hints at references that aren't allowed."""
    return Summary(tuple(tuple(drop_references(line, allowed) for line in body) for body in summary.lines))


def finish(summary: Summary, leaving: CompactRequest, *, counter: TokenCounter) -> str:
    """Return a summary's text with names and pointers, at most `leaving.limit_tokens` long.

    Critical Context ends with the identifiers that `kept` uses, that were said in what leaves, and that the summary
    lacks; with the newest pointers of the summary before; and with the pointer at what leaves now. What doesn't fit is
    dropped by rank and age, the same at each call.
    """
    limit_tokens = leaving.limit_tokens
    body = _split(with_citable(without_pointers(summary), leaving.citable))
    lines = _body_lines(body) + _added_lines(body, leaving, counter)
    room = limit_tokens - counter.count(Summary().text)
    chosen = _chosen(lines, room, counter)
    while counter.count(text := _summary(chosen).text) > limit_tokens:
        if not chosen:
            return _bare(leaving, counter)
        chosen.remove(max(chosen, key=_worth))
    pointers = [line for line in lines if line.rank == _POINTER_RANK]
    return text if all(line in chosen for line in pointers) else _bare(leaving, counter)


def _is_ours(line: str) -> bool:
    return any(pattern.fullmatch(line) for pattern in (_POINTER, _EARLIER, _ALSO))


def _body_lines(summary: Summary) -> list[_SummaryLine]:
    """Rank the lines of a summary; old goals stay longest, the first and last constraints, elsewhere what is new."""
    lines: list[_SummaryLine] = []
    for section in Section:
        body = summary.of(section)
        for place, text in enumerate(body):
            behind = len(body) - place
            age = {Section.GOAL: place, Section.CONSTRAINTS: min(place, behind - 1)}.get(section, behind)
            lines.append(_SummaryLine(section=section, text=text, place=place, rank=_RANKS[section], age=age))
    return lines


def _split(summary: Summary) -> Summary:
    """Make several lines of a long one: a line is the least that is dropped."""
    return Summary(
        tuple(tuple(part for line in body for part in split_line(line, MOST_LINE_CHARS)) for body in summary.lines)
    )


def most_of(summary: Summary, limit_tokens: int, counter: TokenCounter) -> Summary:
    """Return a summary that is at most `limit_tokens` long: what doesn't fit is dropped by rank and age."""
    if counter.count(summary.text) <= limit_tokens:
        return summary
    chosen = _chosen(_body_lines(_split(summary)), limit_tokens - counter.count(Summary().text), counter)
    while chosen and counter.count(_summary(chosen).text) > limit_tokens:
        chosen.remove(max(chosen, key=_worth))
    return _summary(chosen)


def _added_lines(body: Summary, leaving: CompactRequest, counter: TokenCounter) -> list[_SummaryLine]:
    texts = [(text, _NAMES_RANK) for text in _name_lines(body, leaving, counter)]
    texts += [(text, _OLD_RANK) for text in _old_pointers(leaving)]
    if leaving.earlier is not None:
        texts.append((f"earlier summary: details: reload {leaving.earlier}", _EARLIER_RANK))
    if leaving.reference is not None and leaving.messages:
        texts.append((_pointer(leaving.messages, leaving.reference), _POINTER_RANK))
    first = len(body.of(Section.CONTEXT))
    return [
        _SummaryLine(section=Section.CONTEXT, text=text, place=first + place, rank=rank, age=-place)
        for place, (text, rank) in enumerate(texts)
    ]


def _pointer(messages: Sequence[Message], reference: str) -> str:
    times = sorted(message.created_at for message in messages)
    noun = "message" if len(messages) == 1 else "messages"
    when = f"{prompt_time(times[0])} to {prompt_time(times[-1])}"
    return f"{len(messages)} earlier {noun} ({when}): details: reload {reference}"


def _old_pointers(leaving: CompactRequest) -> list[str]:
    """Return the newest pointers of the summary before: those of ours that are there, whatever else looks like one."""
    found = [text for line in leaving.previous_summary.splitlines() if _POINTER.fullmatch(text := clean_line(line))]
    known = leaving.citable - {leaving.reference}  # the same messages again have their own line
    citable = [text for text in found if text.rsplit(" ", 1)[1] in known]
    return list(dict.fromkeys(citable))[-_OLD_POINTERS:]


def _name_lines(body: Summary, leaving: CompactRequest, counter: TokenCounter) -> list[str]:
    """Return lines with the identifiers that are in use and only stand in what left."""
    # A name that reads like a hint at a reference is none.
    missing = [name for name in _missing(body.text, leaving.kept) if drop_references(name, leaving.citable) == name]
    left = "\n".join(message.full_text for message in leaving.messages)
    lines: list[str] = []
    room = int(leaving.limit_tokens * _NAMES_SHARE)
    for text, label, reference in (
        (left, "what left", leaving.reference),
        (leaving.previous_summary, "the earlier summary", leaving.earlier),
    ):
        there = [name for name in missing if is_used(name, text)]
        missing = [name for name in missing if name not in set(there)]
        hint = f" (details: reload {reference})" if reference else ""
        line = _joined_names(f"also in {label}: ", there, hint, room, counter)
        if line:
            lines.append(line)
            room -= counter.count(print_line(line)) + 1
    return lines


def _missing(summary: str, kept: Sequence[Message]) -> list[str]:
    """Return identifiers of messages, newest first, that a summary doesn't have."""
    found: dict[str, None] = {}
    words = words_in(summary)
    for message in reversed(kept):
        named: list[Identifier] = sorted(identifiers(message.full_text[:_MESSAGE_CHARS]), key=lambda item: item.kind)
        found.update((item.text, None) for item in named if not occurs(item.text, summary, words))
        if len(found) >= _MOST_LOOKED_FOR:
            break
    return list(found)[:_MOST_LOOKED_FOR]


def _joined_names(label: str, names: Iterable[str], hint: str, room: int, counter: TokenCounter) -> str:
    """Write as many names as there is room for, "" for none."""
    line = ""
    chosen: list[str] = []
    for name in names:
        longer = clean_line(f"{label}{', '.join([*chosen, name])}{hint}")
        if len(chosen) == _MOST_NAMES:
            break
        if len(longer) <= 2 * MOST_LINE_CHARS and counter.count(print_line(longer)) < room:
            chosen.append(name)
            line = longer
    return line


def _worth(line: _SummaryLine) -> tuple[int, int, int]:
    return line.rank, line.age, line.place


def _chosen(lines: Sequence[_SummaryLine], room: int, counter: TokenCounter) -> list[_SummaryLine]:
    """Choose the lines that stay: in a first round each section takes its share at most, then what is left over."""
    # What is wanted and forbidden may take all there is.
    shares = {section: int(room * _SECTION_SHARE) for section in Section}
    shares[Section.CONSTRAINTS] = room
    ranked = sorted(lines, key=_worth)
    costs = {line: counter.count(print_line(line.text)) + 1 for line in ranked[: max(0, room)]}
    chosen: dict[_SummaryLine, None] = {}
    for is_shared in (True, False):
        for line, cost in costs.items():
            is_due = not is_shared or cost <= shares[line.section] or line.rank < min(_RANKS.values())
            if cost <= room and is_due and line not in chosen:
                chosen[line] = None
                room -= cost
                shares[line.section] -= cost
    return list(chosen)


def _summary(chosen: Sequence[_SummaryLine]) -> Summary:
    ordered = sorted(chosen, key=lambda line: line.place)
    return summary_of({section: [x.text for x in ordered if x.section is section] for section in Section})


def _bare(leaving: CompactRequest, counter: TokenCounter) -> str:
    """Return what little fits where the headings and a pointer don't: shorter and shorter pointers, at last nothing."""
    if leaving.reference is None:
        return ""
    bare = Summary().text
    short = f"details: reload {leaving.reference}"
    pointed = Summary().with_lines(Section.CONTEXT, [short]).text
    pointers = [_pointer(leaving.messages, leaving.reference)] if leaving.messages else []
    for text in (
        pointed,
        bare.replace("\n- none", "") + f"\n- {short}",
        *pointers,
        short,
        f"reload {leaving.reference}",
    ):
        if counter.count(text) <= leaving.limit_tokens:
            return text
    return ""
