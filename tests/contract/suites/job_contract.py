"""The contract of `Store` as a pytest class: whoever keeps jobs subclasses it.

A backend gives the fixture `store`, as with `reme_core.testing.store_contract`, and the fixture `opener` where
it declares a capability. Besides the port, the store has `erase` and `close`, as memory stores have them. One that is a
`Store` has to be a `Store` too, and is then asked for what it writes when it settles a job.
"""

from __future__ import annotations

import pytest

from tests.contract.suites.job_claims import JobAdding, JobClaims
from tests.contract.suites.job_lifetime import JobConcurrency, JobDurability, JobIsolation
from tests.contract.suites.job_model import JobSequences
from tests.contract.suites.job_settling import JobSettling, JobWrites


@pytest.mark.asyncio
class JobContract(
    JobAdding, JobClaims, JobSettling, JobWrites, JobSequences, JobIsolation, JobConcurrency, JobDurability
):
    """Everything that `reme_core.ports.Store` promises, and `Store` of a queue that is one."""
