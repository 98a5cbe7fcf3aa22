"""The classes beside AgentScope's own of the same names: constructor, texts and errors."""

from __future__ import annotations

import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import agentscope.memory
import pytest
from agentscope.message import Msg
from agentscope.tool import ToolResponse

import reme_agentscope
from reme_agentscope.v1.long_term.long_term_memory import (
    ReMePersonalLongTermMemory,
    ReMeTaskLongTermMemory,
    ReMeToolLongTermMemory,
)
from reme_core import ReMe, adapting
from reme_core.testing import ScriptedChatModel
from tests.adapters.agentscope1.scripted import ScriptedEmbedding, ScriptedModel, undated

CLASSES = [ReMePersonalLongTermMemory, ReMeTaskLongTermMemory, ReMeToolLongTermMemory]
CALL = {
    "create_time": "2025-01-01 10:00:00",
    "tool_name": "web_search",
    "input": {"query": "figs"},
    "output": "Found 10 results",
    "token_cost": 100,
    "success": True,
    "time_cost": 1.2,
}


def text_of(response: ToolResponse) -> str:
    return "\n".join(block["text"] for block in response.content if block["type"] == "text")


def memory_of(path: Path, **kwargs: Any) -> ReMe:
    return ReMe("space", path, **{"llm": None, "embedding": None, **kwargs})


def broken(path: Path) -> ReMe:
    (path / "file").write_text("not a folder", encoding="utf-8")
    return memory_of(path / "file")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a write may take longer than a reply waits for it."""
    monkeypatch.setattr(adapting, "PATIENCE_S", 10)


@pytest.fixture
async def reme(tmp_path: Path):
    async with memory_of(tmp_path) as made:
        yield made


@pytest.mark.requirement("AS1-DROPIN-01")
@pytest.mark.parametrize("kind", CLASSES)
def test_the_constructor_takes_what_agentscopes_class_of_this_name_takes(kind: type) -> None:
    ours = inspect.signature(kind).parameters
    theirs = inspect.signature(getattr(agentscope.memory, kind.__name__)).parameters
    assert list(theirs)[:6] == list(ours)[:6]
    assert [ours[name].default for name in list(ours)[:6]] == [None] * 6
    assert "kwargs" in ours
    assert getattr(reme_agentscope, kind.__name__) is kind


@pytest.mark.requirement("AS1-DROPIN-01")
def test_names_are_kept_as_attributes_and_the_workspace_is_the_user(tmp_path: Path) -> None:
    memory = ReMeTaskLongTermMemory("bot", "ann", "run-1", reme=memory_of(tmp_path))
    assert (memory.agent_name, memory.workspace_id, memory.run_name) == ("bot", "ann", "run-1")
    assert memory.state_dict()["session_id"] == "run-1"


@pytest.mark.requirement("AS1-DROPIN-01")
def test_settings_that_are_not_used_are_warned_of_by_name(tmp_path: Path) -> None:
    reme = memory_of(tmp_path)
    with pytest.warns(UserWarning, match="llm_api_key"):
        ReMePersonalLongTermMemory(reme=reme, llm_api_key="k")
    with pytest.warns(UserWarning, match="reme_config_path"):
        ReMePersonalLongTermMemory(reme_config_path="x.yaml", reme=reme)


@pytest.mark.requirement("AS1-DROPIN-01")
@pytest.mark.parametrize("models", [{"model": ScriptedModel()}, {"embedding_model": ScriptedEmbedding()}])
def test_a_model_beside_a_memory_that_has_its_own_is_a_type_error(models: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="reme="):
        ReMePersonalLongTermMemory(reme=memory_of(tmp_path), **models)


@pytest.mark.requirement("AS1-DROPIN-02")
async def test_any_model_makes_memories_and_any_embedding_model_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fact = {"type": "personal", "target": "Ann", "content": "Ann keeps a rabbit named Flopsy", "messages": [1]}
    model = ScriptedModel([json.dumps({"facts": [fact]})], stream=True)
    async with ReMePersonalLongTermMemory(user_name="ann", model=model, embedding_model=ScriptedEmbedding()) as memory:
        await memory.record([Msg("ann", "I got a rabbit, it is called Flopsy", "user")])
        await memory.flush()
        assert "Ann keeps a rabbit named Flopsy" in (await memory.retrieve(Msg("ann", "my rabbit", "user")))
    assert (tmp_path / ".reme" / "memory.db").is_file()
    assert model.stream


@pytest.mark.requirement("AS1-DROPIN-02")
async def test_without_models_words_are_searched_whatever_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REME_LLM_MODEL", "some-model")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    memory = ReMePersonalLongTermMemory()
    await memory.record([Msg("ann", "My rabbit is called Flopsy", "user")])
    assert "Flopsy" in await memory.retrieve(Msg("ann", "the rabbit?", "user"))
    await memory.close()
    assert "Flopsy" in await memory.retrieve(Msg("ann", "the rabbit?", "user"))  # opens again
    await memory.close()


@pytest.mark.requirement("AS1-DROPIN-03")
@pytest.mark.parametrize("kind", CLASSES)
async def test_async_with_gives_the_memory_and_closes_what_was_built_alone(kind: type, reme: ReMe) -> None:
    memory = kind(reme=reme)
    async with memory as entered:
        assert entered is memory
    await reme.stats(user_id="ann")  # still open


@pytest.mark.requirement("AS1-DROPIN-04")
@pytest.mark.requirement("AS1-DROPIN-10")
async def test_what_was_recorded_is_told_in_agentscopes_words(reme: ReMe) -> None:
    personal = ReMePersonalLongTermMemory(reme=reme)
    answer = await personal.record_to_memory(thinking="zebra", content=["Likes figs", "Likes tea"])
    assert text_of(answer) == "Successfully recorded 2 memory/memories to personal memory."
    assert len(answer.metadata["result"]["memory_ids"]) == 2
    assert text_of(await personal.record_to_memory(thinking="", content=[])) == "Memory recording completed."

    task = ReMeTaskLongTermMemory(reme=reme)
    answer = await task.record_to_memory(thinking="zebra", content=["Add an index", "Use EXPLAIN"])
    assert text_of(answer) == "Successfully recorded 2 task memory/memories."
    assert answer.metadata["result"]

    tool = ReMeToolLongTermMemory(reme=reme)
    one = await tool.record_to_memory(thinking="zebra", content=[json.dumps(CALL)])
    assert text_of(one) == "Successfully recorded 1 tool execution result and generated usage guidelines."
    two = await tool.record_to_memory(thinking="", content=[json.dumps(CALL)] * 2)
    assert text_of(two) == "Successfully recorded 2 tool execution results and generated usage guidelines."

    everything = str(list((await reme.list_memories(user_id="default")).memories))
    assert "zebra" not in everything


@pytest.mark.requirement("AS1-DROPIN-05")
async def test_what_was_found_stands_under_its_keyword(reme: ReMe) -> None:
    personal = ReMePersonalLongTermMemory(reme=reme)
    await personal.record_to_memory(thinking="", content=["Likes figs", "Drinks tea"])
    found = text_of(await personal.retrieve_from_memory(keywords=["figs", "submarine", "tea"]))
    assert undated(found) == "Keyword 'figs':\n- [assistant] Likes figs\n\nKeyword 'tea':\n- [assistant] Drinks tea"

    task = ReMeTaskLongTermMemory(reme=reme)
    await task.record_to_memory(thinking="", content=["Add an index to slow queries"])
    found = text_of(await task.retrieve_from_memory(keywords=["slow queries"]))
    assert undated(found) == "Keyword 'slow queries':\n- [assistant] Add an index to slow queries"

    tool = ReMeToolLongTermMemory(reme=reme)
    await tool.record_to_memory(thinking="", content=[json.dumps(CALL), json.dumps({**CALL, "tool_name": "fetch"})])
    found = text_of(await tool.retrieve_from_memory(keywords=["web_search", "unknown", "fetch"]))
    assert "## web_search" in found
    assert "## fetch" in found
    assert "Keyword" not in found


@pytest.mark.requirement("AS1-DROPIN-06")
async def test_what_was_not_found_is_told_in_agentscopes_words(reme: ReMe) -> None:
    for kind, told in (
        (ReMePersonalLongTermMemory, "No memories found for the given keywords."),
        (ReMeTaskLongTermMemory, "No task experiences found for the given keywords."),
        (ReMeToolLongTermMemory, "No tool guidelines found for: a,b"),
    ):
        assert text_of(await kind(reme=reme).retrieve_from_memory(keywords=["a", "b"])) == told


@pytest.mark.requirement("AS1-DROPIN-07")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ReMePersonalLongTermMemory, "memory"),
        (ReMeTaskLongTermMemory, "task memory"),
        (ReMeToolLongTermMemory, "tool memory"),
    ],
)
async def test_errors_of_tools_are_told_in_agentscopes_words_and_logged(
    kind: type, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = kind(reme=broken(tmp_path))
    content = [json.dumps(CALL)]
    assert text_of(await memory.record_to_memory(thinking="", content=content)).startswith(f"Error recording {name}: ")
    assert text_of(await memory.retrieve_from_memory(keywords=["figs"])).startswith(f"Error retrieving {name}: ")
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 2
    assert "figs" not in caplog.text


@pytest.mark.requirement("AS1-DROPIN-11")
async def test_the_score_of_a_reply_is_kept_with_it(reme: ReMe) -> None:
    memory = ReMeTaskLongTermMemory(reme=reme)
    await memory.record([Msg("u", "Fix the build", "user")], score=0.0)
    await memory.record([Msg("u", "Fix the test", "user")])
    jobs = await reme.list_jobs(user_id="default")  # they wait for a model
    assert [job.payload["attempts"][0]["score"] for job in jobs] == [0.0, 1.0]


@pytest.mark.requirement("AS1-DROPIN-11")
async def test_a_score_is_taken_and_one_is_the_default(tmp_path: Path) -> None:
    def learns(request: Any) -> str:
        scores.append(str(request.messages))
        return json.dumps({"experiences": []})

    scores: list[str] = []
    async with memory_of(tmp_path, llm=ScriptedChatModel([learns] * 4)) as reme:
        memory = ReMeTaskLongTermMemory(agent_name="bot", reme=reme)
        await memory.record([Msg("u", "Fix the build", "user"), Msg("b", "I deleted it", "assistant")], score=0.0)
        await memory.flush()
        failed = len(scores)
        await memory.record([Msg("u", "Fix the test", "user"), Msg("b", "I fixed it", "assistant")])
        await memory.flush()
        answer = await memory.record_to_memory(thinking="", content=["Do not delete the build"], score=0.5)
        assert text_of(answer) == "Successfully recorded 1 task memory/memories."
        odd = await memory.record_to_memory(thinking="", content=["Again"], score="very well")
        assert text_of(odd) == "Successfully recorded 1 task memory/memories."
    assert failed == 1
    assert len(scores) == 4
    assert len({prompt.split("\n")[0][:200] for prompt in scores}) > 1  # failures and successes are asked otherwise


@pytest.mark.requirement("AS1-DROPIN-12")
async def test_bad_items_warn_and_good_ones_are_kept(reme: ReMe) -> None:
    memory = ReMeToolLongTermMemory(reme=reme)
    with pytest.warns(UserWarning, match=r"^Failed to parse tool call result JSON: \{broken\. Error: "):
        answer = await memory.record_to_memory(thinking="", content=["{broken", json.dumps(CALL)])
    assert text_of(answer) == "Successfully recorded 1 tool execution result and generated usage guidelines."
    for bad in ("{broken", "[1]", json.dumps({**CALL, "tool_name": ""}), json.dumps({**CALL, "token_cost": "much"})):
        with pytest.warns(UserWarning, match="Failed to parse tool call result JSON"):
            answer = await memory.record_to_memory(thinking="", content=[bad])
        assert text_of(answer) == "No valid tool call results to record."
    [call] = (await reme.list_tool_calls(user_id="default")).calls
    assert (call.output, call.token_cost, call.time_cost) == ("Found 10 results", 100, 1.2)


@pytest.mark.requirement("AS1-DROPIN-12")
@pytest.mark.filterwarnings("error")
async def test_a_filter_that_makes_errors_of_warnings_costs_no_good_item(reme: ReMe) -> None:
    memory = ReMeToolLongTermMemory(reme=reme)
    answer = await memory.record_to_memory(
        thinking="", content=[json.dumps({**CALL, "tool_name": ""}), json.dumps(CALL)]
    )
    assert text_of(answer) == "Successfully recorded 1 tool execution result and generated usage guidelines."
    await memory.record([Msg("user", json.dumps([{**CALL, "token_cost": "much"}, CALL]), "user")])
    await memory.flush()
    assert len((await reme.list_tool_calls(user_id="default")).calls) == 2


@pytest.mark.requirement("AS1-DROPIN-12")
async def test_a_message_that_is_such_json_is_recorded_once(reme: ReMe) -> None:
    memory, stranger = ReMeToolLongTermMemory(reme=reme), ReMeToolLongTermMemory(reme=reme)
    msg = Msg("user", json.dumps(CALL), "user")
    for one in (memory, memory, stranger):
        await one.record([msg])
    assert len((await reme.list_tool_calls(user_id="default")).calls) == 1


@pytest.mark.requirement("AS1-DROPIN-13")
async def test_tool_memory_learns_from_real_calls_without_a_warning(reme: ReMe) -> None:
    memory = ReMeToolLongTermMemory(reme=reme)
    talk = [
        Msg("user", "Find me some figs, {please}", "user"),
        Msg("b", [{"type": "tool_use", "id": "1", "name": "web_search", "input": {"q": "figs"}}], "assistant"),
        Msg("s", [{"type": "tool_result", "id": "1", "name": "web_search", "output": "Error: HTTP 503"}], "system"),
        Msg("b", "There are none.", "assistant"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await memory.record(talk)
        found = text_of(await memory.retrieve_from_memory(keywords=["web_search"]))
    assert "web_search" in found
    assert "HTTP 503" in found
    assert '{"q": "figs"}' in found
    assert "web_search" in await memory.retrieve(Msg("user", "Search the web once more", "user"))


@pytest.mark.requirement("AS1-DROPIN-14")
@pytest.mark.parametrize("kind", CLASSES)
async def test_retrieve_of_an_unknown_thing_is_empty(kind: type, reme: ReMe) -> None:
    memory = kind(reme=reme)
    await memory.record_to_memory(thinking="", content=[json.dumps(CALL)])
    assert await memory.retrieve(Msg("user", "volcanoes", "user")) == ""


async def test_a_model_writes_guidelines_from_what_was_recorded(tmp_path: Path) -> None:
    guideline = {
        "core_function": "Searches the web.",
        "success_patterns": ["Name one thing."],
        "common_issues": [],
        "best_practices": [],
    }
    async with memory_of(tmp_path, llm=ScriptedChatModel([json.dumps(guideline)])) as reme:
        memory = ReMeToolLongTermMemory(reme=reme)
        await memory.record_to_memory(thinking="", content=[json.dumps(CALL)])
        assert "Name one thing." in await memory.retrieve(Msg("user", "use web_search", "user"))
