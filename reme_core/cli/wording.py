"""Words of the command line for those of `ReMe`: options, commands; and texts made safe to show."""

from __future__ import annotations

import json
import re

from pydantic import JsonValue

from reme_core.errors import InvalidInputError, InvalidLinesError, ReMeError, UnsupportedFilterError

OPTION_NAMES = {
    "task_name": "--task",
    "memory_type": "--type",
    "memory_target": "--target",
    "limit": "--limit",
    "hops": "--hops",
    "max_hops": "--hops",
    "cursor": "--cursor",
    "token_budget": "--tokens",
    "freq_threshold": "--freq",
    "min_freq": "--freq",
    "utility_threshold": "--utility",
    "max_utility": "--utility",
    "tool_names": "NAME",
    "top_k": "--top-k",
    "min_score": "--min-score",
    "layers": "--layer",
    "metadata": "--metadata",
    "keyword": "--keyword",
    "session_id": "--session",
    "user_id": "--user",
    "memory_space": "--space",
    "start_time": "--from",
    "end_time": "--to",
    "as_of": "--as-of",
    "include_shared": "--include-shared",
    "observed_at": "--observed",
    "valid_from": "--since",
    "valid_to": "--until",
    "when_to_use": "--when-to-use",
    "busy_timeout_s": "--wait",
    "working_dir": "--dir",
    "limit_chars": "--chars",
    "limit_tokens": "--limit",
    "expected_revision": "--expect",
    "start_line": "--lines",
    "end_line": "--lines",
    "offset": "--offset",
    "older_than_days": "--days",
    "idle_days": "--idle-days",
    "max_bytes": "--max-bytes",
    "source": "--from",
    "source_user": "--source-user",
    "every_user": "--every-user",
}
"""Arguments of `ReMe`, and the options that they are in the commands."""

_COMMANDS = {
    "flush()": "`reme flush`",
    "list_jobs (`reme jobs`)": "`reme jobs`",
    "list_memories": "`reme list`",
    "memory_blocks": "`reme block list`",
    "set_memory_block": "`reme block set`",
    "grant_memory_block": "`reme block grant`",
    "revoke_memory_block": "`reme block revoke`",
    "shared=True": "--shared",
    "skip_bad_lines=True": "--skip-bad-lines",
}
"""Methods and arguments that errors of `ReMe` advise, and what does the same on the command line."""

# An argument at the beginning of what is refused, or one whose name is no word of a sentence; what is quoted is data.
_ARGUMENT = re.compile(r"^[a-z_]+(?=[:\[])|(?<![\w'\"/.-])[a-z]+_[a-z_]+\b")

# Where the fields of the one memory that a command adds, or of the scope, stand for the methods behind it.
_ONE_DRAFT = re.compile(r"^(?:memories\[0\]|scope|vector_store)[.:] ?")


def in_commands(error: ReMeError) -> str:
    """Return an error's text with options and commands in the place of arguments and methods; lines of files stay."""
    text = str(error)
    for method, command in _COMMANDS.items():
        text = text.replace(method, command)
    if isinstance(error, InvalidLinesError) or not isinstance(error, (InvalidInputError, UnsupportedFilterError)):
        return text
    return _ARGUMENT.sub(lambda match: OPTION_NAMES.get(match[0], match[0]), _ONE_DRAFT.sub("", text))


# C0 but tab and line feed, DEL, C1 (which some terminals obey), marks that reorder or end lines, and lone surrogates
# (bytes of a command line that were no UTF-8).
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Write out what a terminal would obey: an escape character becomes `\x1b`. Tabs and line breaks stay."""
    return _UNSAFE.sub(lambda match: _escaped(match.group()), text)


def one_line(text: str) -> str:
    """Make text visible on a single line: every run of blanks becomes one."""
    return " ".join(visible(text).split())


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def json_line(value: JsonValue) -> str:
    r"""Write JSON on one line, with everything that a terminal would obey as `\uXXXX`."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(value, ensure_ascii=False))
