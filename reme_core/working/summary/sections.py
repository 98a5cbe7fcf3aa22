"""The form of a summary: Markdown with six sections, printed, read, and shown as a message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from reme_core.schema import Message, TextBlock


class Section(StrEnum):
    """The sections of a summary, in their order. Headings are English, whatever the language of the lines."""

    GOAL = "Goal"
    CONSTRAINTS = "Constraints"
    PROGRESS = "Progress"
    DECISIONS = "Key Decisions"
    NEXT_STEPS = "Next Steps"
    CONTEXT = "Critical Context"


_ORDER = tuple(Section)
_NAMES = "|".join(section.replace(" ", r"\s+") for section in _ORDER)
# A heading of ours at any level, bold or with a number or a colon, as models like to write them: a line that holds
# nothing but the name is nothing else.
_HEADING = re.compile(
    rf"#{{1,6}}\s*(?:\d[.)]\s*)?(?:\*\*)?\s*({_NAMES})\s*:?\s*(?:\*\*)?\s*:?\s*#*|\*\*\s*({_NAMES})\s*:?\s*\*\*\s*:?",
    re.IGNORECASE,
)
_OTHER_HEADING = re.compile(r"#{1,2}\s+\S")
_LOWER_HEADING = re.compile(r"#{3,6}\s+")
_FENCE = re.compile(r"(`{3,}|~{3,})\s*(?:markdown|md|text)?", re.IGNORECASE)
_BULLETS = re.compile(r"(?:[-*+•](?: |$))+")
_NOTHING = re.compile(
    r"(?:(?:none|nothing|n/a)(?: (?:was|were|is|are|has been|have been))?"
    r"(?: (?:stated|given|known|named|mentioned|set))?(?: (?:yet|so far))?|无|暂无|尚无|無|没有|暂时没有)?",
    re.IGNORECASE,
)
# A rule between two sections, or bold type around nothing.
_RULE = re.compile(r"[-*_=]*")
_AROUND = " .。()（）"
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary: for each section, in order, its lines.

    Lines are brought into one form: blanks and breaks become single blanks, bullets at the beginning go, and what says
    nothing ("", "none", "none stated yet", "---") goes as well. Two summaries are equal if they print the same.

    Attributes:
        lines: The lines of each section, in the order of `Section`.
    """

    lines: tuple[tuple[str, ...], ...] = ((),) * len(_ORDER)

    def __post_init__(self) -> None:
        """Bring the lines into their form.

        Raises:
            ValueError: There are not six sections.
        """
        if len(self.lines) != len(_ORDER):
            msg = f"a summary has {len(_ORDER)} sections, not {len(self.lines)}"
            raise ValueError(msg)
        clean = tuple(tuple(line for text in body if (line := clean_line(text))) for body in self.lines)
        object.__setattr__(self, "lines", clean)

    @property
    def is_empty(self) -> bool:
        """Whether no section has a line."""
        return not any(self.lines)

    @property
    def all_lines(self) -> tuple[str, ...]:
        """The lines of all sections, in order."""
        return tuple(line for body in self.lines for line in body)

    @property
    def text(self) -> str:
        """The summary as Markdown: `## Goal`, lines `- ...`, and so on; `- none` where a section has none."""
        return "\n".join(
            f"## {section}\n" + ("\n".join(map(print_line, body)) or "- none")
            for section, body in zip(_ORDER, self.lines, strict=True)
        )

    def of(self, section: Section) -> tuple[str, ...]:
        """Return the lines of a section."""
        return self.lines[_ORDER.index(section)]

    def with_lines(self, section: Section, lines: Iterable[str]) -> Summary:
        """Return the summary with other lines in one section."""
        at = _ORDER.index(section)
        return Summary((*self.lines[:at], tuple(lines), *self.lines[at + 1 :]))


def summary_of(lines: Mapping[Section, Iterable[str]]) -> Summary:
    """Make a summary; a section that isn't named has no lines."""
    return Summary(tuple(tuple(lines.get(section, ())) for section in _ORDER))


def clean_line(text: str) -> str:
    """Return a text as one line of a summary: without breaks and bullets; "" for what says nothing."""
    line = " ".join(text.split())
    line = line[match.end() :] if (match := _BULLETS.match(line)) else line
    return "" if _NOTHING.fullmatch(line.strip(_AROUND)) or _RULE.fullmatch(line) else line


def print_line(line: str) -> str:
    r"""Return a line as it is printed; a "#" at its beginning is escaped, so that none reads as a heading."""
    return f"- \\{line}" if line.lstrip("\\").startswith("#") else f"- {line}"


def parse_summary(text: str) -> Summary:
    """Read a summary: the six headings, each once and in order, and nothing before them.

    Blank lines, a code fence around the whole, the level of a heading, bold type and colons don't matter.

    Raises:
        ValueError: Saying what is wrong, for whoever wrote it.
    """
    bodies: list[list[str]] = []
    for line in _unfenced(text):
        section = _heading(line)
        if section is not None:
            _check_turn(section, len(bodies))
            bodies.append([])
        elif _OTHER_HEADING.match(line):
            msg = f"{line[:_SHOWN_CHARS]!r} is none of the six headings: {', '.join(_ORDER)}"
            raise ValueError(msg)
        elif line and not bodies:
            msg = f"the first line must be '## {_ORDER[0]}', found {line[:_SHOWN_CHARS]!r}"
            raise ValueError(msg)
        elif line:
            bodies[-1].append(_body_line(line))
    if len(bodies) < len(_ORDER):
        msg = f"the section '## {_ORDER[len(bodies)]}' is missing"
        raise ValueError(msg)
    return Summary(tuple(map(tuple, bodies)))


def _unfenced(text: str) -> list[str]:
    """Return the lines, with single blanks, without a code fence around them all (ValueError, if it isn't closed)."""
    lines = [" ".join(line.split()) for line in text.strip().splitlines()]
    opening = _FENCE.fullmatch(lines[0]) if lines else None
    if opening is None:
        return lines
    if len(lines) < 2 or lines[-1] != opening[1]:
        msg = "the code fence around it is not closed at its end: write no fence at all"
        raise ValueError(msg)
    return lines[1:-1]


def _heading(line: str) -> Section | None:
    match = _HEADING.fullmatch(line)
    if match is None:
        return None
    return Section(" ".join((match[1] or match[2]).split()).title())


def _check_turn(section: Section, place: int) -> None:
    """Check that a section stands where it belongs (ValueError)."""
    found = _ORDER.index(section)
    if found < place:
        msg = f"the section '## {section}' stands twice, or too late: each once, in the order {', '.join(_ORDER)}"
        raise ValueError(msg)
    if found > place:
        msg = f"the section '## {_ORDER[place]}' is missing before '## {section}'"
        raise ValueError(msg)


def _body_line(line: str) -> str:
    """Return what a line of a section says: without bullets, the hashes of lower headings, our escape."""
    line = _LOWER_HEADING.sub("", line, count=1) if line.startswith("###") else line
    line = clean_line(line)
    return line[1:] if line.startswith("\\") and line.lstrip("\\").startswith("#") else line


SUMMARY_MARK = "summary"
"""Under `reme` in the metadata of the message that shows a summary."""

_HEAD = "Summary of the conversation so far:"
# A summary has no time of its own, and one that changed would change the prompt.
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_ID = "summary-"


def summary_message(session_id: str, summary: str) -> Message:
    """Return the message that shows a summary: always the same one for the same summary."""
    return Message(
        message_id=summary_id(session_id),
        role="user",
        content=(TextBlock(text=f"{_HEAD}\n\n{summary}"),),
        created_at=_NO_TIME,
        metadata={"reme": SUMMARY_MARK},
    )


def summary_id(session_id: str) -> str:
    """Return the id of the message that shows the summary of a session."""
    return f"{_ID}{session_id}"[:512]


def shown_text(message: Message) -> str | None:
    """Return the summary that a message shows; None if it shows none."""
    return message.text.removeprefix(_HEAD).lstrip("\n") if is_shown_summary(message) else None


def is_shown_summary(message: Message) -> bool:
    """Tell whether a message is a summary as `summary_message` shows it, this one or an earlier one."""
    return (
        message.message_id.startswith(_ID)
        and message.metadata == {"reme": SUMMARY_MARK}
        and message.created_at == _NO_TIME
        and message.text.startswith(_HEAD)
    )
