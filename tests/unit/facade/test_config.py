"""Settings, the environment, and keys that nobody gets to see."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import ConfigurationError
from reme_core.facade.config import Ports, build
from reme_core.facade.parts import UNSET
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder

SECRET = "sk-very-secret-0123456789"  # noqa: S105  # nobody's key
NAMES = ("API_KEY", "BASE_URL", "MODEL", "DIMENSION")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for prefix in ("REME_LLM", "REME_EMBEDDING", "OPENAI"):
        for name in NAMES:
            monkeypatch.delenv(f"{prefix}_{name}", raising=False)


def ports(folder: Path, **given: object) -> Ports:  # Ports, of a call that is wrong on purpose
    settings = {"working_dir": folder, "llm": None, "embedding": None, "vector_store": None}
    return build(**{**settings, **given})  # type: ignore[arg-type]  # wrong on purpose


def test_without_key_there_is_no_model_and_the_log_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="reme"):
        built = ports(tmp_path, llm=UNSET, embedding=UNSET)
    assert built.llm is None
    assert built.embedder is None
    assert len(caplog.records) == 2
    assert "REME_LLM_API_KEY" in caplog.text


@pytest.mark.parametrize("key", ["REME_EMBEDDING_API_KEY", "OPENAI_API_KEY"])
async def test_the_environment_gives_models_where_the_argument_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(key, SECRET)
    monkeypatch.setenv("REME_EMBEDDING_MODEL", "text-embedding-v4")
    monkeypatch.setenv("REME_EMBEDDING_DIMENSION", "64")
    built = ports(tmp_path, embedding=UNSET)
    assert built.embedder is not None
    assert built.embedder.dimension == 64
    for part in built.owned:
        await part.close()


def test_none_given_explicitly_beats_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("REME_LLM_MODEL", "m")
    monkeypatch.setenv("REME_EMBEDDING_MODEL", "m")
    built = ports(tmp_path)
    assert built.llm is None
    assert built.embedder is None


def test_a_dimension_in_the_environment_that_is_no_number_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("REME_EMBEDDING_MODEL", "m")
    monkeypatch.setenv("REME_EMBEDDING_DIMENSION", "many")
    with pytest.raises(ConfigurationError, match=r"embedding.dimension"):
        ports(tmp_path, embedding=UNSET)


LEAKY: list[dict[str, object]] = [
    {"llm": {"backend": "openai", "api_key": SECRET}},
    {"llm": {"backend": "openai", "model": "m", "apikey": SECRET}},
    {"llm": {"backend": "openai", "model": "m", "api_key": [SECRET]}},
    {"llm": {"backend": SECRET, "model": "m"}},
    {"embedding": {"backend": "openai", "model": "m", "api_key": {"key": SECRET}}},
    {"embedding": {"backend": "openai", "model": "m", "dimension": SECRET}},
    {"vector_store": {"backend": "qdrant", "url": "http://x", "key": SECRET, "dimension": 3}},
    {"llm": SECRET},
    {"working_dir": f"postgresql://ana:{SECRET}@host/reme"},
]


@pytest.mark.parametrize("given", LEAKY)
def test_no_error_about_settings_shows_a_key(tmp_path: Path, given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ports(tmp_path, **given)
    told = "".join(traceback.format_exception(caught.value, limit=0))
    assert SECRET not in told


async def test_no_key_stands_in_a_repr(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        reme = ReMe(
            "space",
            tmp_path,
            llm={"backend": "openai", "model": "m", "api_key": SECRET, "base_url": "http://127.0.0.1:9"},
            embedding={"backend": "openai", "model": "m", "api_key": SECRET, "base_url": "http://127.0.0.1:9"},
        )
        shown = repr(reme) + repr(reme.sync()) + repr(vars(reme))
        await reme.close()
    assert SECRET not in shown + caplog.text


async def test_objects_that_are_handed_in_stay_open(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "mine.db")
    async with ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(16), vector_store=store) as reme:
        await reme.add_memory("drinks tea", user_id="alice")
    async with ReMe("space", tmp_path, llm=None, embedding=None, vector_store=store) as reme:
        assert len((await reme.list_memories(user_id="alice")).memories) == 1
    await store.close()


async def test_the_local_store_lies_where_the_settings_say(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None, vector_store={"backend": "local"}) as reme:
        await reme.stats(user_id="alice")
    path = tmp_path / "elsewhere" / "mine.db"
    async with ReMe("space", tmp_path, llm=None, embedding=None, vector_store={"path": str(path)}) as reme:
        await reme.stats(user_id="alice")
    assert path.exists()
    assert (tmp_path / "memory.db").exists()
