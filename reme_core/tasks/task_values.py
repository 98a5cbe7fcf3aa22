"""The values that go through the stages of procedural memory, and the payload of their jobs on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from reme_core.errors import RunError
from reme_core.schema import Hit, Job, Message, RejectedExperience, Source, Trajectory, bounded_query
from reme_core.steps.flow import FlowContext, Stage

PACKAGE = "reme_core.tasks"
"""Where the prompts of the stages lie."""

AT_ONCE = 4
"""Model calls that a stage has open at the same time: enough to hide their waiting, few enough for rate limits."""

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


# Each may have 64 KiB of metadata, and a memory's own is bounded.
_TOLD_WHOLE = 4


class StepType(StrEnum):
    """Which kind of step an experience is about."""

    REASONING = "reasoning"
    ACTION = "action"
    OBSERVATION = "observation"
    DECISION = "decision"


class Origin(StrEnum):
    """What an experience was drawn from."""

    SUCCESS = "success"
    FAILURE = "failure"
    COMPARISON = "comparison"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A trajectory that is on disk.

    Attributes:
        trajectory: The trajectory, its messages as they are stored.
        block_id: The block that keeps its messages.
        steps: Its messages cut into steps, in order, none left out; one step until a stage cuts it. A tool call and
            its result are never in two.
    """

    trajectory: Trajectory
    block_id: str
    steps: tuple[tuple[Message, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """Something learnt from attempts, on its way to being a procedural memory.

    Attributes:
        when_to_use: In which situation it helps.
        content: What to do, or not to do, and why.
        tags: Short words for it.
        confidence: How sure whoever wrote it is, in [0, 1].
        step_type: Which kind of step it is about.
        tools_used: Tools that it speaks of; all of them were called in the attempts.
        origin: What it was drawn from.
        attempts: The attempts that it was drawn from.
        evidence: Messages of these attempts that it rests on, in order.
        sources: Blocks and ids of the evidence.
        score: What the validation gave, in [0, 1]; None before.
    """

    when_to_use: str
    content: str
    tags: tuple[str, ...] = ()
    confidence: float = 0.5
    step_type: StepType = StepType.DECISION
    tools_used: tuple[str, ...] = ()
    origin: Origin
    attempts: tuple[Attempt, ...] = field(repr=False)
    evidence: tuple[Message, ...] = field(repr=False)
    sources: tuple[Source, ...]
    score: float | None = None

    @property
    def index_text(self) -> str:
        """The text that the memory will be found by; `Memory.index_text` of what is written."""
        return f"{self.when_to_use}\n{self.content}" if self.when_to_use else self.content

    def rejected(self, kind: Literal["duplicate", "invalid"], reason: str) -> RejectedExperience:
        """Return what is said of it where it is left out."""
        return RejectedExperience(when_to_use=self.when_to_use, content=self.content, kind=kind, reason=reason)

    def metadata(self) -> dict[str, JsonValue]:
        """Return what is kept in the memory's metadata; the metadata of the first four attempts is among it."""
        attempts: list[JsonValue] = []
        for place, attempt in enumerate(self.attempts):
            told: dict[str, JsonValue] = {
                "trajectory_id": attempt.trajectory.trajectory_id,
                "task_id": attempt.trajectory.task_id,
                "score": attempt.trajectory.score,
            }
            if place < _TOLD_WHOLE:
                told["metadata"] = attempt.trajectory.metadata
            attempts.append(told)
        return {
            "tags": list(self.tags),
            "step_type": str(self.step_type),
            "tools_used": list(self.tools_used),
            "learnt_from": str(self.origin),
            "score": self.score,
            "trajectories": attempts,
        }


Attempts: TypeAlias = tuple[Attempt, ...]
Experiences: TypeAlias = tuple[Experience, ...]

TaskFlow: TypeAlias = Stage[Attempts, Experiences, FlowContext]
"""From the attempts at one task to the experiences that are written, in one write with the end of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuestion:
    """What a task wants to know.

    Attributes:
        query: The task in words; empty: it is built from the messages.
        messages: The conversation so far, in order.
        limit: At most this many memories.
        token_budget: The text may have so many tokens at most; None: as many as it needs.
        include_shared: Look into the shared scope of the space as well.
        min_score: Leaves out what is found with a lower score.
        candidates: So many are found, where a later stage chooses among them; None: no more than `limit`.
    """

    query: str = ""
    messages: Sequence[Message] = ()
    limit: int = 5
    token_budget: int | None = None
    include_shared: bool = False
    min_score: float | None = None
    candidates: int | None = None

    def __post_init__(self) -> None:
        """Take the beginning of a pasted text; see `bounded_query`."""
        object.__setattr__(self, "query", bounded_query(self.query))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnswer:
    """What was found for a task so far.

    Attributes:
        question: What was asked, its query filled in.
        hits: Procedural memories, best first.
        text: The plain text for a prompt.
    """

    question: TaskQuestion
    hits: tuple[Hit, ...] = ()
    text: str = ""


RetrievalFlow: TypeAlias = Stage[TaskQuestion, TaskAnswer, FlowContext]
"""From the question of a task to what was found for it."""
