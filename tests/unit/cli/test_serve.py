"""`reme keys` and what `reme serve` refuses to begin with; that it serves is shown in tests/integration."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from reme_core.cli import serve

ROOT = Path(__file__).parents[3]


def test_a_key_is_printed_once_listed_without_its_token_and_revoked(reme):
    token = reme("keys", "add", "--user", "bob", "--note", "laptop").out.strip()
    assert token.startswith("reme_")
    listed = reme("keys", "list").out
    assert token not in listed
    key_id, rest = listed.split(maxsplit=1)
    assert rest.startswith("bob in default  read, write")
    assert rest.rstrip().endswith("laptop")
    assert f"revoked {key_id}" in reme("keys", "revoke", key_id).out
    assert reme("keys", "list").out == ""
    again = reme("keys", "revoke", key_id)
    assert (again.code, "reme keys list" in again.err) == (3, True)


def test_a_key_has_the_rights_that_are_named_and_those_alone(reme):
    added = reme("keys", "add", "--user", "proxy", "--right", "read", "--right", "act_as", "--json").value
    assert (added["rights"], added["user_id"]) == (["act_as", "read"], "proxy")
    assert reme("keys", "add", "--right", "all").code == 2
    assert reme("keys", "add", "--space", "reme-service").code == 2
    assert reme("keys", "add", "--shared").code == 2
    assert [key["user_id"] for key in reme("keys", "list", "--json").value["keys"]] == ["proxy"]
    assert "token" not in reme("keys", "list", "--json").out


def test_the_space_of_the_service_is_shown_as_nobodys(reme):
    reme("keys", "add", "--user", "bob")
    assert "reme-service" not in reme("spaces").out + reme("users", "--space", "reme-service").out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "there is no key, and beyond this machine nobody is let in without one"),  # noqa: S104
        (["--config", "nowhere.toml"], "there is no such file"),
        (["--port", "70000"], "wanted a number from 0 to 65535"),
        (["--max-body", "65"], "wanted 1 to 64 MiB, found 65"),
        (["--max-body", "0"], "wanted 1 to 64 MiB, found 0"),
        (["--profile", "all"], "profile: wanted one of default, chatgpt"),
        (["--profile", "files"], "profile: 'files' works on one folder"),
    ],
)
def test_what_would_let_in_everybody_or_nobody_is_refused(reme, options, words):
    done = reme("serve", *options)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert words in done.err


def test_without_a_user_and_without_keys_nobody_could_call(reme, monkeypatch):
    monkeypatch.delenv("REME_USER")
    assert "whose memory?" in reme("serve").err


def test_settings_of_another_file_and_no_variables_of_another_product(reme, tmp_path, monkeypatch):
    monkeypatch.delenv("REME_USER")
    monkeypatch.setenv("REME_HOST", "192.0.2.1")
    monkeypatch.setenv("REME_PORT", "1")
    (tmp_path / "service.toml").write_text('user = "carol"\nspace = "work"\n', encoding="utf-8")
    plans = []

    async def keep(where, output, plan):
        plans.append((where.user, where.space, plan.host, plan.port, plan.profile))

    monkeypatch.setattr(serve, "run_service", keep)
    assert reme("serve", "--config", str(tmp_path / "service.toml")).code == 0
    assert reme("serve", "--user", "bob", "--profile", "chatgpt").code == 0
    assert plans == [("carol", "work", "127.0.0.1", 2334, "default"), ("bob", "default", "127.0.0.1", 2334, "chatgpt")]


@pytest.mark.parametrize("code", ["import reme_core", "from reme_core.cli import main; main(['--help'])"])
def test_nothing_of_the_service_is_loaded_before_it_is_asked_for(code):
    probe = f"{code}\nimport sys; sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", probe], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"starlette", "uvicorn", "mcp", "httpx2", "httpx", "jinja2"}
    assert not [name for name in done.stderr.split() if name.startswith("reme_core.serve")]


def test_a_missing_library_is_told_with_the_extra_that_brings_it(reme, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mcp" else found(name))
    done = reme("serve")
    assert done.code == 2
    assert "pip install 'reme-memory[serve]'" in done.err
