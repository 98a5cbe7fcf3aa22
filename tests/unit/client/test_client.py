"""ReMeClient: a program written for `ReMe` runs with it, its errors are the same, and what got lost is sent again."""

from __future__ import annotations

import contextlib
import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from reme_core import ReMe
from reme_core.client import ReMeClient, connection
from reme_core.errors import (
    BlockNotFoundError,
    ConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    ModelUnavailableError,
    PartialFailureError,
    ReMeError,
    StoreUnavailableError,
)
from reme_core.ports import ChatResult
from reme_core.schema import Message, SummaryResult, make_scope
from reme_core.serve import process
from reme_core.serve.access import ForbiddenError, Principal, Right, UnauthorizedError
from reme_core.serve.doors import make_served
from reme_core.serve.guard import GuardRules
from reme_core.serve.service import make_service
from reme_core.testing import HashedEmbedder
from tests.support.served import served

ALL = frozenset(Right)


@contextlib.asynccontextmanager
async def serving(folder, rights=ALL, llm=None):
    service = make_service(ReMe("space", folder, llm=llm, embedding=HashedEmbedder()))
    rules = GuardRules(anonymous=Principal(scope=make_scope("space", "ana"), rights=rights))
    async with process.opened(make_served(service, rules)) as app:
        transport = httpx2.ASGITransport(app=app)
        async with ReMeClient("http://localhost", transport=transport, max_retries=0) as memory:
            yield memory, service


async def program(memory, folder):
    """Use a memory as programs do; return what it says, without what differs between two runs."""
    told = []
    said = [{"role": "user", "content": "I adopted a puppy\u2028called Biscuit"}, ("assistant", "How old is it?")]
    kept = await memory.summary(said, user_id="ana", session_id="s")
    told.append((len(kept.message_ids), kept.session_id))
    found = await memory.retrieve("Biscuit", user_id="ana", limit=3, start_time="2020-01-01", layers=["message"])
    told += [found.text.splitlines()[2:], [hit["memory"] for hit in found["results"]]]
    [first] = await memory.get_messages(kept.message_ids[:1], user_id="ana")
    told.append(first.message.text)
    page = await memory.find_messages(user_id="ana", keyword="puppy", newest_first=True)
    told.append([item.message.text for item in page.messages])
    one = await memory.add_memory("Ana likes tea", user_id="ana", metadata={"a": [1, None]}, valid_from="2024-05")
    two = await memory.update_memory(one.memory_id, user_id="ana", content="Ana likes green tea", expected_revision=1)
    three = await memory.supersede_memory(one.memory_id, "Ana likes coffee", user_id="ana")
    told.append((one.valid_from, two.revision, three.content, type(three).__name__))
    listed = await memory.list_memories(user_id="ana", include_superseded=True)
    told.append([item.content for item in listed.memories])
    told.append([event.operation for event in await memory.history(one.memory_id, user_id="ana")])
    twins = [{"content": "Ana rows, often", "observed_at": "2024-05-01"}, {"content": "Ana rows often"}]
    await memory.add_memories(twins, user_id="ana")
    plan = await memory.evolve(user_id="ana", memory_target="self")
    done = await memory.evolve(user_id="ana", apply=plan)
    told.append(([merge.after.content for merge in done.merges], "Ana rows often" in plan.text))
    told.append((await memory.undo(done.run_id, user_id="ana")).removed)
    many = await memory.add_memories([{"content": "x", "memory_id": "a/b.c ?#%2F漢"}], user_id="ana", run_id="r")
    told.append((await memory.get_memory(many[0].memory_id, user_id="ana")).content)
    told.append((await memory.undo("r", user_id="ana")).removed)
    await memory.delete_memory(three.memory_id, user_id="ana", erase=True)
    made = await memory.set_memory_block("work / now", "roses", user_id="ana", limit_tokens=900)
    await memory.set_memory_block("work / now", "tulips", user_id="ana", expected_revision=made.revision)
    told += [block.text for block in await memory.memory_blocks(user_id="ana")]
    told.append((await memory.get_memory_block("work / now", user_id="ana")).limit_tokens)
    told.append("tulips" in await memory.memory_block_text(user_id="ana"))
    await memory.delete_memory_block("work / now", user_id="ana")
    blocks, cursor = await memory.list_blocks(user_id="ana", limit=1)
    told.append((len(blocks), cursor, (await memory.get_block(blocks[0].block_id, user_id="ana")) == blocks[0]))
    attempt = {"messages": [("user", "Book a flight")], "score": 1, "trajectory_id": "t"}
    told.append(type(await memory.summary_task([attempt], user_id="ana", task_name="travel")).__name__)
    told.append(len(await memory.list_jobs(user_id="ana")))
    told.append((await memory.add_tool_call_results([{"tool_name": "find"}], user_id="ana")).tool_names)
    told.append((await memory.list_tools(user_id="ana")).tools)
    told.append(len((await memory.list_tool_calls(user_id="ana", success=True)).calls))
    check = await memory.check_context([("user", "hello")], max_input_length=2000)
    told.append((check.tokens, len(check.to_keep)))
    kept = await memory.offload_text("a long text", user_id="ana", session_id="s")
    told.append((await memory.reload_context(user_id="ana", reference=kept.reference)).results[0].memory)
    offloads, _ = await memory.list_offloads(user_id="ana", newest_first=True)
    told.append(len(offloads))
    told.append((await memory.stats(user_id="ana")).model_dump(exclude={"waiting_for_vectors"}))
    told.append((await memory.export(folder / "export.jsonl", user_id="ana")).messages)
    await memory.flush()
    for wrong, error in (
        (memory.get_memory("nothing", user_id="ana"), MemoryNotFoundError),
        (memory.get_block("nothing", user_id="ana"), BlockNotFoundError),
        (memory.retrieve("", user_id="ana"), InvalidInputError),
        (
            memory.summary([{"role": "user", "content": "x", "id": first.message.message_id}], user_id="ana"),
            ConflictError,
        ),
        (memory.summary([5], user_id="ana"), InvalidInputError),
        (memory.list_memories(user_id="ana", cursor="?"), InvalidInputError),
    ):
        with pytest.raises(error) as caught:
            await wrong
        told.append((type(caught.value).__name__, getattr(caught.value, "missing", ())))
    told.append((await memory.delete_all_memories(user_id="ana")).messages)
    return told


async def test_a_program_moves_from_file_to_service_by_one_line(tmp_path):
    async with ReMe("space", tmp_path / "file", llm=None, embedding=HashedEmbedder()) as memory:
        by_file = await program(memory, tmp_path)
    async with serving(tmp_path / "service") as (memory, _):
        assert await program(memory, tmp_path) == by_file


def test_its_methods_have_the_signatures_of_the_facade():
    for name, method in inspect.getmembers(ReMeClient, inspect.isfunction):
        if not name.startswith("_") and name not in {"close", "sync"}:
            theirs, ours = inspect.signature(getattr(ReMe, name)), inspect.signature(method)
            assert list(ours.parameters.values())[1:] == list(theirs.parameters.values())[1:], name
            assert ours.return_annotation == theirs.return_annotation, name


def test_scripts_use_it_without_await_and_beside_each_other(tmp_path):
    service = make_service(ReMe("space", tmp_path, llm=None, embedding=None))
    rules = GuardRules(anonymous=Principal(scope=make_scope("space", "ana"), rights=ALL))
    with served(make_served(service, rules)) as url, ReMeClient(url).sync() as memory:
        added = memory.add_memory("Ana likes tea", user_id="ana")
        with ThreadPoolExecutor(4) as threads:
            got = threads.map(lambda _: memory.get_memory(added.memory_id, user_id="ana"), range(8))
            assert set(map(str, got)) == {str(added)}
        assert memory.list_memories(user_id="ana").memories == (added,)
        with pytest.raises(AttributeError):
            memory.backup("x")


async def test_a_shared_memory_block_is_granted_by_a_key_that_may_look_after_the_service(tmp_path):
    async with serving(tmp_path, frozenset({Right.READ, Right.WRITE})) as (memory, service):
        space = await service.memories.of("space")
        await space.set_memory_block("team", "Be kind.", shared=True)
        for call in (memory.grant_memory_block("team", write=True), memory.revoke_memory_block("team")):
            with pytest.raises(ForbiddenError, match="admin"):
                await call
        assert await memory.memory_blocks() == []
    async with serving(tmp_path) as (memory, _):
        assert (await memory.grant_memory_block("team", write=True)).access == "write"
        assert (await memory.set_memory_block("team", "Be brief.")).text == "Be brief."
        await memory.revoke_memory_block("team")
        with pytest.raises(MemoryNotFoundError):
            await memory.get_memory_block("team")


async def test_a_user_who_is_not_the_keys_is_refused_unless_it_may_act_as_others(tmp_path):
    async with serving(tmp_path, frozenset({Right.READ, Right.WRITE})) as (memory, service):
        with pytest.raises(ForbiddenError):
            await memory.add_memory("x", user_id="bob")
        with pytest.raises(ForbiddenError, match="admin"):
            await memory.delete_all_memories(user_id="ana")
        token, key = await service.keys.add(make_scope("space", "proxy"), ["read", "write", "act_as"])
        proxy = ReMeClient("http://localhost", api_key=token, transport=memory._connection.transport)
        assert (await proxy.add_memory("x", user_id="小明")).user_id == "小明"
        await service.keys.revoke(key.key_id)
        with pytest.raises(UnauthorizedError):
            await proxy.stats(user_id="小明")
        with pytest.raises(InvalidInputError, match="user_id"):
            await proxy.stats(user_id="a\nb")
        with pytest.raises(InvalidInputError, match="include_shared"):
            await proxy.stats(shared=True)
    assert token not in repr(proxy)


async def test_what_was_done_before_the_rest_failed_comes_with_the_error(tmp_path):
    async with serving(tmp_path, llm=Failing()) as (memory, _):
        with pytest.raises(PartialFailureError) as caught:
            await memory.summary([("user", "I moved to Lisbon")], user_id="ana")
        assert isinstance(caught.value.done, SummaryResult)
        assert len(caught.value.done.message_ids) == 1
        assert isinstance(caught.value.failures[0], ModelUnavailableError)
        assert caught.value.all_retryable


class Failing:
    """A chat model that is down."""

    async def chat(self, request):
        raise ModelUnavailableError("no connection")


async def test_a_request_that_got_lost_is_sent_again_under_its_key(monkeypatch):
    monkeypatch.setattr(connection, "_WAIT_S", 0)
    sent = []

    def answer(request):
        sent.append(request)
        if len(sent) == 1:
            raise httpx2.ReadError("lost")
        if len(sent) == 2:
            return httpx2.Response(503, json={"title": "StoreUnavailableError", "detail": "busy"})
        return httpx2.Response(200, json={"session_id": "s"})

    async with ReMeClient("http://localhost", transport=httpx2.MockTransport(answer)) as memory:
        await memory.summary([("user", "hello")], user_id="ana")
    assert len({(request.headers["idempotency-key"], request.content) for request in sent}) == 1
    assert len(sent) == 3


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (httpx2.ConnectError("refused"), StoreUnavailableError, "can't be reached"),
        (httpx2.ReadTimeout("slow"), StoreUnavailableError, "ReadTimeout"),
        (httpx2.Response(502, text="<html>bad gateway"), ReMeError, "status 502"),
        (httpx2.Response(404, json={"title": "None of ours", "detail": "gone"}), ReMeError, "gone"),
        (httpx2.Response(403, json=[1]), ForbiddenError, "status 403"),
    ],
)
async def test_what_a_proxy_or_the_network_says_is_an_error_of_ours(monkeypatch, fault, error, words):
    monkeypatch.setattr(connection, "_WAIT_S", 0)

    def answer(request):
        if isinstance(fault, Exception):
            raise fault
        return fault

    async with ReMeClient("http://localhost", transport=httpx2.MockTransport(answer)) as memory:
        with pytest.raises(error, match=words):
            await memory.stats(user_id="ana")


async def test_an_export_that_breaks_off_leaves_no_file(tmp_path):
    async def broken():
        yield b'{"kind": "header"}\n'
        raise httpx2.ReadError("lost")

    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=broken()))
    async with ReMeClient("http://localhost", transport=transport) as memory:
        with pytest.raises(StoreUnavailableError):
            await memory.export(tmp_path / "export.jsonl", user_id="ana")
    assert list(tmp_path.iterdir()) == []


async def test_talking_hands_the_answer_to_on_text(tmp_path):
    pieces = []
    async with serving(tmp_path, llm=Answering()) as (memory, _):
        reply = await memory.chat("hello", user_id="ana", on_text=pieces.append)
    assert pieces == [reply.text]


class Answering:
    """A chat model that says one thing."""

    async def chat(self, request):
        return ChatResult(message=Message(role="assistant", content="Hello Ana"))


def test_it_loads_no_server():
    code = "import sys, reme_core.client; print(*sys.modules)"
    environment = {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert not {"starlette", "uvicorn", "mcp", "openai"} & {name.partition(".")[0] for name in done.stdout.split()}
