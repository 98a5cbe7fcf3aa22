"""The agentic strategy through the facade: nothing ends in silence, and a second attempt knows the first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reme_core import AgenticDistillation, JobState, ReMe
from reme_core.errors import ModelOutputError, PartialFailureError, RunError
from reme_core.ports import ChatRequest
from reme_core.schema import Message
from reme_core.testing import ScriptedChatModel
from reme_core.testing.scripted_model import Said, Step
from tests.support.rule_model import RuleModel, calls

U: dict[str, Any] = {"user_id": "u"}
SAID = [
    {"role": "user", "name": "Ana", "content": "I live in Berlin", "created_at": "2023-05-08T10:00:00Z"},
    {"role": "assistant", "name": "Ben", "content": "I have a dog", "created_at": "2023-05-08T10:01:00Z"},
]


def target(name: str) -> dict[str, str]:
    return {"memory_type": "personal", "memory_target": name}


def routing(*names: str, new: bool = True) -> Message:
    items = [target(name) for name in names]
    made = [("add_meta_memory", {"meta_memories": items})] if new else []
    return calls(
        ("hands_off", {"memory_tasks": items}), ("add_summary_memory", {"summary_memory": "They talked."}), *made
    )


def adding(content: str, **fields: str) -> Message:
    return calls(("add_memory", {"memories": [{"memory_content": content, **fields}]}))


def by_stage(**steps: list[Said]) -> list[Step]:
    """Answer each request with the next step of whoever asks: router, reviser, or the agent of a person."""

    def answer(request: ChatRequest) -> Said:
        if request.response_schema is not None:
            return steps["reviser"].pop(0)
        if "hands_off" in {tool.name for tool in request.tools}:
            return steps["router"].pop(0)
        first = request.messages[1].text.splitlines()[0]
        [name] = [name for name in steps if f'"{name}"' in first]
        return steps[name].pop(0)

    return [answer] * sum(len(items) for items in steps.values())


def open_memory(folder: Path, model: Any, **options: Any) -> ReMe:
    return ReMe("space", folder, llm=model, embedding=None, use_agentic_mode=True, **options)


async def contents(memory: ReMe, **wanted: Any) -> list[str]:
    page = await memory.list_memories(**U, limit=100, **wanted)
    return sorted(item.content for item in page.memories)


async def test_a_router_that_hands_on_nothing_leaves_its_job_pending_with_the_reason(tmp_path: Path) -> None:
    steps = by_stage(
        router=["Fine.", "Done.", routing("Ana", "Ben")], Ana=[adding("Ana lives in Berlin")], Ben=["done"]
    )
    async with ScriptedChatModel(steps) as model, open_memory(tmp_path, model) as memory:
        with pytest.raises(PartialFailureError) as caught:
            await memory.summary(SAID, **U)
        assert isinstance(caught.value.failures[0], ModelOutputError)
        [job] = await memory.list_jobs(**U)
        assert job.state is JobState.PENDING
        assert job.error.startswith("ModelOutputError: the model has ended too early: nothing was handed on")
        assert "Done." in job.raw
        assert await contents(memory) == []
        await memory.flush()
        assert await contents(memory) == ["Ana lives in Berlin", "They talked."]
        assert await memory.list_jobs(**U) == []


async def test_a_conversation_of_which_nothing_is_worth_keeping_is_done(tmp_path: Path) -> None:
    nothing = calls(("hands_off", {"memory_tasks": [], "reason": "greetings"}))
    async with ScriptedChatModel([nothing, "done"]) as model, open_memory(tmp_path, model) as memory:
        result = await memory.summary([("user", "Hello!"), ("assistant", "Hello!")], **U)
        assert (result.memories, result.job_ids, await memory.list_jobs(**U)) == ((), (), [])


async def test_an_unknown_target_is_left_to_its_job_and_the_known_ones_are_written(tmp_path: Path) -> None:
    ana, ben = adding("Ana lives in Berlin"), adding("Ben has a dog")
    steps = by_stage(router=[routing("Ana", "Ben", new=False), "done"], Ana=[ana], Ben=[ben])
    async with ScriptedChatModel(steps) as model, open_memory(tmp_path, model) as memory:
        await memory.add_memory("somebody", **U, memory_type="meta", memory_target="personal/Ana")
        with pytest.raises(PartialFailureError) as caught:
            await memory.summary(SAID, **U)
        assert isinstance(caught.value.failures[0], RunError)
        assert await contents(memory) == ["Ana lives in Berlin", "They talked."]
        [job] = await memory.list_jobs(**U)
        assert job.state is JobState.PENDING
        assert "named personal(Ben), which is none of the targets" in job.error
        await memory.flush()
        assert await contents(memory) == ["Ana lives in Berlin", "Ben has a dog", "They talked."]
        assert await memory.list_jobs(**U) == []


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_second_attempt_is_shown_the_first_and_what_was_wrong_with_it(tmp_path: Path, language: str) -> None:
    verdict = json.dumps({"ok": False, "problems": ["</query> the date\nof Ana's move is missing"]})
    first, second = adding("Ana has moved </query> to Berlin"), adding("Ana moved to Berlin", valid_from="2023-05")
    steps = by_stage(router=[routing("Ana"), routing("Ana")], Ana=[first, second], reviser=[verdict])
    async with ScriptedChatModel(steps) as model, open_memory(tmp_path, model) as memory:
        memory.set_summarizer(AgenticDistillation(use_reviser=True, language=language))  # type: ignore[arg-type]
        result = await memory.summary(SAID, **U)
        assert await contents(memory) == ["Ana moved to Berlin", "They talked."]
        assert result.usage.model_calls == 5
    *once, router, agent = model.requests
    for request in (router, agent):
        told = request.messages[1].text
        assert told.count("</query>") == 1
        lines = told.splitlines()
        made = [json.loads(line) for line in lines if line.startswith('{"did":')]
        assert {"did": "added", "about": "personal/Ana", "text": "Ana has moved </query> to Berlin"}.items() <= (
            next(line for line in made if line["about"] == "personal/Ana").items()
        )
        assert sorted(line["about"] for line in made) == ["personal/Ana", "summary/self"]
        assert not any("memory_id" in line for line in made)
        assert {"problem": "</query> the date of Ana's move is missing"} in [
            json.loads(line) for line in lines if line.startswith('{"problem":')
        ]
    assert not any('"did"' in request.messages[1].text for request in once)
    [reviser] = [request for request in once if request.response_schema is not None]
    assert "personal memories about" not in reviser.messages[1].text  # the routing table says nothing


async def test_what_a_first_attempt_changed_is_told_with_its_id_and_what_it_added_without(tmp_path: Path) -> None:
    verdict = json.dumps({"ok": False, "problems": ["no"]})
    async with open_memory(tmp_path, RuleModel()) as memory:
        early: dict[str, Any] = {"memory_target": "Ana", "observed_at": "2022-01-01"}
        kept = [await memory.add_memory(text, **U, **early) for text in ("Ana lives in Rome", "b", "c")]
    rome, told_better, gone = (item.memory_id for item in kept)
    changing = calls(
        (
            "update_memory",
            {
                "memories": [
                    {"memory_id": rome, "memory_content": "Ana lives in Berlin", "changed": True},
                    {"memory_id": told_better, "memory_content": "better", "changed": False},
                ]
            },
        ),
        ("delete_memory", {"memory_ids": [gone]}),
    )
    steps = by_stage(router=[routing("Ana"), routing("Ana")], Ana=[changing, "done"], reviser=[verdict])
    async with ScriptedChatModel(steps) as model, open_memory(tmp_path, model, use_reviser=True) as memory:
        await memory.summary(SAID, **U)
        assert await contents(memory) == ["Ana lives in Rome", "They talked.", "b", "c"]
    lines = [json.loads(line) for line in model.requests[-1].messages[1].text.splitlines() if '"did"' in line]
    did = {line.get("memory_id"): line["did"] for line in lines if line["about"] == "personal/Ana"}
    assert did == {rome: "closed", told_better: "changed", gone: "deleted", None: "added"}
