"""The OpenAPI document, and the service held to it by generated requests (schemathesis)."""

from __future__ import annotations

import json
import os
import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from reme_core.serve.http.calls import CALLS
from reme_core.serve.http.older_service import OLDER_CALLS
from reme_core.serve.http.openapi import openapi_document

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the libraries that it stands on
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis import checks
    from schemathesis.specs.openapi import checks as openapi_checks

CASES = int(os.environ.get("REME_API_CASES", "3"))
"""Requests of each kind to each call; `make served` sends 100."""
CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.response_headers_conformance,
]


def test_the_document_lists_each_call_with_its_arguments_and_failures():
    document = openapi_document()
    assert document["openapi"] == "3.1.0"
    for call in CALLS:
        operation = document["paths"][call.path][call.verb.lower()]
        named = {item["name"] for item in operation["parameters"] if item["in"] in {"path", "query"}}
        if call.has_body:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            reference = schema.get("$ref", "").rpartition("/")[2]
            named |= document["components"]["schemas"].get(reference, {}).get("properties", {}).keys()
        assert named == call.form.model_fields.keys(), call
        assert operation["summary"].endswith("."), call
        assert {"401", "403", "422", "503"} <= operation["responses"].keys()
    assert {f"/{name}" for name in OLDER_CALLS} < document["paths"].keys()
    identities = [item["operationId"] for path in document["paths"].values() for item in path.values()]
    assert len(identities) == len(set(identities))


def test_arguments_are_told_as_the_facade_tells_them():
    schema = openapi_document()["components"]["schemas"]["RetrieveRequest"]["properties"]
    assert schema["token_budget"]["description"] == "As many results as fit into this many tokens, repetition dropped."
    assert schema["limit"]["anyOf"][0] == {"maximum": 500, "minimum": 1, "type": "integer"}


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_generated_requests_get_documented_answers_and_never_a_failure_of_ours(client, mode):
    document = json.loads(json.dumps(openapi_document()), object_hook=_without_tuples)
    schema = schemathesis.openapi.from_dict(document)
    kind = getattr(schemathesis.GenerationMode, mode)
    for found in schema.get_all_operations():
        operation = found.ok()
        strategy = _strategy(operation, kind)
        if strategy is not None:
            _send_all(client, strategy)


def _without_tuples(schema):
    """Say of each item of a tuple that it is one of them: schemathesis takes no `prefixItems` in answers."""
    if "prefixItems" in schema:
        schema["items"] = {"anyOf": schema.pop("prefixItems")}
    return schema


def _strategy(operation, kind):
    if kind is schemathesis.GenerationMode.NEGATIVE and not operation.body and not operation.query:
        return None  # nothing that could be wrong
    return operation.as_strategy(generation_mode=kind)


def _send_all(client, strategy):
    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        derandomize=CASES < 10,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def send(data):
        case = data.draw(strategy)
        request = case.as_transport_kwargs(base_url="http://localhost")
        answer = client.request(
            request["method"],
            request["url"],
            params=request.get("params"),
            json=request.get("json"),
            content=request.get("data") if isinstance(request.get("data"), bytes | str) else None,
            headers={**dict(request.get("headers") or {}), "Host": "localhost:2334"},
        )
        case.validate_response(schemathesis.Response.from_any(answer), checks=CHECKS)

    send()
