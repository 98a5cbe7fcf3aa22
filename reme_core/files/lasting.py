"""Days of a journal, and what of one lasts: the lines that somebody has marked, and what a model chooses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from reme_core.files.folder import FileProblem, UnreadableFileError, read_page
from reme_core.files.markdown import MarkdownPage
from reme_core.ports import ResponseSchema
from reme_core.schema.memories import MAX_MEMORY_CHARS
from reme_core.steps.ask_json import JsonQuestion, WrittenAnswer, list_schema, none_as_empty, not_blank
from reme_core.text import Language, fence, json_line, load_prompt, prompt_language

KEEP_TAG = "#keep"
"""A line of the journal with this tag lasts, with a model and without."""

_SHOWN_CHARS = 24_000  # of a day: some 6,000 tokens, which leave room in a small window
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_BULLET = re.compile(r"^\s*(?:>\s*)*(?:(?:[-*+]|\d+[.)])\s+)?(?:\[[ xX]\]\s+)?")
_TAG = re.compile(rf"(?<!\S){KEEP_TAG}(?![\w/-])")
_SCHEMA = ResponseSchema(
    name="consolidation",
    schema=list_schema(
        "keep",
        {
            "content": {"type": "string"},
            "replaces": {"type": "array", "items": {"type": "integer"}},
            "lines": {"type": "array", "items": {"type": "integer"}},
        },
    ),
)


def _listed(value: object) -> object:
    """Return a number of a model as a list of it."""
    return (value,) if isinstance(value, int) else none_as_empty(value)


_Numbers: TypeAlias = Annotated[tuple[int, ...], BeforeValidator(_listed)]


class Lasting(WrittenAnswer):
    """What lasts, as a statement; the numbers of the statements that it replaces, and of the lines that say it."""

    content: Annotated[str, Field(max_length=MAX_MEMORY_CHARS), AfterValidator(not_blank)]
    replaces: _Numbers = ()
    lines: _Numbers = ()


class _LastingAnswer(WrittenAnswer):
    keep: Annotated[tuple[Lasting, ...], BeforeValidator(none_as_empty)] = ()


@dataclass(frozen=True, slots=True)
class JournalDay:
    """A page of the journal: its day, its SHA-256, and its lines without what surrounds them."""

    day: str
    sha256: str
    lines: tuple[str, ...]

    @property
    def path(self) -> str:
        """The page."""
        return f"memory/{self.day}.md"

    @property
    def shown(self) -> int:
        """How many of the lines a model is shown."""
        size = 0
        for number, line in enumerate(self.lines):
            size += len(line)
            if size > _SHOWN_CHARS:
                return number
        return len(self.lines)

    @property
    def marked(self) -> dict[int, str]:
        """What the lines with the tag say, by their numbers, without the tag and the mark of a list."""
        tagged = {number: line for number, line in enumerate(self.lines, 1) if _TAG.search(line)}
        told = {number: " ".join(_TAG.sub("", _BULLET.sub("", line)).split()) for number, line in tagged.items()}
        return {number: text for number, text in told.items() if text}


def read_days(root: Path) -> tuple[list[JournalDay], list[FileProblem]]:
    """Read the journal of a folder, oldest day first; pages that can't be read are told."""
    days, problems = list[JournalDay](), list[FileProblem]()
    for file in sorted((root / "memory").glob("*.md")):
        path = f"memory/{file.name}"
        if _DAY.fullmatch(file.stem):
            try:
                read = read_page(root, path)
            except UnreadableFileError as exc:
                problems.append(FileProblem(path, exc.message))
            else:
                lines = MarkdownPage.parse(read.data).lines
                days.append(JournalDay(file.stem, read.sha256, tuple(line.strip() for line in lines)))
    return days, problems


def lasting_question(
    day: JournalDay, statements: Sequence[str], language: Language | None
) -> JsonQuestion[list[Lasting]]:
    """Return what a model is asked about a day beside the statements that there are."""
    lines = {n: line for n, line in enumerate(day.lines[: day.shown], 1) if line}
    chosen = language or prompt_language(day.lines)
    told = {
        "day": day.day,
        "statements": "\n".join(json_line({"n": n, "text": text}) for n, text in enumerate(statements, 1)),
        "journal": "\n".join(json_line({"n": n, "text": line}) for n, line in lines.items()),
    }
    return JsonQuestion(
        system=load_prompt("reme_core.files", "consolidate", chosen).fill({}),
        user="\n".join(fence(name, body) for name, body in told.items()),
        schema=_SCHEMA,
        language=chosen,
        read=partial(_read, lines=lines.keys(), statements=len(statements)),
    )


def _read(value: JsonValue, *, lines: AbstractSet[int], statements: int) -> list[Lasting]:
    """Read what a model chose; what names no line of the journal is nobody's and left out (ValueError)."""
    answer = _LastingAnswer.model_validate(value)
    for item in answer.keep:
        unknown = [number for number in item.replaces if not 1 <= number <= statements]
        if unknown:
            msg = f"replaces: there is no statement {unknown[0]}; leave it empty for something new"
            raise ValueError(msg)
    return [item for item in answer.keep if not lines.isdisjoint(item.lines)]
