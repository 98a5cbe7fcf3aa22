"""`reme reembed`: the vectors of a space by another model."""

from __future__ import annotations

import pytest

from reme_core.cli import ExitCode
from tests.support.openai_server import OpenAIServer
from tests.unit.cli.conftest import Reme
from tests.unit.cli.test_doctor import line, use_model


def test_all_texts_are_embedded_by_the_new_model_with_progress(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        use_model(monkeypatch, "EMBEDDING", server.base_url, DIMENSION="8")
        reme("add", "Ana likes green tea")
        done = reme("reembed", "--model", "m-2", "--dimension", "16")
        assert (done.code, done.out.strip()) == (ExitCode.DONE, "1 text embedded by 'm-2' in place of 'm-1'")
        assert "1 of 1 done" in done.err
        assert "set REME_EMBEDDING_MODEL" in done.err
        assert "of 'm-2', 16 dimensions" in line(reme("doctor"), "stored vectors")
        monkeypatch.setenv("REME_EMBEDDING_MODEL", "m-2")
        monkeypatch.setenv("REME_EMBEDDING_DIMENSION", "16")
        assert "green tea" in reme("search", "tea").out
        again = reme("reembed", "--json")
        assert again.value["texts"] == 0
        again = reme("reembed")
        assert (again.out.strip(), again.err) == ("nothing to do: all vectors are of 'm-2' already", "")
        shorter = reme("reembed", "--model", "m-2", "--dimension", "8")
        assert shorter.out.strip() == "1 text embedded by 'm-2' in another dimension than before"
        assert "set REME_EMBEDDING_DIMENSION" in shorter.err


def test_one_model_of_two_names_goes_by_the_one_it_is_given(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer() as server:
        use_model(monkeypatch, "EMBEDDING", server.base_url, DIMENSION="8")
        reme("add", "Ana likes green tea")
        assert reme("reembed", "--model", "vendor/m-1", "--name", "m-1", "--json").value["texts"] == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [((), "which model?"), (("--dimension", "8"), "say nothing without --model")],
)
def test_what_is_missing_is_named(reme: Reme, options: tuple[str, ...], told: str) -> None:
    reme("add", "Ana likes green tea")
    done = reme("reembed", *options)
    assert done.code == ExitCode.BAD_INPUT
    assert told in done.err
