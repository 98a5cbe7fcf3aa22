"""The OpenAPI document of the HTTP calls, made of the table and of the models of requests and answers.

Source: https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from inspect import getdoc
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from reme_core import __version__
from reme_core.serve.access import Right
from reme_core.serve.failures import PROBLEM
from reme_core.serve.http.calls import CALLS, Call
from reme_core.serve.http.export import MEDIA_TYPE
from reme_core.serve.http.older_service import OLDER_CALLS, OlderAnswer

Json: TypeAlias = dict[str, Any]
_REF = "#/components/schemas/{model}"
_FAILURES = {
    400: "The request is no HTTP that can be read.",
    401: "No key, or one that is not known here.",
    403: "The key doesn't allow this, or the Host or Origin is a foreign one.",
    404: "This user has nothing of this id.",
    405: "This path takes another method.",
    408: "The request came too slowly.",
    409: "What is there conflicts with it.",
    413: "The body is too large.",
    422: "Something in the request can't be used.",
    500: "A failure that nobody foresaw.",
    502: "A model failed.",
    503: "Busy: try again later.",
    507: "No space left.",
}


class Problem(BaseModel):
    """A failure (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    retryable: bool


def openapi_route() -> BaseRoute:
    """Return the path of the document."""

    async def document(_request: Request) -> Response:
        return JSONResponse(openapi_document())

    return Route("/openapi.json", document)


@cache
def openapi_document() -> Json:
    """Return the document."""
    schemas, shared = TypeAdapter.json_schemas(list(_adapters()), ref_template=_REF)
    definitions: Json = shared["$defs"]
    paths: dict[str, Json] = {}
    for call in CALLS:
        form = definitions[call.form.__name__] if call.form.model_fields else {}
        operation = _operation(call, form, schemas[call.name, "serialization"])
        paths.setdefault(call.path, {})[call.verb.lower()] = operation
        if not form.get("properties"):
            definitions.pop(call.form.__name__, None)
    paths["/v1/export"] = {"get": _export_operation()}
    for name, older in OLDER_CALLS.items():
        request, answer = schemas[name, "validation"], schemas["older answer", "serialization"]
        paths[f"/{name}"] = {"post": _older_operation(name, older.form, request, answer)}
    for name in ("healthz", "readyz"):
        paths[f"/{name}"] = {"get": _health_operation(name)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "reme", "version": __version__, "description": "Durable, scoped memory for agents."},
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _adapters() -> Iterator[tuple[str, Any, TypeAdapter[Any]]]:
    for call in CALLS:
        yield call.name, "validation", TypeAdapter(call.form)
        yield call.name, "serialization", call.answer
    for name, older in OLDER_CALLS.items():
        yield name, "validation", TypeAdapter(older.form)
    yield "older answer", "serialization", TypeAdapter(OlderAnswer)
    yield "problem", "serialization", TypeAdapter(Problem)


def _operation(call: Call, form: Json, answer: Json) -> Json:
    """Describe a call; the fields that stand in its path or behind `?` are taken out of the form."""
    operation = _described(call.name, call.path.split("/")[2], getdoc(call.handler) or "", call.right)
    names = call.path_names if call.has_body else tuple(form.get("properties", {}))
    required = form.get("required", [])
    parameters = [
        _parameter(name, form["properties"].pop(name), place="path" if name in call.path_names else "query")
        | ({"required": True} if name in required else {})
        for name in names
    ]
    form["required"] = [name for name in required if name not in names]
    if call.is_kept and call.right is not Right.READ:
        parameters.append(_header("Idempotency-Key", "The same request again under the same key is done once."))
    operation["parameters"] = [*parameters, _header("X-Reme-User", "Whose memory, for a key that may act as others.")]
    if call.has_body:
        schema: Json = {"$ref": _REF.format(model=call.form.__name__)} if form.get("properties") else {"type": "object"}
        operation["requestBody"] = {
            "required": bool(form["required"]),
            "content": {"application/json": {"schema": schema}},
        }
    operation["responses"] = _responses(answer, is_long=call.is_long)
    return operation


def _described(name: str, tag: str, told: str, right: Right) -> Json:
    summary, _, rest = told.partition("\n")
    text = rest.partition("\nArgs:")[0].partition("\nRaises:")[0].strip()
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "description": f"{text}\n\nTakes the right `{right}`.".strip(),
    }


def _parameter(name: str, schema: Json, *, place: str) -> Json:
    about = {"name": name, "in": place, "description": schema.pop("description", "")}
    kinds = [schema, *schema.get("anyOf", [])]
    if any(kind.get("type") == "object" for kind in kinds):
        return {**about, "content": {"application/json": {"schema": schema}}}
    said = [kind for kind in schema.get("anyOf", []) if kind.get("type") != "null"]
    if said:  # what is behind `?` is never null
        schema = said[0] if len(said) == 1 else {"anyOf": said}
    schema.pop("default", None)
    return {**about, "schema": schema}


def _header(name: str, description: str) -> Json:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}


def _responses(answer: Json, *, is_long: bool = False, media_type: str = "application/json") -> Json:
    failures: Json = {str(status): _failure(words) for status, words in _FAILURES.items()}
    if answer == {"type": "null"}:
        return {"204": {"description": "Done."}, **failures}
    content: dict[str, JsonValue] = {media_type: {"schema": answer}}
    if is_long:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"200": {"description": "The answer.", "content": content}, **failures}


def _failure(description: str) -> Json:
    return {"description": description, "content": {PROBLEM: {"schema": {"$ref": _REF.format(model="Problem")}}}}


def _export_operation() -> Json:
    operation = _described("export", "export", "Return everything of a user as JSON Lines.", Right.READ)
    return operation | {"responses": _responses({"type": "string"}, media_type=MEDIA_TYPE)}


def _older_operation(name: str, form: type[BaseModel], request: Json, answer: Json) -> Json:
    operation = _described(f"older_{name}", "older service", getdoc(form) or "", OLDER_CALLS[name].right)
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    return operation | {"requestBody": body, "responses": _responses(answer)}


def _health_operation(name: str) -> Json:
    told = "Tell that the process lives." if name == "healthz" else "Tell that the store can be written to."
    answer: Json = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
    return {
        "operationId": name,
        "tags": ["health"],
        "summary": told,
        "security": [],
        "responses": _responses(answer),
    }
