"""Lines of memory libraries in the form that earlier tools of this kind wrote, translated into the fields of ours.

Such a line has a `workspace_id`, the times `time_created` and `time_modified`, a `score`, and the memory type `task`
for what is procedural here. A tool's line has the tool's name as `when_to_use`, the guideline as `content`, and the
calls that were made of it as `tool_call_results`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, ValidationError, model_validator

from reme_core.errors import InvalidInputError
from reme_core.schema import MemoryType, ToolCallResult, UtcTime, describe
from reme_core.schema.checks import Id, Text
from reme_core.toolstats.tool_guideline import KIND

DEFAULT_TARGET = "default"
"""The target of a procedural memory that names no task and no workspace."""

_MARKS = frozenset({"workspace_id", "time_created", "time_modified", "tool_call_results"})
# More uses than this were not counted; a float still holds them exactly.
_MOST_USES = 1 << 53
_CALL_FIELDS = frozenset(
    {"create_time", "tool_name", "input", "output", "token_cost", "success", "time_cost", "metadata"}
)


def _no_blank(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def _stripped(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _our_type(value: object) -> object:
    return MemoryType.PROCEDURAL if value == "task" else value


_Time = Annotated[UtcTime | None, BeforeValidator(_no_blank)]
_Text = Annotated[Text | None, BeforeValidator(_no_blank)]


class _LegacyLine(BaseModel):
    # Further keys are kept: those tools wrote what their users put there.
    model_config = ConfigDict(frozen=True, extra="allow")

    memory_type: Annotated[MemoryType, BeforeValidator(_our_type)]
    memory_id: Annotated[Id | None, BeforeValidator(_no_blank)] = None
    workspace_id: _Text = None
    when_to_use: _Text = None
    content: _Text = None
    score: JsonValue = None
    time_created: _Time = None
    time_modified: _Time = None
    author: _Text = None
    target: _Text = None
    reflection_subject: _Text = None
    metadata: dict[str, JsonValue] | None = None
    tool_call_results: tuple[dict[str, JsonValue], ...] | None = None

    @model_validator(mode="after")
    def _whole(self) -> _LegacyLine:
        if self.memory_type is MemoryType.TOOL and self.when_to_use is None:
            msg = "when_to_use is empty: for a tool it is the tool's name"
            raise ValueError(msg)
        if self.tool_call_results and self.memory_id is None:
            msg = "memory_id is missing: recorded calls get their ids from it"
            raise ValueError(msg)
        if self.tool_call_results and self.memory_type is not MemoryType.TOOL:
            msg = f"tool_call_results belong to memories of type tool, and this one is of type {self.memory_type}"
            raise ValueError(msg)
        return self


def is_older(item: Mapping[str, JsonValue]) -> bool:
    """Tell whether a line has the older form."""
    return item.get("memory_type") == "task" or not _MARKS.isdisjoint(item)


def translate(item: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue] | None, tuple[ToolCallResult, ...]]:
    """Return the fields of the memory that an older line is, those of a scope apart, and the calls that it brings.

    A tool's line without a guideline is no memory. Where the line comes from is kept as `metadata.origin`: workspace,
    id, and what has no place here. The id of a call is made of the line's, of when the call was made and of what, with
    which answer: a later file that has it gives the same id, whatever those tools have noted of it meanwhile, and
    wherever in the line it stands. Times without a zone are taken as UTC.

    Raises:
        InvalidInputError: Naming the field that is wrong.
    """
    try:
        line = _LegacyLine.model_validate(item)
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, "memory")) from exc
    calls = _calls(line)
    if line.memory_type is MemoryType.TOOL and line.content is None:
        return None, calls
    return _fields(line), calls


def with_origin(metadata: Mapping[str, JsonValue], origin: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return metadata that says under `origin` where a memory comes from, beside what stands there already."""
    if not origin:
        return dict(metadata)
    before = metadata.get("origin")
    if before is not None and not isinstance(before, dict):
        before = {"origin": before}
    return {**metadata, "origin": {**(before or {}), **origin}}


def _fields(line: _LegacyLine) -> dict[str, JsonValue]:
    metadata = dict(line.metadata or {})
    origin: dict[str, JsonValue] = {"workspace_id": line.workspace_id, "memory_id": line.memory_id}
    origin |= line.model_extra or {}
    fields: dict[str, JsonValue] = {
        "memory_id": line.memory_id,
        "memory_type": line.memory_type,
        "memory_target": _target(line),
        "content": line.content or "",
        "when_to_use": line.when_to_use or "",
        "author": line.author,
    }
    if metadata.get("when_to_use") == line.when_to_use:
        metadata.pop("when_to_use", None)
    for name in ("content", "experience"):
        if metadata.get(name) == line.content:
            metadata.pop(name, None)
    for name, most in (("confidence", 1.0), ("utility", _MOST_USES)):
        if _is_number(metadata.get(name), most):
            fields[name] = metadata.pop(name)
    if isinstance(freq := metadata.get("freq"), int) and _is_number(freq, _MOST_USES):
        fields["freq"] = metadata.pop("freq")
    if line.score and _is_number(line.score, 1.0):  # 0 is what those tools write where nobody has scored
        fields["importance"] = line.score
    elif line.score is not None:
        (origin if "score" in metadata else metadata)["score"] = line.score
    if line.memory_type is MemoryType.TOOL:
        origin |= {name: metadata.pop(name) for name in ("kind", "calls") if name in metadata}
        metadata |= {"kind": KIND, "calls": _told(line)}
    if line.memory_type is MemoryType.PERSONAL and line.reflection_subject is not None:
        metadata["reflection_subject"] = line.reflection_subject
    elif line.reflection_subject is not None:
        origin["reflection_subject"] = line.reflection_subject
    fields["metadata"] = with_origin(metadata, _present(origin))
    return _present(fields | _times(line))


def _target(line: _LegacyLine) -> str:
    if line.memory_type is MemoryType.TOOL:
        return (line.when_to_use or "").strip()
    if line.memory_type is not MemoryType.PROCEDURAL:
        return line.target or "self"
    task = (line.metadata or {}).get("task_name")
    return (task if isinstance(task, str) and task.strip() else None) or line.workspace_id or DEFAULT_TARGET


def _times(line: _LegacyLine) -> dict[str, JsonValue]:
    created = line.time_created or line.time_modified
    changed = line.time_modified or created
    if created is None or changed is None:
        return {}
    return {"created_at": created.isoformat(), "updated_at": changed.isoformat()}


def _told(line: _LegacyLine) -> int:
    """Return of how many calls a guideline knows: those said to be summarised, all where nothing is said of it."""
    calls = line.tool_call_results or ()
    if any("is_summarized" in call for call in calls):
        return sum(call.get("is_summarized") is True for call in calls)
    return len(calls)


def _calls(line: _LegacyLine) -> tuple[ToolCallResult, ...]:
    equal = Counter[str]()
    calls: list[ToolCallResult] = []
    for place, item in enumerate(line.tool_call_results or ()):
        own_time = _no_blank(item.get("create_time"))
        call = _call(line, item, own_time, place)
        # Where a call has no time, that of its line stands in; tools change the line's.
        made = None if own_time is None else call.create_time.isoformat()
        key = json.dumps([line.memory_id, made, call.tool_name, call.input, call.output], sort_keys=True)
        calls.append(call.model_copy(update={"call_id": _digest(key, equal[key])}))
        equal[key] += 1
    return tuple(calls)


def _digest(key: str, number: int) -> str:
    """Return the id of the call that is the `number`-th with this key in its line."""
    return hashlib.blake2b(f"{number}:{key}".encode(), digest_size=16).hexdigest()


def _call(line: _LegacyLine, call: Mapping[str, JsonValue], own_time: object, place: int) -> ToolCallResult:
    where = f"memory.tool_call_results[{place}]"
    made = own_time or line.time_created or line.time_modified
    if made is None:
        msg = f"{where}.create_time: is missing: say when the call was made"
        raise InvalidInputError(msg)
    output = "" if call.get("output") is None else call["output"]
    kept = call.get("metadata")
    # What is empty says nothing; those tools wrote every field.
    extra = {name: value for name, value in call.items() if name not in _CALL_FIELDS and value not in ("", None)}
    fields: dict[str, object] = {
        "create_time": made,
        "tool_name": _stripped(call.get("tool_name")) or _target(line),
        "input": call.get("input"),
        "output": output if isinstance(output, str) else json.dumps(output, ensure_ascii=False),
        "token_cost": _cost(call.get("token_cost")),
        "success": call.get("success"),
        "time_cost": _cost(call.get("time_cost")),
        "metadata": with_origin(kept, extra) if isinstance(kept, dict) else kept or with_origin({}, extra),
    }
    try:
        return ToolCallResult.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, where)) from exc


def _cost(value: JsonValue) -> JsonValue:
    """Return what a call took; None where nobody knows, for which those tools wrote -1."""
    return None if isinstance(value, (int, float)) and value < 0 else value


def _is_number(value: JsonValue, most: float) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value <= most


def _present(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in fields.items() if value is not None}
