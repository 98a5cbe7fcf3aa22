"""Parts of a `ReMe`: what the methods of each subject work on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from reme_core.errors import InvalidInputError
from reme_core.schema import Scope, shown
from reme_core.schema.checks import is_path

if TYPE_CHECKING:
    from reme_core.facade.config import Ports
    from reme_core.facade.learning_service import LearningService
    from reme_core.facade.strategies import RuntimePorts
    from reme_core.jobs.job_service import JobService
    from reme_core.ports import Clock, Retriever, Summarizer
    from reme_core.remember.memory_editor import Editor
    from reme_core.remember.record_messages import VerbatimSummarizer
    from reme_core.retrieval.resting_embedder import RestingEmbedder
    from reme_core.text import Language
    from reme_core.working.ports import WorkingPorts


class MemoryParts(Protocol):
    """A `ReMe`, as its own parts see it."""

    _memory_space: str
    _ports: Ports
    _runtime: RuntimePorts
    _clock: Clock
    _embedder: RestingEmbedder | None
    _record: VerbatimSummarizer
    _work: JobService
    _editor: Editor
    _summarizer: Summarizer
    _retriever: Retriever
    _language: Language | None
    _timezone: str

    @property
    def _learning(self) -> LearningService: ...

    def _working_ports(self) -> WorkingPorts: ...

    def _scope(self, user_id: object) -> Scope: ...


def file_path(value: object) -> Path:
    """Return the path of a file (InvalidInputError)."""
    if isinstance(value, (str, Path)) and is_path(str(value)) and Path(value).name:
        return Path(value).expanduser()
    msg = f"path: wanted the path of a file, found {shown(value)}"
    raise InvalidInputError(msg)
