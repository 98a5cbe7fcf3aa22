"""The files under `integrations/`, used as each client uses them: its command, its JSON, its transcript."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import reme_core
from reme_core import ReMe
from tests.support import transcripts
from tests.support.transcripts import SAID, SESSION, write

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "integrations"
OTHER = "0e5c7bb4-0000-4000-8000-1234567890ab"


@dataclass(frozen=True)
class Machine:
    """A home of its own, on which `reme-memory` is installed."""

    home: Path
    environment: dict[str, str]

    def run(self, command: str | list[str], typed: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command as clients do: in a shell, in the folder of a project."""
        project = self.home / "project"
        project.mkdir(exist_ok=True)
        return subprocess.run(
            ["sh", "-c", command] if isinstance(command, str) else command,
            cwd=project,
            env={**self.environment, **more},
            input=typed,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    def said(self, session: str = SESSION, user: str = "me") -> list[tuple[str, str]]:
        with ReMe.sync(working_dir=self.home / ".reme", llm=None, embedding=None) as memory:
            page = memory.find_messages(user_id=user, session_id=session)
        return [(item.message.role, item.message.full_text) for item in page.messages]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    script = bin_folder / "reme-memory"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m reme_core.cli "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REME_", "OPENAI_"))}
    path = os.pathsep.join([str(bin_folder), os.environ["PATH"]])
    return Machine(tmp_path, {**kept, "PATH": path, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)})


def read(name: str) -> Any:
    return json.loads((FILES / name).read_text(encoding="utf-8"))


def command_of(name: str, event: str) -> str:
    [group] = read(name)["hooks"][event]
    [hook] = group.get("hooks", [group])
    assert hook.get("type", "command") == "command"
    return str(hook["command"])


def _claude_code(machine: Machine, event: str, **fields: Any) -> subprocess.CompletedProcess[str]:
    path = machine.home / ".claude" / "projects" / "-project" / f"{SESSION}.jsonl"
    sent = {
        "session_id": SESSION,
        "transcript_path": str(path),
        "cwd": str(machine.home / "project"),
        "permission_mode": "default",
        "hook_event_name": event,
        **fields,
    }
    return machine.run(command_of("claude-code/hooks/hooks.json", event), json.dumps(sent))


def _codex(machine: Machine, event: str, **fields: Any) -> subprocess.CompletedProcess[str]:
    path = machine.home / ".codex" / "sessions" / "2026" / "03" / "01" / f"rollout-2026-03-01T22-38-40-{SESSION}.jsonl"
    sent = {
        "session_id": SESSION,
        "turn_id": "1",
        "transcript_path": str(path),
        "cwd": str(machine.home / "project"),
        "hook_event_name": event,
        "model": "gpt-5-codex",
        "permission_mode": "default",
        **fields,
    }
    return machine.run(command_of("codex/hooks.json", event), json.dumps(sent))


def _cursor(machine: Machine, event: str, **fields: Any) -> subprocess.CompletedProcess[str]:
    path = machine.home / ".cursor" / "projects" / "project" / "agent-transcripts" / SESSION / f"{SESSION}.jsonl"
    sent = {
        "conversation_id": SESSION,
        "generation_id": "g-1",
        "model": "gpt-5",
        "hook_event_name": event,
        "cursor_version": "3.7.21",
        "workspace_roots": [str(machine.home / "project")],
        "transcript_path": str(path),
        **fields,
    }
    return machine.run(command_of("cursor/.cursor/hooks.json", event), json.dumps(sent))


CLIENTS = {
    "claude-code": (
        _claude_code,
        transcripts.claude_code,
        ("Stop", "PreCompact", "SessionEnd"),
        ".claude/projects/-project",
    ),
    "codex": (_codex, transcripts.codex, ("Stop", "PreCompact"), ".codex/sessions/2026/03/01"),
    "cursor": (
        _cursor,
        transcripts.cursor,
        ("stop", "preCompact", "sessionEnd"),
        f".cursor/projects/project/agent-transcripts/{SESSION}",
    ),
}
NAMES = {"codex": f"rollout-2026-03-01T22-38-40-{SESSION}.jsonl"}


def _write_transcript(machine: Machine, client: str) -> None:
    _, lines, _, folder = CLIENTS[client]
    write(machine.home / folder / NAMES.get(client, f"{SESSION}.jsonl"), lines())


@pytest.mark.parametrize("client", list(CLIENTS))
def test_what_was_said_is_kept_once_at_whichever_event(machine: Machine, client: str) -> None:
    send, _, events, _ = CLIENTS[client]
    _write_transcript(machine, client)
    for event in events:
        done = send(machine, event)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.said() == list(SAID)
    assert not (machine.home / "project" / ".reme").exists()


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_a_prompt_of_another_session_is_told_what_fits_and_nothing_else(machine: Machine, client: str) -> None:
    send = CLIENTS[client][0]
    _write_transcript(machine, client)
    send(machine, "Stop")
    done = send(machine, "UserPromptSubmit", session_id=OTHER, prompt="How do we deploy?")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert set(told) == {"hookSpecificOutput"}
    assert set(told["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
    assert SAID[0][1] in told["hookSpecificOutput"]["additionalContext"]
    assert send(machine, "UserPromptSubmit", session_id=OTHER, prompt="Write a haiku").stdout == ""


@pytest.mark.parametrize("client", list(CLIENTS))
def test_a_new_session_begins_with_what_was_said_last(machine: Machine, client: str) -> None:
    send, _, (stop, *_), _ = CLIENTS[client]
    _write_transcript(machine, client)
    send(machine, stop)
    if client == "cursor":
        done = send(machine, "sessionStart", conversation_id=OTHER, composer_mode="agent", is_background_agent=False)
        text = json.loads(done.stdout)["additional_context"]
    else:
        done = send(machine, "SessionStart", session_id=OTHER, source="startup")
        text = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert (done.returncode, done.stderr) == (0, "")
    assert SAID[0][1] in text
    assert SAID[3][1] in text


def test_all_clients_share_one_memory(machine: Machine) -> None:
    _write_transcript(machine, "codex")
    _codex(machine, "Stop")
    done = _claude_code(machine, "UserPromptSubmit", session_id=OTHER, prompt="How do we deploy?")
    assert SAID[0][1] in done.stdout


@pytest.mark.parametrize("client", list(CLIENTS))
def test_every_hook_stops_nobody_where_the_program_is_missing_or_the_file_broken(machine: Machine, client: str) -> None:
    send = CLIENTS[client][0]
    (machine.home / ".reme").mkdir()
    (machine.home / ".reme" / "memory.db").write_bytes(b"broken" * 1000)
    name = {"claude-code": "claude-code/hooks/hooks.json", "cursor": "cursor/.cursor/hooks.json"}
    for event in read(name.get(client, "codex/hooks.json"))["hooks"]:
        done = send(machine, event, prompt="How do we deploy?")
        assert (done.returncode, done.stdout) == (0, "")
    (machine.home / "bin" / "reme-memory").unlink()
    for event in read(name.get(client, "codex/hooks.json"))["hooks"]:
        done = send(machine, event, prompt="How do we deploy?")
        assert (done.returncode, done.stdout) == (0, "")


def test_the_environment_says_whose_memory_and_where(machine: Machine) -> None:
    _write_transcript(machine, "claude-code")
    path = machine.home / ".claude" / "projects" / "-project" / f"{SESSION}.jsonl"
    sent = json.dumps({"session_id": SESSION, "transcript_path": str(path), "hook_event_name": "Stop"})
    command = command_of("claude-code/hooks/hooks.json", "Stop")
    machine.run(command, sent, REME_USER="ann", REME_DIR=str(machine.home / "mine"), REME_SPACE="work")
    with ReMe.sync("work", machine.home / "mine", llm=None, embedding=None) as memory:
        assert len(memory.find_messages(user_id="ann", session_id=SESSION).messages) == len(SAID)
    assert not (machine.home / ".reme").exists()


_HARNESS = """
import { readFileSync } from "node:fs"
const [plugin, messages] = process.argv.slice(2)
const { ReMe } = await import(plugin)
const data = JSON.parse(readFileSync(messages, "utf8"))
const messagesOf = async ({ path }) => ({ data: data.filter((message) => message.info.sessionID === path.id) })
const client = { session: { messages: messagesOf } }
const hooks = await ReMe({ client, directory: process.cwd() })
const ask = async (sessionID, text) => {
  const output = { message: { id: "msg_new" }, parts: [{ id: "prt_1", sessionID, type: "text", text }] }
  await hooks["chat.message"]({ sessionID }, output)
  return output.parts.slice(1)
}
const printed = { before: await ask("new", "How do we deploy?") }
await hooks.event({ event: { type: "session.idle", properties: { sessionID: data[0].info.sessionID } } })
await hooks.event({ event: { type: "session.idle", properties: { sessionID: data[0].info.sessionID } } })
await hooks.event({ event: { type: "file.edited", properties: {} } })
printed.first = await ask("other", "Write a haiku")
printed.second = await ask("other", "How do we deploy?")
printed.third = await ask("other", "Write a haiku")
console.log(JSON.stringify(printed))
"""


def _run_plugin(machine: Machine) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node, which runs OpenCode's plugins")
    harness = machine.home / "harness.mjs"
    harness.write_text(_HARNESS, encoding="utf-8")
    plugin = machine.home / "project" / ".opencode" / "plugins" / "reme.mjs"  # Bun takes .js for a module; node asks
    plugin.parent.mkdir(parents=True)
    shutil.copy(FILES / "opencode/.opencode/plugins/reme.js", plugin)
    messages = machine.home / "messages.json"
    messages.write_text(json.dumps(transcripts.opencode()), encoding="utf-8")
    done = machine.run([node, str(harness), str(plugin), str(messages)])
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_the_plugin_of_opencode_keeps_what_was_said_and_tells_what_fits(machine: Machine) -> None:
    printed = _run_plugin(machine)
    assert [role for role, _ in machine.said()] == ["user", "assistant", "assistant"]
    assert (printed["before"], printed["third"]) == ([], [])
    for told in (printed["first"], printed["second"]):
        [part] = told
        assert (part["type"], part["synthetic"], part["messageID"]) == ("text", True, "msg_new")
        assert part["id"].startswith("prt_")
        assert SAID[0][1] in part["text"]


def test_the_plugin_of_opencode_stops_nobody_where_the_program_is_missing(machine: Machine) -> None:
    (machine.home / "bin" / "reme-memory").unlink()
    assert _run_plugin(machine) == {"before": [], "first": [], "second": [], "third": []}


def test_the_plugin_has_the_version_of_the_package_and_the_name_that_the_marketplace_lists() -> None:
    plugin = read("claude-code/.claude-plugin/plugin.json")
    assert plugin["version"] == reme_core.__version__
    [listed] = read(".claude-plugin/marketplace.json")["plugins"]
    assert (listed["name"], (FILES / listed["source"]).resolve()) == (plugin["name"], FILES / "claude-code")


def test_every_client_starts_the_server_of_the_same_memory() -> None:
    codex = tomllib.loads((FILES / "codex/config.toml").read_text(encoding="utf-8"))["mcp_servers"]["reme"]
    cursor = read("cursor/.cursor/mcp.json")["mcpServers"]["reme"]
    claude = read("claude-code/.mcp.json")["mcpServers"]["reme"]
    opencode = read("opencode/opencode.json")["mcp"]["reme"]
    assert opencode["command"] == [codex["command"], *codex["args"]] == ["reme-memory", "mcp"]
    assert [cursor["command"], *cursor["args"]] == [claude["command"], *claude["args"]] == ["reme-memory", "mcp"]
    same = {"REME_USER": "me", "REME_DIR": "~/.reme", "REME_SPACE": "default"}
    assert opencode["environment"] == cursor["env"] == codex["env"] == same
    for name, value in codex["env"].items():
        assert claude["env"][name] == f"${{{name}:-{value}}}"


def test_the_program_is_installed_under_both_names() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts["reme"] == scripts["reme-memory"] == "reme_core.cli:main"


def test_skill_and_rule_say_when_they_are_to_be_used() -> None:
    for name in ("claude-code/skills/memory/SKILL.md", "cursor/.cursor/rules/reme.mdc"):
        head = re.match(r"---\n(.*?)\n---\n", (FILES / name).read_text(encoding="utf-8"), re.DOTALL)
        assert head is not None
        assert "description: " in head[1]
