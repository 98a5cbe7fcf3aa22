"""Guidance of the application: what to keep of conversations, and what never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.schema import MemoryType, shown
from reme_core.schema.checks import check_text
from reme_core.text import Language, fence, json_line, load_prompt

MAX_INSTRUCTIONS_CHARS = 4000
"""A page; it is sent with every extraction."""

MAX_EXAMPLES, MAX_EXAMPLE_CHARS = 10, 1000
"""Likewise."""

EXTRACTED = (MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.TOOL, MemoryType.IDENTITY)
"""The types of memory that are made of facts."""

_TYPES = (*EXTRACTED, MemoryType.SUMMARY)
_PACKAGE = "reme_core.steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """What an application wants of the memories that are made, as it was checked by `read_guidance`.

    Attributes:
        instructions: What to keep and what never to keep, in words; may be empty.
        types: The types of memory to make; None: all of them.
        examples: What is to become of what, each in words or in JSON.
    """

    instructions: str = ""
    types: tuple[MemoryType, ...] | None = None
    examples: tuple[str, ...] = ()

    @property
    def extracted(self) -> tuple[MemoryType, ...]:
        """The types of facts to ask for."""
        return EXTRACTED if self.types is None else tuple(kind for kind in EXTRACTED if kind in self.types)

    @property
    def wants_summaries(self) -> bool:
        """Whether memories of whole conversations are to be made."""
        return self.types is None or MemoryType.SUMMARY in self.types

    def and_for_this_call(self, instructions: str) -> Guidance:
        """Return it with further instructions, which stand behind its own."""
        both = "\n".join(text for text in (self.instructions, instructions) if text)
        return Guidance(instructions=both, types=self.types, examples=self.examples)

    def shown(self, language: Language) -> str:
        """Return it as prompts show it: a fence with JSON lines, which no text of it can close; empty if there is none.

        A line of words beside it says what it is.
        """
        lines = [json_line({"instructions": self.instructions})] if self.instructions else []
        lines += [json_line({"example": text}) for text in self.examples]
        if not lines:
            return ""
        words = load_prompt(_PACKAGE, "guided", language)
        return words.fill({"instructions": fence("instructions", "\n".join(lines))})

    def write(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        types: JsonValue = None if self.types is None else [str(kind) for kind in self.types]
        return {"instructions": self.instructions, "types": types, "examples": list(self.examples)}

    @classmethod
    def read(cls, value: object) -> Guidance:
        """Read what `write` wrote; None is none (KeyError, ValueError: it is something else)."""
        if value is None:
            return cls()
        if not isinstance(value, Mapping):
            msg = "guidance: wanted an object"
            raise InvalidInputError(msg)
        types = value["types"]
        return cls(
            instructions=str(value["instructions"]),
            types=None if types is None else tuple(_type(item) for item in _list(types, "types")),
            examples=tuple(str(item) for item in _list(value["examples"], "examples")),
        )


def read_guidance(instructions: object, types: object = None, examples: object = ()) -> Guidance:
    """Check what an application wants.

    Raises:
        InvalidInputError: Naming what can't be used, or is too long, and how much may be.
    """
    wanted = None if types is None else tuple(_type(item) for item in _list(types, "types"))
    if wanted is not None and not set(wanted) & set(EXTRACTED):
        msg = f"types: {shown(types)} holds none of {', '.join(EXTRACTED)}: name one at least"
        raise InvalidInputError(msg)
    return Guidance(instructions=read_instructions(instructions), types=wanted, examples=tuple(_examples(examples)))


def read_instructions(value: object, name: str = "instructions") -> str:
    """Check instructions; None and blanks are none (InvalidInputError)."""
    return _text("" if value is None else value, name, MAX_INSTRUCTIONS_CHARS)


def _examples(value: object) -> Sequence[str]:
    items = _list(value, "examples")
    if len(items) > MAX_EXAMPLES:
        msg = f"examples: {len(items)} of them, at most {MAX_EXAMPLES} are sent with every conversation: keep the best"
        raise InvalidInputError(msg)
    texts = [_text(item, f"examples[{place}]", MAX_EXAMPLE_CHARS) for place, item in enumerate(items)]
    return [text for text in texts if text]


def _text(value: object, name: str, most: int) -> str:
    if not isinstance(value, str):
        msg = f"{name}: wanted a text, found {type(value).__name__}"
        raise InvalidInputError(msg)
    try:
        text = check_text(value).strip()
    except ValueError as exc:
        msg = f"{name}: {exc}"
        raise InvalidInputError(msg) from exc
    if len(text) > most:
        msg = f"{name}: has {len(text)} characters, at most {most} are sent with every conversation: shorten it"
        raise InvalidInputError(msg)
    return text


def _type(value: object) -> MemoryType:
    if isinstance(value, str) and value in _TYPES:
        return MemoryType(value)
    msg = f"types: {shown(value)} is none of {', '.join(_TYPES)}"
    raise InvalidInputError(msg)


def _list(value: object, name: str) -> Sequence[object]:
    if isinstance(value, (list, tuple)):
        return value
    msg = f"{name}: wanted a list, found {type(value).__name__}"
    raise InvalidInputError(msg)
