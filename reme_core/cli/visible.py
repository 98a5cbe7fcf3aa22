"""Text from memories as text on a terminal: never as commands to it."""

from __future__ import annotations

import json
import re

from pydantic import JsonValue

# C0 but tab and line feed, DEL, C1 (which some terminals obey), marks that reorder or end lines, and lone surrogates
# (bytes of a command line that were no UTF-8).
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Write out what a terminal would obey: an escape character becomes `\x1b`. Tabs and line breaks stay."""
    return _UNSAFE.sub(lambda match: _escaped(match.group()), text)


def one_line(text: str) -> str:
    """Make text visible on a single line: every run of blanks becomes one."""
    return " ".join(visible(text).split())


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def json_line(value: JsonValue) -> str:
    r"""Write JSON on one line, with everything that a terminal would obey as `\uXXXX`."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(value, ensure_ascii=False))
