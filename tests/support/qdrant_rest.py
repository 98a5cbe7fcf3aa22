"""A server on the loopback address that speaks Qdrant's REST, and that the client's local mode answers for.

It is no Qdrant server: it shows that what the index sends is well-formed and what it makes of failures.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, TypeAdapter
from qdrant_client import QdrantClient, models

KEY = "a-key-that-nobody-may-see"
MOST_BYTES = 32 * 1024 * 1024  # as Qdrant's own
SELECTOR: TypeAdapter[models.PointsSelector] = TypeAdapter(models.PointsSelector)


class Rest(BaseHTTPRequestHandler):
    """Translates requests into calls of the local mode."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body of an answer in one packet
    disable_nagle_algorithm = True
    server: RestServer
    timeout: ClassVar[float] = 30.0

    def do_GET(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def log_message(self, *_: object) -> None:
        pass

    def answer(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        with self.server.lock:
            self.server.seen.append((self.command, url.path, parse_qs(url.query), body))
            self.close_connection = self.close_connection or self.server.is_cut_off
            if self.server.is_cut_off and not self.server.acts_once_more():
                return
            status = 413 if length > MOST_BYTES else 401 if self.headers.get("api-key") != KEY else 200
            status = self.server.failing or status
            result = self.result(url.path, body) if status == 200 else {"error": "as told"}
            if result is None:
                status, result = 404, {"error": "no such collection"}
        if self.server.is_cut_off:
            return
        told = {"result": result, "status": "ok", "time": 0.0} if url.path != "/" else result
        data = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def result(self, path: str, body: dict[str, Any]) -> Any:
        local, parts = self.server.local, path.strip("/").split("/")
        if path == "/":
            return {"title": "qdrant", "version": self.server.version, "commit": None}
        name, rest = parts[1], "/".join(parts[2:])
        match self.command, rest:
            case "GET", "exists":
                return {"exists": local.collection_exists(name)}
            case "PUT", "":
                wanted = models.CreateCollection(**body)
                self.server.created[name] = body
                return local.create_collection(
                    name, vectors_config=wanted.vectors, sparse_vectors_config=wanted.sparse_vectors
                )
            case "GET", "":
                if not local.collection_exists(name):
                    return None
                info = with_layout(plain(local.get_collection(name)), self.server.created.get(name, {}))
                indexed = {field: {"data_type": "keyword", "points": 0} for field in self.server.indexes}
                return {**info, "payload_schema": indexed}
            case "PUT", "index":
                self.server.indexes.append(models.CreateFieldIndex(**body).field_name)
                return done()
            case "GET", "shards":
                return {"shard_keys": [{"key": key} for key in self.server.shard_keys]}
            case "PUT", "shards":
                self.server.shard_keys.append(body["shard_key"])
                return True
        if not local.collection_exists(name):
            return None
        return points_result(local, name, self.command, rest, body)


def with_layout(info: dict[str, Any], created: dict[str, Any]) -> dict[str, Any]:
    """Tell how a collection was created, which the local mode forgets."""
    params, config = info["config"]["params"], info["config"]
    for name in ("shard_number", "replication_factor", "write_consistency_factor", "sharding_method"):
        if name in created:
            params[name] = created[name]
    params["vectors"] |= created.get("vectors", {})
    return {**info, "config": {**config, "quantization_config": created.get("quantization_config")}}


def points_result(local: QdrantClient, name: str, command: str, rest: str, body: dict[str, Any]) -> Any:
    match command, rest:
        case "POST", "points":
            asked = models.PointRequest(**body)
            return [plain(item) for item in local.retrieve(name, asked.ids, asked.with_payload, asked.with_vector)]
        case "POST", "points/scroll":
            scroll = models.ScrollRequest(**body)
            records, _ = local.scroll(
                name, scroll.filter, scroll.limit, scroll.order_by, None, scroll.with_payload, scroll.with_vector
            )
            return {"points": [plain(item) for item in records]}
        case "POST", "points/count":
            return plain(local.count(name, models.CountRequest(**body).filter, exact=True))
        case "POST", "points/query":
            query = models.QueryRequest(**body)
            found = local.query_points(
                name,
                query=query.query,
                using=query.using,
                query_filter=query.filter,
                limit=query.limit,
                with_payload=query.with_payload,
                with_vectors=query.with_vector,
            )
            return plain(found)
        case "PUT", "points":
            write = models.PointsList(**body)
            local.upsert(name, write.points, update_filter=write.update_filter, update_mode=write.update_mode)
            return done()
        case "POST", "points/batch":
            operations = models.UpdateOperations(**body).operations
            local.batch_update_points(name, operations)
            return [done() for _ in operations]
        case "POST", "points/delete":
            local.delete(name, SELECTOR.validate_python(body))
            return done()
    raise AssertionError(f"{command} {rest} is not known here")


def plain(value: BaseModel) -> Any:
    return json.loads(value.model_dump_json(exclude_none=True))


def done() -> dict[str, object]:
    return {"operation_id": 0, "status": "completed"}


class RestServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Rest)
        self.local = QdrantClient(location=":memory:", force_disable_check_same_thread=True)
        self.lock = threading.Lock()
        self.seen: list[tuple[str, str, dict[str, list[str]], dict[str, Any]]] = []
        self.indexes: list[str] = []
        self.shard_keys: list[str] = []
        self.version = "1.17.0"
        self.failing = 0
        self.created: dict[str, dict[str, Any]] = {}
        self.breaks_at: int | None = None
        self.loses_an_answer = False

    @property
    def is_cut_off(self) -> bool:
        """Whether the request seen last, and all after it, get no answer."""
        return self.breaks_at is not None and len(self.seen) >= self.breaks_at

    def acts_once_more(self) -> bool:
        return self.loses_an_answer and len(self.seen) == self.breaks_at

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running() -> Iterator[RestServer]:
    with RestServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
            server.local.close()
