"""What each mode offers, and how the middleware is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agentscope.middleware import MiddlewareBase
from agentscope.tool import Toolkit

from reme_agentscope import ReMeMiddleware, ReMeOffloader, create_memory_tools
from reme_core.errors import ConfigurationError, InvalidInputError
from tests.adapters.agentscope2.memories import WatchedMemory
from tests.adapters.agentscope2.scripted import ScriptedModel, make_agent, user

MODES = ("static_control", "agent_control", "both")


def middleware(folder: Path, **parameters: object) -> ReMeMiddleware:
    return ReMeMiddleware(workspace_dir=str(folder), parameters=ReMeMiddleware.Parameters(**parameters))


@pytest.mark.requirement("AS2-MW-01")
@pytest.mark.parametrize("mode", MODES)
async def test_a_mode_offers_its_tool_and_names_it(tmp_path: Path, mode: str) -> None:
    async with middleware(tmp_path, mode=mode) as mw:
        tools = await mw.list_tools()
        model = ScriptedModel()
        agent = make_agent(model, tools=tools, middlewares=[mw])
        await agent.reply(user("hello"))

    prompt = model.asked[0].texts[0]
    assert isinstance(mw, MiddlewareBase)
    assert prompt.startswith("You help.")
    if mode == "static_control":
        assert tools == []
        assert prompt.strip() == "You help."
    else:
        assert [tool.name for tool in tools] == ["memory_search", "add_memory"]
        assert "memory_search" in prompt
        assert "add_memory" in prompt


@pytest.mark.requirement("AS2-MW-07")
async def test_the_toolkit_is_never_changed(tmp_path: Path) -> None:
    async with middleware(tmp_path) as mw:
        model, given = ScriptedModel(), ScriptedModel()
        await make_agent(model, middlewares=[mw]).reply(user("hello"))
        await make_agent(given, toolkit=Toolkit(tools=await mw.list_tools()), middlewares=[mw]).reply(user("hello"))

    assert not model.asked[0].tools
    assert [tool["function"]["name"] for tool in given.asked[0].tools or []] == ["memory_search", "add_memory"]


@pytest.mark.requirement("AS2-MW-05")
async def test_the_key_names_the_scope_and_is_not_the_name_of_the_class(tmp_path: Path) -> None:
    alice, bob = middleware(tmp_path, user_name="alice"), middleware(tmp_path, user_name="bob")

    assert await alice.get_middleware_key() != "ReMeMiddleware"
    assert await alice.get_middleware_key() != await bob.get_middleware_key()
    assert await alice.get_middleware_key() == await middleware(tmp_path, user_name="alice").get_middleware_key()
    assert "alice" in await alice.get_middleware_key()


def test_the_service_can_make_a_form_of_the_parameters() -> None:
    schema = ReMeMiddleware.Parameters.model_json_schema()

    names = {"mode", "top_k", "search_timeout", "await_write", "user_name"}
    names |= {"agent_name", "session_name", "memory_types", "min_score", "token_budget", "memory_blocks"}
    assert set(schema["properties"]) == names
    assert all(one["title"] and one["description"] for one in schema["properties"].values())
    assert schema["properties"]["top_k"]["minimum"] == 1
    json.dumps(schema)


@pytest.mark.parametrize("name", ["../other", "/etc", "a\0b", " ", "", "ann/agent:bot"])
def test_a_user_name_that_can_not_be_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="user_id"):
        middleware(tmp_path, user_name=name)


@pytest.mark.parametrize("part", ["agent_name", "session_name"])
@pytest.mark.parametrize("name", ["", " ", "a\0b", "a/session:b", "x/../y"])
def test_the_name_of_a_part_of_a_users_memory_can_not_be_anything(tmp_path: Path, part: str, name: str) -> None:
    with pytest.raises(InvalidInputError, match="user_id"):
        middleware(tmp_path, user_name="ann", **{part: name})


@pytest.mark.parametrize("reme", ["nope", 3])
def test_what_is_no_memory_is_refused_by_each_class(tmp_path: Path, reme: Any) -> None:
    for make in (ReMeMiddleware, ReMeOffloader):
        with pytest.raises(ConfigurationError, match="reme: wanted a ReMe, found"):
            make(reme=reme)
    with pytest.raises(ConfigurationError, match="reme: wanted a ReMe, found"):
        create_memory_tools(reme)


def test_a_folder_that_can_not_be_named_so_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="working_dir"):
        ReMeMiddleware(workspace_dir="a\0b")


def test_a_memory_and_models_for_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="reme="):
        ReMeMiddleware(reme=WatchedMemory(tmp_path), parameters=ReMeMiddleware.Parameters(chat_model=ScriptedModel()))


@pytest.mark.requirement("AS2-MW-01")
@pytest.mark.parametrize("top_k", [0, -1])
def test_fewer_than_one_memory_is_refused(top_k: int) -> None:
    with pytest.raises(ValueError, match="top_k"):
        ReMeMiddleware.Parameters(top_k=top_k)


@pytest.mark.requirement("AS-PKG-06")
def test_nothing_is_opened_before_the_first_reply(tmp_path: Path) -> None:
    middleware(tmp_path / "later")

    assert not (tmp_path / "later").exists()
