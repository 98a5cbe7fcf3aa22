"""Every example runs as a program of its own, without a key, and the demo catches a wrong answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PRINTED = {
    "chat.py": "all checks passed",
    "demo.py": "every question was answered within its first 3 results; nobody else saw anything",
    "export_import.py": "the text is no longer in the old file",
    "langgraph_agent.py": "ok  known in the next session, unknown to another user",
    "langgraph_service.py": "ok  8 users at once, each was shown the one code that is theirs",
    "langgraph_shared_store.py": "left:     ['Ann drinks sencha'] | Bob's: []",
    "langgraph_store.py": "['Bring back the drill', 'The bins go out on Tuesday']",
    "learning_agent.py": "ok  memory solves more at the first try",
    "long_session.py": "ok  every question about the past was answered",
    "own_agent.py": "all checks passed",
    "own_models.py": "no word in common, yet found: Bo the hamster is afraid of thunder",
    "own_tool.py": "all checks passed",
    "quickstart.py": "I moved to Lisbon in May.",
    "sync_script.py": "1 after taking the run back",
    "two_processes.py": "the other process wrote, this one finds: The cat is called Miso",
    "with_a_model.py": "ok  in 2024 she lived in Berlin",
}


# So many turns show the same in a tenth of the time.
ARGUMENTS = {"long_session.py": ("40",)}


def run(path: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REME_", "OPENAI_"))}
    environment = {**kept, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"}
    command = [sys.executable, "-W", "error", str(path), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_without_a_key_and_leaves_nothing_behind(path: Path, tmp_path: Path) -> None:
    done = run(path, tmp_path, *ARGUMENTS.get(path.name, ()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert PRINTED[path.name] in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_the_demo_fails_when_an_answer_is_not_found(tmp_path: Path) -> None:
    story = json.loads((ROOT / "examples" / "demo_conversation.json").read_text(encoding="utf-8"))
    story["questions"] = [{"question": "Which books smell of onions?", "evidence": ["no-such-message"]}]
    (tmp_path / "demo_conversation.json").write_text(json.dumps(story), encoding="utf-8")
    (tmp_path / "demo.py").write_bytes((ROOT / "examples" / "demo.py").read_bytes())
    done = run(tmp_path / "demo.py", tmp_path)
    assert done.returncode == 1
    assert "NOT FOUND" in done.stdout


def test_the_conversation_of_the_demo_is_dated_and_labelled_correctly() -> None:
    story = json.loads((ROOT / "examples" / "demo_conversation.json").read_text(encoding="utf-8"))
    messages = [message for session in story["sessions"] for message in session["messages"]]
    ids = [message["message_id"] for message in messages]
    times = [datetime.fromisoformat(message["created_at"]) for message in messages]
    assert len(set(ids)) == len(ids) >= 60
    assert times == sorted(times)
    assert (times[-1] - times[0]).days > 60
    assert all(set(question["evidence"]) <= set(ids) for question in story["questions"])
