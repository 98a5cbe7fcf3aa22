"""The bound of what is looked for: of a pasted text, its beginning."""

from __future__ import annotations

QUERY_CHARS = 4_000
"""Characters of a query that are read: some 650 words, of which about 256 differ, as many as a ranking looks up.

What is longer is a pasted text, whose beginning says what it is. It costs as much as this many characters wherever
queries are cut into words, embedded, or read for dates and names; without a bound 5 MB took seconds.
"""

_WORD_CHARS = 64


def bounded_query(text: str) -> str:
    """Return a query, or its beginning of at most `QUERY_CHARS` characters, which ends at a blank where one is near."""
    if len(text) <= QUERY_CHARS:
        return text
    begun = text.lstrip()[: QUERY_CHARS + 1]
    if len(begun) <= QUERY_CHARS:
        return begun
    for end in range(QUERY_CHARS, QUERY_CHARS - _WORD_CHARS, -1):
        if begun[end].isspace():
            return begun[:end]
    return begun[:QUERY_CHARS]
