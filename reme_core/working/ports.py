"""Ports that working memory stands on, and the reading of what is handed in about a context."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, TypeAlias, TypeVar, cast, get_args

from pydantic import BaseModel, StrictStr, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.ports import ChatModel, Clock, Store, SummaryRequest
from reme_core.schema import Message, Scope, SummaryResult, describe, parse_messages, shown
from reme_core.schema.checks import check_id, is_whole_64
from reme_core.text import Language
from reme_core.working.messages_to_keep import ContextLimits
from reme_core.working.summary.sections import is_shown_summary, shown_text
from reme_core.working.tokens import TokenLedger

_MOST_HELD = 1000

Keep: TypeAlias = Callable[[Scope, SummaryRequest], Awaitable[SummaryResult]]


class HeldContexts:
    """What contexts were said to refer to by this process, the last thousand: so that it is said once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._held: dict[tuple[Scope, str], frozenset[str]] = {}
        self._gate = threading.Lock()

    def holds(self, scope: Scope, session_id: str, references: frozenset[str]) -> bool:
        """Tell whether a session was said to refer to all of these."""
        return references <= self._held.get((scope, session_id), frozenset())

    def remember(self, scope: Scope, session_id: str, references: frozenset[str]) -> None:
        """Remember what a session refers to now, in place of what it did."""
        with self._gate:
            self._held.pop((scope, session_id), None)
            self._held[scope, session_id] = references
            while len(self._held) > _MOST_HELD:
                del self._held[next(iter(self._held))]

    def forget(self, scope: Scope, session_id: str) -> None:
        """Forget a session: it is closed."""
        with self._gate:
            self._held.pop((scope, session_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingPorts:
    """What working memory stands on.

    Attributes:
        store: Where tool results and pointers at messages go, and messages are found again.
        keep: Takes messages over for good: they are on disk when it returns, and what follows from them is a job.
        model: Writes summaries; None: they are extracts of what was said.
        ledger: Counts tokens.
        clock: Tells the time.
        held: What contexts were said to refer to.
        web_tools: Tools that fetch from outside.
    """

    store: Store
    keep: Keep
    model: ChatModel | None
    ledger: TokenLedger
    clock: Clock
    held: HeldContexts
    web_tools: frozenset[str] = frozenset()


# Reading a message from a dictionary takes some 20 microseconds; to go through one is quicker.
_MANY = 500
# A hundred years: what lies further back no clock has written.
_MOST_DAYS = 36_500


T = TypeVar("T")


async def off_loop(call: Callable[[], T], items: int) -> T:
    """Return what a call gives, away from the event loop where it goes through more than some hundred items."""
    return await asyncio.to_thread(call) if items > _MANY else call()


async def read_messages(messages: Sequence[object], ports: WorkingPorts) -> Sequence[Message]:
    """Read messages, without a summary that is shown as one of them."""
    read, _ = await read_context(messages, ports)
    return read


async def read_context(messages: Sequence[object], ports: WorkingPorts) -> tuple[Sequence[Message], str]:
    """Read messages, away from the event loop where they are many, and the summary that is shown as one of them."""
    size = len(messages) if isinstance(messages, (list, tuple)) else 0
    return await off_loop(partial(read_said, messages, ports.clock.now()), size)


def read_said(messages: object, now: datetime) -> tuple[Sequence[Message], str]:
    """Read messages as they are given, and the summary that is shown as one of them, this one or an earlier one."""
    parsed = parse_messages(messages, now=lambda: now)
    summaries = [text for message in parsed if (text := shown_text(message)) is not None]
    said = [message for message in parsed if not is_shown_summary(message)]
    return said, summaries[-1] if summaries else ""


class ContextState(BaseModel):
    """The state of an `InContextMemory`: its messages have marks."""

    version: Literal[1]
    compressed_summary: StrictStr
    messages: list[tuple[Message, list[str]]]


def read_state(state: object) -> ContextState:
    """Read what `InContextMemory.state_dict` gave (InvalidInputError)."""
    try:
        read = ContextState.model_validate(state)
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, "state")) from exc
    if len({message.message_id for message, _ in read.messages}) < len(read.messages):
        msg = "state: messages: a message_id stands twice"
        raise InvalidInputError(msg)
    return read


def read_limits(max_input_length: int | None, limits: object) -> ContextLimits:
    """Return the limits of a context: those given, or the default ones of a window (InvalidInputError)."""
    if limits is None:
        return ContextLimits() if max_input_length is None else ContextLimits(max_input_length=max_input_length)
    if not isinstance(limits, ContextLimits):
        msg = f"limits: wanted ContextLimits, found {shown(limits)}"
        raise InvalidInputError(msg)
    return limits if max_input_length is None else replace(limits, max_input_length=max_input_length)


def read_language(language: object) -> Language | None:
    """Read the language of a prompt (InvalidInputError)."""
    if language is None:
        return None
    for known in get_args(Language):
        if language == known:
            return cast("Language", known)
    msg = f"language: wanted 'en', 'zh' or None, found {shown(language)}"
    raise InvalidInputError(msg)


def read_overhead(value: object) -> int:
    """Read the tokens that are sent besides (InvalidInputError)."""
    return read_whole(value, "overhead_tokens")


def read_whole(value: object, name: str) -> int:
    """Read a whole number of at least 0 (InvalidInputError)."""
    if type(value) is int and value >= 0 and is_whole_64(value):
        return value
    msg = f"{name}: wanted a whole number of at least 0 and at most 64 bits, found {shown(value)}"
    raise InvalidInputError(msg)


def read_days(value: object, name: str) -> timedelta:
    """Read a number of days, at most a hundred years of them (InvalidInputError)."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MOST_DAYS:
        return timedelta(days=value)
    msg = f"{name}: wanted a number of days from 0 to {_MOST_DAYS:,}, found {shown(value)}"
    raise InvalidInputError(msg)


def read_marks(marks: object) -> tuple[str, ...]:
    """Read a mark or several; members of a `str` Enum are their values (InvalidInputError)."""
    items = [marks] if isinstance(marks, str) else marks
    given = items if isinstance(items, Iterable) and not isinstance(items, (bytes, Mapping)) else [items]
    read = []
    for item in given:
        if not isinstance(item, str):
            msg = f"marks: wanted a string or a list of strings, found {shown(marks)}"
            raise InvalidInputError(msg)
        try:
            read.append(check_id(str.__str__(item)))
        except ValueError as exc:
            msg = f"marks: {exc}"
            raise InvalidInputError(msg) from exc
    return tuple(dict.fromkeys(read))
