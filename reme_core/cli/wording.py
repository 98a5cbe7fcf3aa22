"""Words of the command line for those of `ReMe`: options for arguments, commands for methods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from reme_core.errors import InvalidInputError, InvalidLinesError, ReMeError, UnsupportedFilterError

OPTION_NAMES = {
    "task_name": "--task",
    "memory_type": "--type",
    "memory_target": "--target",
    "limit": "--limit",
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
}
"""Arguments of `ReMe`, and the options that they are in the commands."""

_COMMANDS = {
    "flush()": "`reme flush`",
    "list_jobs (`reme jobs`)": "`reme jobs`",
    "list_memories": "`reme list`",
    "shared=True": "--shared",
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


@contextmanager
def option_name(options: Mapping[str, str]) -> Iterator[None]:
    """Let what is refused within be told by the names of options: arguments of `ReMe` have others.

    A refusal that lists lines is left as it is.
    """
    try:
        yield
    except InvalidLinesError:
        raise
    except InvalidInputError as exc:
        told = _ARGUMENT.sub(lambda match: options.get(match[0], match[0]), str(exc))
        raise InvalidInputError(told) from exc
