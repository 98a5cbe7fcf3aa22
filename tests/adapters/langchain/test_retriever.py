"""Memories as documents."""

import asyncio
import itertools
from dataclasses import dataclass

import pytest
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel, ValidationError

from reme_core import ReMe
from reme_core.errors import ConfigurationError, InvalidInputError
from reme_core.testing.clock import FixedClock
from reme_langchain import ReMeRetriever

FACTS = ("Ann drinks green tea.", "Ann drinks black tea.", "Ann grows tea plants.", "Ann sells tea pots.")
USERS = (f"user-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    memory = ReMe(working_dir=tmp_path_factory.mktemp("retriever"), llm=None, embedding=None, clock=FixedClock())
    for user in ("ann", "standard"):
        asyncio.run(memory.add_memories([{"content": fact} for fact in FACTS], user_id=user))
    yield memory
    asyncio.run(memory.close())


@pytest.mark.requirement("LC-RET-01")
class TestStandard(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _memory(self, memory):
        self.memory = memory

    @property
    def retriever_constructor(self):
        return ReMeRetriever

    @property
    def retriever_constructor_params(self):
        return {"memory": self.memory, "owner": "standard"}

    @property
    def retriever_query_example(self):
        return "tea"


@pytest.fixture(params=["sync", "async"])
def find(request):
    async def call(retriever, query: str, *given: object, **more: object):
        if request.param == "sync":
            return await asyncio.to_thread(retriever.invoke, query, *given, **more)
        return await retriever.ainvoke(query, *given, **more)

    return call


@pytest.mark.requirement("LC-RET-01")
async def test_a_document_tells_id_text_score_kind_and_time(memory, find):
    stored = await memory.add_memory(
        "Restart the worker.",
        user_id="bob",
        memory_type="procedural",
        when_to_use="the queue is stuck",
        metadata={"source": "runbook", "score": 3},
    )
    [document] = await find(ReMeRetriever(memory=memory, owner="bob", kinds=["procedural"]), "worker")
    assert document.id == stored.memory_id
    assert document.page_content == "Restart the worker."
    assert 0 < document.metadata.pop("score") <= 1
    assert document.metadata == {
        "layer": "memory",
        "kind": "procedural",
        "target": "self",
        "when_to_use": "the queue is stuck",
        "created_at": "2026-01-01T12:00:00+00:00",
        "observed_at": "2026-01-01T12:00:00+00:00",
        "trust": "user",
        "metadata": {"source": "runbook", "score": 3},
    }


@pytest.mark.parametrize("owner", ["", " ", "/etc"])
def test_an_owner_that_no_memory_can_have_is_refused_at_construction(memory, owner):
    with pytest.raises(ValidationError, match="owner: "):
        ReMeRetriever(memory=memory, owner=owner)


@pytest.mark.requirement("LC-RET-01")
async def test_it_finds_what_its_owner_has_of_its_kinds_and_nothing_else(memory, find):
    user = next(USERS)
    await memory.add_memory("Use tea filters.", user_id=user, memory_type="tool")
    assert await find(ReMeRetriever(memory=memory, owner=user), "tea") == []
    assert len(await find(ReMeRetriever(memory=memory, owner=user, kinds=["personal", "tool"]), "tea")) == 1
    assert len(await find(ReMeRetriever(memory=memory, owner="ann"), "tea")) == 4


@pytest.mark.requirement("LC-RET-01")
async def test_a_least_score_leaves_out_what_scores_lower(memory, find):
    whole = await find(ReMeRetriever(memory=memory, owner="ann", k=9), "green tea pots")
    floor = whole[1].metadata["score"]
    kept = [document for document in whole if document.metadata["score"] >= floor]
    assert 0 < len(kept) < len(whole)
    assert await find(ReMeRetriever(memory=memory, owner="ann", k=9, min_score=floor), "green tea pots") == kept
    assert await find(ReMeRetriever(memory=memory, owner="ann", k=9), "green tea pots", min_score=floor) == kept
    with pytest.raises(InvalidInputError, match="min_score"):
        await find(ReMeRetriever(memory=memory, owner="ann"), "tea", min_score=2)


@pytest.mark.requirement("LC-RET-01")
async def test_without_memories_what_was_said_is_found_and_told_apart(memory, find):
    user, other = next(USERS), next(USERS)
    call = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "function": {"name": "tea", "arguments": "{}"}}],
    }
    said = {"role": "user", "name": "Ann", "content": "I drink tea at five.", "message_id": f"{user}-1"}
    kept = await memory.summary(
        [said, call, {"role": "tool", "tool_call_id": "1", "content": "tea tea tea"}],
        user_id=user,
        session_id="kitchen",
    )
    [document] = await find(ReMeRetriever(memory=memory, owner=user), "tea")
    assert (document.id, document.page_content) == (f"{user}-1", "I drink tea at five.")
    assert 0 < document.metadata.pop("score") <= 1
    assert document.metadata == {
        "layer": "message",
        "kind": "history",
        "name": "Ann",
        "role": "user",
        "session_id": kept.session_id,
        "message_ids": [f"{user}-1"],
        "created_at": "2026-01-01T12:00:00+00:00",
        "observed_at": "2026-01-01T12:00:00+00:00",
        "trust": "user",
    }
    assert await find(ReMeRetriever(memory=memory, owner=user, kinds=["tool"]), "tea") == []
    assert await find(ReMeRetriever(memory=memory, owner=other), "tea") == []
    await memory.add_memory("Ann likes tea.", user_id=user)
    assert [found.metadata["layer"] for found in await find(ReMeRetriever(memory=memory, owner=user), "tea")] == [
        "memory"
    ]


@pytest.mark.requirement("LC-RET-01")
async def test_the_run_names_the_user_anew_each_time(memory, find):
    retriever = ReMeRetriever(memory=memory)
    assert len(await find(retriever, "tea", {"configurable": {"user_id": "ann"}})) == 4
    assert await find(retriever, "tea", {"configurable": {"user_id": "nobody"}}) == []
    with pytest.raises(ValueError, match="owner="):
        await find(retriever, "tea")
    with pytest.raises(TypeError, match="user_id"):
        await find(ReMeRetriever(memory=memory, owner="nobody"), "tea", user_id="ann")


@pytest.mark.requirement("LC-RET-01")
async def test_it_works_in_a_chain_and_as_a_tool(memory, find):
    retriever = ReMeRetriever(memory=memory)
    chain = {"found": retriever, "asked": RunnablePassthrough()} | RunnableLambda(lambda given: len(given["found"]))
    assert await find(chain, "tea", {"configurable": {"user_id": "ann"}}) == 4
    tool = create_retriever_tool(ReMeRetriever(memory=memory, owner="ann", k=1), "recall", "Recalls.")
    assert "tea" in await find(tool, {"query": "tea"})


@dataclass
class Context:
    user_id: str


@pytest.mark.requirement("LC-RET-01")
def test_in_a_graph_the_context_names_the_user(memory):
    retriever = ReMeRetriever(memory=memory)

    def recall(_state):
        return {"messages": [("ai", str(len(retriever.invoke("tea"))))]}

    async def recall_async(_state):
        return {"messages": [("ai", str(len(await retriever.ainvoke("tea"))))]}

    for node in (recall, recall_async):
        graph = StateGraph(MessagesState, context_schema=Context)
        graph.add_node("recall", node)
        graph.add_edge(START, "recall")
        state = asyncio.run(graph.compile().ainvoke({"messages": []}, context=Context("ann")))
        assert state["messages"][-1].text == "4"


@pytest.mark.requirement("LC-RET-01")
async def test_a_synchronous_call_on_a_running_loop_completes(memory):
    assert len(ReMeRetriever(memory=memory, owner="ann").invoke("tea")) == 4


@pytest.mark.requirement("LC-RET-01")
async def test_settings_and_queries_that_cannot_be_used_are_refused(memory, find, tmp_path):
    with pytest.raises(ConfigurationError, match="memory"):
        ReMeRetriever(memory=7)
    with pytest.raises(ConfigurationError, match="kinds"):
        ReMeRetriever(memory=memory, kinds=["nothing"])
    for wrong in ({"k": 0}, {"limit": 3}, {"min_score": 1.1}, {"min_score": -1}):
        with pytest.raises(ValidationError):
            ReMeRetriever(memory=memory, **wrong)
    with pytest.raises(InvalidInputError, match="limit"):
        await find(ReMeRetriever(memory=memory, owner="ann"), "tea", k=-1)
    assert await find(ReMeRetriever(memory=tmp_path, owner="ann"), "tea") == []


async def test_records_are_documents_with_their_fields_where_they_are_asked_for(tmp_path, find):
    class Profile(BaseModel):
        home: str

    async with ReMe(working_dir=tmp_path, llm=None, embedding=None, schemas=[Profile]) as memory:
        await memory.put_record(Profile(home="Bergen"), user_id="ann")
        [found] = await find(ReMeRetriever(memory=memory, owner="ann", kinds=("personal", "record")), "Bergen")
        assert found.page_content == "Profile: home: Bergen"
        assert (found.metadata["kind"], found.metadata["metadata"]) == ("record", {"home": "Bergen"})
