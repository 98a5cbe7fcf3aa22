"""Failures are told: at construction, or once in the log, in the answer of a tool, and where the program closes."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from agentscope.message import Msg

from reme_agentscope.v1.long_term.long_term_memory import (
    ReMePersonalLongTermMemory,
    ReMeTaskLongTermMemory,
    ReMeToolLongTermMemory,
)
from reme_core import ReMe
from reme_core.errors import (
    ConfigurationError,
    InvalidInputError,
    ModelUnavailableError,
    StorageFullError,
    StoreError,
)
from reme_core.testing import ScriptedChatModel
from tests.adapters.agentscope1.scripted import ScriptedModel, make_agent, user

CLASSES = [ReMePersonalLongTermMemory, ReMeTaskLongTermMemory, ReMeToolLongTermMemory]
CALL = json.dumps({"tool_name": "web_search", "input": {"query": "figs"}, "output": "found figs"})


class FullDisk(ReMe):
    """Can be read, and takes nothing until it is told so."""

    is_full = True

    async def summary(self, *args: Any, **kwargs: Any) -> Any:
        if self.is_full:
            msg = "the disk is full: make room"
            raise StorageFullError(msg)
        return await super().summary(*args, **kwargs)


def full(folder: Path) -> FullDisk:
    return FullDisk("space", folder, llm=None, embedding=None)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("reme", ["nope", 3, {}])
def test_what_is_no_memory_is_refused_at_construction(kind: type, reme: Any) -> None:
    with pytest.raises(ConfigurationError, match="reme: wanted a ReMe, found"):
        kind(reme=reme)


@pytest.mark.parametrize("run_name", ["", " ", "a\0b", "x" * 600])
def test_an_impossible_run_name_is_refused_at_construction(run_name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="run_name"):
        ReMePersonalLongTermMemory(run_name=run_name, reme=full(tmp_path))


@pytest.mark.filterwarnings("ignore:Error recording:UserWarning")
async def test_a_full_disk_is_logged_once_and_told_by_the_tool_and_by_close(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with full(tmp_path) as reme:
        memory = ReMePersonalLongTermMemory(user_name="ann", reme=reme)
        agent = make_agent(ScriptedModel(), long_term_memory=memory)
        with caplog.at_level(logging.INFO):
            for turn in range(5):
                await agent(user(f"turn {turn}"))  # no reply is lost
            answer = await memory.retrieve_from_memory(keywords=["rabbit"])
            assert "Error: what was said last could not be stored: StorageFullError: the disk is full" in str(answer)
            with pytest.raises(StoreError, match=r"not on disk.*the disk is full"):
                await memory.close()
        told = [record for record in caplog.records if "the disk is full" in record.getMessage()]
        assert [record.levelname for record in told] == ["ERROR"]
        reme.is_full = False
        await memory.close()  # it is written now, in its order
        kept = (await reme.find_messages(user_id="ann")).messages
        assert [item.message.text for item in kept if item.message.role == "user"] == [f"turn {n}" for n in range(5)]


@pytest.mark.filterwarnings("ignore:Error recording:UserWarning")
async def test_an_error_of_the_program_is_not_replaced_by_that_of_closing(tmp_path: Path) -> None:
    async with full(tmp_path) as reme:
        memory = ReMePersonalLongTermMemory(user_name="ann", reme=reme)

        async def fail() -> None:
            async with memory:
                await memory.record([user("lost")])
                raise LookupError

        with pytest.raises(LookupError):
            await fail()


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (ReMePersonalLongTermMemory, "Ann keeps a rabbit"),
        (ReMeTaskLongTermMemory, "Add an index to slow queries"),
        (ReMeToolLongTermMemory, CALL),
    ],
)
async def test_a_text_that_is_kept_while_extraction_fails_is_told_in_words_for_a_model(
    kind: type, content: str, tmp_path: Path
) -> None:
    down = [ModelUnavailableError("no answer from qwen at 'http://here': raise `timeout_s`")] * 9
    async with ReMe("space", tmp_path, llm=ScriptedChatModel(down), embedding=None) as reme:
        memory = kind(user_name="ann", reme=reme)
        answer = await memory.record_to_memory(thinking="it helps", content=[content])
        [block] = answer.content
        assert block["text"].startswith("The text is stored as it is, and will be found.")
        assert "timeout_s" not in block["text"]
        assert "Error" not in block["text"]
        messages, tools = await reme.find_messages(user_id="ann"), await reme.list_tools(user_id="ann")
        said = [kept.message.full_text for kept in messages.messages]
        assert any(content in text for text in said) or "web_search" in repr(tools)
        if kind is ReMePersonalLongTermMemory:
            other = kind(user_name="ann", reme=reme)
            assert content in await other.retrieve(Msg("ann", "rabbit", "user"))
        await reme.close(finish_jobs=False)
