"""Make the stores in reme.zip by ReMe itself, each version in an environment of its own.

    python make_reme.py 0.2 FOLDER    # reme-ai 0.2.0.6, flowllm 0.2.0.10, chromadb 1.5.9
    python make_reme.py 0.3 FOLDER    # reme-ai 0.3.1.10, agentscope 1.0.20, mcp 1.25.0, fastmcp 2.14.1, greenlet
    python make_reme.py 0.4 FOLDER    # reme-ai[as] 0.4.2.0
    (cd FOLDER && zip -r reme.zip . -x '*.bin' -x '*/metadata/*')

Embeddings are digests, told by an endpoint of this script; no model is asked. Files of vectors are left out of the zip.
"""

import asyncio
import hashlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace


def embedded(text):
    return [byte / 255 for byte in hashlib.sha256(str(text).encode()).digest()[:8]]


class Embeddings(BaseHTTPRequestHandler):
    """Answers as OpenAI's endpoint does."""

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        texts = texts if isinstance(texts, list) else [texts]
        data = [{"object": "embedding", "index": n, "embedding": embedded(text)} for n, text in enumerate(texts)]
        told = {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def make_02(out):
    from flowllm.core.vector_store import ChromaVectorStore, LocalVectorStore
    from reme_ai.schema.memory import PersonalMemory, TaskMemory, ToolCallResult, ToolMemory, vector_node_to_memory

    class Model:
        def get_node_embeddings(self, nodes):
            for node in nodes if isinstance(nodes, list) else [nodes]:
                node.vector = embedded(node.content)
            return nodes

    told = {"workspace_id": "team", "author": "qwen-plus"}
    told |= {"time_created": "2025-11-05 08:00:00", "time_modified": "2025-11-06 09:00:00"}
    call = ToolCallResult(
        create_time="2025-11-05 07:00:00", tool_name="grep", input={"pattern": "a.b"}, output="none", success=False
    )
    memories = [
        TaskMemory(
            memory_id="t1",
            when_to_use="before a release",
            content="Run the linter before the tests",
            score=0.9,
            metadata={"tags": ["ci"], "freq": 3, "utility": 2},
            **told,
        ),
        PersonalMemory(
            memory_id="p1",
            when_to_use="where alice lives",
            content="alice lives in Porto",
            target="alice",
            reflection_subject="home",
            **told,
        ),
        ToolMemory(
            memory_id="g1", when_to_use="grep", content="use -F for plain texts", tool_call_results=[call], **told
        ),
    ]
    local = LocalVectorStore(store_dir=str(out / "reme02_local"), embedding_model=Model())
    local.insert([memory.to_vector_node() for memory in memories], workspace_id="team")
    local.dump_workspace("team")
    dumped = lambda node: vector_node_to_memory(node).model_dump()  # noqa: E731  # as VectorStoreActionOp does
    local.dump_workspace("team", path=str(out / "reme02_library"), callback_fn=dumped)
    chroma = ChromaVectorStore(store_dir=str(out / "reme02_chroma"), embedding_model=Model())
    chroma.insert([memory.to_vector_node() for memory in memories[:2]], workspace_id="team")  # it takes no lists


async def make_03(out, backend):
    from reme import ReMe
    from reme.memory.vector_tools import AddHistory
    from reme.memory.vector_tools.profiles.profile_handler import ProfileHandler

    server = ThreadingHTTPServer(("127.0.0.1", 0), Embeddings)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    reme = ReMe(
        working_dir=str(out / f"reme03_{backend}"),
        llm_api_key="x",
        llm_base_url=url,
        embedding_api_key="x",
        embedding_base_url=url,
        enable_logo=False,
        log_to_console=False,
        log_to_file=False,
        default_embedding_model_config={"backend": "openai", "model_name": "m", "dimensions": 8},
        default_vector_store_config={"backend": backend, "collection_name": "reme"},
    )
    await reme.start()
    said = [
        {"role": "user", "name": "alice", "content": "I moved to Porto.", "time_created": "2026-03-01 09:30:00"},
        {"role": "assistant", "content": "Noted.", "time_created": "2026-03-01 09:30:05"},
    ]
    told = await AddHistory().call(author="reme", messages=said, description="", service_context=reme.service_context)
    await reme.add_memory("Prefers concise code", user_name="alice", message_time="2026-02-28 10:00:00")
    await reme.add_memory(
        "Lives in Porto",
        user_name="alice",
        when_to_use="where alice lives",
        message_time="2026-03-01 09:30:00",
        ref_memory_id=told.rpartition(" ")[2],
        score=0.8,
        tags=["home", "city"],
    )
    await reme.add_memory("Bob drinks tea", user_name="bob")
    await reme.add_memory("Run the linter before the tests", task_name="release", when_to_use="before a release")
    await reme.add_memory("grep: use -F for plain texts", tool_name="grep")
    profile = ProfileHandler(profile_path=reme.profile_dir, memory_target="alice")
    profile.add(message_time="2026-03-01 09:30:00", profile_key="city", profile_value="Porto")
    await reme.close()


async def make_04(out):
    from reme import ReMe
    from reme.config import resolve_app_config
    from reme.steps.evolve.auto_memory import AutoMemoryStep

    workspace = out / "reme04"
    app = ReMe(**resolve_app_config(log_config=False, workspace_dir=str(workspace)))
    await app.start()
    await app.run_job(
        "daily_write",
        name="moving-to-porto",
        description="Alice moves to Porto and wants concise code.",
        session_id="s1",
        date="2026-03-01",
        content="# Moving\n\nAlice moved to Porto on 1 March.\n\n"
        "- Prefers concise code\n- Works with Bob on [[digest/wiki/reme.md]]\n",
    )
    source = "## Sources\n- She said so in [[daily/2026-03-01/moving-to-porto.md|the note]].\n"
    for path, name, about, content in (
        ("personal/alice", "Alice", "Who Alice is", f"Alice lives in Porto.\n\n{source}"),
        (
            "procedure/release",
            "Release",
            "How to release",
            f"Trigger: before a release.\n\n1. Run the linter\n2. Run the tests\n\n{source}",
        ),
        ("wiki/reme", "ReMe", "A memory library", "ReMe keeps memory as files.\n"),
    ):
        await app.run_job("write", path=f"digest/{path}", name=name, description=about, content=content)
    picture = {"type": "url", "url": "https://example.org/porto.png", "media_type": "image/png"}
    said = [
        ("m1", "user", "2026-03-01T09:30:00+00:00", "I moved to Porto today."),
        (
            "m2",
            "assistant",
            "2026-03-01T09:30:05+00:00",
            [
                {"type": "thinking", "thinking": "She moved."},
                {"type": "text", "text": "Noted: Porto."},
                {"type": "tool_call", "id": "c1", "name": "write", "input": '{"path": "a"}'},
            ],
        ),
        (
            "m3",
            "user",
            "2026-03-01T09:31:00+00:00",
            [{"type": "text", "text": "Here is a picture."}, {"type": "data", "source": picture}],
        ),
    ]
    messages = [
        AutoMemoryStep._to_msg({"id": key, "name": role, "role": role, "created_at": at, "content": content})
        for key, role, at, content in said
    ]
    where = workspace / "session" / "dialog"
    step = SimpleNamespace(
        _session_path=lambda key: where / f"{key}.jsonl",
        logger=SimpleNamespace(info=lambda *args: None),
        name="auto_memory",
    )
    await AutoMemoryStep._save_session_messages(step, "s1", messages)
    await app.close()


if __name__ == "__main__":
    version, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    if version == "0.2":
        make_02(folder)
    elif version == "0.3":
        for kind in ("local", "chroma", "qdrant"):
            asyncio.run(make_03(folder, kind))
    else:
        asyncio.run(make_04(folder))
