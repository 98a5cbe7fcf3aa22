"""Detection of messages that are as they were when last encoded, without encoding them again."""

from __future__ import annotations

from dataclasses import dataclass

from agentscope.message import Msg

from reme_agentscope.v1.working_memory._memory_state import Entry

_LEAVES = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """A message and its marks as they were when they were encoded.

    Attributes:
        fields: Of the message, their texts shared with it; None where one isn't plain JSON, so that nothing is known.
        marks: Its marks.
        digest: Of the bytes.
    """

    fields: object
    marks: list[str]
    digest: bytes

    @classmethod
    def of(cls, entry: Entry, digest: bytes) -> EncodedMessage:
        """Remember how an entry is now."""
        return cls(_fields(entry[0]), list(entry[1]), digest)

    def is_still(self, entry: Entry) -> bool:
        """Tell whether an entry equals that one, as Python does: `1` and `True`, or another order of keys, are equal.

        Texts that nobody has replaced are the same objects, so their length doesn't matter.
        """
        try:
            return self.fields is not None and vars(entry[0]) == self.fields and entry[1] == self.marks
        except Exception:  # noqa: BLE001  # values of clients compare as they like: it is encoded, which tells
            return False


def _fields(msg: Msg) -> object:
    try:
        return _copied(vars(msg))
    except (TypeError, RecursionError):
        return None


def _copied(value: object) -> object:
    """Copy lists and objects (TypeError: a value that may change, and that no comparison tells)."""
    kind = type(value)
    if kind in _LEAVES:
        return value
    if isinstance(value, list) and kind is list:
        return [_copied(item) for item in value]
    if isinstance(value, dict) and kind is dict:
        return {key: _copied(item) for key, item in value.items()}
    raise TypeError
