"""Messages of other libraries, told by the modules of their classes, and what makes them ours. None is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LANGCHAIN: Final = "reme_langchain.from_langchain(messages)"
# By the first part of a class's module: how its messages are read, and what of one is its text.
_READ_BY: Final = {
    "langchain_core": (_LANGCHAIN, "message.text"),
    "agentscope": ("reme_agentscope.from_agentscope(messages)", "message.get_text_content()"),
    "openai": ("message.model_dump()", "message.content"),
    "anthropic": (
        '{"role": message.role, "content": [part.model_dump() for part in message.content]}',
        "message.content[0].text",
    ),
}
_LANGCHAIN_TYPES: Final = frozenset({"human", "ai", "system", "tool", "function", "chat"})
_LANGCHAIN_FIELDS: Final = frozenset({"base64", "mime_type", "source_type"})
_MEDIA: Final = frozenset({"image", "file", "audio", "video"})


def message_hint(item: object) -> str:
    """Return what makes a message of ours of this, behind a colon; "" where nobody's message is known in it."""
    read = _read_by(item)
    if read is not None:
        return f": hand in {read[0]}"
    return f": {_LANGCHAIN} reads LangChain's form" if isinstance(item, Mapping) and _is_langchain(item) else ""


def text_hint(item: object) -> str:
    """Return what of a message is its text, behind a colon; "" where it is no message that is known."""
    read = _read_by(item)
    return "" if read is None else f": hand in {read[1]}"


def _read_by(item: object) -> tuple[str, str] | None:
    # Read from the classes themselves: code of theirs may stand behind the attribute, and it may be no text.
    modules = (str(vars(kind).get("__module__")).partition(".")[0] for kind in type(item).__mro__)
    return next((_READ_BY[name] for name in modules if name in _READ_BY), None)


def _is_langchain(item: Mapping[object, object]) -> bool:
    """Tell whether this is a message or a part as LangChain writes them."""
    if "role" not in item and _kind(item) in _LANGCHAIN_TYPES:
        return True
    content = item.get("content")
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    return any(_kind(part) in _MEDIA and part.keys() & _LANGCHAIN_FIELDS for part in parts)


def _kind(item: Mapping[object, object]) -> str:
    """Return the type that a dictionary names, "" where that is no text."""
    kind = item.get("type")
    return kind if isinstance(kind, str) else ""
