"""The options that an endpoint understands: learnt from its refusals, and remembered while anybody speaks to it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias
from weakref import WeakValueDictionary

from pydantic import JsonValue

from reme_core.ports import ResponseSchema

JsonObject: TypeAlias = dict[str, JsonValue]
JsonMode: TypeAlias = Literal["schema", "object", "prompt"]

_INSTRUCTION = (
    "Answer with one JSON value and nothing else: no code fence, no explanation. It must follow this JSON schema:\n"
)
_ABOUT_FORMAT = re.compile(r"response_format|json_schema|json_object|structured output|response format|guided")
_ABOUT_THIS_SCHEMA = re.compile(r"invalid schema|invalid_json_schema")
_ABOUT_TOKENS = re.compile(r"max_(?:completion_)?tokens")
# Too much is refused in these words; in others the option itself is.
_TOO_MANY = re.compile(r"large|at most|exceed|less than|range|between|maximum|greater|higher|beyond")
_ABOUT_ROOM = re.compile(r"max_(?:completion_)?tokens|completion|output")
# The keywords that strict mode takes. Source: OpenAI, "Structured model outputs", supported schemas.
_STRICT_KEYWORDS = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "const", "definitions", "description", "enum", "format", "items"}
    | {"exclusiveMaximum", "exclusiveMinimum", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern"}
    | {"properties", "required", "title", "type"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDialect:
    """The options that an endpoint takes, best first.

    Attributes:
        json_mode: How JSON is asked for: by `json_schema`, by `json_object` with the schema in the prompt, or by the
            prompt alone.
        refused_schemas: Names of schemas that it refused by themselves: they are asked for by `json_object`.
        tokens_option: What the limit of completion tokens is called.
        tokens_below: Such limits are sent below this number alone; None: all of them, 0: none.
        temperature: Whether it takes one.
        stream_usage: Whether a stream can be asked for its usage.
    """

    json_mode: JsonMode = "schema"
    refused_schemas: frozenset[str] = frozenset()
    tokens_option: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    tokens_below: int | None = None
    temperature: bool = True
    stream_usage: bool = True

    def mode_of(self, schema: ResponseSchema) -> JsonMode:
        """Return how JSON of this schema is asked for."""
        is_refused = self.json_mode == "schema" and schema_name(schema) in self.refused_schemas
        return "object" if is_refused else self.json_mode


@dataclass(slots=True, weakref_slot=True)
class LearntDialect:
    """What was learnt of one model at one endpoint, shared by all objects of the process that speak to it."""

    dialect: EndpointDialect = field(default_factory=EndpointDialect)


# Held by who speaks to the endpoint, and gone with the last of them: an endpoint that is served anew is asked anew.
_LEARNT: WeakValueDictionary[tuple[str, str], LearntDialect] = WeakValueDictionary()
_LOCK = threading.Lock()


def learnt_of(base_url: str, model: str) -> LearntDialect:
    """Return what is known of a model at an endpoint; hold on to it to go on knowing it."""
    with _LOCK:
        return _LEARNT.setdefault((base_url.rstrip("/"), model), LearntDialect())


def simpler(dialect: EndpointDialect, body: Mapping[str, JsonValue], complaint: str) -> EndpointDialect | None:
    """Return the next simpler dialect that a refusal asks for; None where the refusal is about something else.

    `body` is the request that was refused, `complaint` what the endpoint said, in lower case.
    """
    wanted = body.get("response_format")
    if isinstance(wanted, dict) and _ABOUT_FORMAT.search(complaint):
        return _looser(dialect, wanted, complaint)
    if "max_tokens" in body and "max_completion_tokens" in complaint:
        return replace(dialect, tokens_option="max_completion_tokens")
    limit = body.get(dialect.tokens_option)
    if isinstance(limit, int) and _ABOUT_TOKENS.search(complaint):
        return replace(dialect, tokens_below=limit if _TOO_MANY.search(complaint) else 0)
    if "temperature" in body and "temperature" in complaint:
        return replace(dialect, temperature=False)
    if "stream_options" in body and re.search("stream_options|include_usage", complaint):
        return replace(dialect, stream_usage=False)
    return None


def _looser(dialect: EndpointDialect, wanted: Mapping[str, JsonValue], complaint: str) -> EndpointDialect:
    inner = wanted.get("json_schema")
    if not isinstance(inner, dict):
        return replace(dialect, json_mode="prompt")
    if _ABOUT_THIS_SCHEMA.search(complaint):
        return replace(dialect, refused_schemas=dialect.refused_schemas | {str(inner["name"])})
    return replace(dialect, json_mode="object")


def is_about_room(dialect: EndpointDialect, body: Mapping[str, JsonValue], complaint: str) -> bool:
    """Tell whether a request that was too long may fit without the room that it wants for its answer."""
    return dialect.tokens_option in body and bool(_ABOUT_ROOM.search(complaint))


def response_format(schema: ResponseSchema, mode: JsonMode) -> JsonObject | None:
    """Return the option `response_format`, or None where the prompt alone asks."""
    if mode == "prompt":
        return None
    if mode == "object":
        # An object is all that this mode gives; other values are asked for by the prompt.
        return {"type": "json_object"} if schema.schema.get("type", "object") == "object" else None
    strict = fits_strict(dict(schema.schema))
    wanted: JsonObject = {"name": schema_name(schema), "schema": dict(schema.schema), "strict": strict}
    return {"type": "json_schema", "json_schema": wanted}


def schema_name(schema: ResponseSchema) -> str:
    """Return the name of a schema as endpoints take it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", schema.name)[:64] or "answer"


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
