"""A store over another one: what it does not override goes through."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from reme_core.ports.store import Store

P = ParamSpec("P")
T = TypeVar("T")


def _below(
    method: Callable[Concatenate[Store, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[WrappedStore, P], Coroutine[Any, Any, T]]:
    """Return a method of this name, signature and docstring that calls it on the store below."""

    def call(self: WrappedStore, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        behind: Callable[P, Coroutine[Any, Any, T]] = getattr(self._store, method.__name__)
        return behind(*args, **kwargs)

    update_wrapper(call, method)
    return call


class WrappedStore:
    """A `Store` that hands every call to the one below; subclasses override what they do otherwise."""

    def __init__(self, store: Store) -> None:
        """Keep the store below."""
        self._store = store

    put = _below(Store.put)
    put_and_settle = _below(Store.put_and_settle)
    record_uses = _below(Store.record_uses)
    get = _below(Store.get)
    search = _below(Store.search)
    list_memories = _below(Store.list_memories)
    count_targets = _below(Store.count_targets)
    events = _below(Store.events)
    memory_changes = _below(Store.memory_changes)
    append = _below(Store.append)
    get_messages = _below(Store.get_messages)
    get_blob = _below(Store.get_blob)
    find_messages = _below(Store.find_messages)
    search_messages = _below(Store.search_messages)
    put_blocks = _below(Store.put_blocks)
    get_blocks = _below(Store.get_blocks)
    list_blocks = _below(Store.list_blocks)
    search_blocks = _below(Store.search_blocks)
    pending_texts = _below(Store.pending_texts)
    waiting_scopes = _below(Store.waiting_scopes)
    put_vectors = _below(Store.put_vectors)
    add_jobs = _below(Store.add_jobs)
    claim_job = _below(Store.claim_job)
    settle_job = _below(Store.settle_job)
    list_jobs = _below(Store.list_jobs)
    job_scopes = _below(Store.job_scopes)
    put_offloads = _below(Store.put_offloads)
    get_offload = _below(Store.get_offload)
    list_offloads = _below(Store.list_offloads)
    search_offloads = _below(Store.search_offloads)
    hold_offloads = _below(Store.hold_offloads)
    clean_offloads = _below(Store.clean_offloads)
    add_tool_calls = _below(Store.add_tool_calls)
    get_tool_calls = _below(Store.get_tool_calls)
    tool_statistics = _below(Store.tool_statistics)
    list_tool_calls = _below(Store.list_tool_calls)
    list_tools = _below(Store.list_tools)
    get_items = _below(Store.get_items)
    search_items = _below(Store.search_items)
    list_item_namespaces = _below(Store.list_item_namespaces)
    write_items = _below(Store.write_items)
    sweep_items = _below(Store.sweep_items)
    find_index = _below(Store.find_index)
    claim_index = _below(Store.claim_index)
    begin_reembedding = _below(Store.begin_reembedding)
    texts_to_reembed = _below(Store.texts_to_reembed)
    put_new_vectors = _below(Store.put_new_vectors)
    end_reembedding = _below(Store.end_reembedding)
    count = _below(Store.count)
    erase = _below(Store.erase)
    close = _below(Store.close)
