"""Jobs: work that was promised and is kept on disk until it is done."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from reme_core.schema.checks import Id, JsonObject, Text
from reme_core.schema.mapping import MappingModel
from reme_core.schema.scope import new_id
from reme_core.schema.times import UtcTime


class JobState(StrEnum):
    """Where a job stands. One that is done is no more."""

    PENDING = "pending"
    RUNNING = "running"
    DEAD = "dead"


class Job(MappingModel):
    """Work on a scope's data, kept on disk until it is done.

    Attributes:
        job_id: Random, unique within the scope.
        kind: What is to be done, such as `summary`.
        payload: On what; for a summary, the session and its blocks.
        run_id: The run that its writes will carry; one run is written at most once.
        state: `pending` (waits), `running` (somebody holds it), `dead` (given up: the reason is in `error`).
        attempts: How often it was begun, cancelled ones apart.
        created_at: When it was promised.
        due_at: Not before this time, after a failure.
        owner: Who holds it.
        held_until: Until when, unless renewed.
        error: Why the last attempt failed.
        raw: What a model answered then, where the answer was the failure; cut to 64 KiB.
    """

    job_id: Id = Field(default_factory=new_id)
    kind: Annotated[Text, Field(min_length=1, max_length=64)]
    payload: JsonObject = Field(default_factory=dict)
    run_id: Id = Field(default_factory=new_id)
    state: JobState = JobState.PENDING
    attempts: Annotated[int, Field(ge=0)] = 0
    created_at: UtcTime
    due_at: UtcTime
    owner: Text | None = None
    held_until: UtcTime | None = None
    error: Text = ""
    raw: Text = ""
