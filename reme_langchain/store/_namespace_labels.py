"""Any text as a label of a namespace, and back: LangGraph forbids dots, NUL, empty labels and the root `langgraph`."""

from __future__ import annotations

import re

from reme_core.errors import InvalidInputError
from reme_core.schema import shown

_ESCAPED = re.compile(r"[%.\0*]")
_ESCAPE = re.compile(r"%(25|2E|00|2A)")
_EMPTY = "%"
_RESERVED, _RESERVED_LABEL = "langgraph", "%6Canggraph"


def encode_label(text: str | int) -> str:
    """Return the label of an id: `ann@example.com` becomes `ann@example%2Ecom`, and `""` a lone `%`.

    Different texts have different labels. An int is its decimal digits.

    Raises:
        InvalidInputError: It is neither a text nor an int, or it holds half of a surrogate pair.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return str(int(text))
    if not isinstance(text, str):
        msg = f"a label is made of a str or an int, found {shown(text)}: give the id of the user"
        raise InvalidInputError(msg)
    check_encodable(text)
    if text == _RESERVED:
        return _RESERVED_LABEL
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text) or _EMPTY


def decode_label(label: str) -> str:
    """Return the text whose label this is.

    Raises:
        InvalidInputError: `encode_label` makes no such label of any text.
    """
    if isinstance(label, str):
        text = _decoded(label)
        if _is_encodable(text) and encode_label(text) == label:
            return text
    msg = f"{shown(label)} is not a label that encode_label makes: % stands only before 25, 2E, 00 and 2A, or alone"
    raise InvalidInputError(msg)


def check_encodable(text: str) -> None:
    """Refuse half of a surrogate pair, which no file keeps (InvalidInputError)."""
    if not _is_encodable(text):
        msg = f"{shown(text)} holds a lone surrogate (half of a broken emoji): replace it"
        raise InvalidInputError(msg)


def _is_encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(label: str) -> str:
    if label == _EMPTY:
        return ""
    if label == _RESERVED_LABEL:
        return _RESERVED
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), label)
