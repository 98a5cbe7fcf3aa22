"""Trajectories: attempts at a task with how well they went, and what calls about them answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from numbers import Real
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.schema.checks import Id, Metadata, Text, checked_again, describe, fields_of, kind_of, shown
from reme_core.schema.hits import Hit
from reme_core.schema.mapping import MappingModel, Usage
from reme_core.schema.memories import Memory
from reme_core.schema.messages import Message, parse_messages
from reme_core.schema.scope import new_id
from reme_core.schema.times import utc_now

# Every experience carries the metadata of its attempts, some levels down in its own.
_MOST_METADATA_BYTES = 1 << 16
_MOST_METADATA_DEPTH = 24


def _small(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    size = len(json.dumps(value, ensure_ascii=False).encode())
    if size > _MOST_METADATA_BYTES:
        msg = (
            f"metadata has {size} bytes as JSON, at most {_MOST_METADATA_BYTES} are kept of an attempt: "
            "keep a reference"
        )
        raise ValueError(msg)
    depth = _depth(value)
    if depth > _MOST_METADATA_DEPTH:
        msg = f"metadata is nested {depth} levels deep, at most {_MOST_METADATA_DEPTH} are kept of an attempt"
        raise ValueError(msg)
    return value


def _depth(value: JsonValue) -> int:
    """Return how many objects and lists lie around the innermost value."""
    if isinstance(value, (dict, list)):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(map(_depth, inner), default=0)
    return 0


def _number(value: object) -> object:
    """Refuse what pydantic would read as a number though it is none: true, and texts."""
    if isinstance(value, bool) or not isinstance(value, Real):
        msg = f"wanted a number from 0 to 1, found {shown(value)}"
        raise ValueError(msg)  # noqa: TRY004  # pydantic gives a place to these alone
    return value


class Trajectory(MappingModel):
    """One attempt at a task: what was said and done, and how well it went.

    Attributes:
        trajectory_id: Random, unique within the scope; the id of the block that keeps its messages. Handing one in
            again changes nothing: once it was learnt from, nor does another score.
        task_id: Which task it is an attempt at; attempts with the same one are compared. Empty: attempts whose first
            user messages say the same are attempts at the same task.
        messages: In order, at least one.
        score: In [0, 1]: 1 is solved, 0 is failed. A number, no text and no bool.
        metadata: A JSON object of at most 64 KiB as UTF-8, nested at most 24 deep; kept with what is learnt from it.
    """

    trajectory_id: Id = Field(default_factory=new_id)
    task_id: Annotated[Text, Field(max_length=512)] = ""
    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    score: Annotated[float, BeforeValidator(_number), Field(ge=0, le=1, allow_inf_nan=False)]
    metadata: Annotated[Metadata, AfterValidator(_small)] = Field(default_factory=dict)

    @property
    def task_key(self) -> str:
        """What tells attempts at one task from those at others."""
        if self.task_id:
            return f"id:{self.task_id}"
        asked = next((message for message in self.messages if message.role == "user"), self.messages[0])
        return f"said:{asked.full_text.strip()}"


def parse_trajectories(
    items: object, *, now: Callable[[], datetime] = utc_now, new_id: Callable[[], str] = new_id
) -> tuple[Trajectory, ...]:
    """Read trajectories from `Trajectory` objects and dictionaries, whose messages have the forms of `parse_messages`.

    Objects, those of messages too, are checked again, see `schema.objects`.

    Raises:
        InvalidInputError: Naming the place (`trajectories[1].score`) and the reason; one bad trajectory refuses all.
    """
    if isinstance(items, (str, bytes, Mapping, Trajectory)) or not isinstance(items, Iterable):
        msg = f"trajectories: wanted a list of trajectories, found {kind_of(items)}"
        raise InvalidInputError(msg)
    trajectories = tuple(_parse_one(item, index, now, new_id) for index, item in enumerate(items))
    seen: set[str] = set()
    for index, trajectory in enumerate(trajectories):
        if trajectory.trajectory_id in seen:
            msg = f"trajectories[{index}].trajectory_id: {trajectory.trajectory_id!r} stands twice in one call"
            raise InvalidInputError(msg)
        seen.add(trajectory.trajectory_id)
    return trajectories


def _parse_one(item: object, index: int, now: Callable[[], datetime], new_id: Callable[[], str]) -> Trajectory:
    where = f"trajectories[{index}]"
    if isinstance(item, Trajectory):
        item = fields_of(item, where, without={"messages"}) | {"messages": item.get("messages")}
    if not isinstance(item, Mapping):
        msg = f"{where}: wanted a Trajectory or a dictionary, found {kind_of(item)}"
        raise InvalidInputError(msg)
    fields = {name: value for name, value in item.items() if value is not None}
    messages = _read_messages(fields.get("messages", ()), where, now, new_id)
    try:
        return Trajectory.model_validate({"trajectory_id": new_id(), **fields, "messages": messages})
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, where, form=Trajectory)) from exc


def _read_messages(
    items: object, where: str, now: Callable[[], datetime], new_id: Callable[[], str]
) -> tuple[Message, ...]:
    given = tuple(items) if isinstance(items, (list, tuple, Iterator)) else items
    try:
        messages = parse_messages(given, now=now, new_id=new_id)
    except InvalidInputError as exc:
        msg = f"{where}.{exc.message}"
        raise InvalidInputError(msg) from exc
    if not messages:
        msg = f"{where}.messages: is empty; an attempt has what was said and done"
        raise InvalidInputError(msg)
    objects = {id(item) for item in given if isinstance(item, Message)} if isinstance(given, Iterable) else set()
    return tuple(
        checked_again(message, Message, f"{where}.messages[{place}]") if id(message) in objects else message
        for place, message in enumerate(messages)
    )


class RejectedExperience(MappingModel):
    """An experience that was not kept, and why: `duplicate` of what is known, or `invalid`."""

    when_to_use: str
    content: str
    kind: Literal["duplicate", "invalid"]
    reason: str


class TaskSummary(MappingModel):
    """The answer of `summary_task`; all of it is on disk when it is returned.

    Attributes:
        session_id: The session that the trajectories were added to.
        block_ids: The block of each trajectory, in order: its `trajectory_id`.
        known_block_ids: Those of them that were there already, and so were not added again.
        memories: The experiences written.
        rejected: Those that were not, and why; what another process has left out is not told.
        run_ids: The runs that wrote them, for `undo`.
        job_ids: Work on these trajectories that is still to be done: after a failure, or as long as there is no model.
        usage: What it cost.
        degraded: What failed and was done without, one short sentence each; empty where nothing did.
    """

    session_id: str
    block_ids: tuple[str, ...] = ()
    known_block_ids: tuple[str, ...] = ()
    memories: tuple[Memory, ...] = ()
    rejected: tuple[RejectedExperience, ...] = ()
    run_ids: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    usage: Usage = Usage()
    degraded: tuple[str, ...] = ()


class TaskMemories(MappingModel):
    """The answer of `retrieve_task_memory`.

    Attributes:
        results: Procedural memories, best first.
        text: A plain text of them to put into a prompt, empty without results.
        query: What was searched for.
        usage: What it cost.
        degraded: What failed and was done without, one short sentence each; empty where nothing did.
    """

    results: tuple[Hit, ...] = ()
    text: str = ""
    query: str = ""
    usage: Usage = Usage()
    degraded: tuple[str, ...] = ()


class Forgotten(MappingModel):
    """The answer of `forget_memories`.

    Attributes:
        memories: Those that were removed; with `dry_run` those that would be.
        dry_run: Whether nothing was removed.
        run_id: The run that removed them, for `undo`; None where nothing was.
    """

    memories: tuple[Memory, ...] = ()
    dry_run: bool = False
    run_id: str | None = None


class Verdict(StrEnum):
    """What was seen of a memory at work.

    `helpful` and `unhelpful` move its importance up and down, `confirmed` and `refuted` its confidence.
    """

    HELPFUL = "helpful"
    UNHELPFUL = "unhelpful"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"


class Feedback(MappingModel):
    """What was seen of one memory at work.

    Attributes:
        memory_id: Which.
        verdict: See `Verdict`.
        weight: In (0, 1]: how far the value goes towards 1 or 0; at 1 all the way.
        reason: Kept in the memory's history.
    """

    memory_id: Id
    verdict: Verdict
    weight: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.2
    reason: Annotated[Text, Field(max_length=4096)] = ""
