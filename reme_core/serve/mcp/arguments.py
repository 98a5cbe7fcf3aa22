"""Arguments of the tools, as models write them: strict, and unknown ones refused. None of them names a scope."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.schema import describe
from reme_core.schema.checks import Id, Text
from reme_core.tools.base import ToolItem

MAX_TOKENS = 20_000
"""Tokens of one `recall`: as much as fits into the window of a small model."""

MAX_IDS = 100
MAX_RECENT = 200
MAX_MESSAGES = 1_000

_TIME = "Date or ISO time"
_STATED = "Year, month, date or ISO time"


def without_docstring(schema: dict[str, Any]) -> None:
    """Leave what a class says to programmers out of its schema: every model pays for it in each session."""
    schema.pop("description", None)


class ToolArguments(ToolItem):
    """Arguments of one call: nothing is converted, unknown ones are refused, null means left out."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=without_docstring)


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)

Question = Annotated[Text, Field(min_length=1)]
Kind = Literal["identity", "personal", "procedural", "tool", "summary", "record", "history"]


class RecallArguments(ToolArguments):
    """Arguments of `recall`."""

    query: Annotated[Question, Field(description="The question, in words")]
    token_budget: Annotated[int, Field(ge=1, le=MAX_TOKENS)] = 1000
    types: Annotated[list[Kind] | None, Field(min_length=1)] = None
    since: Annotated[Text | None, Field(description=_TIME)] = None
    until: Text | None = None
    as_of: Annotated[Text | None, Field(description="What held at this time")] = None


class RememberArguments(ToolArguments):
    """Arguments of `remember`."""

    content: Annotated[Question, Field(description="One fact, as a sentence")]
    about: Annotated[Text | None, Field(min_length=1, max_length=512, description="Person or subject")] = None
    valid_from: Annotated[Text | None, Field(description=_STATED)] = None
    valid_to: Text | None = None


class SaidMessage(ToolArguments):
    """A message of `record`."""

    role: Literal["user", "assistant", "system", "tool"]
    content: Question
    name: Annotated[Text | None, Field(min_length=1, max_length=512)] = None
    id: Id | None = None
    created_at: Text | None = None


class RecordArguments(ToolArguments):
    """Arguments of `record`."""

    session: Annotated[Id, Field(description="Any name; the same for one conversation")]
    messages: Annotated[list[SaidMessage] | None, Field(min_length=1, max_length=MAX_MESSAGES)] = None
    transcript: Annotated[Text | None, Field(min_length=1, description='Or pasted text, "Name: ..." a line')] = None


class IdArguments(ToolArguments):
    """Arguments of a tool that takes an id."""

    id: Id


class ReviseArguments(ToolArguments):
    """Arguments of `revise`."""

    id: Id
    content: Annotated[Question, Field(description="What holds now")]


class ForgetArguments(ToolArguments):
    """Arguments of `forget`."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_IDS)]
    dry_run: bool = True


class RecentArguments(ToolArguments):
    """Arguments of `recent`."""

    since: Annotated[Text | None, Field(description=_TIME)] = None
    limit: Annotated[int, Field(ge=1, le=MAX_RECENT)] = 20


class TaskArguments(ToolArguments):
    """Arguments of `task_lessons`."""

    task: Annotated[Question, Field(description="What is to be done")]


class EmptyArguments(ToolArguments):
    """Arguments of a tool that takes none."""


class SearchArguments(ToolArguments):
    """Arguments of `search`, as OpenAI's connectors have them."""

    query: Question


def read_arguments(name: str, form: type[ArgumentsT], given: Mapping[str, object] | None) -> ArgumentsT:
    """Read the arguments of a tool (InvalidInputError: naming what is wrong with which)."""
    try:
        return form.model_validate(dict(given or {}))
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, name, with_values=False, form=form)) from exc


_NAMES = {
    "start_time": "since",
    "end_time": "until",
    "memory_type": "types",
    "memory_target": "about",
    "memory_id": "id",
    "session_id": "session",
    "memories[0]": "remember",
}
# As the command line does: the name of an argument at the beginning, or one that is no word of a sentence.
_ARGUMENT = re.compile(r"^memories\[0\]|^[a-z_]+(?=[:\[])|(?<![\w'\"/-])[a-z]+_[a-z_]+\b")


# Advice to programmers behind what is wrong with a text.
_IN_PYTHON = re.compile(r", as by text\.[^;]*")


def in_arguments(text: str) -> str:
    """Return an error's text with the tools' names of arguments in the place of those of `ReMe`."""
    return _ARGUMENT.sub(lambda match: _NAMES.get(match[0], match[0]), _IN_PYTHON.sub("", text))
