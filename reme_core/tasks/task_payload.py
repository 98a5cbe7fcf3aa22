"""Payload of a job about attempts at a task, to and from the JSON on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from reme_core.errors import RunError
from reme_core.schema import Job

TASK = "task"
"""The kind of job that learns from attempts at a task."""


class AttemptEntry(BaseModel):
    """What is known of an attempt besides its messages, which its block keeps; the fields are those of `Trajectory`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trajectory_id: str
    task_id: str
    score: float
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class TaskPayload(BaseModel):
    """Attempts at one task.

    Attributes:
        task_name: The target of what is learnt.
        attempts: Best first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_name: str
    attempts: Annotated[tuple[AttemptEntry, ...], Field(min_length=1)]

    def write(self) -> Mapping[str, JsonValue]:
        """Return it as JSON."""
        written: dict[str, JsonValue] = self.model_dump(mode="json")
        return written


def read_task_payload(job: Job) -> TaskPayload:
    """Read what `TaskPayload.write` wrote (RunError: it is something else)."""
    try:
        return TaskPayload.model_validate(job.payload)
    except ValidationError as exc:
        msg = f"the payload of job {job.job_id!r} is none of attempts at a task: drop the job, the messages stay"
        raise RunError(msg) from exc
