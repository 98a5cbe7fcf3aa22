"""What every memory store holds to, as pure functions: what a write comes to, and which memories a filter means."""

from reme_core.rules.match import CheckedFilter, check_filter, matches, metadata_token, metadata_tokens
from reme_core.rules.plan import (
    Change,
    Claim,
    Plan,
    check_batch,
    check_vector,
    claim_of,
    claims_of,
    ids_of,
    plan_batch,
)

__all__ = [
    "Change",
    "CheckedFilter",
    "Claim",
    "Plan",
    "check_batch",
    "check_filter",
    "check_vector",
    "claim_of",
    "claims_of",
    "ids_of",
    "matches",
    "metadata_token",
    "metadata_tokens",
    "plan_batch",
]
