"""Every argument of every call with ordinary wrong values: done, or a typed error in words that name no Python type.

The table is made of the signatures, so that a new call is in it: some 2,500 rows, in a few seconds.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from reme_core import AgenticRetriever, ReMe
from reme_core.errors import ReMeError


class Note(BaseModel):
    text: str = ""


# What a person says who leaves an argument empty, mixes up its type, or misspells its value.
WRONG: tuple[object, ...] = (
    None,
    "",
    "x",
    5,
    -1,
    1.5,
    True,
    [],
    [5],
    ["x"],
    {},
    {"a": 1},
    "2026-13-45",
    "no/such\0file",
)
GOOD: dict[str, object] = {
    "messages": [("user", "I drink tea")],
    "user_id": "alice",
    "content": "Alice drinks tea",
    "memories": [{"content": "Alice drinks tea"}],
    "memory_id": "held",
    "memory_ids": ["held"],
    "message_ids": ["said"],
    "ref": "sha256:x",
    "block_id": "nope",
    "job_id": "nope",
    "run_id": "nope",
    "query": "tea",
    "name": "Alice",
    "first": "Alice",
    "second": "Bob",
    "message": "tea?",
    "session_id": "s",
    "path": "library.jsonl",
    "text": "a text",
    "tool_names": ["kettle"],
    "trajectories": [{"messages": [("user", "boil")], "score": 1.0}],
    "task_name": "tea",
    "tool_call_results": [{"tool_name": "kettle", "output": "ok"}],
    "feedback": [],
    "uses": 1,
    "helpful": 1,
    "label": "human",
    "source": "mem0",
    "retriever": AgenticRetriever(),
    "instance": Note(text="tea"),
    "model": Note,
    "fields": {"text": "green tea"},
}
# They end the memory, or are handed functions and objects alone: their errors stand in test_bad_input.
_APART = {"close", "sync", "users_with_jobs", "flush"}
PYTHON = re.compile(
    r"NoneType|dict object|list object|ValidationError|Tuple should|Input should|Traceback|object has no attribute"
    r"|TypeError|<class|built-in|positional argument|unhashable"
)
LEAST_ROWS = 2_000


def rows() -> list[tuple[str, str, object]]:
    calls = [(name, call) for name, call in inspect.getmembers(ReMe, inspect.isfunction) if name not in _APART]
    return [
        (name, parameter, value)
        for name, call in calls
        if not name.startswith("_")
        for parameter in list(inspect.signature(call).parameters)[1:]
        for value in WRONG
    ]


async def _fault(memory: ReMe, name: str, parameter: str, value: object) -> str | None:
    """Return what is wrong with the end of a call, None where nothing is."""
    call: Any = getattr(memory, name)
    needed = [
        item.name
        for item in inspect.signature(call).parameters.values()
        if item.default is item.empty and item.name in GOOD
    ]
    try:
        answer = call(**{**{item: GOOD[item] for item in needed}, parameter: value})
        if inspect.isawaitable(answer):
            await answer
    except ReMeError as exc:
        return f"{exc}" if PYTHON.search(str(exc)) else None
    except Exception as exc:  # noqa: BLE001  # what this test looks for
        return f"{type(exc).__name__}: {exc}"
    return None


async def test_an_ordinary_mistake_is_a_typed_error_in_plain_words(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    table = rows()
    faults: dict[tuple[str, str, str], str] = {}
    async with ReMe("space", tmp_path, llm=None, embedding=None, schemas=[Note]) as memory:
        await memory.add_memories([{"memory_id": "held", "content": "Alice drinks tea"}], user_id="alice")
        await memory.put_record(Note(), user_id="alice")
        for name, parameter, value in table:
            fault = await _fault(memory, name, parameter, value)
            if fault is not None:
                faults[name, parameter, repr(value)] = fault
    assert faults == {}
    assert len(table) >= LEAST_ROWS


def test_an_ordinary_mistake_in_a_setting_is_a_typed_error_in_plain_words(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    names = [name for name in inspect.signature(ReMe.__init__).parameters if name not in {"self", "unknown"}]
    given = [(name, value) for name in (*names, "model_name") for value in WRONG]
    nested = [
        (name, {"backend": "openai", "model": "m", key: value})
        for name in ("llm", "embedding")
        for key in ("model", "temperature", "dimension", "api_key", "base_url")
        for value in WRONG
    ]
    stores = [
        ("vector_store", {"backend": "local_file", key: value})
        for key in ("backend", "path", "synchronous", "busy_timeout_s", "loading_wait_s")
        for value in WRONG
    ]
    faults: dict[tuple[str, str], str] = {}
    for name, value in (*given, *nested, *stores):
        try:
            ReMe(**{"llm": None, "embedding": None, name: value})
        except ReMeError as exc:
            if PYTHON.search(str(exc)):
                faults[name, repr(value)] = str(exc)
        except Exception as exc:  # noqa: BLE001  # what this test looks for
            faults[name, repr(value)] = f"{type(exc).__name__}: {exc}"
    assert faults == {}
