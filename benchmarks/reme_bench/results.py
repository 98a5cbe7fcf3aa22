"""The file of results: what one run measured, question by question and summed up, as JSON that others render or add to.

Shares and figures are fractions, no percent; times are milliseconds, sizes bytes.
"""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.private_drafts import private_draft, put_in_place

# Category of summaries over the questions of all categories.
ALL = "all"


class ResultsFileError(InvalidInputError):
    """A file is no file of results."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Dataset(_Part):
    """The data set: its file, and the SHA-256 of what was read; `checksum_known`: it is that of the published file."""

    name: str
    file: str
    sha256: str
    checksum_known: bool
    licence: str
    conversations: int = Field(ge=0)
    questions: int = Field(ge=0)
    messages: int = Field(ge=0)


class Machine(_Part):
    """Where it was measured."""

    python: str
    platform: str
    cpus: int = Field(ge=1)


class Milliseconds(_Part):
    """Median and 95th percentile."""

    p50: float = Field(ge=0)
    p95: float = Field(ge=0)


class NotMeasured(_Part):
    """A figure that a system lacks, and why."""

    what: str
    why: str


class System(_Part):
    """One system that answered the questions.

    `append_ms` is a session stored, `search_ms` a question asked; `bytes` what the system keeps on disk for all
    conversations. None: not measured, and `not_measured` says why.
    """

    name: str
    kind: Literal["reme", "baseline", "peer"]
    bytes: int | None = None
    model_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    append_ms: Milliseconds | None = None
    search_ms: Milliseconds | None = None
    not_measured: tuple[NotMeasured, ...] = ()


class Marks(_Part):
    """A judge's verdict on one answer."""

    strict: Literal[0, 1]
    lenient: Literal[0, 1]


class Row(_Part):
    """One question and one system.

    A figure that the question can't have is missing from `figures`. `ids` are the messages found, best first;
    `top_score` is the first result's, on the system's own scale. `tokens_to_80` counts the tokens of the texts from the
    top down to where they hold 80 % of the evidence; None: all that was found holds less.
    `notes` are what a reader answers from.
    """

    system: str
    conversation: str
    question_id: str
    question: str
    category: str
    answerable: bool
    figures: dict[str, float] = Field(default_factory=dict)
    top_score: float | None = None
    milliseconds: float = Field(default=0.0, ge=0)
    ids: tuple[str, ...] = ()
    tokens_to_80: int | None = None
    gold: str | None = None
    notes: str | None = None
    answer: str | None = None
    marks: Marks | None = None


class Summary(_Part):
    """Mean of a figure over `n` questions of a category ("all": of every one), with its 95 % interval."""

    system: str
    category: str
    figure: str
    mean: float
    low: float
    high: float
    n: int = Field(ge=1)


class Paired(_Part):
    """Mean of a system's figure less a baseline's, question by question, with its 95 % interval."""

    system: str
    baseline: str
    figure: str
    difference: float
    low: float
    high: float
    n: int = Field(ge=1)


class Prompts(_Part):
    """Prompts that answers were written and judged with; None: there was none."""

    reader: str | None = None
    judge: str | None = None


class AnswerFailure(_Part):
    """An answer or a mark that is missing because the endpoint failed: the class of the error, and what it said."""

    system: str
    conversation: str
    question_id: str
    stage: Literal["reader", "judge"]
    error: str
    message: str


class Answering(_Part):
    """Models that answered and judged, the tokens of notes that a question had, and what all answers kept have cost."""

    reader: str
    judge: str | None = None
    budget: int = Field(ge=1)
    model_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failures: tuple[AnswerFailure, ...] = ()


class Results(_Part):
    """Everything that a run measured."""

    version: Literal[1] = 1
    made_at: datetime
    dataset: Dataset
    machine: Machine
    versions: dict[str, str]
    systems: tuple[System, ...]
    rows: tuple[Row, ...]
    summary: tuple[Summary, ...] = ()
    paired: tuple[Paired, ...] = ()
    prompts: Prompts = Prompts()
    answering: Answering | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of results.

        Raises:
            ResultsFileError: It is not of this form, or can't be read.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as exc:
            message = f"{str(path)!r} can't be read: {exc.strerror}; name a file of results, as `reme bench` writes it"
            raise ResultsFileError(message) from exc
        except ValidationError as exc:
            wrong = exc.errors(include_url=False)[0]
            place = ".".join(map(str, wrong["loc"])) or "the file"
            message = f"{path} is no file of results, version 1: {place}: {wrong['msg']}; `reme bench` writes one"
            raise ResultsFileError(message) from exc

    def write(self, path: Path) -> None:
        """Write the file whole, without what nobody knows: what lay there stays until it is (OSError)."""
        text = self.model_dump_json(indent=1, exclude_none=True) + "\n"
        if path.exists() and not path.is_file():  # a pipe
            path.write_text(text, encoding="utf-8")
            return
        with private_draft(path.resolve()) as draft:
            draft.write_text(text, encoding="utf-8")
            if path.exists():
                shutil.copymode(path, draft)
            put_in_place(draft, path.resolve())
