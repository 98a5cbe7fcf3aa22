"""Images over HTTP: handed in as base64, read back as JSON or as bytes, by their user alone."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode

from reme_core.schema import Blob
from reme_core.schema.blobs import blob_reference

PNG = b"\x89PNG\r\n\x1a\n\xff\xfe\xfd"
REF = blob_reference(PNG)


def test_bytes_come_back_as_json_and_as_they_are(client, client_as):
    image = {"type": "image", "data": b64encode(PNG).decode(), "caption": "a red door"}
    said = [{"message_id": "m1", "role": "user", "content": [image]}]
    assert client.post("/v1/summary", json={"messages": said}).status_code == 200
    stored = client.get("/v1/messages/m1").json()["message"]["content"][0]
    assert (stored["url"], stored["size"]) == (REF, len(PNG))
    told = client.get(f"/v1/blobs/{REF}")
    assert urlsafe_b64decode(told.json()["data"]) == PNG
    assert Blob.model_validate_json(told.content) == Blob(ref=REF, media_type="image/png", data=PNG)
    raw = client.get(f"/v1/blobs/{REF}/data")
    assert (raw.content, raw.headers["content-type"]) == (PNG, "image/png")
    assert raw.headers["x-content-type-options"] == "nosniff"
    bob = client_as("bob")
    for path in (f"/v1/blobs/{REF}", f"/v1/blobs/{REF}/data"):
        answer = bob.get(path)
        assert answer.status_code == 404
        assert "no image or file" in answer.json()["detail"]


def test_broken_bytes_and_unknown_references_are_the_callers_fault(client):
    for part, status in (({"data": "*"}, 422), ({"url": REF}, 404)):
        said = [{"role": "user", "content": [{"type": "image", **part}]}]
        assert client.post("/v1/summary", json={"messages": said}).status_code == status


def test_an_image_above_the_bound_of_a_request_comes_in_where_that_is_raised(client, client_as):
    large = PNG + bytes(7_000)
    image = {"type": "image", "data": b64encode(large).decode(), "caption": "a red door"}
    body = {"messages": [{"message_id": "m1", "role": "user", "content": [image]}]}
    refused = client_as(max_body_bytes=8_000).post("/v1/summary", json=body)
    assert refused.status_code == 413
    assert "start the service with a larger --max-body" in refused.json()["detail"]
    assert client.post("/v1/summary", json=body).status_code == 200
    assert client.get(f"/v1/blobs/{blob_reference(large)}/data").content == large
