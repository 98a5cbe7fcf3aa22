"""The experiments: every variant is a row, with a stand-in for the model and no network."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from reme_core.errors import ModelUnavailableError
from reme_core.ports import ChatRequest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NAMES = [
    ("simple", "", ""),
    *(("agentic", thinking, mode) for thinking in ("none", "parameter", "tool") for mode in ("single", "multiple")),
]
TALK = [
    {"role": "user", "name": "Mara", "content": "I bought a boat"},
    {"role": "assistant", "content": "Congratulations!"},
    {"role": "user", "name": "Hao", "content": "I paint it next week"},
    {"role": "user", "name": "Mara", "content": "It is called Slow Boat"},
]


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("experiments")


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps({"user_id": "mara", "sessions": [{"session_id": "s", "messages": TALK}]}))
    return path


async def rows_of(experiments: Any, model: Any, talk: list[Any] = TALK, **options: Any) -> dict[Any, Any]:
    rows = await experiments.compare(model, [experiments.Session("s", talk)], user="mara", **options)
    return {(row.strategy, row.thinking, row.mode): row for row in rows}


class Watched:
    """Remembers the tools that the requests to a model offer."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.offered: list[dict[str, Any]] = []
        self.asked: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> Any:
        self.asked.append(request)
        if request.tools:
            self.offered.append({tool.name: dict(tool.parameters) for tool in request.tools})
        return await self.model.chat(request)


async def test_every_variant_is_a_row_and_makes_the_same_memories(experiments: Any) -> None:
    rows = await rows_of(experiments, experiments.StandIn())
    assert list(rows) == NAMES
    for name, row in rows.items():
        assert row.failures == []
        assert row.memories["personal"] == 3
        assert (row.memories.get("summary") == 1) is (name[0] == "agentic")
        assert min(row.model_calls, row.prompt_tokens, row.completion_tokens, row.milliseconds) > 0
    assert rows["simple", "", ""].model_calls < min(
        row.model_calls for name, row in rows.items() if name[0] == "agentic"
    )
    for thinking in ("none", "parameter", "tool"):
        single, multiple = rows["agentic", thinking, "single"], rows["agentic", thinking, "multiple"]
        assert single.model_calls >= multiple.model_calls
        assert single.tool_calls > multiple.tool_calls
    assert rows["agentic", "tool", "multiple"].model_calls > rows["agentic", "none", "multiple"].model_calls


@pytest.mark.parametrize("mode", ["single", "multiple"])
@pytest.mark.parametrize("thinking", ["none", "parameter", "tool"])
async def test_the_model_is_offered_what_the_variant_is_about(experiments: Any, thinking: str, mode: str) -> None:
    watched = Watched(experiments.StandIn())
    session = experiments.Session("s", TALK)
    variant = experiments.Variant("agentic", thinking, mode)
    await experiments.measure(variant, watched, [session], user="mara", language=None)
    assert watched.offered
    for tools in watched.offered:
        assert ("think_tool" in tools) is (thinking == "tool")
        for name, parameters in tools.items():
            assert ("thinking" in parameters.get("required", [])) is (thinking == "parameter"), name
    adding = next(tools["add_memory"] for tools in watched.offered if "add_memory" in tools)
    assert ("memories" in adding["properties"]) is (mode == "multiple")


async def test_a_variant_that_fails_is_a_row_that_says_why(experiments: Any) -> None:
    class Picky(experiments.StandIn):  # type: ignore[misc]  # a class of a module that is imported by its path
        async def chat(self, request: ChatRequest) -> Any:
            if "think_tool" in {tool.name for tool in request.tools}:
                raise ModelUnavailableError("it doesn't like to think")
            return await super().chat(request)

    rows = await rows_of(experiments, Picky())
    assert list(rows) == NAMES
    for (_, thinking, _), row in rows.items():
        if thinking == "tool":
            assert row.failures == ["s: ModelUnavailableError: it doesn't like to think"]
            assert row.memories == {}
            assert row.model_calls == 1
        else:
            assert row.failures == []
    table = experiments.show(list(rows.values()))
    assert table.count("it doesn't like to think") == 2


async def test_messages_that_cannot_be_read_fail_every_row_and_nothing_else(experiments: Any) -> None:
    rows = await rows_of(experiments, experiments.StandIn(), [{"role": "nobody", "content": "Hi"}])
    assert all("InvalidInputError" in row.failures[0] for row in rows.values())


async def test_the_prompts_are_in_the_language_that_is_asked_for(experiments: Any) -> None:
    watched = Watched(experiments.StandIn())
    await rows_of(experiments, watched, language="zh")
    assert all(not request.messages[0].text.isascii() for request in watched.asked)


def test_the_command_prints_one_table_and_writes_the_figures(
    experiments: Any, conversation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "figures.json"
    assert experiments.main([str(conversation), "--json", str(written), "--user", "other"]) == 0
    printed = capsys.readouterr().out
    assert "STAND-IN" in printed
    lines = printed.splitlines()
    table = lines[next(place for place, line in enumerate(lines) if line.startswith("strategy")) :]
    assert len(table) == 1 + len(NAMES)
    found = json.loads(written.read_text())
    assert found["stand_in"] is True
    assert [(row["strategy"], row["thinking"], row["mode"]) for row in found["rows"]] == NAMES


def test_the_demo_is_cut_to_the_sessions_that_are_asked_for(
    experiments: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert experiments.main(["--sessions", "1"]) == 0
    assert "1 session(s), 11 messages" in capsys.readouterr().out


def test_a_list_of_messages_is_a_conversation_too(experiments: Any, tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps(TALK))
    user, [session] = experiments.read_conversation(path)
    assert (user, session.messages) == ("user", TALK)


@pytest.mark.parametrize("text", ["{}", "[]", "[1]", '{"sessions": 3}', "no JSON"])
def test_what_is_no_conversation_is_told_and_nothing_is_begun(
    experiments: Any, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    assert experiments.main([str(path)]) == 2
    assert "experiments:" in capsys.readouterr().err


def test_a_model_without_a_key_is_told_before_anything_is_run(
    experiments: Any, conversation: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("REME_LLM_API_KEY", "OPENAI_API_KEY", "REME_LLM_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert experiments.main([str(conversation), "--model", "any"]) == 2
    assert "REME_LLM_API_KEY" in capsys.readouterr().err


def test_a_model_of_an_endpoint_answers_for_every_variant(
    experiments: Any, conversation: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.support.openai_server import KEY, OpenAIServer
    from tests.support.wire_model import answering

    with OpenAIServer() as server:
        server.otherwise = answering(experiments.StandIn())
        monkeypatch.setenv("REME_LLM_BASE_URL", server.base_url)
        monkeypatch.setenv("REME_LLM_API_KEY", KEY)
        assert experiments.main([str(conversation), "--model", "any-model"]) == 0
    printed = capsys.readouterr().out
    assert "model: any-model" in printed
    assert "STAND-IN" not in printed
    assert {body["model"] for body in server.bodies} == {"any-model"}
    assert KEY not in printed
