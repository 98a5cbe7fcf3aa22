"""What every memory store holds to, as pure functions.

What a write comes to, which memories a filter means, and how memories that took each other's place share time.
"""

from reme_core.rules.blocks import block_from
from reme_core.rules.chain import Placed, chain_of, place
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
    kept_by_updates,
    plan_batch,
    reason_for,
)
from reme_core.rules.uses import check_useless, check_uses, is_useless, used

__all__ = [
    "Change",
    "CheckedFilter",
    "Claim",
    "Placed",
    "Plan",
    "block_from",
    "chain_of",
    "check_batch",
    "check_filter",
    "check_useless",
    "check_uses",
    "check_vector",
    "claim_of",
    "claims_of",
    "ids_of",
    "is_useless",
    "kept_by_updates",
    "matches",
    "metadata_token",
    "metadata_tokens",
    "place",
    "plan_batch",
    "reason_for",
    "used",
]
