"""Spans of OpenTelemetry with the real SDK: operations of memory and calls of models, and no text unless asked for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from reme_core import ReMe
from reme_core.errors import MemoryNotFoundError, ModelRejectedError
from reme_core.models import OpenAIChat
from reme_core.ports import ChatRequest
from reme_core.schema import Message
from tests.support.openai_server import KEY, Completion, OpenAIServer, Status

trace = pytest.importorskip("opentelemetry.trace", reason="needs opentelemetry-sdk")
pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")


@pytest.fixture
def spans(monkeypatch):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


async def work(memory):
    said = await memory.add_memory("Ana drinks tea", user_id="ana")
    await memory.retrieve("What does Ana drink?", user_id="ana")
    await memory.update_memory(said.memory_id, user_id="ana", content="Ana drinks black tea")
    await memory.delete_memory(said.memory_id, user_id="ana")
    with pytest.raises(MemoryNotFoundError):
        await memory.delete_memory("gone", user_id="ana")


async def test_each_operation_has_a_span_without_texts(tmp_path, spans):
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await work(memory)
    told = [(span.name, dict(span.attributes)) for span in spans.get_finished_spans()]
    assert [name for name, _ in told] == [
        "upsert_memory",
        "search_memory",
        "update_memory",
        "delete_memory",
        "delete_memory",
    ]
    assert all(attributes["gen_ai.operation.name"] == name for name, attributes in told)
    assert {attributes["gen_ai.memory.store.id"] for _, attributes in told} == {"space"}
    assert [attributes.get("gen_ai.memory.record.count") for _, attributes in told] == [1, 1, 1, 1, None]
    assert told[-1][1]["error.type"] == "MemoryNotFoundError"
    assert "tea" not in str(told)
    assert not any(span.events for span in spans.get_finished_spans())


async def test_tasks_and_the_end_of_a_user_have_spans_too(tmp_path, spans):
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.add_memory("Save first", user_id="ana", memory_type="procedural", memory_target="edit")
        await memory.summary_task([{"messages": [("user", "Edit it")], "score": 1.0}], user_id="ana", task_name="edit")
        await memory.retrieve_task_memory("Save what is edited", user_id="ana")
        await memory.retrieve_tool_memory("editor", user_id="ana")
        await memory.forget_memories(user_id="ana")
        await memory.delete_all_memories(user_id="ana")
    told = [(span.name, span.attributes["gen_ai.memory.record.count"]) for span in spans.get_finished_spans()]
    assert told[:3] == [("upsert_memory", 1), ("upsert_memory", 0), ("search_memory", 1)]
    assert told[4:] == [("delete_memory", 0), ("delete_memory", 1)]


async def test_texts_stand_in_spans_where_the_application_says_so(tmp_path, spans, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await work(memory)
    _, search, *_ = spans.get_finished_spans()
    assert search.attributes["gen_ai.memory.query.text"] == "What does Ana drink?"
    [record] = json.loads(search.attributes["gen_ai.memory.records"])
    assert record["content"] == "Ana drinks tea"
    assert 0 < record["score"] <= 1


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_call_of_a_model_tells_its_tokens_and_its_failure(spans, is_stream):
    request = ChatRequest(messages=[Message(role="user", content="Hello, secret")])
    with OpenAIServer() as server:
        server.replies(Completion(text="Hi."), Status(401, "secret words"))
        async with OpenAIChat("m", base_url=server.base_url, api_key=KEY, max_retries=0) as model:
            if is_stream:
                pieces = [piece async for piece in model.stream(request)]
                assert pieces
            else:
                await model.chat(request)
            with pytest.raises(ModelRejectedError):
                await model.chat(request)
        usage = server.prompt_tokens, server.completion_tokens
    done, failed = spans.get_finished_spans()
    assert done.name == "chat m"
    assert (done.attributes["gen_ai.usage.input_tokens"], done.attributes["gen_ai.usage.output_tokens"]) == usage
    assert failed.attributes["error.type"] == "ModelRejectedError"
    assert "secret" not in str([dict(span.attributes) for span in (done, failed)])


def test_opentelemetry_is_not_imported_by_ours():
    modules = "reme_core, reme_core.facade.reme, reme_core.models.openai_chat"
    code = f"import sys, {modules}; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
