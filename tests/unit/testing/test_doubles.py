"""The test doubles that ship with the project."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from reme_core.errors import ConfigurationError, ModelOutputError, ModelUnavailableError
from reme_core.ports import ChatRequest, ChatResult, ResponseSchema
from reme_core.schema import Message, TextBlock, ToolCallBlock, Usage
from reme_core.testing import FixedClock, HashedEmbedder, ScriptedChatModel, SequentialIds
from reme_core.testing.scripted_model import Step


def asking(text: str = "Hello", schema: ResponseSchema | None = None) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=(TextBlock(text=text),)),), response_schema=schema)


def said(text: str) -> Message:
    return Message(role="assistant", content=(TextBlock(text=text),))


async def test_steps_of_every_kind_are_taken_in_order() -> None:
    whole = ChatResult(message=said("whole"), usage=Usage(model_calls=7), finish_reason="length")

    async def later(request: ChatRequest) -> str:
        return f"later: {request.messages[0].text}"

    steps: list[Step] = [
        "text",
        said("message"),
        whole,
        lambda request: said(request.messages[0].text),
        later,
        ModelUnavailableError("busy"),
        lambda request: ModelUnavailableError("busy too"),
    ]
    async with ScriptedChatModel(steps) as model:
        assert [(await model.chat(asking("hi"))).message.text for _ in range(2)] == ["text", "message"]
        assert await model.chat(asking()) is whole
        assert [(await model.chat(asking("hi"))).message.text for _ in range(2)] == ["hi", "later: hi"]
        for _ in range(2):
            with pytest.raises(ModelUnavailableError, match="busy"):
                await model.chat(asking())
    assert len(model.requests) == 7


async def test_a_call_too_many_fails_at_once_and_at_the_end() -> None:
    model = ScriptedChatModel(["one"])
    await model.chat(asking())
    with pytest.raises(AssertionError, match="call 2 of a script of 1 steps; its last message is 'Surprise'"):
        await model.chat(asking("Surprise"))
    with pytest.raises(AssertionError, match="1 calls too many"):
        model.assert_done()


async def test_steps_left_over_fail_at_the_end() -> None:
    with pytest.raises(AssertionError, match="2 steps left over"):
        async with ScriptedChatModel(["one", "two", "three"]) as model:
            await model.chat(asking())
    with pytest.raises(AssertionError, match="1 steps left over"), ScriptedChatModel(["one"]):
        pass


def test_an_error_in_the_block_is_not_hidden_by_steps_left_over() -> None:
    with pytest.raises(KeyError), ScriptedChatModel(["one"]):
        raise KeyError


async def test_json_is_parsed_as_a_real_model_would_have_it() -> None:
    schema = ResponseSchema(name="a", schema={"type": "object"})
    model = ScriptedChatModel(['```json\n{"a": 1}\n```', "no"])
    assert (await model.chat(asking(schema=schema))).parsed == {"a": 1}
    with pytest.raises(ModelOutputError):
        await model.chat(asking(schema=schema))


async def test_usage_is_believable_and_the_same_in_each_run() -> None:
    usages = [(await ScriptedChatModel(["A short answer."]).chat(asking("word " * 100))).usage for _ in range(2)]
    assert usages[0] == usages[1]
    assert usages[0].model_calls == 1
    assert 90 < usages[0].prompt_tokens < 200
    assert 1 < usages[0].completion_tokens < 10
    model = ScriptedChatModel(["one", "two"])
    total = (await model.chat(asking())).usage + (await model.chat(asking())).usage
    assert model.usage == total


async def test_a_message_with_tool_calls_ends_with_them() -> None:
    calls = Message(role="assistant", content=(ToolCallBlock(call_id="c", name="t"),))
    assert (await ScriptedChatModel([calls]).chat(asking())).finish_reason == "tool_calls"


async def test_a_step_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="not int"):
        await ScriptedChatModel([lambda request: 3]).chat(asking())  # type: ignore[list-item,return-value]


async def test_near_texts_have_near_vectors_in_many_languages() -> None:
    pairs = [
        ("Alice moved to Lisbon", "Where did Alice move to?", "The disk of the server is full"),
        ("我下周搬到里斯本", "她什么时候搬到里斯本", "服务器的磁盘满了"),
        ("来週リスボンに引っ越します", "リスボンに引っ越すのはいつ", "サーバーのディスクがいっぱいです"),
        ("다음 주에 리스본으로 이사해요", "리스본으로 언제 이사해요", "서버 디스크가 가득 찼습니다"),
    ]
    for text, near, far in pairs:
        vectors = await HashedEmbedder().embed([text, near, far])
        assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.1


async def test_vectors_are_the_same_in_another_process() -> None:
    code = (
        "import asyncio; from reme_core.testing import HashedEmbedder;"
        "print(asyncio.run(HashedEmbedder().embed(['Alice 北京'])).tobytes().hex())"
    )
    for seed in ("1", "2"):
        done = subprocess.run(  # noqa: ASYNC221  # nothing else has to run
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        assert done.stdout.strip() == (await HashedEmbedder().embed(["Alice 北京"])).tobytes().hex()


async def test_the_embedder_records_its_calls_and_fails_as_told() -> None:
    embedder = HashedEmbedder(failures=[None, ModelUnavailableError("busy")])
    await embedder.embed(["a"])
    with pytest.raises(ModelUnavailableError):
        await embedder.embed(["b"])
    await embedder.embed(["c", "d"])
    await embedder.embed([])
    assert embedder.calls == [("a",), ("b",), ("c", "d")]
    assert embedder.usage.embedding_calls == 3


def test_a_dimension_that_tells_nothing_apart_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="8 or more"):
        HashedEmbedder(4)


def test_vectors_keep_unit_norm_for_odd_texts() -> None:
    texts = ["", " ", "\ud83d", "\0", "👩‍👩‍👧", "!", "a" * 100_000]
    vectors = asyncio.run(HashedEmbedder(8).embed(texts))
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_the_clock_stands_until_it_is_moved() -> None:
    clock = FixedClock("2026-03-01T10:00:00+01:00")
    assert clock.now() == clock.now() == datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert clock.advance(timedelta(days=1), seconds=1.5) == datetime(2026, 3, 2, 9, 0, 1, 500_000, tzinfo=UTC)
    clock.set(datetime(2027, 1, 1))  # noqa: DTZ001  # naive times are taken as UTC
    assert clock.now() == datetime(2027, 1, 1, tzinfo=UTC)
    assert FixedClock().now().tzinfo is UTC


def test_ids_count_up() -> None:
    ids = SequentialIds("memory")
    assert [ids(), ids()] == ["memory-1", "memory-2"]
    assert SequentialIds()() == "id-1"
