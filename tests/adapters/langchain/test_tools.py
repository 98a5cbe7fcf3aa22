"""The memory tools: what a model may ask, whose memory answers, and what it is told."""

import asyncio
import itertools
from dataclasses import dataclass

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests.tools import ToolsIntegrationTests
from langchain_tests.unit_tests.tools import ToolsUnitTests
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import ValidationError

from reme_core import ReMe
from reme_core.errors import ConfigurationError, StoreClosedError, StoreUnavailableError
from reme_core.testing.clock import FixedClock
from reme_core.testing.hashed_embedder import HashedEmbedder
from reme_langchain import as_embedder, create_memory_tools
from reme_langchain._owner import resolve_owner
from tests.adapters.langchain.scripted import ScriptedChat, calling
from tests.support.temporary_store import TemporaryStore

USERS = (f"user-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    memory = ReMe(working_dir=tmp_path_factory.mktemp("tools"), llm=None, embedding=None, clock=FixedClock())
    yield memory
    asyncio.run(memory.close())


@pytest.fixture
def user() -> str:
    return next(USERS)


@pytest.fixture(params=["sync", "async"])
def ask(request, memory, user):
    """Call a tool directly, in one of the two ways; outside a graph, so for the owner of the constructor."""
    tools = {tool.name: tool for tool in create_memory_tools(memory, owner=user)}

    async def call(name: str, **arguments: object) -> str:
        if request.param == "sync":
            return await asyncio.to_thread(tools[name].invoke, arguments)
        return await tools[name].ainvoke(arguments)

    return call


EXAMPLES = {
    "search_memory": {"query": "tea", "limit": 3, "kind": "personal"},
    "save_memory": {"content": "Likes green tea.", "when_to_use": "ordering drinks"},
    "update_memory": {"memory_id": "0123456789abcdef", "content": "Likes black tea."},
    "forget_memory": {"memory_id": "0123456789abcdef"},
}


class Standard:
    name: str

    @pytest.fixture(autouse=True)
    def _memory(self, memory):
        self.memory = memory

    @property
    def tool_constructor(self) -> BaseTool:
        return create_memory_tools(self.memory, owner="standard", names=[self.name])[0]

    @property
    def tool_invoke_params_example(self) -> dict:
        return EXAMPLES[self.name]


@pytest.mark.requirement("LC-TOOL-02")
class TestSearchUnit(Standard, ToolsUnitTests):
    name = "search_memory"


@pytest.mark.requirement("LC-TOOL-02")
class TestSaveUnit(Standard, ToolsUnitTests):
    name = "save_memory"


@pytest.mark.requirement("LC-TOOL-02")
class TestUpdateUnit(Standard, ToolsUnitTests):
    name = "update_memory"


@pytest.mark.requirement("LC-TOOL-02")
class TestForgetUnit(Standard, ToolsUnitTests):
    name = "forget_memory"


@pytest.mark.requirement("LC-TOOL-02")
class TestSearch(Standard, ToolsIntegrationTests):
    name = "search_memory"


@pytest.mark.requirement("LC-TOOL-02")
class TestSave(Standard, ToolsIntegrationTests):
    name = "save_memory"


@pytest.mark.requirement("LC-TOOL-02")
class TestUpdate(Standard, ToolsIntegrationTests):
    name = "update_memory"


@pytest.mark.requirement("LC-TOOL-02")
class TestForget(Standard, ToolsIntegrationTests):
    name = "forget_memory"


@pytest.mark.requirement("LC-TOOL-04")
async def test_what_is_saved_is_found_changed_and_forgotten(ask, memory, user):
    saved = await ask("save_memory", content="Ann likes green tea.")
    short = saved.removeprefix("saved: ")
    assert await ask("search_memory", query="tea") == f"{short} [assistant] Ann likes green tea. 2026-01-01"
    assert await ask("update_memory", memory_id=short, content="Ann likes black tea.") == f"updated: {short}"
    [stored] = (await memory.list_memories(user_id=user)).memories
    assert (stored.content, stored.revision, stored.memory_id[: len(short)]) == ("Ann likes black tea.", 2, short)
    assert await ask("forget_memory", memory_id=short) == f"forgotten: {short}"
    assert await ask("search_memory", query="tea") == "no memories found"


@pytest.mark.requirement("LC-TOOL-04")
async def test_saving_again_says_that_it_is_known_and_adds_nothing(ask, memory, user):
    saved = await ask("save_memory", content="Ann lives in Bern.")
    again = await ask("save_memory", content="Ann lives in Bern.")
    assert again == saved.replace("saved", "already known")
    assert len((await memory.list_memories(user_id=user)).memories) == 1


@pytest.mark.requirement("LC-TOOL-04")
@pytest.mark.parametrize("content", ["", "  \n"])
async def test_an_empty_content_is_refused_with_the_reason(ask, memory, user, content):
    assert "content is empty" in await ask("save_memory", content=content)
    assert "content is empty" in await ask("update_memory", memory_id="0" * 32, content=content)
    assert (await memory.list_memories(user_id=user)).memories == ()


@pytest.mark.requirement("LC-TOOL-04")
@pytest.mark.parametrize("content", ["nul \0", "half \ud800", "x" * 300_000])
async def test_what_cannot_be_kept_is_refused_with_the_reason(ask, memory, user, content):
    assert (await ask("save_memory", content=content)).startswith("nothing was saved: ")
    assert (await memory.list_memories(user_id=user)).memories == ()


async def test_a_query_that_cannot_be_asked_is_answered_with_the_reason(ask):
    assert "query is empty" in await ask("search_memory", query=" ")
    assert await ask("search_memory", query="a\0b %_*") == "no memories found"
    assert "lone surrogate" in await ask("search_memory", query="\ud800")
    assert "there are personal" in await ask("search_memory", query="tea", kind="tool")


@pytest.mark.requirement("LC-TOOL-04")
async def test_a_change_that_another_memory_says_already_is_refused(ask):
    await ask("save_memory", content="Ann has a cat.")
    other = (await ask("save_memory", content="Ann has a dog.")).removeprefix("saved: ")
    answer = await ask("update_memory", memory_id=other, content="Ann has a cat.")
    assert answer.startswith("nothing was changed")


@pytest.mark.requirement("LC-TOOL-04")
async def test_tools_and_the_memory_see_what_the_other_writes(ask, memory, user):
    await memory.add_memory("Ann plays chess on Fridays.", user_id=user)
    assert "chess" in await ask("search_memory", query="chess")
    await ask("save_memory", content="Ann sings in a choir.", when_to_use="planning evenings")
    found = await memory.retrieve("choir", user_id=user)
    assert [hit.when_to_use for hit in found.results] == ["planning evenings"]


@pytest.mark.requirement("LC-TOOL-04")
async def test_without_memories_what_was_said_is_answered_with_day_and_speaker_and_without_ids(ask, memory, user):
    said = [
        {"role": "user", "name": "Ann", "content": "I drink\ngreen tea.", "message_id": "abcdef0123" + user},
        {"role": "assistant", "content": "Tea " * 2_000},
    ]
    await memory.summary(said, user_id=user, session_id="kitchen")
    first, *lines = (await ask("search_memory", query="Which tea, green?")).splitlines()
    assert first == "no memories found, but this was said:"
    assert "2026-01-01 Ann said: I drink green tea." in lines
    [long] = [line for line in lines if line.startswith("2026-01-01 assistant said: ") and "Tea" in line]
    assert len(long) < 2_100
    assert "abcdef" not in "".join(lines)
    assert (await ask("search_memory", query="Which tea, green?", limit=1)).count("\n") == 1
    assert await ask("search_memory", query="submarine") == "no memories found"
    await ask("save_memory", content="Ann drinks green tea.")
    assert "said:" not in await ask("search_memory", query="Which tea, green?")


@pytest.mark.requirement("LC-TOOL-04")
async def test_a_question_about_a_time_finds_what_was_said_then(ask, memory, user):
    old = {"role": "user", "name": "Ann", "content": "The bakery gave me the job.", "created_at": "2025-12-24 10:00:00"}
    await memory.summary([old, ("user", "Good morning.")], user_id=user, session_id="talk")
    answer = await ask("search_memory", query="What happened on 24 December 2025?")
    assert answer.splitlines()[1:] == ["2025-12-24 Ann said: The bakery gave me the job."]


@pytest.mark.requirement("LC-TOOL-03")
async def test_the_id_of_a_message_is_no_id_of_a_memory(ask, memory, user):
    ids = ("m-1", "0123456789abcdef" * 2, "abcdef")
    said = [{"role": "user", "content": "I drink tea.", "message_id": message_id} for message_id in ids]
    await memory.summary(said, user_id=user, session_id="talk")
    await memory.add_memories([{"content": "Ann rows.", "memory_id": "abcdef" + "0" * 26}], user_id=user)
    for message_id in ids:
        for name, more in (("update_memory", {"content": "x"}), ("forget_memory", {})):
            answer = await ask(name, memory_id=message_id, **more)
            assert "is the id of a message, and no memory" in answer
    assert len(await memory.get_messages(ids, user_id=user)) == 3
    assert [item.content for item in (await memory.list_memories(user_id=user)).memories] == ["Ann rows."]


@pytest.mark.requirement("LC-TOOL-03")
async def test_unknown_ids_are_answered_as_unknown_and_nothing_claims_success(ask):
    for given in ("0" * 32, "0" * 8, "00", "", "no such id", "*", "%", "\0", "\ud800"):
        for name, more in (("update_memory", {"content": "x"}), ("forget_memory", {})):
            assert (await ask(name, memory_id=given, **more)).startswith("no memory with this id")


@pytest.mark.requirement("LC-TOOL-03")
async def test_ids_of_another_owner_and_of_other_kinds_are_unknown(ask, memory, user):
    others = await memory.add_memory("Bob likes coffee.", user_id=f"{user}-other")
    task = await memory.add_memory("Restart the worker first.", user_id=user, memory_type="procedural")
    for given in (others.memory_id, others.memory_id[:8], task.memory_id, task.memory_id[:8]):
        assert (await ask("forget_memory", memory_id=given)).startswith("no memory with this id")
        assert (await ask("update_memory", memory_id=given, content="x")).startswith("no memory with this id")
    assert await ask("search_memory", query="coffee worker likes") == "no memories found"


@pytest.mark.requirement("LC-TOOL-03")
async def test_the_beginning_of_an_id_that_two_memories_share_changes_neither(ask, memory, user):
    ids = ["0123abcd" + "0" * 24, "0123abcd" + "1" * 24]
    await memory.add_memories(
        [{"content": f"Fact {memory_id}.", "memory_id": memory_id} for memory_id in ids], user_id=user
    )
    answer = await ask("forget_memory", memory_id="0123abcd")
    assert all(memory_id[:16] in answer for memory_id in ids)
    assert len((await memory.list_memories(user_id=user)).memories) == 2
    assert await ask("forget_memory", memory_id=ids[0][:16]) == "forgotten: 0123ab"
    assert await ask("forget_memory", memory_id=ids[1]) == "forgotten: 0123ab"


@pytest.mark.requirement("LC-TOOL-03")
def test_the_schema_names_no_owner_and_no_scope_and_takes_nothing_else(memory):
    words = ("owner", "user", "space", "namespace", "scope", "runtime", "store")
    for tool in create_memory_tools(memory, owner="ann", kinds=["personal", "tool"]):
        properties = tool.tool_call_schema.model_json_schema()["properties"]
        assert list(properties) == list(EXAMPLES[tool.name])
        assert not [name for name in properties if any(word in name for word in words)]
        with pytest.raises(ValidationError):
            tool.invoke({**EXAMPLES[tool.name], "user_id": "bob"})
    search = create_memory_tools(memory, kinds=["personal", "tool"])[0]
    assert search.tool_call_schema.model_json_schema()["properties"]["kind"]["anyOf"][0]["enum"] == ["personal", "tool"]


@pytest.mark.requirement("LC-TOOL-05")
async def test_an_answer_is_little_longer_than_what_it_returns(ask, memory, user):
    facts = [f"Ann likes {number} lumps of sugar in all her tea" for number in range(10)]
    await memory.add_memories([{"content": fact, "metadata": {"big": "x" * 500}} for fact in facts], user_id=user)
    answer = await ask("search_memory", query="Ann likes tea", limit=10)
    assert len(answer.splitlines()) == 10
    assert len(answer) <= 1.5 * sum(map(len, facts))
    assert not set("{}[]") & set(answer)
    assert "T" not in answer.split()[-1]


@pytest.mark.requirement("LC-TOOL-05")
async def test_a_memory_of_several_lines_is_one_line(ask):
    await ask("save_memory", content="Tea:\n- green\n- black")
    assert len((await ask("search_memory", query="tea")).splitlines()) == 1


@dataclass
class Context:
    user_id: str | int


def turn(agent, run: str, question: str, **options: object) -> list:
    given = {"messages": [HumanMessage(question)]}
    if run == "sync":
        return agent.invoke(given, **options)["messages"]
    return asyncio.run(agent.ainvoke(given, **options))["messages"]


@pytest.mark.requirement("LC-TOOL-01")
@pytest.mark.requirement("LC-TOOL-03")
@pytest.mark.parametrize("run", ["sync", "async"])
def test_each_run_of_an_agent_has_its_own_users_memory(memory, run):
    ann, bob = next(USERS), next(USERS)
    search = calling("search_memory", {"query": "tea"})
    model = ScriptedChat(
        [calling("save_memory", {"content": "Likes tea."}), "saved", search, "a", search, "b", search, "c"]
    )
    agent = create_agent(model, tools=create_memory_tools(memory), context_schema=Context)
    turn(agent, run, "I like tea", context=Context(ann))
    of_ann = turn(agent, run, "What do I like?", context=Context(ann))
    of_bob = turn(agent, run, "What do I like?", config={"configurable": {"user_id": bob}})
    in_config = turn(agent, run, "What do I like?", config={"configurable": {"user_id": ann}})
    answers = [next(m.text for m in messages if isinstance(m, ToolMessage)) for messages in (of_ann, of_bob, in_config)]
    assert "Likes tea." in answers[0]
    assert answers[1] == "no memories found"
    assert "Likes tea." in answers[2]
    sent = [tool["function"] if isinstance(tool, dict) else tool for tool in model.asked[0].bound["tools"]]
    assert "runtime" not in str([tool.tool_call_schema.model_json_schema() for tool in sent])


@pytest.mark.requirement("LC-TOOL-01")
def test_a_tool_node_injects_the_runtime_and_a_model_cannot(memory, user):
    seen = []

    def owner(runtime: object) -> str:
        seen.append(runtime)
        return user

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(create_memory_tools(memory, owner=owner)))
    graph.add_edge(START, "tools")
    call = calling("search_memory", {"query": "tea", "runtime": {"context": {"user_id": "eve"}}})
    result = graph.compile().invoke({"messages": [call]})
    assert result["messages"][-1].text == "no memories found"
    assert seen[0].tool_call_id == "call-1"


@pytest.mark.requirement("LC-TOOL-01")
@pytest.mark.requirement("LC-TOOL-03")
def test_without_any_owner_a_call_raises_instead_of_using_a_shared_memory(memory):
    search = create_memory_tools(memory)[0]
    with pytest.raises(ValueError, match="owner="):
        search.invoke({"query": "tea"})
    with pytest.raises(ValueError, match="owner="):
        asyncio.run(search.ainvoke({"query": "tea"}))
    agent = create_agent(ScriptedChat([calling("search_memory", {"query": "tea"})]), tools=[search])
    with pytest.raises(ValueError, match="owner="):
        agent.invoke({"messages": [HumanMessage("hi")]})


@pytest.mark.requirement("LC-TOOL-03")
@pytest.mark.parametrize(
    ("owner", "context", "wanted"),
    [
        ("ann", {"user_id": "bob"}, "ann"),
        (12, None, "12"),
        (None, {"user_id": "ann@example.com"}, "ann@example.com"),
        (None, Context(7), "7"),
        (lambda runtime: runtime.context["user_id"] + "!", {"user_id": "ann"}, "ann!"),
    ],
)
def test_the_owner_is_the_argument_or_the_contexts_user(owner, context, wanted):
    @dataclass
    class Runtime:
        context: object

    assert resolve_owner(owner, Runtime(context)) == wanted


@pytest.mark.requirement("LC-TOOL-03")
@pytest.mark.parametrize(
    "owner", ["", True, 1.5, lambda _r: None, lambda _r: "", ["ann"], "a\0", "\ud800", " ", "x" * 600, "/etc"]
)
def test_what_names_no_user_is_refused(owner):
    with pytest.raises(ValueError, match="user id"):
        resolve_owner(owner, None)


@pytest.mark.requirement("LC-TOOL-03")
def test_two_memories_in_two_agents_stay_apart(memory, tmp_path):
    other = ReMe(working_dir=tmp_path, llm=None, embedding=None)
    [mine, *_] = create_memory_tools(memory, owner="ann", names=["save_memory"])
    [theirs, *_] = create_memory_tools(other, owner="ann", names=["search_memory"])
    mine.invoke({"content": "Likes apart tea."})
    assert theirs.invoke({"query": "apart"}) == "no memories found"
    asyncio.run(other.close())


@pytest.mark.requirement("LC-TOOL-02")
async def test_a_synchronous_call_on_a_running_loop_completes(memory, user):
    tools = create_memory_tools(memory, owner=user, names=["save_memory"])
    assert tools[0].invoke({"content": "From a running loop."}).startswith("saved")


async def test_an_embedder_that_fails_costs_a_tool_its_vectors_alone(tmp_path):
    async def failing(_texts):
        raise ConnectionError("down")

    embedder = as_embedder(failing, dims=HashedEmbedder().dimension)
    async with ReMe(working_dir=tmp_path, llm=None, embedding=embedder) as memory:
        save, search = create_memory_tools(memory, owner="ann", names=["save_memory", "search_memory"])
        assert (await save.ainvoke({"content": "Likes tea."})).startswith("saved")
        assert "Likes tea." in await search.ainvoke({"query": "tea"})


async def test_a_failure_that_may_pass_is_an_answer_with_status_error_and_another_is_raised(tmp_path):
    class Locked(TemporaryStore):
        async def put(self, scope, batch):
            msg = "locked"
            raise StoreUnavailableError(msg)

    store = Locked()
    memory = ReMe(working_dir=tmp_path, llm=None, embedding=None, vector_store=store)
    [save] = create_memory_tools(memory, owner="ann", names=["save_memory"])
    call = {"name": "save_memory", "args": {"content": "Likes tea."}, "id": "1", "type": "tool_call"}
    answer = await save.ainvoke(call)
    assert answer.status == "error"
    assert "can't be reached" in answer.text
    await store.close()
    with pytest.raises(StoreClosedError):
        await create_memory_tools(memory, owner="ann", names=["forget_memory"])[0].ainvoke({"memory_id": "0" * 32})
    await memory.close()


def test_a_path_is_opened_and_bad_settings_are_refused(tmp_path):
    [save] = create_memory_tools(tmp_path / "m.db", owner="ann", names=["save_memory"])
    assert save.invoke({"content": "Likes tea."}).startswith("saved")
    for settings in (
        {"kinds": ["nothing"]},
        {"kinds": []},
        {"kinds": "personal"},
        {"names": ["drop_tables"]},
        {"names": []},
    ):
        with pytest.raises(ConfigurationError, match="wanted a list"):
            create_memory_tools(tmp_path, **settings)
    with pytest.raises(ConfigurationError, match="memory"):
        create_memory_tools(7)
    with pytest.raises(ValueError, match="owner: wanted a user id"):
        create_memory_tools(tmp_path, owner="")
