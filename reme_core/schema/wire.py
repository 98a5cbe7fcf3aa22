"""Conversion of the dictionaries that users have (OpenAI's and near ones) into the fields of a message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from reme_core.schema.checks import check_json, kind_of

_ROLES = {"developer": "system", "function": "tool", "human": "user", "ai": "assistant"}
_TIMES = ("time_created", "timestamp")
# Beside `content` and `tool_calls` in answers of OpenAI and endpoints like it.
_VENDOR_KEYS = (
    "refusal",
    "annotations",
    "audio",
    "function_call",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
)
_OUR_TYPES = frozenset({"text", "image", "file", "tool_call", "tool_result", "other"})


def normalise_message(data: Mapping[str, object]) -> dict[str, object]:
    """Rewrite the fields of a message dictionary to ours; values are checked later, by the model.

    A dictionary in our own form comes back unchanged.

    Raises:
        ValueError: Two fields say the same thing, or a part has a type that we don't know.
    """
    fields = dict(data)
    role = fields.get("role")
    if isinstance(role, str):
        fields["role"] = _ROLES.get(role, role)
    for alias in _TIMES:
        if alias in fields:
            _rename(fields, alias, "created_at")
    if "id" in fields:
        _rename(fields, "id", "message_id")
    calls = fields.pop("tool_calls", None)
    call_id = fields.pop("tool_call_id", None)
    blocks = [*_content(fields.get("content")), *_vendor_parts(fields)]
    if call_id is not None:
        others = [block for block in blocks if not _is_text(block)]
        blocks = [_tool_result(blocks, call_id, fields.get("name")), *others]
    if calls is not None:
        blocks = [*blocks, *(_tool_call(call) for call in _sequence(calls, "tool_calls"))]
    fields["content"] = blocks
    return fields


def _vendor_parts(fields: dict[str, object]) -> list[object]:
    """Take out what endpoints add to an answer; empty additions go, others are kept as parts that nobody reads."""
    parts: list[object] = []
    for key in _VENDOR_KEYS:
        value = fields.pop(key, None)
        if value is None or value in ("", [], {}):
            continue
        if key == "audio" and isinstance(value, Mapping) and isinstance(value.get("data"), str):
            parts.append(_audio(value))
            continue
        is_said = key == "refusal" and isinstance(value, str)
        parts.append({"type": "text", "text": value} if is_said else {"type": "other", "kind": key, "data": value})
    return parts


def _rename(fields: dict[str, object], alias: str, name: str) -> None:
    value = fields.pop(alias)
    if fields.get(name) is None:
        fields[name] = value
    elif value is not None and value != fields[name]:
        msg = f"{alias!r} and {name!r} differ: give one of them"
        raise ValueError(msg)


def _sequence(value: object, what: str) -> list[object]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        msg = f"{what}: wanted a list, found {kind_of(value)}"
        raise ValueError(msg)  # noqa: TRY004  # pydantic turns ValueError, and not TypeError, into a field's error
    return list(value)


def _content(content: object) -> list[object]:
    """Return the blocks; an empty list for None (ValueError)."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, (list, tuple)):
        return [block for part in content for block in _blocks(part)]
    msg = f"content: wanted a text or a list of parts, found {kind_of(content)}"
    raise ValueError(msg)


def _blocks(part: object) -> list[object]:
    """Return the blocks of a part: of a tool's result in Anthropic's form, what it shows stands beside its text."""
    if not isinstance(part, Mapping) or part.get("type") != "tool_result" or "tool_use_id" not in part:
        return [_part(part)]
    content = part.get("content")
    inner = [_part(item) for item in content] if isinstance(content, (list, tuple)) else _content(content)
    result = {**_tool_result(inner, part["tool_use_id"], None), "is_error": part.get("is_error") or False}
    return [result, *(block for block in inner if not _is_text(block))]


def _part(part: object) -> object:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        return part
    match part.get("type"):
        case "image_url" | "input_image":
            return {"type": "image", "url": _url(part.get("image_url"))}
        case "input_text" | "output_text":
            return {"type": "text", "text": part.get("text")}
        case "refusal":
            return {"type": "text", "text": part.get("refusal")}
        case "image" | "document" | "audio" | "video" as kind if isinstance(part.get("source"), Mapping):
            return _with_source(kind, part, part["source"])
        case "input_audio" if isinstance(audio := part.get("input_audio"), Mapping) and "data" in audio:
            return _audio(audio)
        case "input_audio" | "audio" | "thinking" | "reasoning":
            return {"type": "other", "kind": str(part["type"]), "data": dict(part)}
        case "file" if "file" in part:
            return _openai_file(part["file"])
        case "input_file":
            return _openai_file(part)
        case "tool_use":  # Anthropic's
            call = {"call_id": part.get("id"), "name": part.get("name"), "arguments": part.get("input")}
            return {"type": "tool_call", **call}
        case "text" if part.get("citations", ...) is None:
            return {key: value for key, value in part.items() if key != "citations"}
        case str(kind) if kind in _OUR_TYPES:
            return dict(part)
        case kind:
            msg = f"a content part of type {kind!r:.40} is not known: use one of {', '.join(sorted(_OUR_TYPES))}"
            raise ValueError(msg)


def _with_source(kind: str, part: Mapping[str, object], source: Mapping[str, object]) -> dict[str, object]:
    """Return the block of a part in Anthropic's form, which AgentScope has as well."""
    block = {"media_type": source.get("media_type"), **{key: source[key] for key in ("url", "data") if key in source}}
    match source.get("type"):
        case "text":  # a document that is plain text
            return {"type": "text", "text": source.get("data")}
        case "file":
            block["url"] = source.get("file_id")
        case "base64" | "url" | None:
            pass
        case other:
            msg = f"a {kind} whose source is of type {other!r:.40} is not known: use base64, url or file"
            raise ValueError(msg)
    if kind == "image":
        return {"type": "image", "caption": part.get("caption"), **block}
    return {"type": "file", "name": part.get("title") or part.get("name"), "text": part.get("text"), **block}


def _audio(audio: Mapping[str, object]) -> dict[str, object]:
    """Return the block of a recording in OpenAI's form; its transcript is what it says."""
    kind = {"mp3": "mpeg"}.get(str(audio.get("format")), audio.get("format") or "wav")
    media_type = f"audio/{kind}"
    return {"type": "file", "media_type": media_type, "data": audio["data"], "text": audio.get("transcript")}


def _openai_file(file: object) -> dict[str, object]:
    if not isinstance(file, Mapping):
        msg = f"a file part wants an object under 'file', found {kind_of(file)}"
        raise ValueError(msg)  # noqa: TRY004  # pydantic turns ValueError, and not TypeError, into a field's error
    data = file.get("file_data")
    if isinstance(data, str) and file.get("file_id") is None and not data.startswith("data:"):
        return {"type": "file", "data": data, "name": file.get("filename")}
    return {"type": "file", "url": file.get("file_id") or file.get("file_url") or data, "name": file.get("filename")}


def _url(value: object) -> object:
    return value.get("url") if isinstance(value, Mapping) else value


def _is_text(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text"


def _tool_result(blocks: list[object], call_id: object, name: object) -> dict[str, object]:
    texts = [_told(block) for block in blocks if isinstance(block, Mapping) and _is_text(block)]
    return {"type": "tool_result", "call_id": call_id, "name": name, "output": "\n".join(texts)}


def _told(block: Mapping[str, object]) -> str:
    text = block.get("text")
    if isinstance(text, str):
        return text
    msg = f"a text part of a tool's result wants a text under 'text', found {kind_of(text)}"
    raise ValueError(msg)


def _tool_call(call: object) -> object:
    if not isinstance(call, Mapping):
        return call
    function = call.get("function")
    if not isinstance(function, Mapping):
        return {"type": "tool_call", "call_id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
    return {
        "type": "tool_call",
        "call_id": call.get("id"),
        "name": function.get("name"),
        "arguments": _arguments(function.get("arguments")),
    }


def _arguments(value: object) -> object:
    if value is None or value == "":
        return {}
    if not isinstance(value, str):
        return value
    try:
        parsed = check_json(json.loads(value))
    except (ValueError, RecursionError):  # also NaN and lone surrogates: the text as it came keeps them
        return value
    return parsed if isinstance(parsed, dict) else value
