"""Running `reme` inside the test, in a folder of its own."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from reme_core.cli import main

MESSAGES = [
    {
        "message_id": "m-1",
        "role": "user",
        "name": "Ana",
        "content": "I adopted a puppy called Biscuit",
        "created_at": "2025-03-04T20:00:00Z",
    },
    {
        "message_id": "m-2",
        "role": "assistant",
        "content": "How old is it?",
        "created_at": "2025-03-04T20:00:20Z",
    },
    {
        "message_id": "m-3",
        "role": "user",
        "name": "Ana",
        "content": "三个月，在成都出生。",
        "created_at": "2025-03-04T20:01:00Z",
    },
]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        assert self.err.count("\n") == 1, self.err
        assert self.out == ""
        error: dict[str, Any] = json.loads(self.err)["error"]
        return error


class Reme(Protocol):
    def __call__(self, *arguments: str, typed: str | bytes = "", at_terminal: bool = False) -> Done: ...


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def reme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Reme:
    monkeypatch.chdir(tmp_path)
    for name in ("REME_SPACE", "REME_DIR", "REME_WAIT", "REME_LLM_MODEL", "REME_EMBEDDING_MODEL", "REME_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REME_USER", "ana")

    def run(*arguments: str, typed: str | bytes = "", at_terminal: bool = False) -> Done:
        data = typed.encode() if isinstance(typed, str) else typed
        stdin = _Terminal if at_terminal else io.TextIOWrapper
        monkeypatch.setattr(sys, "stdin", stdin(io.BytesIO(data), "utf-8"))
        code = main(list(arguments))
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return run


@pytest.fixture
def chat(tmp_path: Path) -> str:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(MESSAGES), encoding="utf-8")
    return str(path)
