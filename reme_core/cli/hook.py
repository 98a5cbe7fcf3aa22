"""`reme hook` and `reme capture`: what coding agents call, at the cost of little more than opening the file.

They have a parser of their own, since typer takes longer than what they do; and they read neither `reme.toml` nor
`.env`: a folder that somebody else has made says nothing about whose memory is read, or where it is written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from reme_core.cli.brief import COMMANDS
from reme_core.cli.exits import ExitCode, describe_error, exit_code
from reme_core.cli.wording import json_line, one_line
from reme_core.errors import InvalidInputError, StoreUnavailableError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from reme_core.cli.capture import Captured
    from reme_core.ports import Store
    from reme_core.schema import Scope

# The names that clients give their events: Claude Code and Codex, Cursor.
_BEGINS = frozenset({"SessionStart", "sessionStart"})
_ASKS = frozenset({"UserPromptSubmit"})
_SAID = frozenset({"Stop", "PreCompact", "SessionEnd", "stop", "preCompact", "sessionEnd"})
_ENDS = frozenset({"SessionEnd", "sessionEnd"})
# A person waits for what is printed, longer than this for nothing.
_PATIENCE_S = 3.0
_WAIT_S = {"capture": 10.0, "hook": 2.0}
_MOST_STDIN = 16 << 20


class _UsageError(InvalidInputError):
    """Options that can't be used."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


def run(arguments: Sequence[str]) -> int:
    """Run `capture` or `hook` and return the exit code; that of a hook is 0, whatever happens.

    A client takes other codes, or what stands on stdout, for a wish to stop the user.
    """
    command, as_json = arguments[0], "--json" in arguments
    try:
        options = _parser(command).parse_args(list(arguments[1:]))
        return _hook(options) if command == "hook" else _capture(options)
    except SystemExit as exc:  # --help
        return int(exc.code or 0)
    except KeyboardInterrupt:
        return ExitCode.DONE if command == "hook" else ExitCode.INTERRUPTED
    except Exception as exc:  # noqa: BLE001  # the outer edge: a hook fails open, a bug is one line
        line = describe_error(exc, as_json=as_json and command == "capture")
        _say(sys.stderr, line)
        return ExitCode.DONE if command == "hook" else exit_code(exc)


def _parser(command: str) -> argparse.ArgumentParser:
    parser = _Parser(prog=f"reme {command}", description=COMMANDS[command], allow_abbrev=False)
    variables = os.environ
    parser.add_argument("--user", "-u", default=variables.get("REME_USER"), help="Whose memory [env: REME_USER]")
    parser.add_argument("--space", default=variables.get("REME_SPACE") or "default", help="[env: REME_SPACE]")
    parser.add_argument("--dir", default=variables.get("REME_DIR") or ".reme", help="[env: REME_DIR]")
    url = variables.get("REME_DATABASE_URL") or None
    parser.add_argument("--database-url", default=url, help="A database instead of the file [env: REME_DATABASE_URL]")
    wait = variables.get("REME_WAIT") or str(_WAIT_S[command])
    parser.add_argument("--wait", type=float, default=wait, help="Seconds to wait for who is writing [env: REME_WAIT]")
    parser.add_argument("--no-llm", action="store_true", help="Leave no jobs for a chat model.")
    if command == "capture":
        parser.add_argument("--transcript", required=True, metavar="FILE", help="The transcript; - is stdin.")
        parser.add_argument("--session", help="The session; by default that of the transcript.")
        parser.add_argument("--end", action="store_true", help="Nothing more comes of this session.")
        parser.add_argument("--json", action="store_true", help="One line of JSON on stdout; errors as JSON on stderr.")
    return parser


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """What a client tells of an event.

    Attributes:
        name: The event.
        session_id: The client's conversation.
        transcript: The path of its transcript; "" where there is none.
        prompt: What the user has typed.
    """

    name: str
    session_id: str | None
    transcript: str
    prompt: str

    def said(self, text: str) -> str:
        """Return what to print for a text that the agent is to see: Cursor's form, or that of the others."""
        if self.name[:1].islower():
            return json.dumps({"additional_context": text})
        return json.dumps({"hookSpecificOutput": {"hookEventName": self.name, "additionalContext": text}})


def _hook(options: argparse.Namespace) -> int:
    event = _read_event()
    if event.name in _SAID:
        asyncio.run(_capture_event(options, event))
    elif event.name in _BEGINS or (event.name in _ASKS and event.prompt.strip()):
        text = asyncio.run(_recall(options, event))
        if text:
            sys.stdout.write(event.said(text) + "\n")
    return ExitCode.DONE


def _read_event() -> _Event:
    data = sys.stdin.buffer.read(_MOST_STDIN + 1)
    try:
        value: JsonValue = json.loads(data) if len(data) <= _MOST_STDIN else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        msg = "standard input: wanted the JSON object that a client sends its hooks"
        raise InvalidInputError(msg)
    session = _text(value, "session_id") or _text(value, "conversation_id")
    return _Event(
        name=_text(value, "hook_event_name"),
        session_id=session or None,
        transcript=_text(value, "transcript_path"),
        prompt=_text(value, "prompt"),
    )


def _text(value: Mapping[str, JsonValue], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


async def _capture_event(options: argparse.Namespace, event: _Event) -> None:
    if not event.transcript:
        msg = f"{one_line(event.name)}: the client names no transcript: nothing was kept"
        raise InvalidInputError(msg)
    await _captured(options, event.transcript, session_id=event.session_id, ends=event.name in _ENDS)


async def _recall(options: argparse.Namespace, event: _Event) -> str:
    scope = _scope(options)
    if not options.database_url and not _file(options).is_file():
        return ""
    from reme_core.cli import recall  # noqa: PLC0415  # nothing is loaded for nothing

    store = _store(options)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            if event.name in _BEGINS:
                return await recall.text_for_session(store, scope, session_id=event.session_id)
            return await recall.text_for_prompt(store, scope, event.prompt, session_id=event.session_id)
    except TimeoutError as exc:
        msg = f"nothing was recalled within {_PATIENCE_S:g} s: the agent goes on without"
        raise StoreUnavailableError(msg) from exc
    finally:
        await store.close()


def _capture(options: argparse.Namespace) -> int:
    captured = asyncio.run(_captured(options, options.transcript, session_id=options.session, ends=options.end))
    if options.json:
        _say(sys.stdout, json_line(asdict(captured)))
        return ExitCode.DONE
    _say(sys.stdout, one_line(f"{_counted(captured.messages, 'new message')}, session {captured.session_id}"))
    if captured.unusable:
        _say(sys.stderr, f"{_counted(captured.unusable, 'line')} can't be used")
    if captured.jobs:
        _say(sys.stdout, f"{_counted(captured.jobs, 'job')} left: reme flush makes memories of these messages")
    return ExitCode.DONE


def _say(stream: TextIO, text: str) -> None:
    """Print a line, with what the stream can't encode written out."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


async def _captured(options: argparse.Namespace, source: str, *, session_id: str | None, ends: bool) -> Captured:
    scope = _scope(options)
    from reme_core.cli.capture import capture  # noqa: PLC0415  # options are checked without it

    store = _store(options)
    try:
        return await capture(store, scope, source, session_id=session_id, ends=ends, makes_jobs=not options.no_llm)
    finally:
        await store.close()


def _scope(options: argparse.Namespace) -> Scope:
    if not options.user:
        msg = "whose memory? Give --user NAME or set REME_USER"
        raise InvalidInputError(msg)
    from reme_core.schema import make_scope  # noqa: PLC0415  # pydantic is loaded for who has an answer

    return make_scope(options.space, options.user)


def _file(options: argparse.Namespace) -> Path:
    from reme_core.facade.parts import FILE_NAME  # noqa: PLC0415  # as above

    return Path(options.dir).expanduser() / FILE_NAME


def _store(options: argparse.Namespace) -> Store:
    if options.database_url:
        from reme_core.stores import PostgresStore  # noqa: PLC0415  # as below

        limit_s = max(options.wait, 1.0)
        return PostgresStore(
            options.database_url, lock_timeout_s=options.wait, connect_timeout_s=limit_s, retry_s=options.wait
        )
    from reme_core.stores.local.store import LocalStore  # noqa: PLC0415  # it takes longer than all else

    return LocalStore(_file(options), busy_timeout_s=options.wait)
