"""What importing the package loads, and what a missing library says."""

import importlib
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

import reme_langchain
from reme_core.errors import MissingExtraError

_ROOT = Path(__file__).parents[3]
_HEAVY = ("langchain", "langchain_core", "langgraph", "numpy", "openai", "sqlite3", "pydantic")


def run(code: str, *, but: Sequence[str] = ()) -> str:
    """Run code in a process of its own, in which the libraries `but` are not installed."""
    blocked = f"""
        import sys
        class Gone:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {tuple(but)!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        sys.meta_path.insert(0, Gone())
    """
    text = textwrap.dedent(blocked) + textwrap.dedent(code)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", text],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": str(_ROOT)},
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_loads_no_framework_and_no_numpy():
    loaded = run(f"import reme_langchain; print([name for name in {_HEAVY!r} if name in sys.modules])")
    assert loaded == "[]"


def test_a_saver_and_a_store_load_of_the_frameworks_the_bases_alone():
    code = """
        import sys, tempfile
        from reme_langchain import MemoryHistory, ReMeSaver, ReMeStore
        with ReMeStore.from_path(tempfile.mkdtemp()), ReMeSaver.from_path(tempfile.mkdtemp()):
            heavy = ("langchain.agents", "langgraph.graph", "langgraph.pregel", "langsmith", "langchain_core.tracers")
            print([name for name in heavy if name in sys.modules])
    """
    assert run(code) == "[]"


def test_every_public_name_is_there_and_listed():
    assert sorted(reme_langchain.__all__) == sorted(set(reme_langchain.__all__))
    assert set(reme_langchain.__all__) <= set(dir(reme_langchain))
    for name in reme_langchain.__all__:
        assert getattr(reme_langchain, name).__module__.startswith("reme_langchain.")
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        reme_langchain.Nothing  # noqa: B018


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("create_memory_tools", "langchain", "langchain"),
        ("ReMeMiddleware", "langchain", "langchain"),
        ("ReMeRetriever", "langchain_core", "langgraph"),
        ("as_embedder", "langchain_core", "langgraph"),
        ("ReMeSaver", "ormsgpack", "langgraph"),
    ],
)
def test_a_missing_library_names_the_extra_that_brings_it(name, library, extra):
    code = f"""
        import reme_langchain
        from reme_core.errors import MissingExtraError
        try:
            reme_langchain.{name}
        except MissingExtraError as exc:
            print(exc.library, exc.extra, "reme-memory[{extra}]" in str(exc))
    """
    assert run(code, but=[library]) == f"{library} {extra} True"


@pytest.mark.requirement("LC-MODEL-03")
def test_a_model_by_name_without_langchain_names_the_extra():
    code = """
        import asyncio
        from reme_core.errors import MissingExtraError
        from reme_langchain import as_embedder
        try:
            asyncio.run(as_embedder("openai:text-embedding-3-small", dims=3).embed(["a"]))
        except MissingExtraError as exc:
            print(exc.library, exc.extra)
    """
    assert run(code, but=["langchain"]) == "langchain langchain"


def test_what_needs_no_graph_works_without_langchain_and_langgraph():
    code = """
        from reme_langchain import ReMeByteStore, ReMeRetriever, as_chat_model, as_embedder, from_langchain
        from reme_core import ReMe
        memory = ReMe(llm=None, embedding=None)
        print(ReMeRetriever(memory=memory, owner="ann").invoke("tea"))
    """
    assert run(code, but=["langchain", "langgraph"]) == "[]"


def test_an_import_error_of_our_own_stays_visible(monkeypatch):
    def broken(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="reme_langchain._nothing")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError) as caught:
        reme_langchain.__getattr__("as_embedder")
    assert not isinstance(caught.value, MissingExtraError)
