"""Objects of large JSON arrays, one after the other: in a file, a folder, or a zip, which is never unpacked to disk."""

from __future__ import annotations

import codecs
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.files.folder import mapped_errors
from reme_core.schema.plain import clean_text
from reme_core.transfer.importers.foreign_data import is_own
from reme_core.transfer.importers.items import ImportedItem, Unreadable

MAX_VALUE_CHARS = 1 << 28
"""One conversation; a larger one is passed over. Whole exports of 500 MB are seen, of thousands of conversations."""

_READ_AT_ONCE = 1 << 18
# Deflate itself reaches 1032 to 1, exports of text 5 to 20.
_MAX_RATIO, _RATIO_MATTERS_BYTES = 200, 1 << 26
_COMPRESSIONS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_UNKEPT = re.compile(r"\\u(?:[dD]|0000)")
_BETWEEN = re.compile(r"[\s,]*+")
_UP_TO_A_BRACKET = re.compile(r'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_UP_TO_A_COMMA = re.compile(r'(?:[^",{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
# All that zipfile raises for what is no whole archive.
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, struct.error)


def _read_values(path: Path, names: re.Pattern[str], wanted: str) -> Iterator[tuple[str, JsonValue] | Unreadable]:
    """Yield the values of the arrays in an export, and where each stands; a file that is one object is that value.

    A value that is no JSON costs itself alone, an array that isn't whole what stands behind. Characters that are no
    Unicode, and NUL, become U+FFFD. Little more than one value is held at once.

    Args:
        path: The zip, the folder that it was unpacked to, or the JSON file, of any name.
        names: What the files are called in a zip or folder.
        wanted: The same, for people.

    Raises:
        InvalidInputError: There is no such file in it, or it is a ZIP that is damaged.
        StoreAccessError: It can't be read.
    """
    with mapped_errors(path):
        found = False
        for name, file in _files(path, names):
            found = True
            if isinstance(file, Unreadable):
                yield file
                continue
            try:
                with file as opened:
                    yield from _values(name, opened)
            except _BAD_ZIP as exc:
                yield Unreadable(name, f"can't be unpacked further ({exc}): download the export again")
    if not found:
        msg = f"{str(path)!r} holds no {wanted}: give the export, as a zip, unpacked or a file"
        raise InvalidInputError(msg)


def read_items(
    path: Path, names: re.Pattern[str], wanted: str, read: Callable[[str, JsonValue], Iterator[ImportedItem]]
) -> Iterator[ImportedItem]:
    """Yield what each value of an export holds, which `read` tells by its place; see `_read_values`."""
    for found in _read_values(path, names, wanted):
        if isinstance(found, Unreadable):
            yield found
        else:
            yield from read(*found)


def _files(path: Path, names: re.Pattern[str]) -> Iterator[tuple[str, AbstractContextManager[IO[bytes]] | Unreadable]]:
    if path.is_dir():
        for file in sorted([*path.glob("*.json"), *path.glob("*/*.json")]):
            if names.fullmatch(file.name):
                is_read = is_own(path, file)
                yield file.name, file.open("rb") if is_read else Unreadable(file.name, "is no regular file")
    elif path.is_file() and zipfile.is_zipfile(path):
        with _archive(path) as archive:
            for info in sorted(archive.infolist(), key=lambda one: one.filename):
                name = info.filename.rpartition("/")[2]
                if names.fullmatch(name) and not info.filename.startswith("__MACOSX/"):
                    yield name, _member(archive, info, name)
    elif path.exists() and not path.is_file():
        msg = f"{str(path)!r} is no regular file: give the export, as a zip, unpacked or a file"
        raise InvalidInputError(msg)
    else:
        yield path.name, path.open("rb")


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except _BAD_ZIP as exc:
        msg = f"{str(path)!r} is no whole ZIP ({exc}): download the export again"
        raise InvalidInputError(msg) from exc


def _member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str
) -> AbstractContextManager[IO[bytes]] | Unreadable:
    if info.file_size > max(_RATIO_MATTERS_BYTES, _MAX_RATIO * info.compress_size):
        return Unreadable(name, f"would unpack {info.compress_size} bytes to {info.file_size}: no export does")
    if info.compress_type not in _COMPRESSIONS or info.flag_bits & 1:
        return Unreadable(name, "is encrypted, or packed in a way that no export is: unpack it, and give the folder")
    try:
        return archive.open(info)
    except _BAD_ZIP as exc:
        return Unreadable(name, f"can't be unpacked ({exc}): download the export again")


def _values(name: str, file: IO[bytes]) -> Iterator[tuple[str, JsonValue] | Unreadable]:
    number = 0
    try:
        for number, raw in enumerate(_Splitter(file).values(), 1):
            where = f"{name}, value {number}"
            if raw is None:
                yield Unreadable(where, f"has more than {MAX_VALUE_CHARS} characters")
                continue
            try:
                value = json.loads(raw)
                yield where, _clean(value) if _UNKEPT.search(raw) else value
            except (ValueError, RecursionError) as exc:
                yield Unreadable(where, f"is no JSON ({exc})")
    except _BrokenArrayError as exc:
        yield Unreadable(f"{name}, behind value {number}", str(exc))


class _BrokenArrayError(Exception):
    """An array that can't be read further."""


class _Splitter:
    """Cuts an array into the texts of its values: brackets are counted, strings passed over."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._decoder = file, codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text, self._place = "", 0

    def values(self) -> Iterator[str | None]:
        """Yield the text of each value, None for one that is too large (_BrokenArrayError)."""
        is_array = self._next() == "["
        self._place += is_array
        while (char := self._next()) != "]":
            if char == "":
                if is_array:
                    msg = "the file ends there, in the middle: download the export again"
                    raise _BrokenArrayError(msg)
                return
            if not is_array and char not in "{[":
                msg = "it is no JSON array of objects: give the export as it was downloaded"
                raise _BrokenArrayError(msg)
            yield self._value()

    def _next(self) -> str:
        """Return the first character of what follows; "" at the end."""
        while True:
            self._place = self._match(_BETWEEN)
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                return ""

    def _value(self) -> str | None:
        depth, begin, size = 0, self._place, 0
        is_bare = self._text[begin] not in "{["
        parts: list[str] = []
        while True:
            self._place = self._match(_UP_TO_A_COMMA if is_bare else _UP_TO_A_BRACKET)
            char = self._text[self._place : self._place + 1]
            is_bracket = char not in ("", '"')
            if is_bracket and not is_bare:
                depth += 1 if char in "{[" else -1
                if depth > 0 or (depth == 0 and char in "}]"):
                    self._place += 1
                if depth > 0:
                    continue
            size += self._place - begin
            parts.append(self._text[begin : self._place])
            if size > MAX_VALUE_CHARS:
                parts.clear()
            if is_bracket and size > 0:  # of a bare value in the array, the comma or bracket behind it
                return "".join(parts) if size <= MAX_VALUE_CHARS else None
            if is_bracket or not self._more():
                msg = "it is no JSON array of objects, or the file ends in the middle: download the export again"
                raise _BrokenArrayError(msg)
            begin = 0

    def _match(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._place)
        return self._place if found is None else found.end()

    def _more(self) -> bool:
        """Read on, at least as much as is waiting, so that a long string is not looked at again and again."""
        rest = self._text[self._place :]
        if len(rest) > MAX_VALUE_CHARS:
            msg = f"a text there has more than {MAX_VALUE_CHARS} characters"
            raise _BrokenArrayError(msg)
        data = self._file.read(max(_READ_AT_ONCE, len(rest)))
        self._text, self._place = rest + self._decoder.decode(data, final=not data), 0
        return bool(data)


def _clean(value: JsonValue) -> JsonValue:
    """Return a value whose texts have no NUL, and no half of a surrogate pair, as cut emoji do."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(part) for part in value]
    if isinstance(value, dict):
        return {clean_text(name): _clean(part) for name, part in value.items()}
    return value
