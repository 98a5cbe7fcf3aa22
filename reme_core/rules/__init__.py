"""Rules that every memory store holds to, as pure functions.

What a write comes to, which memories a filter means, and how memories that took each other's place share time.
"""

from reme_core.rules.chain import ChainUpdate as ChainUpdate
from reme_core.rules.chain import chain_of as chain_of
from reme_core.rules.chain import check_useless as check_useless
from reme_core.rules.chain import check_uses as check_uses
from reme_core.rules.chain import is_unchanged as is_unchanged
from reme_core.rules.chain import is_useless as is_useless
from reme_core.rules.chain import place as place
from reme_core.rules.chain import replaced as replaced
from reme_core.rules.chain import used as used
from reme_core.rules.items import ItemTexts as ItemTexts
from reme_core.rules.items import check_key as check_key
from reme_core.rules.items import meets as meets
from reme_core.rules.items import metadata_of as metadata_of
from reme_core.rules.items import namespace_path as namespace_path
from reme_core.rules.items import needle as needle
from reme_core.rules.items import overlaid as overlaid
from reme_core.rules.items import path_after as path_after
from reme_core.rules.items import read_value as read_value
from reme_core.rules.items import split_path as split_path
from reme_core.rules.items import texts_of as texts_of
from reme_core.rules.items import value_of as value_of
from reme_core.rules.items import write_value as write_value
from reme_core.rules.memory_filter import CheckedFilter as CheckedFilter
from reme_core.rules.memory_filter import check_filter as check_filter
from reme_core.rules.memory_filter import matches as matches
from reme_core.rules.memory_filter import metadata_token as metadata_token
from reme_core.rules.memory_filter import metadata_tokens as metadata_tokens
from reme_core.rules.plan import NORM_TOLERANCE as NORM_TOLERANCE
from reme_core.rules.plan import Change as Change
from reme_core.rules.plan import Claim as Claim
from reme_core.rules.plan import WritePlan as WritePlan
from reme_core.rules.plan import beside as beside
from reme_core.rules.plan import check_batch as check_batch
from reme_core.rules.plan import check_vector as check_vector
from reme_core.rules.plan import claim_of as claim_of
from reme_core.rules.plan import claimed_content as claimed_content
from reme_core.rules.plan import claims_of as claims_of
from reme_core.rules.plan import ids_of as ids_of
from reme_core.rules.plan import kept_by_updates as kept_by_updates
from reme_core.rules.plan import plan_batch as plan_batch
from reme_core.rules.plan import reason_for as reason_for
from reme_core.rules.plan import repetition as repetition
from reme_core.rules.plan import replaced_elsewhere as replaced_elsewhere
from reme_core.rules.plan import run_for as run_for
from reme_core.rules.plan import settle_equal as settle_equal
from reme_core.rules.relation_graph import Edge as Edge
from reme_core.rules.relation_graph import ReachedName as ReachedName
from reme_core.rules.relation_graph import RelationGraph as RelationGraph
from reme_core.rules.relation_names import USER as USER
from reme_core.rules.relation_names import distinct_relations as distinct_relations
from reme_core.rules.relation_names import join_relations as join_relations
from reme_core.rules.relation_names import name_key as name_key
