"""Bytes of images and files: kept once by their content, and known by the SHA-256 of it.

A message that comes in may hold them as a data URL. A store keeps them apart, and the message then holds a reference,
`sha256:` and 64 hexadecimal digits. They are never decoded: what a picture shows, its caption says.
"""

from __future__ import annotations

import binascii
import hashlib
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote, unquote_to_bytes

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from reme_core.schema.checks import kind_of

MAX_BLOB_BYTES = 32 << 20
"""One image or file is at most 32 MiB: what chat endpoints take is below (OpenAI: 50 MB a request, Anthropic: 32)."""

LONG_BASE64 = 1 << 14
"""From so many characters on, base64 inside of JSON (a vendor's part, an adapter's metadata) is kept apart as well.

Signatures and keys are shorter; an image of a few pixels may be, too.
"""

_REFERENCE = re.compile(r"sha256:[0-9a-f]{64}")
BASE64_MARK = "reme-base64:"  # before the reference, where base64 stood inside of JSON
APART = " "
"""Begins JSON text of which base64 is kept apart: a blank, with which none begins that was written whole."""
_FOREIGN_MARK = f"{BASE64_MARK}!"  # in such a text, a mark that its sender wrote
_MEDIA_TYPE = re.compile(r"[a-z0-9][\w!#$&^.+-]{0,126}/[\w!#$&^.+*-]{1,127}", re.IGNORECASE | re.ASCII)
# Behind a letter of its own none begins, so that texts of many shorter runs are read once and not from each letter on.
_BASE64 = re.compile(rf"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{{{LONG_BASE64},}}={{0,2}}")
_MARKED = re.compile(rf"{BASE64_MARK}(sha256:[0-9a-f]{{64}})")
_DATA = re.compile(r"\s*data:", re.IGNORECASE)  # RFC 3986, 3.1: capitals mean the same
UNKNOWN_TYPE = "application/octet-stream"

# How files of the images begin that every browser shows and none runs.
# Source: https://mimesniff.spec.whatwg.org/#image-type-pattern-matching-algorithm
_RASTERS = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBPVP", re.DOTALL), "image/webp"),
)


class Blob(BaseModel):
    """The bytes of an image or a file.

    Attributes:
        ref: What messages call it: `sha256:` and the digest of the bytes.
        media_type: What it is: of a PNG, JPEG, GIF or WebP what its first bytes say, else what its sender said.
        data: The bytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    ref: str
    media_type: str
    data: bytes = Field(repr=False)


def make_blob(data: bytes, media_type: str | None) -> Blob:
    """Return bytes under their reference.

    Raises:
        ValueError: There are more than `MAX_BLOB_BYTES`.
    """
    _check_size(len(data))
    return Blob(ref=blob_reference(data), media_type=true_type(data, media_type), data=data)


def blob_reference(data: bytes) -> str:
    """Return what messages call these bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def is_blob_reference(url: str) -> bool:
    """Whether this names bytes that a store keeps."""
    return _REFERENCE.fullmatch(url) is not None


def settled_url(url: str, media_type: str | None = None) -> str:
    """Return a URL as we know it: ` DATA:` as a data URL, and so long base64 without a scheme."""
    if url.startswith("data:"):
        return url
    if found := _DATA.match(url):
        return f"data:{url[found.end() :]}"
    if len(url) >= LONG_BASE64 and _BASE64.fullmatch(url):  # no path is so long
        return f"data:{media_type or ''};base64,{url}"
    return url


def is_embedded(url: str) -> bool:
    """Whether the bytes themselves are here or in the store, so that the URL says nothing to a reader."""
    return url.startswith("data:") or is_blob_reference(url)


def raster_type(data: bytes) -> str | None:
    """Return the type of a PNG, JPEG, GIF or WebP by its first bytes, whatever it is called; None for all else."""
    return next((name for begins, name in _RASTERS if begins.match(data)), None)


def true_type(data: bytes, said: str | None) -> str:
    """Return a media type that does not lie about pictures that browsers show."""
    found = raster_type(data)
    if found is not None:
        return found
    usable = said is not None and _MEDIA_TYPE.fullmatch(said) is not None
    rasters = {name for _, name in _RASTERS}
    return said.lower() if said is not None and usable and said.lower() not in rasters else UNKNOWN_TYPE


def data_url(data: bytes, media_type: str) -> str:
    """Return bytes as a data URL."""
    return f"data:{media_type};base64,{b64encode(data).decode()}"


def read_data_url(url: str) -> tuple[str, bytes] | None:
    """Return the media type (`""` where it is left out) and the bytes of a data URL; None for what holds none.

    Raises:
        ValueError: The base64 is broken, or there are more than `MAX_BLOB_BYTES`.
    """
    head, comma, payload = url.partition(",")
    if not comma or not head.startswith("data:"):
        return None
    *fields, last = head.removeprefix("data:").split(";")
    if last.strip().lower() != "base64":
        _check_size(len(payload) // 3)  # each byte may be written as three characters
        return [*fields, last][0], unquote_to_bytes(payload)
    return fields[0] if fields else "", read_base64(payload)


def read_base64(text: str) -> bytes:
    """Return the bytes that base64 stands for; blanks, the alphabet of URLs and missing padding are taken.

    Raises:
        ValueError: It is none, or stands for more than `MAX_BLOB_BYTES`.
    """
    _check_size(len(text) // 4 * 3 - 2)
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        plain = "".join((unquote(text) if "%" in text else text).split()).rstrip("=")
    try:
        return b64decode(plain.replace("-", "+").replace("_", "/") + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as exc:
        msg = f"the base64 of an image or file is broken ({exc}): send its bytes, or base64 of all of them"
        raise ValueError(msg) from exc


def _check_size(size: int) -> None:
    if size > MAX_BLOB_BYTES:
        msg = f"an image or file has {size} bytes, at most {MAX_BLOB_BYTES} are kept: store it elsewhere, hand in a URL"
        raise ValueError(msg)


def can_be_kept(url: str) -> bool:
    """Whether a store takes a block of this URL as it is.

    A data URL is one of bytes that are whole and not too many. What looks like a reference is none where we gave none.
    """
    if is_blob_reference(url) or settled_url(url) != url:
        return False
    try:
        read_data_url(url)
    except ValueError:
        return False
    return True


def with_url(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a block with a data URL in place of `data`, bytes or their base64 (ValueError)."""
    given = dict(fields)
    data = given.pop("data")
    media_type = given.get("media_type")
    known = media_type if isinstance(media_type, str) else ""
    if given.get("url") is not None:
        msg = "url and data are given: give one of them"
    elif isinstance(data, bytes):
        return {**given, "url": data_url(data, known)}
    elif isinstance(data, str):
        return {**given, "url": data if _DATA.match(data) else f"data:{known};base64,{data}"}
    else:
        msg = f"data: wanted bytes or base64, found {kind_of(data)}"
    raise ValueError(msg)


def may_hold_base64(value: JsonValue) -> bool:
    """Whether a text of JSON is long enough for `take_base64`."""
    match value:
        case str():
            return len(value) >= LONG_BASE64
        case dict():
            return any(map(may_hold_base64, value.values()))
        case list():
            return any(map(may_hold_base64, value))
        case _:
            return False


def take_base64(value: JsonValue, keep: Callable[[Blob], object]) -> JsonValue:
    """Return JSON with a mark in place of each long base64, whose bytes are handed to `keep`.

    What would not come back character by character stays, and so does what is too large.
    """

    def take(found: re.Match[str]) -> str:
        text = found[0]
        end = len(text) - len(text) % 4  # what follows is no part of it
        try:
            data = read_base64(text[:end])
            blob = make_blob(data, None)
        except ValueError:
            return text
        if b64encode(data).decode() != text[:end]:
            return text
        keep(blob)
        return f"{BASE64_MARK}{blob.ref}{text[end:]}"

    return _with_texts(value, lambda text: _BASE64.sub(take, text) if len(text) >= LONG_BASE64 else text)


def put_base64(values: Sequence[JsonValue], find: Callable[[str, int], Blob | None], most: int) -> list[JsonValue]:
    """Return JSON as it was before `take_base64`; marks stay of what `find` (reference, most bytes) doesn't know.

    So do marks once all have come to `most` characters, as much as can have been taken out. A sender may write marks
    by hand, and thousands of one image would fill the memory of whoever reads them.
    """
    left = most

    def put(found: re.Match[str]) -> str:
        nonlocal left
        blob = find(found[1], left // 4 * 3) if left >= LONG_BASE64 else None
        text = found[0] if blob is None else b64encode(blob.data).decode()
        left -= max(len(text), LONG_BASE64)  # no shorter one was taken out
        return text

    def whole(text: str) -> str:
        return _MARKED.sub(put, text) if BASE64_MARK in text else text

    return [_with_texts(value, whole) for value in values]


def text_apart(text: str) -> tuple[str, dict[str, Blob]]:
    """Return JSON text with a mark in place of each long base64, and the bytes by their references.

    It then begins with a blank. Where nothing is taken, it is the same text.
    """
    taken: dict[str, Blob] = {}
    if len(text) < LONG_BASE64:
        return text, taken
    own = text.replace(BASE64_MARK, _FOREIGN_MARK)
    marked = take_base64(own, lambda blob: taken.setdefault(blob.ref, blob))
    return (f"{APART}{marked}" if taken else text), taken


def is_apart(text: str) -> bool:
    """Whether `text_apart` has taken something out of a text."""
    return text.startswith(APART)


def text_whole(text: str, find: Callable[[str, int], Blob | None]) -> str:
    """Return the text that `text_apart` was given; `find` as of `put_base64`."""
    if not is_apart(text):
        return text
    [whole] = put_base64([text.removeprefix(APART)], find, sys.maxsize)
    return str(whole).replace(_FOREIGN_MARK, BASE64_MARK)


def references_in(text: str) -> set[str]:
    """Return what the marks of `text_apart` name."""
    return set(_MARKED.findall(text)) if is_apart(text) else set()


def _with_texts(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """Return JSON with each text changed; the same object where none is."""
    match value:
        case str():
            return change(value)
        case dict():
            changed = {key: _with_texts(item, change) for key, item in value.items()}
            return changed if any(changed[key] is not item for key, item in value.items()) else value
        case list():
            items = [_with_texts(item, change) for item in value]
            return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
        case _:
            return value
