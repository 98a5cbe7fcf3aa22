"""The contracts of `Transcript` and `Store` as pytest classes.

A backend subclasses them and gives the fixture `store`, as with `reme_core.testing.store_contract`; where it
declares a capability, the fixture `opener` too. One class may take both: `class TestMine(TranscriptContract,
TranscriptIndexContract)`. The index contract wants an `Store`.
"""

from __future__ import annotations

import pytest

from tests.contract.suites.transcript_blobs import TranscriptBlobs
from tests.contract.suites.transcript_blocks import (
    TranscriptBlocks,
    TranscriptConcurrency,
    TranscriptDurability,
    TranscriptIsolation,
)
from tests.contract.suites.transcript_index import IndexRanking, IndexVectors
from tests.contract.suites.transcript_jobs import TranscriptJobs
from tests.contract.suites.transcript_messages import TranscriptAppending, TranscriptFinding


@pytest.mark.asyncio
class TranscriptContract(
    TranscriptAppending,
    TranscriptFinding,
    TranscriptBlobs,
    TranscriptBlocks,
    TranscriptJobs,
    TranscriptIsolation,
    TranscriptConcurrency,
    TranscriptDurability,
):
    """Everything that `reme_core.ports.Transcript` promises, and what it plans where it is a `Store` too."""


@pytest.mark.asyncio
class TranscriptIndexContract(IndexRanking, IndexVectors):
    """Everything that `reme_core.ports.Store` promises of a transcript that can be searched."""
