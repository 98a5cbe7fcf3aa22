"""Recording of tool calls: found in conversations or handed in, each stored once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from reme_core.errors import ConflictError, ToolCallNotFoundError
from reme_core.ports import Store
from reme_core.schema import (
    Message,
    Scope,
    ToolCallBlock,
    ToolCallResult,
    ToolResultBlock,
    parse_messages,
    parse_tool_call_results,
    shown_input,
)
from reme_core.schema.checks import check_id
from reme_core.schema.tool_calls import MAX_CALL_BYTES
from reme_core.steps.user_input import check_time_not_future
from reme_core.text import looks_like_error, shortened

# Where both don't fit, the output keeps this much, and the input is cut to so many characters, which as JSON are less.
_LEAST_OUTPUT_BYTES = MAX_CALL_BYTES // 2
_CUT_INPUT_CHARS = 1 << 16
# A notice of what was left out, in bytes.
_NOTICE_BYTES = 100
_HEAD_SHARE = 2 / 3
# As `ToolCallResult` bounds them.
_MOST_NAME_CHARS, _MOST_SECONDS, _MOST_TOKENS = 256, 1e9, 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCalls:
    """What a conversation has of tool calls.

    Attributes:
        calls: The calls with their results, in the order of the results.
        open_call_ids: Ids, as the messages have them, of calls whose results are not among the messages; each once.
        skipped_call_ids: Ids, as the messages have them, of calls with results whose names no tool can have; each once.
    """

    calls: tuple[ToolCallResult, ...] = ()
    open_call_ids: tuple[str, ...] = ()
    skipped_call_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _BlockPosition:
    """A block of a message: the message with its number, and the number of the block in it."""

    message: Message
    number: int
    block: int

    def digest(self, call_id: str) -> str:
        """Return an id that is the same whenever the same message is read."""
        key = json.dumps([self.message.message_id, self.block, call_id])
        return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class _OpenCall:
    place: _BlockPosition
    call: ToolCallBlock


@dataclass(slots=True)
class _CallReader:
    """Goes through a conversation; remembers the calls that wait for their results, by id."""

    calls: list[ToolCallResult] = field(default_factory=list)
    waiting: dict[str, list[_OpenCall]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def read(self, message: Message, number: int) -> None:
        for place, block in enumerate(message.content):
            here = _BlockPosition(message=message, number=number, block=place)
            if block.type == "tool_call":
                self.waiting.setdefault(block.call_id, []).append(_OpenCall(here, block))
            elif block.type == "tool_result":
                self._answered(self._take(block.call_id), here, block)

    def _answered(self, called: _OpenCall | None, here: _BlockPosition, result: ToolResultBlock) -> None:
        name = ((result.name or "") if called is None else called.call.name).strip()
        if called is None and not name:
            return
        if _is_name(name):
            self.calls.append(_result(name, called, here, result))
        else:
            self.skipped.append(result.call_id)

    def _take(self, call_id: str) -> _OpenCall | None:
        """Take the nearest message's call with this id that is still open; of several in it, the first."""
        there = self.waiting.get(call_id)
        if not there:
            return None
        nearest = there[-1].place.number
        return there.pop(next(place for place, called in enumerate(there) if called.place.number == nearest))


def read_tool_calls(messages: Sequence[Message]) -> ReadCalls:
    """Return the tool calls of a conversation whose results are in it.

    A result belongs to the nearest call before it that has its id and no result yet. One without a call is taken if it
    names its tool, with an empty input; otherwise nothing is known of what was called, and it is passed over. So is a
    call of what can be no name of a tool, as models make them up; these are named. A call failed if its result says so
    (`is_error`), or looks like an error. Time and tokens are taken from the numbers
    `time_cost` and `token_cost` in the metadata of a message with one result; nobody measured others. Ids hang on the
    result alone, its message, its place there and the call's id, so that the same messages, or those from the result
    on, give the same ids again. An output that is too long for a call is cut, with a notice; the message has all of it.
    """
    reader = _CallReader()
    for number, message in enumerate(messages):
        reader.read(message, number)
    still_open = [called for there in reader.waiting.values() for called in there]
    still_open.sort(key=lambda called: (called.place.number, called.place.block))
    return ReadCalls(
        calls=tuple(reader.calls),
        open_call_ids=tuple(dict.fromkeys(called.call.call_id for called in still_open)),
        skipped_call_ids=tuple(dict.fromkeys(reader.skipped)),
    )


def with_outcome(call: ToolCallResult) -> ToolCallResult:
    """Return a call whose success was left out with what its output tells: what looks like an error has failed."""
    if "success" in call.model_fields_set:
        return call
    return call.model_copy(update={"success": not looks_like_error(call.output)})


def _is_name(name: str) -> bool:
    try:
        check_id(name)
    except ValueError:
        return False
    return len(name) <= _MOST_NAME_CHARS


def _result(name: str, called: _OpenCall | None, place: _BlockPosition, result: ToolResultBlock) -> ToolCallResult:
    asked_in = place if called is None else called.place
    call_input, output = _fitting({} if called is None else called.call.arguments, result.output)
    metadata = place.message.metadata if len(place.message.result_ids) == 1 else {}
    call = ToolCallResult(
        call_id=place.digest(result.call_id),
        create_time=place.message.created_at,
        tool_name=name,
        input=call_input,
        output=output,
        # That it is no error is what frameworks say of every result that they have not looked at.
        success=not (result.is_error or looks_like_error(result.output)),
        time_cost=_seconds(metadata.get("time_cost")),
        token_cost=_tokens(metadata.get("token_cost")),
        message_ids=tuple(dict.fromkeys((asked_in.message.message_id, place.message.message_id))),
    )
    if "created_at" not in place.message.model_fields_set:
        call.model_fields_set.discard("create_time")  # a time that its sender left to us
    return call


def _fitting(call_input: JsonValue, output: str) -> tuple[JsonValue, str]:
    """Return input and output, cut where they are longer together than one call may be."""
    taken = len(json.dumps(call_input, ensure_ascii=False).encode())
    if taken > MAX_CALL_BYTES - _LEAST_OUTPUT_BYTES and taken + len(output.encode()) > MAX_CALL_BYTES:
        call_input = shortened(shown_input(call_input), _CUT_INPUT_CHARS)
        taken = len(json.dumps(call_input, ensure_ascii=False).encode())
    return call_input, _cut(output, MAX_CALL_BYTES - taken)


def _cut(text: str, max_bytes: int) -> str:
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    room = max_bytes - _NOTICE_BYTES
    head = int(room * _HEAD_SHARE)
    begin, end = data[:head].decode(errors="ignore"), data[len(data) - (room - head) :].decode(errors="ignore")
    return f"{begin} [… {len(text) - len(begin) - len(end)} characters left out …] {end}"


def _seconds(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= _MOST_SECONDS else None


def _tokens(value: JsonValue) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


# A look at ids may bring the calls along, each with megabytes.
_PAGE = 20


def read_handed_in(results: object, messages: object, now: datetime) -> tuple[tuple[ToolCallResult, ...], ReadCalls]:
    """Read calls handed in one by one, and those of a conversation. Takes long for megabytes, so not on the loop.

    Raises:
        InvalidInputError: Something can't be read, or was made later than now, a day's difference of clocks apart.
    """
    given = tuple(map(with_outcome, parse_tool_call_results(results)))
    for index, call in enumerate(given):
        if "create_time" in call.model_fields_set:
            check_time_not_future(call.create_time, f"results[{index}].create_time", now)
    read = read_tool_calls(parse_messages(messages, now=lambda: now))
    for call in read.calls:
        if "create_time" in call.model_fields_set:
            check_time_not_future(call.create_time, f"messages: created_at of {call.message_ids[-1]!r}", now)
    return given, read


async def unrecorded(
    store: Store, scope: Scope, calls: Sequence[ToolCallResult]
) -> tuple[tuple[ToolCallResult, ...], frozenset[str]]:
    """Return those calls whose ids aren't recorded yet, and the ids of the others, whatever is recorded under them."""
    missing: set[str] = set()
    for start in range(0, len(calls), _PAGE):
        try:
            await store.get_tool_calls(scope, [call.call_id for call in calls[start : start + _PAGE]])
        except ToolCallNotFoundError as exc:
            missing.update(exc.missing)
    fresh = tuple(call for call in calls if call.call_id in missing)
    return fresh, frozenset(call.call_id for call in calls) - missing


async def record(
    store: Store, scope: Scope, given: Sequence[ToolCallResult], read: Sequence[ToolCallResult]
) -> frozenset[str]:
    """Record calls, all or none; return the ids of those that were recorded already.

    Calls that were `read` from messages and whose ids are known are left alone: messages come again with outputs cut,
    or without the call.

    Raises:
        ConflictError: An id of the `given` calls that belongs to another call; nothing was recorded.
    """
    named = {call.call_id for call in given}
    fresh, known = await unrecorded(store, scope, [call for call in read if call.call_id not in named])
    try:
        added = await store.add_tool_calls(scope, (*given, *fresh))
    except ConflictError:
        # Somebody else may have recorded the same conversation since the look; otherwise it is raised again.
        fresh, more = await unrecorded(store, scope, fresh)
        known |= more
        added = await store.add_tool_calls(scope, (*given, *fresh))
    return known.union(added.known, (call.call_id for call in read if call.call_id in named))
