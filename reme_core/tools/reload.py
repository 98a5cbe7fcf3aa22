"""The tool with which a model loads again what left its context."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from reme_core.errors import (
    InvalidInputError,
    OffloadNotFoundError,
    ToolFeedback,
    UnsupportedFilterError,
)
from reme_core.ports import ListOffloads, ToolContext
from reme_core.schema import OffloadKind, Reloaded
from reme_core.schema.checks import Id, Text
from reme_core.steps.load_offloaded import TOOL_NAME, ReloadRequest, reload_context
from reme_core.text import fence, prompt_time
from reme_core.tools.base import BaseMemoryToolOp, ToolItem, check_at_least_one

_FENCE = "offloaded"
_LISTED = 10
_MOST_QUERY = 1000
_REFERENCE = re.compile(r"(?<![0-9a-z])[0-9a-f]{16}(?![0-9a-z])", re.IGNORECASE)


_Line: TypeAlias = Annotated[int, Field(ge=1)]
_Offset: TypeAlias = Annotated[int, Field(ge=0)]


def _left_out(value: object) -> object:
    """Read an empty text and 0 as left out: models fill in every field that there is."""
    is_nothing = (isinstance(value, str) and not value.strip()) or (value == 0 and not isinstance(value, bool))
    return None if is_nothing else value


def _taken_out(value: object) -> object:
    """Take a reference out of what stands around it, such as the whole notice."""
    value = _left_out(value)
    found = _REFERENCE.findall(value) if isinstance(value, str) else []
    return found[-1].lower() if found else value


class ReloadItem(ToolItem):
    """What is to be loaded."""

    reference: Annotated[Id | None, BeforeValidator(_taken_out)] = Field(
        default=None, description="The reference that stands behind 'reload' in a notice. Left out: search everything."
    )
    query: Annotated[Annotated[Text, Field(max_length=_MOST_QUERY)] | None, BeforeValidator(_left_out)] = Field(
        default=None,
        description="Words to find: in the text of the reference, or, without one, in all that was left out.",
    )
    start_line: Annotated[_Line | None, BeforeValidator(_left_out)] = Field(
        default=None, description="The first line to read, from 1."
    )
    end_line: Annotated[_Line | None, BeforeValidator(_left_out)] = Field(
        default=None, description="The last line to read."
    )
    offset: Annotated[_Offset | None, BeforeValidator(_left_out)] = Field(
        default=None, description="Read from this character on."
    )


@dataclass(kw_only=True, eq=False)
class ReloadOp(BaseMemoryToolOp[ReloadItem]):
    """Loads what left the context: by its reference whole, by lines or by words; or finds it by words.

    Attributes:
        session_id: Only what left this session's context; None: any session's of the scope.
        limit_chars: At most this many characters of each text; ConfigurationError below 1.
        limit: At most this many matches; likewise.
    """

    name = TOOL_NAME
    description = (
        "Read what was left out of this conversation: the text behind a notice '[… reload <reference>]', from its "
        "beginning, by lines, from a character on (offset) or where it holds words (query); or, without a reference, "
        "find words in all that was left out or said."
    )
    item = ReloadItem
    is_concurrent = True

    session_id: str | None = None
    limit_chars: int = 4000
    limit: int = 5

    def __post_init__(self) -> None:
        """Check the limits (ConfigurationError)."""
        check_at_least_one("limit_chars", self.limit_chars)
        check_at_least_one("limit", self.limit)
        super().__post_init__()

    async def execute(self, items: Sequence[ReloadItem], context: ToolContext) -> str:
        """Load what is asked for; see `BaseMemoryToolOp.execute`."""
        return "\n".join([await self._loaded(item, context) for item in items])

    async def _loaded(self, item: ReloadItem, context: ToolContext) -> str:
        request = ReloadRequest(
            reference=item.reference,
            query=item.query,
            session_id=self.session_id,
            start_line=item.start_line,
            end_line=item.end_line,
            offset=item.offset,
            limit_chars=self.limit_chars,
            limit=self.limit,
        )
        try:
            result = await reload_context(context.store, context.scope, request)
        except OffloadNotFoundError as exc:
            known = await self._known(context)
            unknown = OffloadNotFoundError(exc.missing, where="that you could load", advice=known)
            raise ToolFeedback(str(unknown)) from unknown
        except (InvalidInputError, UnsupportedFilterError) as exc:
            raise ToolFeedback(str(exc)) from exc
        if not result.results:
            return f"nothing that was left out or said holds words of {item.query!r:.200}"
        return "\n".join(_shown(found, item) for found in result.results)

    async def _known(self, context: ToolContext) -> str:
        query = ListOffloads(session_id=self.session_id, limit=_LISTED, newest_first=True)
        page = await context.store.list_offloads(context.scope, query)
        known = ", ".join(f"{info.reference} ({_label(info.kind, info.name)})" for info in page.offloads)
        known = f"the newest that there are: {known}" if known else "there are none"
        return f"{known}. Copy one as it stands, or search with query alone"


def _label(kind: OffloadKind, name: str | None) -> str:
    what = {"tool_result": "result", "text": "text", "messages": "messages"}[kind]
    return f"{what} of {' '.join(name.split())[:60]!r}" if name else what


def _shown(found: Reloaded, item: ReloadItem) -> str:
    """Write a result for a model: what it is and how to go on, then the text, fenced as data."""
    if item.reference is not None and found.matches == 0:
        return f"no line of {found.reference} holds the words of {item.query!r:.200}; it has {found.lines:,} lines"
    return f"{_heading(found)}\n{fence(_FENCE, found.memory)}"


def _heading(found: Reloaded) -> str:
    if found.reference is None or found.kind is None:
        return (
            f"message, said {prompt_time(found.created_at)} by {found.name!r:.80}:" if found.created_at else "message:"
        )
    what = f"{found.reference}, {_label(found.kind, found.name)}"
    if found.matches is not None:
        shown = found.memory.count("\n") + 1
        count = "1 match" if found.matches == 1 else f"{found.matches:,} matches"
        count = f"{count}, the first ones" if found.matches > shown else count
        return f"{what}, {count}; read on around one with its line as start_line, or its offset:"
    end = found.offset + len(found.memory)
    where = (
        f"{what}, lines {found.first_line:,} to {found.last_line:,} of {found.lines:,}, "
        f"characters {found.offset:,} to {end:,} of {found.chars:,}"
    )
    return f"{where}; go on with offset={found.next_offset}:" if found.next_offset is not None else f"{where}:"
