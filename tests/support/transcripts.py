"""Transcripts as coding agents write them, a line a record: what is said is the same in each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SESSION = "2ff46cd5-f4e7-4724-bb20-579dae7956ea"
SAID = (
    ("user", "We deploy with kamal to hetzner, never with docker compose"),
    ("assistant", 'Bash({"command": "ls config"})'),
    ("tool", "deploy.yml"),
    ("assistant", "Noted: kamal it is."),
)
"""Role and text of each message that is to be kept, in order."""

AT = "2026-03-01T22:38:4{}.557Z"


def claude_code(session: str = SESSION) -> list[dict[str, Any]]:
    """A session of Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`."""
    user, shown = SAID[0][1], SAID[3][1]
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls config"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": SAID[2][1]}]}
    thought = {"type": "thinking", "thinking": "Let me look", "signature": "EqQBCg"}

    def line(number: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
        message = {"role": role, "content": content, **({"model": "claude-opus-4-1"} if role == "assistant" else {})}
        return {
            "parentUuid": f"{session}-{number - 1}",
            "isSidechain": False,
            "userType": "external",
            "cwd": "/repo",
            "sessionId": session,
            "version": "2.1.205",
            "type": role,
            "uuid": f"{session}-{number}",
            "timestamp": AT.format(number % 10),
            "message": message,
            **more,
        }

    return [
        {"type": "summary", "summary": "An earlier talk", "leafUuid": "abc"},
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        line(0, "user", "Caveat: local commands", isMeta=True),
        line(1, "user", "<command-name>/clear</command-name>"),
        line(2, "user", user),
        line(3, "assistant", [thought]),
        line(4, "assistant", [call]),
        line(5, "user", [result], toolUseResult={"stdout": SAID[2][1]}),
        line(6, "assistant", [{"type": "text", "text": "Only a subagent says this"}], isSidechain=True),
        {"type": "attachment", "uuid": "att", "sessionId": session, "attachment": {"type": "hook_additional_context"}},
        line(7, "assistant", [{"type": "text", "text": shown}]),
        {"type": "system", "subtype": "turn_duration", "uuid": "s-1", "sessionId": session},
    ]


def codex(session: str = SESSION) -> list[dict[str, Any]]:
    """A session of Codex: `~/.codex/sessions/<date>/rollout-<time>-<session>.jsonl`."""

    def line(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": AT.format(1), "type": kind, "payload": payload}

    context = [{"type": "input_text", "text": "<environment_context>\n  <cwd>/repo</cwd>\n</environment_context>"}]
    arguments = json.dumps({"command": "ls config"})
    return [
        line("session_meta", id=session, timestamp=AT.format(0), cwd="/repo", originator="codex_cli_rs"),
        line("response_item", type="message", role="developer", content=[{"type": "input_text", "text": "Be brief"}]),
        line("response_item", type="message", role="user", content=context),
        line("turn_context", cwd="/repo", model="gpt-5-codex"),
        line("response_item", type="message", role="user", content=[{"type": "input_text", "text": SAID[0][1]}]),
        line("event_msg", type="user_message", message=SAID[0][1]),
        line("response_item", type="reasoning", summary=[], encrypted_content="gAAAA"),
        line("response_item", type="function_call", name="Bash", arguments=arguments, call_id="call_1"),
        line("response_item", type="function_call_output", call_id="call_1", output=SAID[2][1]),
        line("event_msg", type="token_count", info=None),
        line("event_msg", type="agent_message", message=SAID[3][1]),
        line(
            "response_item",
            type="message",
            role="assistant",
            content=[{"type": "output_text", "text": SAID[3][1]}],
        ),
    ]


def cursor() -> list[dict[str, Any]]:
    """A session of Cursor: `~/.cursor/projects/<folder>/agent-transcripts/<session>/<session>.jsonl`."""

    def line(role: str, *content: dict[str, Any]) -> dict[str, Any]:
        return {"role": role, "message": {"content": list(content)}}

    query = f"<attached_files>\n@a.py\n</attached_files>\n<user_query>\n{SAID[0][1]}\n</user_query>"
    return [
        line("user", {"type": "text", "text": query}),
        line("assistant", {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls config"}}),
        line("user", {"type": "tool_result", "tool_use_id": "t1", "content": SAID[2][1]}),
        line("assistant", {"type": "text", "text": SAID[3][1]}),
    ]


def opencode(session: str = SESSION) -> list[dict[str, Any]]:
    """The messages of a session as OpenCode's server hands them out, each with its parts."""

    def message(number: int, role: str, *parts: dict[str, Any], **time: int) -> dict[str, Any]:
        info = {"id": f"msg_{session}_{number}", "sessionID": session, "role": role, "time": {"created": 1, **time}}
        return {"info": info, "parts": list(parts)}

    tool = {
        "type": "tool",
        "callID": "c1",
        "tool": "Bash",
        "state": {"status": "completed", "input": {"command": "ls config"}, "output": SAID[2][1]},
    }
    return [
        message(
            1,
            "user",
            {"type": "text", "text": SAID[0][1]},
            {"type": "text", "text": "<notes>recalled</notes>", "synthetic": True},
        ),
        message(2, "assistant", {"type": "step-start"}, {"type": "reasoning", "text": "hm"}, tool, completed=2),
        message(3, "assistant", {"type": "text", "text": SAID[3][1]}, completed=3),
    ]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    """Write a transcript."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path
