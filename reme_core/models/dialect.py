"""What an endpoint understands: learnt from its refusals, and remembered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from pydantic import JsonValue

from reme_core.ports import ResponseSchema

JsonObject: TypeAlias = dict[str, JsonValue]
JsonMode: TypeAlias = Literal["schema", "object", "prompt"]

_INSTRUCTION = (
    "Answer with one JSON value and nothing else: no code fence, no explanation. It must follow this JSON schema:\n"
)
_ABOUT_FORMAT = re.compile(r"response_format|json_schema|json_object|structured output|response format|guided")
_ABOUT_THIS_SCHEMA = re.compile(r"invalid schema|invalid_json_schema")
# The keywords that strict mode takes. Source: OpenAI, "Structured model outputs", supported schemas.
_STRICT_KEYWORDS = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "const", "definitions", "description", "enum", "format", "items"}
    | {"exclusiveMaximum", "exclusiveMinimum", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern"}
    | {"properties", "required", "title", "type"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The options that an endpoint takes, best first.

    Attributes:
        json_mode: How JSON is asked for: by `json_schema`, by `json_object` with the schema in the prompt, or by the
            prompt alone.
        tokens_option: What the limit of completion tokens is called.
        stream_usage: Whether a stream can be asked for its usage.
    """

    json_mode: JsonMode = "schema"
    tokens_option: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True


def simpler(dialect: Dialect, body: Mapping[str, JsonValue], complaint: str) -> Dialect | None:
    """Return the next simpler dialect that a refusal asks for; None where the refusal is about something else.

    `body` is the request that was refused, `complaint` what the endpoint said, in lower case.
    """
    if "response_format" in body and _ABOUT_FORMAT.search(complaint):
        return replace(dialect, json_mode="object" if dialect.json_mode == "schema" else "prompt")
    if "max_tokens" in body and "max_completion_tokens" in complaint:
        return replace(dialect, tokens_option="max_completion_tokens")
    if "stream_options" in body and re.search("stream_options|include_usage", complaint):
        return replace(dialect, stream_usage=False)
    return None


def is_about_this_schema(complaint: str) -> bool:
    """Tell whether a refusal concerns one schema, so that others may still be asked for in the same way."""
    return bool(_ABOUT_THIS_SCHEMA.search(complaint))


def response_format(schema: ResponseSchema, mode: JsonMode) -> JsonObject | None:
    """Return the option `response_format`, or None where the prompt alone asks."""
    if mode == "prompt":
        return None
    if mode == "object":
        # An object is all that this mode gives; other values are asked for by the prompt.
        return {"type": "json_object"} if schema.schema.get("type", "object") == "object" else None
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", schema.name)[:64] or "answer"
    wanted: JsonObject = {"name": name, "schema": dict(schema.schema), "strict": fits_strict(dict(schema.schema))}
    return {"type": "json_schema", "json_schema": wanted}


def json_instruction(schema: ResponseSchema) -> str:
    """Return the sentence that asks for JSON of this schema."""
    return _INSTRUCTION + json.dumps(schema.schema, ensure_ascii=False)


def fits_strict(schema: JsonValue) -> bool:
    """Tell whether a schema is of the subset that strict mode takes: objects are closed, every property is required."""
    if not isinstance(schema, dict):
        return isinstance(schema, bool)
    if not schema.keys() <= _STRICT_KEYWORDS:
        return False
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties")
        names = list(properties) if isinstance(properties, dict) else []
        required = schema.get("required", [])
        if schema.get("additionalProperties") is not False or not isinstance(required, list):
            return False
        if set(names) != {name for name in required if isinstance(name, str)}:
            return False
    return all(fits_strict(child) for child in _children(schema))


def _children(schema: JsonObject) -> list[JsonValue]:
    children: list[JsonValue] = []
    for key in ("properties", "$defs", "definitions"):
        named = schema.get(key)
        children += list(named.values()) if isinstance(named, dict) else []
    options = schema.get("anyOf")
    children += options if isinstance(options, list) else []
    return [*children, schema["items"]] if "items" in schema else children
