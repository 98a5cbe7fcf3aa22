"""The contracts of `Transcript` and `TranscriptIndex` as pytest classes.

A backend subclasses them and gives the fixture `store`, as with `reme_core.testing.memory_store_contract`; where it
declares a capability, the fixture `opener` too. One class may take both: `class TestMine(TranscriptContract,
TranscriptIndexContract)`. The index contract wants an `IndexedTranscript`.
"""

from __future__ import annotations

import pytest

from reme_core.testing._transcript_blocks import (
    TranscriptBlocks,
    TranscriptConcurrency,
    TranscriptDurability,
    TranscriptIsolation,
)
from reme_core.testing._transcript_index import IndexRanking, IndexVectors
from reme_core.testing._transcript_jobs import TranscriptJobs
from reme_core.testing._transcript_messages import TranscriptAppending, TranscriptFinding


@pytest.mark.asyncio
class TranscriptContract(
    TranscriptAppending,
    TranscriptFinding,
    TranscriptBlocks,
    TranscriptJobs,
    TranscriptIsolation,
    TranscriptConcurrency,
    TranscriptDurability,
):
    """Everything that `reme_core.ports.Transcript` promises, and what it plans where it is a `JobQueue` too."""


@pytest.mark.asyncio
class TranscriptIndexContract(IndexRanking, IndexVectors):
    """Everything that `reme_core.ports.TranscriptIndex` promises of a transcript that can be searched."""
