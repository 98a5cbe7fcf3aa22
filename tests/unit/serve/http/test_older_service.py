"""The older service's jobs: its clients' calls, as its pages show them, answered in its form."""

from __future__ import annotations

import pytest

from reme_core.serve.access import Right
from reme_core.serve.http.older_service import OLDER_CALLS

WORK = {"workspace_id": "task_workspace"}
TALK = [
    {"role": "user", "content": "I like to drink coffee while working in the morning"},
    {"role": "assistant", "content": "I understand, you prefer to start your workday with coffee"},
]


@pytest.fixture
def older(client_as):
    client = client_as("task_workspace")

    def call(name, **fields):
        answer = client.post(f"/{name}", json={**WORK, **fields})
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert told["success"] is True
        assert told.keys() == {"answer", "messages", "success", "metadata"}
        return told

    call.client = client
    return call


def memories(told):
    return told["metadata"]["memory_list"]


def test_task_memories_are_retrieved_used_and_forgotten(older):
    lesson = {"content": "Break the project into milestones", "memory_type": "procedural", "when_to_use": "planning"}
    memory_id = older.client.post("/v1/memories", json=lesson).json()["memory_id"]
    older("summary_task_memory", trajectories=[{"messages": TALK, "score": 1.0}])
    told = older("retrieve_task_memory", query="How to efficiently manage a project plan?", top_k=1)
    assert "milestones" in told["answer"]
    [found] = memories(told)
    assert (found["memory_id"], found["when_to_use"], found["content"]) == (memory_id, "planning", lesson["content"])
    assert 0 < found["score"] <= 1
    for _ in range(5):
        older("record_task_memory", memory_dicts=[found], update_utility=False)
    [gone] = memories(older("delete_task_memory", freq_threshold=5, utility_threshold=0.5))
    assert gone["memory_id"] == memory_id
    assert memories(older("retrieve_task_memory_simple", query="project plan")) == []


def test_personal_memories_come_from_messages_or_trajectories(older):
    older("summary_personal_memory", trajectories=[{"messages": TALK}])
    older("summary_personal_memory", messages=[{"role": "user", "content": "I keep a pelican"}])
    told = older("retrieve_personal_memory", query="What are the user's work habits in the morning?", top_k=5)
    assert "coffee" in told["answer"]
    assert "coffee" in memories(told)[0]["content"]
    assert "pelican" in older("retrieve_personal_memory", query="pelican")["answer"]


def test_tool_memories_are_recorded_summed_up_and_retrieved(older):
    call = {
        "create_time": "2025-10-21 10:30:00",
        "tool_name": "web_search",
        "input": {"query": "Python asyncio tutorial", "max_results": 10},
        "output": "Found 10 relevant results...",
        "token_cost": 150,
        "success": True,
        "time_cost": 2.3,
    }
    assert memories(older("add_tool_call_result", tool_call_results=[call]))[0]["when_to_use"] == "web_search"
    for name in ("summary_tool_memory", "retrieve_tool_memory"):
        [known] = memories(older(name, tool_names="web_search, unknown"))
        assert known["when_to_use"] == "web_search"
        assert known["content"]
        assert known["tool_call_results"][0]["input"] == call["input"]


def test_the_store_is_listed_and_emptied_and_names_no_files(older):
    ids = [older.client.post("/v1/memories", json={"content": text}).json()["memory_id"] for text in "abc"]
    assert {item["memory_id"] for item in memories(older("vector_store", action="list"))} == set(ids)
    older("vector_store", action="delete_ids", memory_ids=ids[:1])
    assert len(memories(older("vector_store", action="list"))) == 2
    assert older("vector_store", action="delete")["answer"] == "2 deleted"
    assert memories(older("vector_store", action="list")) == []
    for action in ("dump", "load", "copy"):
        refused = older.client.post("/vector_store", json={**WORK, "action": action, "path": "/etc"})
        assert (refused.status_code, "/v1/export" in refused.json()["detail"]) == (422, True)


def test_fields_of_the_older_service_alone_are_passed_over_and_wrong_ones_refused(older):
    older("retrieve_task_memory", query="x", enable_llm_rerank=True, threshold_score=0.3)
    refused = older.client.post("/retrieve_task_memory", json={**WORK, "query": 5})
    assert (refused.status_code, refused.json()["detail"]) == (422, "body.query: wanted a text (found 5)")


def test_a_workspace_is_that_of_the_key_or_taken_on_with_the_right_to_act_as(client_as):
    ana = client_as("ana")
    for own in ("ana", "space", ""):
        assert ana.post("/retrieve_task_memory", json={"workspace_id": own, "query": "x"}).status_code == 200
    for name in OLDER_CALLS:
        body = {"workspace_id": "bob", "memory_dicts": [], "freq_threshold": 1, "utility_threshold": 0.5}
        body |= {"tool_call_results": [], "tool_names": "a", "action": "delete"}
        refused = ana.post(f"/{name}", json=body)
        assert (refused.status_code, "reme keys add" in refused.json()["detail"]) == (403, True), name
    proxy = client_as("proxy", {Right.READ, Right.WRITE, Right.ACT_AS})
    said = {"workspace_id": "bob", "messages": [{"role": "user", "content": "I keep a walrus"}]}
    assert proxy.post("/summary_personal_memory", json=said).status_code == 200
    question = {"query": "walrus"}
    assert memories(proxy.post("/retrieve_personal_memory", json={**question, "workspace_id": "bob"}).json())
    assert not memories(proxy.post("/retrieve_personal_memory", json=question).json())


def test_each_job_takes_its_right(client_as):
    reads, writes = client_as(rights={Right.READ}), client_as(rights={Right.WRITE})
    body = {"memory_dicts": [], "freq_threshold": 1, "utility_threshold": 0.5}
    body |= {"tool_call_results": [], "tool_names": "a", "action": "list"}
    for name, call in OLDER_CALLS.items():
        refused = (writes if call.right is Right.READ else reads).post(f"/{name}", json=body)
        assert refused.status_code == 403, name
