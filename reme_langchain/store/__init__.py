"""The store of LangGraph on a memory of reme."""

from reme_langchain.store.reme_store import (
    DEFAULT_RULES,
    NamespaceRule,
    ReMeStore,
    decode_label,
    encode_label,
    memory_namespace,
    open_store,
)

__all__ = [
    "DEFAULT_RULES",
    "NamespaceRule",
    "ReMeStore",
    "decode_label",
    "encode_label",
    "memory_namespace",
    "open_store",
]
