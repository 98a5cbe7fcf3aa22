"""The calls under `/v1`: what they take, what they answer, and in which words they refuse."""

from __future__ import annotations

import inspect
import json
import logging

import pytest
from pydantic import BaseModel

from reme_core import ChangedMemories, ReMe, RetrieveResult, SummaryPreview
from reme_core.schema import Memory, Usage, make_scope
from reme_core.serve.access import Right
from reme_core.serve.http.calls import CALLS, Call
from reme_core.serve.http.forms import MAX_MESSAGES
from reme_core.steps.costs import CostBook
from tests.support.rule_model import RuleModel

NOT_SERVED = {
    "set_summarizer": "takes an object",
    "set_retriever": "takes an object",
    "set_task_flow": "takes an object",
    "set_task_retrieval": "takes an object",
    "put_record": "takes an object of a class that the service has not",
    "patch_record": "takes a class",
    "records": "takes a class",
    "tool_context": "makes an object",
    "in_context_memory": "makes an object",
    "sync": "makes an object",
    "close": "is the service's",
    "backup": "names a file of the service",
    "check": "is about the file of all users",
    "import_": "names a file of the service",
    "import_from": "names a file of the service",
    "dump": "names a file of the service",
    "load": "names a file of the service",
    "export": "has a path of its own, which streams",
    "reembed": "is about the space of all users",
    "abandon_reembedding": "is about the space of all users",
}


def test_each_method_of_the_facade_is_a_call_or_has_a_reason_not_to_be():
    methods = {name for name, _ in inspect.getmembers(ReMe, callable) if not name.startswith("_")}
    assert {call.name for call in CALLS} | NOT_SERVED.keys() == methods | {"get_message", "costs_of_users"}
    assert not NOT_SERVED.keys() & {call.name for call in CALLS}


def test_no_request_names_a_space_or_a_user():
    for call in CALLS:
        assert not call.form.model_fields.keys() & {"user_id", "shared", "memory_space", "scope"}


def test_records_are_shown_and_deleted_as_memories_and_written_by_their_class_alone(client_as, tmp_path):
    class Profile(BaseModel):
        name: str

    with ReMe.sync("space", tmp_path / "records", llm=None, embedding=None, schemas=[Profile]) as memory:
        memory.put_record(Profile(name="Ana"), user_id="ana")
    client = client_as(memory=ReMe("space", tmp_path / "records", llm=None, embedding=None))
    [kept] = client.get("/v1/memories", params={"memory_type": "record"}).json()["memories"]
    assert (kept["memory_id"], kept["metadata"]) == ("record:Profile", {"name": "Ana"})
    [hit] = client.post("/v1/retrieve", json={"query": "Ana", "memory_type": "record"}).json()["results"]
    assert (hit["memory_type"], hit["memory_target"]) == ("record", "Profile")
    path = "/v1/memories/record:Profile"
    for call in (
        client.patch(path, json={"metadata": {"name": 5}}),
        client.post(f"{path}/supersede", json={"content": "Profile: name: Eve"}),
        client.post("/v1/memories", json={"content": "Profile: name: Eve", "memory_type": "record"}),
    ):
        assert (call.status_code, call.json()["title"]) == (422, "InvalidInputError")
    assert client.delete(path).status_code in {200, 204}
    assert client.get("/v1/memories").json()["memories"] == []


def test_a_memory_is_added_read_changed_superseded_undone_and_deleted(client):
    added = client.post("/v1/memories", json={"content": "Ana likes tea", "valid_from": "2024-05"}).json()
    path = f"/v1/memories/{added['memory_id']}"
    assert client.get(path).json() == added
    assert Memory.model_validate(added).user_id == "ana"
    changed = client.patch(path, json={"content": "Ana likes green tea", "expected_revision": 1}).json()
    assert changed["revision"] == 2
    client.patch(path, json={"metadata": {"seen": {"by": "bo", "in": 2024}, "cup": "blue"}})
    merged = client.patch(path, json={"metadata": {"seen": {"by": None}, "cup": None}}).json()
    assert merged["metadata"] == {"seen": {"in": 2024}}
    stale = client.patch(path, json={"content": "Ana likes mate", "expected_revision": 1})
    assert (stale.status_code, stale.json()["title"]) == (409, "ConflictError")
    newer = client.post(f"{path}/supersede", json={"content": "Ana drinks coffee"}).json()
    assert [event["operation"] for event in client.get(f"{path}/history").json()["events"]][:2] == ["add", "update"]
    assert client.get("/v1/memories").json()["memories"] == [newer]
    assert client.delete(f"/v1/memories/{newer['memory_id']}").status_code == 204
    assert client.get(f"/v1/memories/{newer['memory_id']}").json()["missing"] == [newer["memory_id"]]


async def test_what_models_cost_is_told_to_its_user_and_of_all_users_to_an_admin(client_as, home):
    book = CostBook(home.store, home.clock)
    for user, calls in (("ana", 1), ("bob", 2)):
        spent = Usage(model_calls=calls, prompt_tokens=10, completion_tokens=5)
        await book.add(make_scope("space", user), "summary", spent)
    await book.add(make_scope("other", "ana"), "summary", Usage(model_calls=7))
    asked = client_as(rights={Right.READ})
    assert [(row["user_id"], row["model_calls"]) for row in asked.get("/v1/cost").json()] == [("ana", 1)]
    refused = asked.get("/v1/cost/users")
    assert (refused.status_code, refused.json()["title"]) == (403, "ForbiddenError")
    admin = client_as(rights={Right.ADMIN})
    rows = admin.get("/v1/cost/users").json()
    assert [(row["user_id"], row["purpose"], row["model_calls"]) for row in rows] == [
        ("ana", "summary", 1),
        ("bob", "summary", 2),
    ]
    assert admin.get("/v1/cost/users", params={"end_time": rows[0]["day"]}).json() == []
    assert admin.get("/v1/cost/users", params={"start_time": "soon"}).status_code == 422


def test_memories_of_a_run_are_taken_back_together(client):
    drafts = [{"content": "one", "memory_id": "a/b"}, {"content": "two", "memory_id": "x?y#z%2F"}]
    assert client.post("/v1/memories/batch", json={"memories": drafts, "run_id": "run 1"}).status_code == 200
    assert client.get("/v1/memories/a%2Fb").json()["content"] == "one"
    assert client.get("/v1/memories/x%3Fy%23z%252F").json()["content"] == "two"
    assert sorted(client.post("/v1/runs/run%201/undo").json()["removed"]) == ["a/b", "x?y#z%2F"]


def test_relations_are_told_to_whoever_may_read_and_of_the_own_user_alone(client, client_as):
    told = {"content": "Lea is Ann's sister", "relations": [["Lea", "sister of", "Ann"]]}
    added = client.post("/v1/memories", json=told).json()
    assert added["relations"] == [{"subject": "Lea", "relation": "sister of", "object": "Ann"}]
    found = client_as(rights={Right.READ}).get("/v1/relations", params={"name": "ann"}).json()
    assert [(step["end"], step["memory"]["memory_id"]) for step in found["steps"]] == [("Lea", added["memory_id"])]
    ends = {"first": "Ann", "second": "Lea"}
    assert len(client.get("/v1/relations/path", params=ends).json()["steps"]) == 1
    assert client_as(user="bob").get("/v1/relations/path", params=ends).json()["steps"] == []
    assert client_as(rights={Right.WRITE}).get("/v1/relations", params={"name": "Ann"}).status_code == 403
    assert client.get("/v1/relations").status_code == 422
    assert client.post("/v1/memories", json={**told, "relations": [["Lea"]]}).status_code == 422


def test_what_changed_is_told_with_its_text_to_whoever_may_read(client, client_as):
    added = client.post("/v1/memories", json={"content": "Ana likes tea"}).json()
    client.post(f"/v1/memories/{added['memory_id']}/supersede", json={"content": "Ana likes mate", "reason": "said so"})
    reader = client_as(rights={Right.READ})
    whole = reader.get("/v1/changes", params={"memory_target": "self", "every": True}).json()
    text = whole.pop("text")
    assert ChangedMemories.model_validate(whole).text == text
    assert [item["kind"] for item in whole["changes"]] == ["added", "replaced", "added"]
    page = reader.get("/v1/changes", params={"every": True, "limit": 2}).json()
    rest = reader.get("/v1/changes", params={"every": True, "cursor": page["next_cursor"]}).json()
    assert page["changes"] + rest["changes"] == whole["changes"]
    assert reader.get("/v1/changes", params={"since": "soon"}).status_code == 422
    assert client_as(rights={Right.WRITE}).get("/v1/changes").status_code == 403
    assert [item["content"] for item in reader.get("/v1/memories?known_at=2020-01-01").json()["memories"]] == []


def test_a_preview_is_told_with_its_text_to_whoever_may_read_and_nothing_is_kept(client, client_as, tmp_path):
    memory = ReMe("space", tmp_path / "asked", llm=RuleModel(), embedding=None)
    reader = client_as(rights={Right.READ}, memory=memory)
    talk = {"messages": [{"role": "user", "content": "Ana likes tea"}]}
    told = reader.post("/v1/summary/preview", json=talk).json()
    text = told.pop("text")
    assert (
        SummaryPreview.model_validate(told).text
        == text
        == "Would be remembered:\n- added (personal / Ana): Ana likes tea"
    )
    assert (reader.get("/v1/stats").json()["messages"], reader.get("/v1/changes").json()["changes"]) == (0, [])
    assert client_as(rights={Right.WRITE}, memory=memory).post("/v1/summary/preview", json=talk).status_code == 403
    assert "needs a chat model" in client.post("/v1/summary/preview", json=talk).text


def test_what_was_said_is_found_with_its_text_and_by_its_words_and_ids(client):
    said = [{"role": "user", "content": "I moved to Lisbon"}, {"role": "assistant", "content": "Congratulations!"}]
    kept = client.post("/v1/summary", json={"messages": said, "session_id": "s"}).json()
    found = client.post("/v1/retrieve", json={"query": "Where did I move?", "limit": 1}).json()
    assert found["results"][0]["memory"] == "I moved to Lisbon"
    text = found.pop("text")
    assert RetrieveResult.model_validate(found).text == text
    page = client.get("/v1/messages", params={"limit": 1}).json()
    assert page["messages"][0]["message"]["message_id"] == kept["message_ids"][0]
    later = client.get("/v1/messages", params={"limit": 1, "cursor": page["next_cursor"]}).json()
    assert [item["message"]["message_id"] for item in later["messages"]] == kept["message_ids"][1:]
    looked_up = client.post("/v1/messages/lookup", json={"message_ids": kept["message_ids"]}).json()
    assert looked_up == page["messages"] + later["messages"]
    assert client.get(f"/v1/messages/{kept['message_ids'][1]}").json() == looked_up[1]
    [block] = client.get("/v1/blocks").json()["blocks"]
    assert client.get(f"/v1/blocks/{block['block_id']}").json() == block
    assert client.get("/v1/stats").json()["messages"] == 2


def test_attempts_tools_and_offloads_are_served(client):
    attempt = {"messages": [{"role": "user", "content": "Book a flight"}], "score": 1.0}
    learnt = client.post("/v1/tasks/summary", json={"trajectories": [attempt], "task_name": "travel"}).json()
    jobs = client.get("/v1/jobs").json()["jobs"]
    assert [job["job_id"] for job in jobs] == learnt["job_ids"] or not learnt["job_ids"]
    memory_id = client.post("/v1/memories", json={"content": "Ask for dates", "memory_type": "procedural"}).json()
    assert client.post("/v1/tasks/uses", json={"memory_ids": [memory_id["memory_id"]]}).json()[0]["freq"] == 1
    assert client.post("/v1/tasks/retrieve", json={"query": "dates"}).json()["results"]
    call = {"tool_name": "search", "input": {"q": 1}, "output": "ok"}
    assert client.post("/v1/tools/calls", json={"tool_call_results": [call]}).json()["tool_names"] == ["search"]
    assert client.get("/v1/tools").json()["tools"] == [["search", 1]]
    assert client.get("/v1/tools/calls", params={"success": "true", "limit": 5}).json()["calls"][0]["output"] == "ok"
    assert (
        client.post("/v1/tools/retrieve", json={"tool_names": "search"}).json()["results"][0]["tool_name"] == "search"
    )
    kept = client.post("/v1/offloads/texts", json={"text": "a long output", "session_id": "s"}).json()
    loaded = client.post("/v1/offloads/reload", json={"reference": kept["reference"]}).json()
    assert loaded["results"][0]["memory"] == "a long output"


def test_an_export_is_read_by_the_facade_of_another_user(client, tmp_path):
    client.post("/v1/summary", json={"messages": [{"role": "user", "content": "漢字 and 🦭"}]})
    exported = client.get("/v1/export")
    assert exported.headers["content-type"] == "application/jsonl"
    path = tmp_path / "export.jsonl"
    path.write_bytes(exported.content)
    with ReMe.sync("other", tmp_path / "other", llm=None, embedding=None) as memory:
        assert memory.import_(path, user_id="bob").messages == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "/v1/memories", {}, "body.content: is missing"),
        ("POST", "/v1/memories", {"content": 5}, "body.content: wanted a text (found 5)"),
        ("POST", "/v1/memories", {"content": "x", "user_id": "bob"}, "body.user_id: is not a known field"),
        ("POST", "/v1/memories", {"content": "x", "metadta": {}}, "did you mean 'metadata'?"),
        ("POST", "/v1/memories", {"content": "x", "importance": "high"}, "body.importance: wanted a number"),
        ("POST", "/v1/memories", [1], "body: wanted an object with named fields"),
        (
            "POST",
            "/v1/memories?content=x",
            {"content": "x"},
            "query.content: this call takes its arguments in its body",
        ),
        ("POST", "/v1/memories/a/supersede", {"content": "x", "memory_id": "b"}, "stands in the path already"),
        ("POST", "/v1/retrieve", {"query": "x", "limit": 501}, "body.limit: wanted at most 500"),
        ("POST", "/v1/retrieve", {"query": "x", "memory_type": 5}, "memory_type: 5 is none of auto"),
        ("POST", "/v1/retrieve", {"query": "x", "metadata": {"a": [1]}}, "metadata['a']"),
        ("POST", "/v1/summary", {"messages": [{"role": "user", "content": "x"}, 5]}, "messages[1]"),
        ("GET", "/v1/memories?limit=many", None, "query.limit: wanted a whole number"),
        ("GET", "/v1/memories?limit=1&limit=2", None, "query.limit: is given 2 times"),
        ("GET", "/v1/memories?metadata=5", None, "query.metadata: wanted a JSON object"),
        ("GET", "/v1/memories?cursor=%00", None, "cursor"),
        ("GET", "/v1/jobs?cursor=-1", None, "cursor: '-1' is none of this list"),
        ("GET", "/v1/memories/x?memory_id=y", None, "stands in the path already"),
    ],
)
def test_what_cant_be_used_is_refused_by_its_name_in_plain_words(client, method, path, body, words):
    answer = client.request(method, path, json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert words in problem["detail"]
    assert "pydantic" not in answer.text
    assert "Input should" not in answer.text
    assert problem["retryable"] is False


@pytest.mark.parametrize("body", [b"{", b"\xff", b'"\xed\xb2\x80"', b"[" * 100_000, b'{"content": "\\ud800"}', b"null"])
def test_a_body_that_is_no_json_object_is_refused(client, body):
    answer = client.post("/v1/memories", content=body)
    assert (answer.status_code, answer.json()["detail"].partition(":")[0]) == (422, "body")


def test_unknown_paths_and_methods_are_problems_too(client):
    assert client.get("/v1/nothing").json()["status"] == 404
    refused = client.put("/v1/memories", json={})
    assert (refused.status_code, sorted(refused.headers["allow"].split(", "))) == (405, ["GET", "HEAD", "POST"])
    assert client.head("/v1/memories").status_code == 200


@pytest.mark.parametrize("right", [Right.READ, Right.WRITE, Right.ADMIN])
def test_each_call_asks_for_its_right_before_it_reads_anything(client_as, right):
    client = client_as(rights={Right.READ, Right.WRITE, Right.ADMIN} - {right})
    for call in CALLS:
        if call.right is right:
            answer = client.request(call.verb, call.path, content=b"{" if call.has_body else None)
            assert (answer.status_code, answer.json()["title"]) == (403, "ForbiddenError"), call


def test_erasing_takes_the_right_of_an_admin(client_as):
    client = client_as(rights={Right.READ, Right.WRITE})
    path = f"/v1/memories/{client.post('/v1/memories', json={'content': 'secret'}).json()['memory_id']}"
    assert client.delete(f"{path}?erase=true").status_code == 403
    assert client.delete(f"{path}?erase=false").status_code == 204


def test_a_read_only_service_refuses_writes_whatever_the_key_says(client_as):
    client = client_as(read_only=True)
    assert client.get("/v1/memories").status_code == 200
    assert client.post("/v1/memories", json={"content": "x"}).status_code == 403


def test_health_is_told_without_a_key_and_readiness_writes(client_as):
    client = client_as()
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert client.get(path, headers={"X-Forwarded-For": "203.0.113.1"}).status_code == 200
    assert client.get("/v1/stats", headers={"X-Forwarded-For": "203.0.113.1"}).status_code == 401


def test_who_comes_by_a_name_of_the_service_or_through_a_proxy_needs_a_key(client_as):
    client = client_as(hosts=["memory.example.org"])
    assert client.get("/v1/stats", headers={"Host": "memory.example.org"}).status_code == 401
    for header in ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"):
        assert client.get("/v1/stats", headers={header: "203.0.113.1"}).status_code == 401
    for host in ("127.0.0.2:1", "[::1]:2334", "localhost"):
        assert client.get("/v1/stats", headers={"Host": host}).status_code == 200


def test_a_failure_of_our_own_making_says_nothing_of_what_was_said(client, caplog):
    async def fails(memory, content: str, *, user_id: str) -> Memory:
        raise ZeroDivisionError(content)

    route = next(item for item in client.app.routes if getattr(item, "path", "") == "/v1/memories")
    call = route.app.calls["POST"]
    route.app.calls["POST"] = Call(call.verb, call.path, call.right, fails)
    with caplog.at_level(logging.INFO):
        answer = client.post("/v1/memories", json={"content": "Ana's secret"})
    assert answer.status_code == 500
    assert "secret" not in answer.text + caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert "in fails" in caplog.text


def test_a_failure_of_the_disk_tells_the_log_alone_where_the_file_lies(client, tmp_path, caplog):
    client.post("/v1/memories", json={"content": "My boat is called Rosa"})
    (tmp_path / "memory.db").rename(tmp_path / "away.db")
    with caplog.at_level(logging.ERROR):
        answer = client.post("/v1/memories", json={"content": "It is red"})
    assert answer.status_code >= 500
    assert answer.json()["detail"].startswith("the store ")
    assert str(tmp_path) not in answer.text
    assert str(tmp_path) in caplog.text


def test_the_request_log_has_paths_and_no_texts_and_no_forged_lines(client, caplog):
    with caplog.at_level(logging.INFO, "reme.serve"):
        client.post("/v1/retrieve", json={"query": "the secret question"})
        client.get("/v1/memories?keyword=secret")
        client.get("/v1/memories/a%0Aforged")
    assert len(caplog.messages) == 3
    assert "secret" not in caplog.text
    assert "POST /v1/retrieve 200" in caplog.messages[0]
    assert "a%0Aforged 422" in caplog.messages[2]


def test_pages_of_an_allowed_origin_may_call_and_others_may_not(client_as):
    page = {"Origin": "https://chat.example.org"}
    asks = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    closed = client_as()
    assert "access-control-allow-origin" not in closed.options("/v1/memories", headers=asks).headers
    assert closed.get("/v1/memories", headers=page).status_code == 403
    client = client_as(origins=["https://chat.example.org"])
    assert client.options("/v1/memories", headers=asks).headers["access-control-allow-origin"]
    assert client.get("/v1/memories", headers=page).headers["access-control-allow-origin"]
    assert client.get("/v1/memories", headers={"Origin": "https://evil.example"}).status_code == 403


def test_a_key_names_its_own_user_and_no_other_by_the_header(client_as):
    client = client_as("小明")
    own = {"X-Reme-User": "小明".encode()}
    assert client.post("/v1/memories", json={"content": "x"}, headers=own).json()["user_id"] == "小明"
    assert client.get("/v1/memories", headers={"X-Reme-User": "bob"}).status_code == 403


def test_the_shared_scope_is_read_beside_the_own_where_that_is_asked_for(client, home):
    async def write():
        return await home.add_memory("The office is in Lisbon", shared=True)

    memory_id = client.portal.call(write).memory_id
    assert client.get(f"/v1/memories/{memory_id}").status_code == 404
    question = {"query": "Where is the office?"}
    assert client.post("/v1/retrieve", json=question).json()["results"] == []
    found = client.post("/v1/retrieve", json={**question, "include_shared": True}).json()
    assert found["results"][0]["memory_id"] == memory_id


def test_answers_are_json_of_the_facades_results(client):
    client.post("/v1/memories", json={"content": "x", "metadata": {"k": 1, "n": [1, None, {"deep": "漢"}]}})
    client.post("/v1/memories", json={"content": "y"})
    found = client.get("/v1/memories", params={"metadata": json.dumps({"k": 1})}).json()
    assert len(found["memories"]) == 1
    assert found["memories"][0]["metadata"]["n"][2] == {"deep": "漢"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/summary", {"messages": [["user", "x"]] * (MAX_MESSAGES + 1)}),
        ("/v1/context/check", {"messages": [["user", "x"]] * (MAX_MESSAGES + 1)}),
        ("/summary_personal_memory", {"messages": [["user", "x"]] * (MAX_MESSAGES + 1)}),
    ],
)
def test_a_list_that_takes_much_memory_is_refused(client, path, body):
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert str(MAX_MESSAGES) in answer.json()["detail"]
