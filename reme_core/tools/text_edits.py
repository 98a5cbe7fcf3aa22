"""Edits of a text that a model asks for, with the words for what can't be done that models know.

Source of the words: anthropic 2.12, `BetaLocalFilesystemMemoryTool`; Letta's `memory_replace` and `memory_insert` say
the same.
"""

from __future__ import annotations

from reme_core.errors import ToolFeedback

_PLACES = 1000


def replace_once(text: str, old_str: str, new_str: str, where: str) -> str:
    """Return a text with one piece replaced (ToolFeedback: it doesn't stand in it exactly once)."""
    if not old_str or old_str not in text:
        msg = f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {where}."
        raise ToolFeedback(msg)
    if text.count(old_str) > 1:
        lines = ", ".join(map(str, lines_of(text, old_str, limit=_PLACES)))
        found = f"Multiple occurrences of old_str `{old_str}` in lines: {lines}."
        msg = f"No replacement was performed. {found} Please ensure it is unique"
        raise ToolFeedback(msg)
    return text.replace(old_str, new_str)


def insert_lines(text: str, insert_line: int, new_str: str) -> str:
    """Return a text with another one behind a line of it, 0 for its beginning (ToolFeedback: it has no such line)."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not 0 <= insert_line <= len(lines):
        msg = f"Invalid `insert_line` parameter: {insert_line}. It should be within the range [0, {len(lines)}]."
        raise ToolFeedback(msg)
    lines.insert(insert_line, new_str.rstrip("\n"))
    return "\n".join(lines)


def lines_of(text: str, wanted: str, *, limit: int) -> list[int]:
    """Return the number of the line of each of the first occurrences, overlapping ones too."""
    lines = list[int]()
    place, passed, line = text.find(wanted), 0, 1
    while place != -1 and len(lines) < limit:
        line += text.count("\n", passed, place)
        lines.append(line)
        passed, place = place, text.find(wanted, place + 1)
    return lines
