"""The contract of `JobQueue` as a pytest class: whoever keeps jobs subclasses it.

A backend gives the fixture `store`, as with `reme_core.testing.memory_store_contract`, and the fixture `opener` where
it declares a capability. Besides the port, the store has `erase` and `close`, as memory stores have them. One that is a
`SettlesWrites` has to be a `MemoryStore` too, and is then asked for what it writes when it settles a job.
"""

from __future__ import annotations

import pytest

from reme_core.testing._job_claims import JobAdding, JobClaims
from reme_core.testing._job_lifetime import JobConcurrency, JobDurability, JobIsolation
from reme_core.testing._job_model import JobSequences
from reme_core.testing._job_settling import JobSettling, JobWrites


@pytest.mark.asyncio
class JobQueueContract(
    JobAdding, JobClaims, JobSettling, JobWrites, JobSequences, JobIsolation, JobConcurrency, JobDurability
):
    """Everything that `reme_core.ports.JobQueue` promises, and `SettlesWrites` of a queue that is one."""
