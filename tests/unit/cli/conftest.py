"""Running `reme` inside the test, in a folder of its own."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from reme_core.cli import main
from tests.support.openai_server import KEY, Call, Completion, OpenAIServer, Reply, Request

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
    for name in ("REME_LLM_API_KEY", "REME_LLM_BASE_URL", "REME_EMBEDDING_API_KEY", "REME_EMBEDDING_BASE_URL"):
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


class Remy(OpenAIServer):
    """A model behind the server that answers by what it is asked, so that the order of requests doesn't matter.

    It finds a fact for each word of `facts` that the conversation holds, searches for what a question asks it to look
    up (`lookup`), and otherwise says "Noted." `replied` holds other replies to a kind of request (`facts`, `chat`).
    """

    def __init__(self) -> None:
        super().__init__()
        self.facts = {"tea": "Ana likes green tea", "Biscuit": "Ana has a puppy called Biscuit"}
        self.answer = "You like green tea."
        self.lookup: tuple[str, dict[str, Any]] = ("vector_retrieve_memory", {"query_items": [{"query": "tea"}]})
        self.replied: dict[str, Reply] = {}

    def usual(self, request: Request) -> Reply:
        if request.path.endswith("/embeddings"):
            return super().usual(request)
        kind = "facts" if "response_format" in request.body else "chat"
        return self.replied.get(kind) or (self._distil(request) if kind == "facts" else self._talk(request))

    def count_of(self, kind: str) -> int:
        """How many requests of a kind have come."""
        return sum(("response_format" in body) == (kind == "facts") for body in self.bodies)

    def _distil(self, request: Request) -> Reply:
        said = str(request.body["messages"][-1]["content"])
        if "<memories>" in said:
            decisions = [{"fact": 1, "action": "add", "memory": [], "content": ""}]
            return Completion(text=json.dumps({"decisions": decisions}))
        basis = {"type": "personal", "target": "Ana", "when_to_use": "", "valid_from": "", "valid_to": ""}
        facts = [{**basis, "content": text, "messages": [1]} for word, text in self.facts.items() if word in said]
        return Completion(text=json.dumps({"facts": facts}))

    def _talk(self, request: Request) -> Reply:
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return Completion(text=self.answer)
        if "look up" in str(last["content"]):
            name, arguments = self.lookup
            return Completion(calls=[Call("call-1", name, json.dumps(arguments))])
        return Completion(text="Noted.")


@pytest.fixture
def remy(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remy]:
    """A chat model that the environment names."""
    with Remy() as server:
        monkeypatch.setenv("REME_LLM_MODEL", "any")
        monkeypatch.setenv("REME_LLM_API_KEY", KEY)
        monkeypatch.setenv("REME_LLM_BASE_URL", server.base_url)
        yield server
