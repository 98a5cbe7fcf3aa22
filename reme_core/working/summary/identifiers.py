"""Identifiers of a text: what can't be said in other words. Paths, URLs, numbers, code names, quoted names, names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from reme_core.text import query_terms

# Scripts written without blanks, whose characters end a token: names in them are found where they are quoted.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff00-\uffef"
_ENDS = r"\s<>\"'`()\[\]{}|,;!?“”‘’«»…"
# Every character belongs to one token or to none, so the time is linear. A comma may stand in a number, a question mark
# in a URL.
_TOKEN = re.compile(rf"(?:[^{_ENDS}{_UNSPACED}]|(?<=\d),(?=\d)|\?(?=\w+=))+")
_QUOTED = re.compile(
    r"\"([^\"\n]{2,60})\"(?! ?:)|“([^”\n]{2,60})”|`([^`\n]{2,60})`|「([^」\n]{1,60})」|《([^》\n]{1,60})》"
)
_EDGES = ".:*_~=-#&"
_PHONE = re.compile(r"(?<![^\s(])\+[0-9]{1,3}(?:[ /-][0-9]{2,8}){1,5}(?=[.,;:!?)]{0,3}(?:\s|$))")
# A quantity ("0.41s", "30 GB" without its blank) is a number; what abbreviates and what agrees names nothing.
_QUANTITY = re.compile(r"[0-9]{1,4}(?:[.,][0-9]{1,3})?[A-Za-z]{1,2}")
_NO_NAMES = frozenset({"ok", "dr", "mr", "mrs", "ms", "prof", "st"})
_SENTENCE_END = re.compile(r"[.!?:。！？：\n\"“*#>|-]\s*$")
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}")
_FILE = re.compile(r"[\w-]{2,}(?:\.\w+)*\.[A-Za-z]\w{0,9}")
_PATH = re.compile(r"[./~]|[A-Za-z]:[\\/]")
# A longer token is data: a key, a blob in base 64.
_MOST_CHARS = 200
_NAME_WORDS = 4
# A name that is only part of others at so many places isn't looked for any further.
_MOST_PLACES = 50


class IdentifierKind(IntEnum):
    """What an identifier is; the lower, the harder it is to guess again."""

    PATH = 0
    CODE = 1
    NAME = 2
    QUOTED = 3
    NUMBER = 4


@dataclass(frozen=True, slots=True)
class Identifier:
    """An identifier as it stands in the text."""

    text: str
    kind: IdentifierKind


def identifiers(text: str) -> list[Identifier]:
    """Return the identifiers of a text, each once, in the order of their first use. Time linear in its length.

    Paths, file names and URLs; code names (`foo_bar`, `CamelCase`, `UPPER`, `gpt-4`); numbers of two digits or more
    with their dates, versions, units and currencies; phone numbers with their country; short texts in quotation marks,
    unless they are plain words; words with a capital that doesn't come from the beginning of a sentence, several in a
    row as one.
    """
    found: dict[str, Identifier] = {}
    for identifier in _all(text):
        found.setdefault(identifier.text, identifier)
    return list(found.values())


def words_in(text: str) -> frozenset[str]:
    """Return the tokens that identifiers are made of, for `occurs`."""
    return frozenset(word for match in _TOKEN.finditer(text) if (word := match[0].strip(_EDGES)))


def occurs(name: str, text: str, words: frozenset[str]) -> bool:
    """Tell whether a text with these words (`words_in`) uses an identifier, and not only as a part of another one."""
    if name in words:
        return True
    parts = [part for match in _TOKEN.finditer(name) if (part := match[0].strip(_EDGES))]
    is_whole = parts == [name]
    return not is_whole and all(part in words for part in parts) and name in text


def is_used(name: str, text: str) -> bool:
    """Tell the same as `occurs` of a long text, of which only the places are read that this name stands at."""
    at = text.find(name)
    for _ in range(_MOST_PLACES):
        if at < 0:
            return False
        around = text[max(0, at - _MOST_CHARS) : at + len(name) + _MOST_CHARS]
        if occurs(name, around, words_in(around)):
            return True
        at = text.find(name, at + len(name))
    return False


def _all(text: str) -> Iterator[Identifier]:
    for match in _QUOTED.finditer(text):
        quoted = next(part for part in match.groups() if part is not None).strip()
        if match[3] is not None or _is_name(quoted):
            yield Identifier(quoted, IdentifierKind.QUOTED)
    for match in _PHONE.finditer(text):
        yield Identifier(match[0], IdentifierKind.CODE)
    yield from _tokens(text)


def _is_name(quoted: str) -> bool:
    """Tell a quoted name from a plain word, a key of JSON, or a piece between two quotations."""
    is_plain = quoted.isascii() and quoted.islower() and quoted.isalpha()
    return quoted[:1].isalnum() and quoted[-1:].isalnum() and not is_plain


def _tokens(text: str) -> Iterator[Identifier]:
    name: list[str] = []
    end = 0
    for match in _TOKEN.finditer(text):
        raw = match[0]
        token = raw.strip(_EDGES)
        between = text[end : match.start()]
        if name and (between != " " or not _is_capitalised(token) or len(name) == _NAME_WORDS):
            yield from _name_of(name)
            name = []
        begins = end == 0 or "\n" in between or _SENTENCE_END.search(text[max(0, match.start() - 8) : match.start()])
        end = match.end()
        kind = _kind(token) if 2 <= len(token) <= _MOST_CHARS else None
        if kind is not None:
            yield Identifier(token, kind)
        elif _is_capitalised(token):
            # What begins a sentence has its capital from there; with more behind it, it may still be a name.
            name.append(token if name or not begins else f"\0{token}")
            if raw != token and raw[-1] in ".:":
                yield from _name_of(name)
                name = []
    yield from _name_of(name)


def _is_capitalised(token: str) -> bool:
    return len(token) > 1 and token[0].isupper() and token[1:].islower() and token.replace("-", "").isalpha()


def _name_of(parts: Iterable[str]) -> Iterator[Identifier]:
    words = list(parts)
    if words and words[0].startswith("\0"):
        first = words.pop(0)[1:]
        if words and query_terms(first):
            words.insert(0, first)
    while words and not query_terms(words[0]):
        words.pop(0)
    if words and not (len(words) == 1 and words[0].casefold() in _NO_NAMES):
        yield Identifier(" ".join(words), IdentifierKind.NAME)


def _kind(token: str) -> IdentifierKind | None:
    letters = any(char.isalpha() for char in token)
    digits = sum(char.isdigit() for char in token)
    marked = digits or "." in token or "_" in token
    if "://" in token or (letters and "@" in token[1:-1]):
        return IdentifierKind.PATH
    if letters and ("/" in token or "\\" in token):
        parts = token.count("/") + token.count("\\")
        return IdentifierKind.PATH if marked or parts > 1 or _PATH.match(token) else None
    if _FILE.fullmatch(token):
        return IdentifierKind.PATH
    if _QUANTITY.fullmatch(token):
        return IdentifierKind.NUMBER if digits >= 2 else None
    if token.casefold() in _NO_NAMES:
        return None
    if letters and (digits or "_" in token or _CAMEL.search(token)):
        return IdentifierKind.CODE
    return IdentifierKind.NUMBER if digits >= 2 else None
