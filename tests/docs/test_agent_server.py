"""The example behind the agent server: what langgraph.json names is there, and works as the server uses it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from reme_core import ReMe

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "agent_server"


def load(path: str) -> object:
    """Return what `./file.py:name` names."""
    file, _, name = path.partition(":")
    spec = importlib.util.spec_from_file_location(f"agent_server_{Path(file).stem}", FOLDER / file)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


@pytest.mark.requirement("LG-STORE-75")
async def test_the_hooks_of_langgraph_json_open_what_the_graph_uses(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("REME_WORKING_DIR", str(tmp_path / "agent"))
    settings = json.loads((FOLDER / "langgraph.json").read_text(encoding="utf-8"))
    graph = load(settings["graphs"]["agent"])
    open_store, open_saver = load(settings["store"]["path"]), load(settings["checkpointer"]["path"])
    async with open_store() as store, open_saver() as saver:
        app = graph.copy({"store": store, "checkpointer": saver})
        config = {"configurable": {"thread_id": "t1", "user_id": "ann@example.com"}}
        await app.ainvoke({"said": "The bins go out on Tuesday", "known": []}, config)
        state = await app.ainvoke({"said": "When do the bins go out?", "known": []}, config)
        assert state["known"] == ["The bins go out on Tuesday"]
    async with ReMe(working_dir=tmp_path / "agent", llm=None, embedding=None) as memory:
        kept = await memory.list_memories(user_id="ann@example.com")
    assert len(kept.memories) == 2
