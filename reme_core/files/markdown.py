"""Markdown pages: lines kept byte for byte, statements among them by their block ids, and all other text in passages.

A statement is a line `- text ^mem-<id>` outside frontmatter and fenced code; a line without an id is one that has none
yet. Lines end with LF, or CRLF where the page has it so; anything else of a page is text like any other.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, takewhile

from reme_core.schema import new_id
from reme_core.schema.memories import MAX_MEMORY_CHARS

PASSAGE_TOKENS = 200
"""At most so many a passage. Source: the specification of files, section 6."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BLOCK_ID = re.compile(r"(?:^|[ \t])\^mem-(?P<id>[0-9A-Za-z-]+)[ \t]*$")
_PLAIN_ID = re.compile(r"(?!x-)[0-9A-Za-z-]{1,64}")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
"""Begins or ends a block of code."""

HEADING = re.compile(r"(?P<level>#{1,6})[ \t]+(?P<title>.*)")
"""A line that says what stands below it."""

_FIELD = re.compile(r"(?P<name>[A-Za-z_][\w-]*)[ \t]*:[ \t]*(?P<value>.*)")
_LISTED = re.compile(r"[ \t]*-[ \t](.*)")
_BREAK = re.compile(r"\r\n|[\r\n]")
_SAID_BREAK = re.compile("<br>|&(?P<amps>(?:amp;)*)(?P<lt>lt;)br>")
_ESCAPED_BREAK = re.compile("&(?P<amp>amp;)?(?P<amps>(?:amp;)*)lt;br>")
_PIECE_CHARS = 400  # of a line that is longer than a passage may be: some 100 tokens, or 400 of Chinese
_SHORT_ID = 16
ID_BYTES = len(" ^mem-") + _SHORT_ID
"""By how much a line grows that gets an id."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a page: its line, from 0; what it says, as it is written; the id of its memory, if it has one."""

    line: int
    shown: str
    memory_id: str | None


@dataclass(frozen=True, slots=True)
class Prose:
    """A piece of other text: its first and last line, from 0, and the headings above it."""

    first: int
    last: int
    text: str
    above: str


@dataclass(frozen=True)
class MarkdownPage:
    """A page as its lines, each with its end. The mark of the byte order, if there is one, is part of the first."""

    lines: tuple[str, ...]

    @classmethod
    def parse(cls, data: bytes) -> MarkdownPage:
        """Read a page (UnicodeDecodeError: it is not UTF-8)."""
        return cls(tuple(_LINE.findall(data.decode())))

    def print(self) -> bytes:
        """Return the bytes that `parse` read, or those of the lines that replaced some."""
        return "".join(self.lines).encode()

    @property
    def line_end(self) -> str:
        """How a line that is added ends: as the first one does."""
        return "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"

    @cached_property
    def head(self) -> int:
        """How many lines the frontmatter has, 0 without one."""
        if not self.lines or self.lines[0].removeprefix("\ufeff").rstrip() != "---":
            return 0
        return next((n + 1 for n, line in enumerate(self.lines) if n and line.rstrip() == "---"), 0)

    def field(self, name: str) -> str | None:
        """Return a plain field of the frontmatter, without the quotes around it; None where there is none."""
        return next((value for value, _ in self._fields(name) if value), None)

    def list_field(self, name: str) -> list[str]:
        """Return a field of the frontmatter that is a list: `[a, b]`, `a, b`, or lines `- a` below its name."""
        for value, number in self._fields(name):
            if value:
                given = value.removeprefix("[").removesuffix("]").split(",")
            else:
                items = takewhile(bool, map(_LISTED.match, self.lines[number + 1 : self.head]))
                given = [item[1] for item in items if item is not None]
            return [text for item in given if (text := _unquoted(item.strip()))]
        return []

    def _fields(self, name: str) -> Iterator[tuple[str, int]]:
        for number, line in enumerate(self.lines[1 : self.head], 1):
            found = _FIELD.match(line.rstrip("\r\n"))
            if found is not None and found["name"] == name:
                yield _unquoted(found["value"].strip()), number

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """Return the statements, in their order."""
        read = (_statement(number, line) for number, line in enumerate(self.lines) if self.fences[number] == "")
        return tuple(statement for statement in read if statement is not None)

    @cached_property
    def fences(self) -> tuple[str | None, ...]:
        """Return for each line, and the one after the last, the mark of the code in which it stands, "" for none.

        None is the frontmatter; the line of a mark stands in its code.
        """
        fences: list[str | None] = [None] * self.head
        fence = ""
        for line in self.lines[self.head :]:
            mark = FENCE.match(line)
            if mark is not None and (not fence or mark[1].startswith(fence)):
                fences.append(fence or mark[1])
                fence = "" if fence else mark[1]
            else:
                fences.append(fence)
        return (*fences, fence)

    def place_for(self, line: int) -> int:
        """Return where a statement can stand that is to stand at a line: not within the frontmatter or code."""
        place = min(line, len(self.lines))
        before = self.fences[place - 1] if place else ""
        return self.head if self.fences[place] is None or (self.fences[place] and before) else place

    def with_ids(self, ids: dict[int, str]) -> MarkdownPage:
        """Return the page with the block ids of statements by their lines, in place of those that stand there."""
        lines = list(self.lines)
        for number, memory_id in ids.items():
            body, end = line_parts(lines[number])
            lines[number] = f"{_BLOCK_ID.sub('', body).rstrip()} {block_id('mem', memory_id)}{end}"
        return MarkdownPage(tuple(lines))

    def spliced(self, first: int, last: int, texts: Sequence[str]) -> MarkdownPage:
        """Return the page with lines `first` up to `last`, which stays, replaced by texts without line ends."""
        new = [text + self.line_end for text in texts]
        before = list(self.lines[:first])
        if new and before and not before[-1].endswith("\n"):
            before[-1] += self.line_end
        return MarkdownPage((*before, *new, *self.lines[last:]))


def statement_line(memory_id: str, content: str) -> str:
    """Write a statement as a line, without its end."""
    return f"- {shown_content(content)} {block_id('mem', memory_id)}"


def is_line(memory_id: str, content: str) -> bool:
    """Tell whether a memory is read again from the line that is written of it, which can be too long for one."""
    statement = _statement(0, statement_line(memory_id, content))
    return statement is not None and statement.memory_id == memory_id and bool(read_content(statement.shown))


def shown_content(content: str) -> str:
    """Write what a memory says within a line: line breaks as `<br>`, which Markdown reads as such; others escaped."""
    escaped = _SAID_BREAK.sub(
        lambda found: f"&amp;{found['amps']}lt;br>" if found["lt"] else "&lt;br>", content.strip()
    )
    return _BREAK.sub("<br>", escaped)


def read_content(shown: str) -> str:
    """Read what a line says."""
    broken = shown.replace("<br>", "\n").strip()
    return _ESCAPED_BREAK.sub(lambda found: f"&{found['amps']}lt;br>" if found["amp"] else "<br>", broken)


def block_id(kind: str, name: str) -> str:
    """Write an id with the characters that Obsidian takes; one that has others in hexadecimal."""
    plain = _PLAIN_ID.fullmatch(name) is not None
    return f"^{kind}-{name if plain else 'x-' + name.encode().hex()}"


def new_line_id() -> str:
    """Return a random id for a statement that was born in a file: 64 bits, as people have to look at it."""
    return new_id()[:_SHORT_ID]


def digest(text: str) -> str:
    """Return a mark that tells whether a line or passage still says the same."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def line_parts(line: str) -> tuple[str, str]:
    """Part a line from its end."""
    body = line.removesuffix("\n")
    body = body.removesuffix("\r") if body != line else body
    return body, line[len(body) :]


def passages(page: MarkdownPage, count: Callable[[str], int], *, keep_statements: bool) -> list[Prose]:
    """Cut the text of a page that is in no statement into passages of at most 200 tokens, along its headings.

    Args:
        page: The page.
        count: Counts tokens.
        keep_statements: Its statements are memories, and in no passage; False: they are text like any other.
    """
    taken = {statement.line for statement in page.statements} if keep_statements else set[int]()
    found: list[Prose] = []
    titles: list[tuple[int, str]] = []
    for paragraph in _paragraphs(page, taken):
        heading = HEADING.match(line_parts(page.lines[paragraph[0]])[0]) if paragraph[0] >= page.head else None
        if heading is not None:
            titles = below(titles, heading)
        above = " › ".join(title for _, title in (titles[:-1] if heading is not None else titles))
        _add(found, page, paragraph, above, count, begins=heading is not None)
    return found


def below(titles: Sequence[tuple[int, str]], heading: re.Match[str]) -> list[tuple[int, str]]:
    """Return the levels and titles under which the lines after a heading stand."""
    level = len(heading["level"])
    return [*(title for title in titles if title[0] < level), (level, heading["title"].rstrip(" \t#"))]


def _paragraphs(page: MarkdownPage, taken: set[int]) -> Iterator[list[int]]:
    """Yield runs of lines that belong together; a heading begins one, the frontmatter is one."""

    def kind(number: int) -> int:
        if number < page.head:
            return -1
        return 0 if number in taken or not page.lines[number].strip() else 1

    for what, run in groupby(range(len(page.lines)), kind):
        numbers = list(run)
        if what == 0:
            continue
        begins = [n for n in numbers if what > 0 and n != numbers[0] and HEADING.match(page.lines[n])]
        for start, end in zip([numbers[0], *begins], [*begins, numbers[-1] + 1], strict=True):
            yield list(range(start, end))


def _add(
    found: list[Prose], page: MarkdownPage, lines: list[int], above: str, count: Callable[[str], int], *, begins: bool
) -> None:
    """Add a paragraph to the passage before it, where both fit; else as one, or as several if it is too long."""
    first, last = lines[0], lines[-1]
    before = found[-1] if found else None
    if before is not None and not begins and before.first >= page.head and _is_blank(page, before.last + 1, first):
        joined = _text(page, before.first, last)
        if count(joined) <= PASSAGE_TOKENS:
            found[-1] = Prose(before.first, last, joined, before.above)
            return
    text = _text(page, first, last)
    if count(text) <= PASSAGE_TOKENS:
        found.append(Prose(first, last, text, above))
    elif first == last:
        found += [Prose(first, last, piece, above) for piece in _pieces(text)]
    else:
        middle = (first + last) // 2
        _add(found, page, list(range(first, middle + 1)), above, count, begins=True)
        _add(found, page, list(range(middle + 1, last + 1)), above, count, begins=True)


def _is_blank(page: MarkdownPage, start: int, end: int) -> bool:
    return all(not line.strip() for line in page.lines[start:end])


def _text(page: MarkdownPage, first: int, last: int) -> str:
    return "\n".join(line_parts(line)[0] for line in page.lines[first : last + 1])


def _pieces(text: str) -> Iterator[str]:
    """Cut a line at blanks; the pieces together are the line, and none of them is blank."""
    while len(text) > _PIECE_CHARS and text[_PIECE_CHARS:].strip():
        end = text.rfind(" ", _PIECE_CHARS // 2, _PIECE_CHARS) + 1 or _PIECE_CHARS
        if text[:end].strip():
            yield text[:end]
            text = text[end:]
        else:
            break
    yield text


def _statement(number: int, line: str) -> Statement | None:
    body, _ = line_parts(line)
    if not body.startswith("- "):
        return None
    found = _BLOCK_ID.search(body[2:])
    shown = (body[2:] if found is None else body[2 : 2 + found.start()]).strip()
    if not shown or len(shown) > MAX_MEMORY_CHARS or not read_content(shown):
        return None
    return Statement(number, shown, None if found is None else _memory_id(found["id"]))


def _memory_id(block_id: str) -> str:
    if block_id.startswith("x-"):
        with suppress(ValueError):
            return bytes.fromhex(block_id[2:]).decode()
    return block_id


def _unquoted(value: str) -> str:
    if value.startswith('"'):
        with suppress(ValueError):
            read = json.loads(value)
            return read if isinstance(read, str) else value
    if value.startswith("'") and value.endswith("'") and len(value) > 1:
        return value[1:-1].replace("''", "'")
    return value
