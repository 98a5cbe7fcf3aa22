"""Rules that every memory store holds to, as pure functions.

What a write comes to, which memories a filter means, and how memories that took each other's place share time.
"""

from reme_core.rules.blocks import block_from
from reme_core.rules.chain import ChainUpdate, chain_of, place, replaced
from reme_core.rules.item_filters import meets, needle
from reme_core.rules.items import (
    ItemTexts,
    check_key,
    metadata_of,
    namespace_path,
    overlaid,
    path_after,
    read_value,
    split_path,
    texts_of,
    value_of,
    write_value,
)
from reme_core.rules.match import CheckedFilter, check_filter, matches, metadata_token, metadata_tokens
from reme_core.rules.plan import (
    Change,
    Claim,
    WritePlan,
    beside,
    check_batch,
    check_vector,
    claim_of,
    claims_of,
    ids_of,
    kept_by_updates,
    plan_batch,
    reason_for,
    repetition,
    replaced_elsewhere,
    settle_equal,
)
from reme_core.rules.uses import check_useless, check_uses, is_useless, used

__all__ = [
    "ChainUpdate",
    "Change",
    "CheckedFilter",
    "Claim",
    "ItemTexts",
    "WritePlan",
    "beside",
    "block_from",
    "chain_of",
    "check_batch",
    "check_filter",
    "check_key",
    "check_useless",
    "check_uses",
    "check_vector",
    "claim_of",
    "claims_of",
    "ids_of",
    "is_useless",
    "kept_by_updates",
    "matches",
    "meets",
    "metadata_of",
    "metadata_token",
    "metadata_tokens",
    "namespace_path",
    "needle",
    "overlaid",
    "path_after",
    "place",
    "plan_batch",
    "read_value",
    "reason_for",
    "repetition",
    "replaced",
    "replaced_elsewhere",
    "settle_equal",
    "split_path",
    "texts_of",
    "used",
    "value_of",
    "write_value",
]
