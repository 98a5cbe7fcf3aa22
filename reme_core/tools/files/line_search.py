"""A search for lines, as a function, and as a program that another process runs on patterns that may never end.

The program reads a job as JSON on standard input and writes the answer as JSON. It imports the standard library alone:
it is started without site packages, and ended by whoever waits for it.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import TypedDict

_BEFORE, _AFTER = 80, 220  # characters shown around a match in a long line
_MEMORY_BYTES = 512 * 1024 * 1024


class LineSearch(TypedDict):
    """A search: a regular expression, its case, the texts by path, how many matches are enough, and seconds of CPU."""

    pattern: str
    ignore_case: bool
    files: list[tuple[str, str]]
    limit: int
    seconds: int


class FoundLines(TypedDict):
    """The lines that match (path, line number from 1, line), or why the pattern is none."""

    error: str | None
    matches: list[tuple[str, int, str]]


def search_lines(job: LineSearch) -> FoundLines:
    """Search the texts line by line, in their order, until there are enough matches."""
    try:
        find = re.compile(job["pattern"], re.IGNORECASE if job["ignore_case"] else 0).search
    except (re.error, OverflowError, RecursionError) as exc:
        return {"error": str(exc) or "it is nested too deep", "matches": []}
    matches: list[tuple[str, int, str]] = []
    for path, text in job["files"]:
        for number, line in enumerate(text.split("\n"), start=1):
            found = find(line.removesuffix("\r"))
            if found is not None:
                matches.append((path, number, _around(line.removesuffix("\r"), found.start())))
                if len(matches) == job["limit"]:
                    return {"error": None, "matches": matches}
    return {"error": None, "matches": matches}


def _around(line: str, start: int) -> str:
    first = max(0, start - _BEFORE) if len(line) > _BEFORE + _AFTER else 0
    shown = line[first : first + _BEFORE + _AFTER]
    return f"{'…' if first else ''}{shown}{'…' if first + len(shown) < len(line) else ''}"


def main() -> None:
    """Do the job on standard input."""
    import resource  # noqa: PLC0415  # there is none on Windows

    job: LineSearch = json.load(sys.stdin.buffer)
    for limit, most in ((resource.RLIMIT_AS, _MEMORY_BYTES), (resource.RLIMIT_CPU, job["seconds"])):
        with contextlib.suppress(ValueError, OSError):  # what a system doesn't bound is bounded by who waits
            resource.setrlimit(limit, (most, most))
    sys.stdout.buffer.write(json.dumps(search_lines(job)).encode("ascii"))


if __name__ == "__main__":
    main()
