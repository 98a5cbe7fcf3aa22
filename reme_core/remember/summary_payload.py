"""Payload of a summary job, to and from the JSON on disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue

from reme_core.errors import RunError
from reme_core.ports import Target
from reme_core.schema import UTC_NAME, Job, MemoryType
from reme_core.steps.guidance import Guidance

SUMMARY = "summary"
"""The kind of job that distils blocks into memories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryPayload:
    """What a summary job is about, to and from the JSON on disk.

    Attributes:
        session_id: The session.
        block_ids: Its blocks.
        memory_type: The only type of memory to make.
        guidance: What the application wants, as it was when the job was promised.
        timezone: The user's, by its IANA name.
        targets: What an earlier attempt has left to do; None: everything.
    """

    session_id: str
    block_ids: tuple[str, ...]
    memory_type: MemoryType | None = None
    guidance: Guidance = field(default_factory=Guidance)
    timezone: str = UTC_NAME
    targets: tuple[Target, ...] | None = None

    def write(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        guidance = {} if self.guidance == Guidance() else {"guidance": self.guidance.write()}
        return {
            "session_id": self.session_id,
            "block_ids": list(self.block_ids),
            "memory_type": None if self.memory_type is None else str(self.memory_type),
            **guidance,
            **({} if self.timezone == UTC_NAME else {"timezone": self.timezone}),
        }

    @classmethod
    def read(cls, job: Job) -> SummaryPayload:
        """Read what `write` wrote (RunError: it is something else)."""
        try:
            payload: dict[str, object] = dict(job.payload)
            kind = payload["memory_type"]
            return cls(
                session_id=str(payload["session_id"]),
                block_ids=tuple(map(str, _list(payload["block_ids"]))),
                memory_type=None if kind is None else MemoryType(str(kind)),
                guidance=Guidance.read(payload.get("guidance")),
                timezone=str(payload.get("timezone", UTC_NAME)),
                targets=_targets(payload.get("targets")),
            )
        except (KeyError, ValueError, TypeError) as exc:
            msg = f"the payload of job {job.job_id!r} is none of a summary: drop the job, the messages stay"
            raise RunError(msg) from exc


def _list(value: object) -> list[object]:
    if isinstance(value, list):
        return value
    msg = "wanted a list"
    raise TypeError(msg)


def _targets(value: object) -> tuple[Target, ...] | None:
    if value is None:
        return None
    pairs = [(str(kind), str(name)) for kind, name in map(_list, _list(value))]
    return tuple(Target(MemoryType(kind), name) for kind, name in pairs)
