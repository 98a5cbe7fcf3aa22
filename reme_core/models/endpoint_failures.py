"""Refusals of an OpenAI-compatible endpoint: mapped to our errors, and its options learnt from them."""

from __future__ import annotations

import importlib
import json
import re
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, TypeAlias
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import openai
from pydantic import JsonValue, SecretStr

from reme_core.errors import ContextTooLongError, ModelError, ModelRejectedError, ModelUnavailableError
from reme_core.ports import ResponseSchema

Foreign: TypeAlias = openai.OpenAIError | TimeoutError


# The HTTP library below: httpx under openai 2, httpx2 under openai 3.
_LIBRARY = importlib.import_module(openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])

TRANSPORT_ERROR: type[Exception] = _LIBRARY.TransportError
"""The base error of that library; streams of openai 2 let it through as it is."""

BYTE_STREAM: type = _LIBRARY.AsyncByteStream
"""The body of an answer in that library."""


@cache
def trusted_certificates() -> ssl.SSLContext:
    """Read what this machine trusts, once for all clients: it takes longer than a request on the same machine."""
    context: ssl.SSLContext = _LIBRARY.create_ssl_context()
    return context


USED_UP = "insufficient_quota"
"""The code of a 429 that no waiting heals."""

_PASSING = frozenset({408, 409, 429})
_NEVER_REACHED = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout"})
_PLAIN = re.compile(r"[\w.\-\[\]]{1,60}")
# As worded by OpenAI, vLLM, llama.cpp, Anthropic's and Google's compatible endpoints, and DashScope.
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|string_above_max_length|context (?:length|window|size)|"
    r"(?:prompt|input|request)\W+(?:is|was)?\W*too long|too many (?:input )?tokens|range of input length|"
    r"input token count|maximum (?:input|sequence) length|max(?:imum)? (?:number of )?(?:input )?tokens allowed|"
    r"reduce (?:the|your) (?:length|prompt|input)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointAddress:
    """Where a request goes, for messages: the model, the URL, the variables that set key and URL, the secret.

    The URL is told without user, password and query.
    """

    model: str
    base_url: str = field(repr=False)
    key_variable: str
    url_variable: str
    secret: SecretStr | None

    @property
    def url(self) -> str:
        """The URL without what may be secret in it."""
        return safe_url(self.base_url)


def safe_url(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def may_pass(exc: Foreign) -> bool:
    """Tell whether the same request may succeed later: no connection, time-out, 408, 409, 429 and 5xx."""
    if isinstance(exc, openai.APIStatusError):
        if exc.code == USED_UP:  # a 429 that waiting does not heal
            return False
        return exc.status_code in _PASSING or exc.status_code >= 500
    return isinstance(exc, openai.APIConnectionError | TimeoutError)


def was_reached(exc: Foreign) -> bool:
    """Tell whether the request got to the endpoint, as far as can be known."""
    refused = isinstance(exc, openai.APIConnectionError) and type(exc.__cause__).__name__ in _NEVER_REACHED
    return not refused


def complaint(error: ModelError) -> str:
    """Return what the endpoint said, in lower case; it may hold parts of the prompt, so it is for us alone."""
    cause = error.__cause__
    return f"{cause} {cause.body!r}".lower() if isinstance(cause, openai.APIError) else ""


def translate(exc: Foreign, place: EndpointAddress, *, attempts: int) -> ModelError:
    """Return our error for a foreign one: its text names status, code and a hint, and no words of the endpoint."""
    _scrub(exc, place.secret)
    return _mapped(exc, place, attempts)


def _mapped(exc: Foreign, place: EndpointAddress, attempts: int) -> ModelError:
    where = f"{place.model!r} at {place.url!r}"
    tries = f"after {attempts} attempt{'s' if attempts != 1 else ''}"
    if isinstance(exc, openai.APITimeoutError | TimeoutError):
        return ModelUnavailableError(f"{where}: no answer in time {tries}: raise `timeout_s`, or try again later")
    if isinstance(exc, openai.APIConnectionError):
        return ModelUnavailableError(
            f"{where}: no connection {tries}: is the server up, and is the URL right ({place.url_variable})?"
        )
    if isinstance(exc, openai.APIStatusError):
        return _from_status(exc, place, f"{where}: {exc.status_code}{_details(exc)}", tries)
    if isinstance(exc, openai.APIError):
        return ModelUnavailableError(f"{where}: the answer ended with an error{_details(exc)}: try again later")
    return ModelRejectedError(f"{where}: the client refused the request ({type(exc).__name__}): see its cause")


def _from_status(exc: openai.APIStatusError, place: EndpointAddress, what: str, tries: str) -> ModelError:
    said = f"{exc.code} {exc.message} {exc.body!r}"
    if exc.status_code in {400, 413, 422, 500} and _TOO_LONG.search(said):
        return ContextTooLongError(f"{what}: the request is longer than the model's context window: shorten it")
    if may_pass(exc):
        return ModelUnavailableError(f"{what}, {tries}: try again later")
    match exc.status_code:
        case 301 | 302 | 303 | 307 | 308:
            hint = f"redirects are not followed: set {place.url_variable} to where the endpoint is"
        case 401:
            hint = f"the key was refused: set {place.key_variable}, or pass `api_key`"
        case 403:
            hint = f"this key may not use the model: check the account, or {place.key_variable}"
        case 404:
            hint = f"no such model or path: check the model's name and {place.url_variable} (most end in '/v1')"
        case 429:
            hint = "the quota is used up: check the account's plan and billing"
        case _:
            hint = "the endpoint refused the request: see the cause for its own words"
    return ModelRejectedError(f"{what}: {hint}")


def _details(exc: openai.APIError) -> str:
    """Name code and parameter where they are identifiers; anything longer could be prompt text."""
    named = (("code", exc.code), ("type", exc.type), ("parameter", exc.param))
    details = [f"{what} {value!r}" for what, value in named if isinstance(value, str) and _PLAIN.fullmatch(value)]
    return f" ({', '.join(details)})" if details else ""


def _scrub(exc: BaseException, secret: SecretStr | None) -> None:
    """Take the key out of the foreign error: some endpoints repeat it, and tracebacks and messages show it."""
    key = secret.get_secret_value() if secret else ""
    if not key:
        return
    exc.args = tuple(arg.replace(key, "***") if isinstance(arg, str) else arg for arg in exc.args)
    if isinstance(exc, openai.APIError):
        exc.message = exc.message.replace(key, "***")
        if key in f"{exc.code} {exc.type} {exc.param} {exc.body!r}":
            exc.code = exc.type = exc.param = exc.body = None


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
