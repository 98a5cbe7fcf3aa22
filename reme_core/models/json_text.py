"""JSON in what a model wrote: fenced, prefixed, after its thoughts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import NoReturn

from pydantic import JsonValue

from reme_core.errors import ModelOutputError

_THOUGHTS = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCED = re.compile(r"```[\w-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_MOST_STARTS = 200
_KINDS = {"object": dict, "array": list, "string": str, "boolean": bool}
# A text in quotes, to its end, or a comma that a closing bracket follows.
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*+(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)


def clean_text(text: str) -> str:
    """Drop NUL and replace lone surrogates by U+FFFD: no file, database or endpoint keeps them as they are."""
    if text.isascii():
        return text.replace("\0", "")
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_json(value: JsonValue) -> JsonValue:
    """Return a copy with every text cleaned, keys included."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): clean_json(item) for key, item in value.items()}
    return value


def load_json(text: str) -> JsonValue:
    """Read strict JSON, and clean the texts in it.

    Raises:
        ValueError: It is not JSON, or nested too deeply; NaN and Infinity are not JSON.
    """
    try:
        value: JsonValue = json.loads(text, parse_constant=_refuse_constant)
        return clean_json(value)
    except RecursionError as exc:
        msg = "nested too deeply"
        raise ValueError(msg) from exc


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not JSON"
    raise ValueError(msg)


def parse_answer(text: str, schema: Mapping[str, JsonValue]) -> JsonValue:
    """Return the JSON value that an answer holds, of the type that the schema's root names.

    Looks at the whole text, then into code fences, then for the first value that stands in prose. Commas before a
    closing bracket are passed over. A list of objects that stands alone is taken for the object that is wanted where
    that has one such list. The rest of the schema is not checked.

    Raises:
        ModelOutputError: There is none; `raw` is the text.
    """
    kind = schema.get("type")
    wanted = _KINDS.get(kind) if isinstance(kind, str) else None
    said = _THOUGHTS.sub("", text, count=1).strip()
    repaired = _TRAILING_COMMA.sub(lambda match: match[1] or "", said)
    for version in (said,) if repaired == said else (said, repaired):
        for value in _values(version):
            if wanted is None or isinstance(value, wanted):
                return value
    listed = _only_list(schema) if wanted is dict else None
    if listed is not None:
        for value in _values(repaired):
            if value and isinstance(value, list) and all(isinstance(item, dict) for item in value):
                return {listed: value}
    msg = (
        f"wanted JSON{f' ({kind})' if wanted else ''}, found a text of {len(text)} characters without it: "
        "it is kept in `raw`; ask again, or allow more completion tokens if it was cut off"
    )
    raise ModelOutputError(msg, raw=text)


def _only_list(schema: Mapping[str, JsonValue]) -> str | None:
    """Return the name of the one property that is a list of objects, if there is one alone."""
    properties = schema.get("properties")
    names = [
        name
        for name, property_ in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(property_, dict) and isinstance(items := property_.get("items"), dict)
        if items.get("type") == "object"
    ]
    return names[0] if len(names) == 1 else None


def _values(text: str) -> Iterator[JsonValue]:
    for candidate in (text, *(match[1] for match in _FENCED.finditer(text))):
        try:
            yield load_json(candidate)
        except ValueError:
            continue
    yield from _values_in_prose(text)


def _values_in_prose(text: str) -> Iterator[JsonValue]:
    """Yield the values that stand free in the text. One inside a broken or cut-off value is not an answer."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    position, depth = 0, 0
    for _ in range(_MOST_STARTS):
        start = min((at for at in (text.find("{", position), text.find("[", position)) if at >= 0), default=-1)
        if start < 0:
            return
        depth += _opened(text[position:start])
        try:
            found: tuple[JsonValue, int] = decoder.raw_decode(text, start)
            value, end = clean_json(found[0]), found[1]
        except (ValueError, RecursionError):
            depth, position = depth + 1, start + 1
            continue
        if depth <= 0:
            yield value
        position = end


def _opened(text: str) -> int:
    """Return how many brackets the text opens less those it closes."""
    return text.count("{") + text.count("[") - text.count("}") - text.count("]")
