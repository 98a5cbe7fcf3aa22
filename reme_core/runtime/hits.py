"""Results of a search as hits of the public face."""

from reme_core.retrieval.hits import block_hit, memory_hit, message_hit, passage_of

__all__ = ["block_hit", "memory_hit", "message_hit", "passage_of"]
