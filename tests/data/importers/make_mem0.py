"""Make the stores in mem0.zip by mem0 itself: python make_mem0.py mem0.zip

Written by mem0ai 2.2.1 with qdrant-client 1.20.0, faiss-cpu 1.15.1 and chromadb 1.5.9, in an environment of its own;
the embedding is a hash, and the model's answers are written here. The clock stood at 2025-03-04 (libfaketime), so that
it is behind that of whoever reads them.
"""

import hashlib
import json
import os
import sys
import tempfile
import zipfile
from pathlib import Path

os.environ["MEM0_TELEMETRY"] = "False"
OUT = Path(tempfile.mkdtemp()).resolve()
os.environ["MEM0_DIR"] = str(OUT)

from langchain_core.embeddings import Embeddings  # noqa: E402
from langchain_core.language_models.fake_chat_models import FakeListChatModel  # noqa: E402
from mem0 import Memory  # noqa: E402

LEARNT = json.dumps({"memory": [{"id": "0", "text": "Ann has a dog called Rex", "attributed_to": "user"}]})


class Hashed(Embeddings):
    """Four numbers of a digest."""

    def embed_query(self, text: str) -> list[float]:
        return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:4]]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def fill(memory: Memory) -> None:
    said = [{"role": "user", "content": "I moved to Porto"}, {"role": "assistant", "content": "Welcome to Porto!"}]
    rows = memory.add(said, user_id="ann", infer=False, metadata={"topic": "home"})["results"]
    memory.add("Rows on Sundays", user_id="ann", run_id="r1", infer=False)
    memory.add("Bob swims", user_id="bob", agent_id="coach", infer=False)
    memory.add("The agent speaks German", agent_id="coach", infer=False)
    gone = memory.add("Owns a cat", user_id="ann", infer=False)["results"]
    memory.add([{"role": "user", "content": "My dog is called Rex"}], user_id="ann", run_id="r2")
    memory.update(rows[0]["id"], text="Lives in Porto since May")
    memory.delete(gone[0]["id"])
    (OUT / "get_all.json").write_text(json.dumps(memory.get_all(filters={"user_id": "ann"})), encoding="utf-8")


def main(target: str) -> None:
    for kind, config in {
        "qdrant": {"path": str(OUT / "qdrant" / "store"), "on_disk": True, "embedding_model_dims": 4},
        "faiss": {"path": str(OUT / "faiss" / "store"), "embedding_model_dims": 4},
        "chroma": {"path": str(OUT / "chroma" / "store")},
    }.items():
        (OUT / kind).mkdir()
        fill(
            Memory.from_config(
                {
                    "vector_store": {"provider": kind, "config": {"collection_name": "mem0", **config}},
                    "embedder": {"provider": "langchain", "config": {"model": Hashed(), "embedding_dims": 4}},
                    "llm": {"provider": "langchain", "config": {"model": FakeListChatModel(responses=[LEARNT])}},
                    "history_db_path": str(OUT / kind / "history.db"),
                }
            )
        )
    with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as packed:
        for path in sorted(OUT.rglob("*")):
            if path.is_file() and path.suffix not in {".bin", ".lock"} and path.name not in {"config.json", ".lock"}:
                packed.write(path, path.relative_to(OUT))


main(sys.argv[1])
