"""The SQL of the shared rows in PostgreSQL's form: marks of parameters, and lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

# A literal or a quoted name, which stay; a list; a mark; a function whose texts are escaped. And the
# texts of any length that rows are found by: indexes hold their digests, and of paths the beginnings.
_PARTS = re.compile(
    r"""(?P<kept>'(?:[^']|'')*'|"(?:[^"]|"")*")"""
    r"|(?P<list>(?P<not>NOT )?IN \(SELECT (?:json_each\.)?value FROM json_each\(\?\)\))"
    r"|(?P<keys>\b(?:(?:user_id|path) = \?|key IN \(\?(?:, \?)*\)))"
    r"|(?P<paths>\bpath >= \? AND path < \?)"
    r"|(?P<mark>\?)"
    r"|(?P<substr>\bsubstr\()"
    r"|(?P<cross>\bCROSS JOIN\b)"  # which gives SQLite the order of the tables
)


class Translated(NamedTuple):
    """A statement for the server; `lists` are the places of parameters that are JSON arrays."""

    sql: bytes
    lists: frozenset[int]


@lru_cache(maxsize=2048)
def translate(sql: str) -> Translated:
    """Return a statement of the shared rows for the server."""
    lists: set[int] = set()
    marks = 0

    def mark() -> str:
        nonlocal marks
        marks += 1
        return f"${marks}"

    def part(found: re.Match[str]) -> str:
        match found.lastgroup:
            case "kept":
                return found[0]
            case "list":
                lists.add(marks)
                return f"<> ALL({mark()})" if found["not"] else f"= ANY({mark()})"
            case "keys":
                column, _, values = found[0].partition(" ")
                return f"{column}_digest " + re.sub(r"\?", lambda _: f"reme_digest({mark()})", values)
            case "paths":
                return f"reme_within(path, path_start, {mark()}, {mark()})"
            case "mark":
                return mark()
            case "cross":
                return "JOIN"
            case _:
                return "reme_substr("

    return Translated(_PARTS.sub(part, sql).encode(), frozenset(lists))


def bound(lists: frozenset[int], parameters: Sequence[object]) -> Sequence[object]:
    """Return the values of parameters, JSON arrays as the server's."""
    if not lists:
        return parameters
    return [array(json.loads(str(value))) if place in lists else value for place, value in enumerate(parameters)]


def array(values: Iterable[int | str]) -> str:
    """Return numbers or texts as the text of an array, whose type the server sees; the driver takes longer for one."""
    return "{" + ",".join(str(value) if isinstance(value, int) else _quoted(str(value)) for value in values) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
