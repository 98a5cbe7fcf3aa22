"""The client file for OmniMemEval, driven as its harness drives a client (`scripts/`, commit 45bf1030)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CLIENT = Path(__file__).parents[3] / "benchmarks" / "omnimemeval_reme_client.py"
TALK = (("Ann", "I adopted a dog named Biscuit yesterday."), ("Ben", "Lovely! I still paint in the evenings."))


@pytest.fixture
def client_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setenv("REME_DIR", str(tmp_path))
    spec = spec_from_file_location("reme_client", CLIENT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    module._memory().close()


def session(speaker_a: str, iso: str = "2023-05-08T13:56:00+00:00") -> list[dict[str, str]]:
    """Messages as locomo_ingestion.py makes them for one of two speakers, with `inject_time` of an unknown library."""
    return [
        {
            "role": "user" if name == speaker_a else "assistant",
            "name": name,
            "content": f"{name}: {text}",
            "chat_time": iso,
        }
        for name, text in TALK
    ]


def test_each_speaker_finds_the_session_with_its_day_and_speaker(client_module: ModuleType) -> None:
    client = client_module.ReMeClient()
    client.add(session("Ann"), "locomo_exp_user_0_speaker_a_v1")
    client.add(session("Ben"), "locomo_exp_user_0_speaker_b_v1")
    for user in ("locomo_exp_user_0_speaker_a_v1", "locomo_exp_user_0_speaker_b_v1"):
        found = client.search("What is the dog called?", user, 1)
        assert "(2023-05-08) Ann: I adopted a dog named Biscuit" in found
        assert "paint" not in found
        assert "Ann: Ann:" not in found


def test_session_handed_in_again_is_kept_once_and_a_deleted_user_has_nothing(client_module: ModuleType) -> None:
    client = client_module.ReMeClient()
    client.delete_user("u")
    for _ in range(2):
        client.add(session("Ann"), "u", session_key="session_1", timestamp="x")
    assert client.search(query="dog Biscuit", user_id="u", top_k=5).count("Biscuit") == 1
    assert client.search("dog Biscuit", "another", 5) == ""
    client.delete_user("u")
    assert client.search("dog Biscuit", "u", 5) == ""


def test_messages_of_longmemeval_have_neither_name_nor_speaker_in_the_text(client_module: ModuleType) -> None:
    client = client_module.ReMeClient()
    client.add([{"role": "user", "content": "My flight: BA117.", "chat_time": "2023-05-20T02:21:00+00:00"}], "u")
    assert "(2023-05-20) user: My flight: BA117." in client.search("flight", "u", 5)
    client.add([], "u")


def test_clients_of_several_threads_share_one_memory(client_module: ModuleType) -> None:
    """`AddCallTimer` of the harness sets attributes on a client, and each worker makes one of its own."""
    opened: list[Any] = []
    threads = [threading.Thread(target=lambda: opened.append(client_module._memory())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, opened))) == 1
    client = client_module.ReMeClient()
    client.add = lambda *given, **told: None


def test_messages_without_text_and_halves_of_emojis_lose_no_session(client_module: ModuleType) -> None:
    client = client_module.ReMeClient()
    blank = [{"role": "assistant", "name": "Ben", "content": "Ben: "}, {"role": "user", "content": ""}]
    client.add([*blank, {"role": "user", "content": "My cat \ud83d is Tom."}], "u")
    client.add(blank, "u")
    assert "My cat ? is Tom." in client.search("cat \ud83d", "u", 5)


def test_process_that_ends_leaves_nothing_to_do_and_says_nothing(tmp_path: Path) -> None:
    """The harness ingests in one process and searches in another, and closes no client."""
    script = tmp_path / "ingest.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(CLIENT.parent)!r})\n"
        "from omnimemeval_reme_client import ReMeClient\n"
        "ReMeClient().add([{'role': 'user', 'content': 'The dog is Biscuit.'}], 'u')\n"
    )
    environment = {"REME_DIR": str(tmp_path / "m"), "PATH": os.environ["PATH"], "PYTHONPATH": str(CLIENT.parents[1])}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
