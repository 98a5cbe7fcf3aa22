"""`reme_agentscope` where AgentScope is not installed, or not in the generation that is needed."""

from __future__ import annotations

import importlib
import importlib.metadata
import pickle
import subprocess
import sys

import pytest

import reme_agentscope
from reme_agentscope import _compat
from reme_core.errors import MissingExtraError

_PUBLIC = {
    "ReMeMemory",
    "ReMeMiddleware",
    "ReMeMiddlewares",
    "ReMeOffloader",
    "ReMePersonalLongTermMemory",
    "ReMeSession",
    "ReMeTaskLongTermMemory",
    "ReMeToolLongTermMemory",
    "as_chat_model",
    "as_embedder",
    "create_memory_tools",
    "from_agentscope",
    "to_agentscope",
}


def installed(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def found(name: str) -> str:
        assert name == "agentscope"
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", found)


@pytest.mark.requirement("AS-PKG-01")
def test_importing_the_package_imports_nothing_of_agentscope() -> None:
    code = (
        "import sys, reme_agentscope, reme_agentscope._shared.recorded_text; "
        "import reme_core.adapting; dir(reme_agentscope); "
        "sys.exit(any(name.partition('.')[0] == 'agentscope' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.requirement("AS-PKG-01")
def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'reme_agentscope' has no attribute 'Nonsense'$"):
        reme_agentscope.Nonsense  # noqa: B018


@pytest.mark.requirement("AS-PKG-01")
def test_dir_lists_all_names() -> None:
    assert set(reme_agentscope.__all__) <= _PUBLIC  # what the installed generation has
    assert set(dir(reme_agentscope)) >= _PUBLIC


@pytest.mark.requirement("AS-PKG-02")
def test_the_installed_distribution_decides_and_not_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "reme_agentscope.v1.messages", raising=False)
    for module in ("agentscope", "agentscope.message"):
        monkeypatch.setitem(sys.modules, module, None)  # importing it fails
    installed(monkeypatch, "1.0.21")
    assert _compat.require(1, "ReMeMemory") == 1
    with pytest.raises(ImportError) as caught:
        importlib.import_module("reme_agentscope.v1.messages")
    assert not isinstance(caught.value, MissingExtraError)  # a broken AgentScope is not called a missing one


@pytest.mark.requirement("AS-PKG-03")
@pytest.mark.parametrize("name", sorted(_PUBLIC))
def test_without_agentscope_the_error_names_both_extras(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    installed(monkeypatch, None)
    with pytest.raises(ImportError) as caught:
        exec(f"from reme_agentscope import {name}")  # noqa: S102  # as a program says it
    assert isinstance(caught.value, MissingExtraError)
    assert name in str(caught.value)
    assert "reme-memory[agentscope1]" in str(caught.value)
    assert "reme-memory[agentscope2]" in str(caught.value)


@pytest.mark.requirement("AS-PKG-03")
def test_the_wrong_generation_is_told_with_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "1.0.21")
    with pytest.raises(ImportError) as caught:
        from reme_agentscope import ReMeMiddleware  # noqa: F401
    wanted = (
        "ReMeMiddleware needs agentscope 2.x, found 1.0.21: agentscope 1 has no middleware; "
        "use ReMePersonalLongTermMemory"
    )
    assert str(caught.value) == wanted
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # our own bytes
    assert (str(again), again.extra) == (wanted, "agentscope2")
    installed(monkeypatch, "2.0.10")
    with pytest.raises(ImportError, match=r"^ReMeMemory needs agentscope 1.x, found 2.0.10: .*use ReMeMiddleware"):
        from reme_agentscope import ReMeMemory  # noqa: F401


@pytest.mark.parametrize("version", [None, "1.0.21", "2.0.10"])
def test_an_attribute_that_can_not_be_had_is_none_and_a_star_takes_what_is_there(
    monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    installed(monkeypatch, version)
    other = "ReMeMemory" if version == "2.0.10" else "ReMeMiddleware"
    assert not hasattr(reme_agentscope, other)
    assert getattr(reme_agentscope, other, None) is None
    with pytest.raises(AttributeError, match=f"^{other} needs agentscope"):  # in words that help
        getattr(reme_agentscope, other)
    named = set(reme_agentscope.__all__)
    if version is not None:
        assert other not in named
    assert named >= {"as_chat_model", "to_agentscope"}
    assert named <= _PUBLIC


@pytest.mark.requirement("AS-PKG-03")
@pytest.mark.parametrize(
    ("version", "name", "told"),
    [
        ("1.0.15", "ReMeMemory", "ReMeMemory needs agentscope >= 1.0.16, found 1.0.15"),
        ("1.0.9", "as_chat_model", "as_chat_model needs agentscope >= 1.0.16, found 1.0.9"),
        ("2.0.3", "ReMeMiddleware", "ReMeMiddleware needs agentscope >= 2.0.4, found 2.0.3"),
        ("2.0.4rc1", "ReMeMiddleware", None),
        ("0.9", "from_agentscope", "from_agentscope needs agentscope 1.x or 2.x, found 0.9"),
        ("3.0.0", "ReMeMiddleware", "ReMeMiddleware needs agentscope 2.x, found 3.0.0"),
        ("1.0.16", "ReMeMemory", None),
        ("1.1", "ReMeMemory", None),
        ("2.0.10", "to_agentscope", None),
    ],
)
def test_a_release_that_is_too_old_or_unknown_is_told(
    monkeypatch: pytest.MonkeyPatch, version: str, name: str, told: str | None
) -> None:
    installed(monkeypatch, version)
    major = reme_agentscope._PLACES[name][0]
    if told is None:
        assert _compat.require(major, name) == int(version[0])
    else:
        with pytest.raises(ImportError) as caught:
            _compat.require(major, name)
        assert str(caught.value).startswith(told)
