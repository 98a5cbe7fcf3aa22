"""The SQL of the shared rows in PostgreSQL's form: marks of parameters, and lists."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

# A literal or a quoted name, which stay; a list; a mark; a percent sign; a function whose texts are escaped. And the
# texts of any length that rows are found by: indexes hold their digests, and of paths the beginnings.
_PARTS = re.compile(
    r"""(?P<kept>'(?:[^']|'')*'|"(?:[^"]|"")*")"""
    r"|(?P<list>(?P<not>NOT )?IN \(SELECT (?:json_each\.)?value FROM json_each\(\?\)\))"
    r"|(?P<keys>\b(?:(?:user_id|path) = \?|key IN \(\?(?:, \?)*\)))"
    r"|(?P<paths>\bpath >= \? AND path < \?)"
    r"|(?P<mark>\?)"
    r"|(?P<percent>%)"
    r"|(?P<substr>\bsubstr\()"
    r"|(?P<cross>\bCROSS JOIN\b)"  # which gives SQLite the order of the tables
)


class Translated(NamedTuple):
    """A statement for the driver; `lists` are the places of parameters that are JSON arrays."""

    sql: str
    lists: frozenset[int]


@lru_cache(maxsize=2048)
def translate(sql: str) -> Translated:
    """Return a statement of the shared rows for the driver."""
    lists: set[int] = set()
    marks = 0

    def part(found: re.Match[str]) -> str:
        nonlocal marks
        match found.lastgroup:
            case "kept":
                return found[0].replace("%", "%%")
            case "list":
                lists.add(marks)
                marks += 1
                return "<> ALL(%s)" if found["not"] else "= ANY(%s)"
            case "keys":
                marks += found[0].count("?")
                column, _, values = found[0].partition(" ")
                return f"{column}_digest {values.replace('?', 'reme_digest(%s)')}"
            case "paths":
                marks += 2
                return "reme_within(path, path_start, %s, %s)"
            case "mark":
                marks += 1
                return "%s"
            case "percent":
                return "%%"
            case "cross":
                return "JOIN"
            case _:
                return "reme_substr("

    return Translated(_PARTS.sub(part, sql), frozenset(lists))


def bound(lists: frozenset[int], parameters: Sequence[object]) -> Sequence[object]:
    """Return the values of parameters, JSON arrays as lists."""
    if not lists:
        return parameters
    return [json.loads(str(value)) if place in lists else value for place, value in enumerate(parameters)]
