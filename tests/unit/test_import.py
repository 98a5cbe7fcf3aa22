"""Importing the packages is quick and touches nothing."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from reme_core.errors import MissingExtraError
from reme_core.lazy_names import lazy_names

_ROOT = Path(__file__).parents[2]

_PROBE = """
import json, os, resource, sys
opened, sockets = [], []
def watch(event, args):
    if event == "open" and isinstance(args[0], str):
        opened.append(os.path.abspath(args[0]))
    elif event.startswith("socket."):
        sockets.append(event)
sys.addaudithook(watch)
before = resource.getrusage(resource.RUSAGE_SELF)
environment = dict(os.environ)
import {module}
after = resource.getrusage(resource.RUSAGE_SELF)
spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
allowed = [os.path.abspath(p) for p in (*sys.path, sys.prefix, sys.base_prefix) if p]
elsewhere = [p for p in opened if not any(p.startswith(a + os.sep) or p == a for a in allowed)]
print(json.dumps(dict(cpu=spent, modules=sorted(sys.modules), elsewhere=elsewhere, sockets=sockets,
    changed=dict(os.environ) != environment)))
"""


def probe(module: str, folder: Path) -> dict[str, object]:
    command = [sys.executable, "-c", _PROBE.format(module=module)]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("module", ["reme_core", "reme_agentscope", "reme_langchain"])
def test_importing_a_package_loads_no_library_and_touches_nothing(module: str, tmp_path: Path) -> None:
    runs = [probe(module, tmp_path) for _ in range(3)]
    for found in runs:
        loaded = {str(name).partition(".")[0] for name in found["modules"]}  # type: ignore[attr-defined]  # a list
        assert not loaded.intersection(
            {"openai", "qdrant_client", "httpx", "numpy", "pydantic", "agentscope", "langchain", "langgraph", "sqlite3"}
        )
        assert found["elsewhere"] == []
        assert found["sockets"] == []
        assert not found["changed"]
    assert min(float(str(found["cpu"])) for found in runs) <= 0.3
    assert list(tmp_path.iterdir()) == []


def test_making_a_memory_loads_no_client_and_opens_no_file(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom reme_core import ReMe, SyncReMe, LocalStore, Message\n"
        "ReMe('space', 'folder', llm=None, embedding=None)\n"
        "print(sorted({'openai', 'qdrant_client'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(_ROOT)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []


def test_every_public_name_can_be_loaded() -> None:
    code = (
        "import reme_core\n"
        "for name in reme_core.__all__:\n"
        "    if name != 'QdrantIndex': getattr(reme_core, name)\n"
        "assert set(reme_core.__all__) <= set(dir(reme_core))\n"
        "try: reme_core.nothing\n"
        "except AttributeError as exc: print(exc)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(_ROOT)}, capture_output=True, check=True, text=True
    )
    assert "has no attribute 'nothing'" in done.stdout


def test_the_facade_loads_no_store_no_agent_and_no_learning_before_a_memory_is_made() -> None:
    code = "import sys\nfrom reme_core import ReMe\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(_ROOT)}, capture_output=True, check=True, text=True
    )
    loaded = {name for name in done.stdout.split() if name.startswith("reme_core.")}
    for part in (
        "stores",
        "retrieval",
        "rules",
        "text",
        "agents",
        "tools",
        "tasks",
        "toolstats",
        "transfer",
        "working",
    ):
        assert not {name for name in loaded if name.startswith(f"reme_core.{part}")}


def test_a_memory_without_a_model_loads_no_agent_and_no_learning(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\nfrom reme_core import ReMe\n"
        "async def main():\n"
        "    async with ReMe('space', sys.argv[1], llm=None, embedding=None) as memory:\n"
        "        await memory.summary([('user', 'Hello')], user_id='u')\n"
        "        await memory.retrieve('hello', user_id='u')\n"
        "asyncio.run(main())\nprint(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={"PYTHONPATH": str(_ROOT)},
        capture_output=True,
        check=True,
        text=True,
    )
    for part in ("agents", "tools", "tasks", "toolstats", "transfer", "working"):
        assert f"reme_core.{part}" not in done.stdout.split()


def test_the_commands_load_no_store_and_no_bar_before_one_runs() -> None:
    code = "import sys\nimport reme_core.cli.program\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(_ROOT)}, capture_output=True, check=True, text=True
    )
    heavy = {"reme_core.ports", "reme_core.stores", "reme_core.text", "numpy", "sqlite3", "rich.progress"}
    assert heavy.isdisjoint(done.stdout.split())


@pytest.mark.parametrize("package", ["reme_core.schema", "reme_core.ports"])
def test_the_types_of_values_and_protocols_can_be_read_at_run_time(package: str) -> None:
    module = importlib.import_module(package)
    classes = [value for value in vars(module).values() if inspect.isclass(value)]
    assert classes
    for kind in classes:
        typing.get_type_hints(kind)
        for part in vars(kind).values():
            if inspect.isfunction(part):
                typing.get_type_hints(part)


def test_a_module_of_a_lazy_package_is_an_attribute_too() -> None:
    load, _ = lazy_names("reme_core.models", {"defaults": "CharacterTokenCounter"})
    assert load("defaults") is sys.modules["reme_core.models.defaults"]


def test_a_library_that_is_missing_names_the_extra_and_one_of_our_own_stays_visible() -> None:
    load, _ = lazy_names("reme_core", {"nothing_here": "Nothing"}, extras={"elsewhere": "extra"})
    with pytest.raises(ModuleNotFoundError) as caught:
        load("Nothing")
    assert not isinstance(caught.value, MissingExtraError)
    load, _ = lazy_names("reme_core", {"nothing_here": "Nothing"}, extras={"reme_core": "extra"})
    with pytest.raises(MissingExtraError, match=r"reme-memory\[extra\]"):
        load("Nothing")
