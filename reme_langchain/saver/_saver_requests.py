"""Requests of langgraph to a saver, checked and turned into requests to the file; the calls that remove and copy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    get_checkpoint_metadata,
)

from reme_core import SqlConnection
from reme_core.errors import InvalidInputError
from reme_core.schema import Scope, shown
from reme_langchain._owner import find_owner
from reme_langchain.saver._checkpoint_rows import CheckpointKey, ListQuery, PutRow, Version, WriteRow
from reme_langchain.saver._message_blobs import KnownDigests, compact_json
from reme_langchain.saver._remove_and_copy import copy_thread, delete_runs, delete_thread, prune_thread
from reme_langchain.saver._saver_file import SaverFile, damage_told
from reme_langchain.saver._saver_tables import find_thread
from reme_langchain.saver._value_codec import ValueCodec

Care: TypeAlias = tuple[Callable[[SqlConnection, KnownDigests], None], str | None]
"""Work that removes or copies, and the thread to which it writes; None: it locks those to which it does."""


def place_of(config: RunnableConfig) -> CheckpointKey:
    """Return what a config addresses.

    Raises:
        InvalidInputError: It names no thread, or something in it can't be kept.
    """
    configurable = (config or {}).get("configurable") or {}
    if configurable.get("thread_id") is None:
        msg = "config['configurable']['thread_id'] is missing: give the id of the conversation, a text or a number"
        raise InvalidInputError(msg)
    checkpoint_id = configurable.get("checkpoint_id")
    return CheckpointKey(
        thread=thread_name(configurable["thread_id"]),
        ns=text(configurable.get("checkpoint_ns") or "", "checkpoint_ns"),
        checkpoint_id=text(checkpoint_id, "checkpoint_id") if checkpoint_id else None,
    )


def thread_name(thread_id: object, what: str = "thread_id") -> str:
    """Return a thread's id as text; numbers are accepted.

    Raises:
        InvalidInputError: It is something else, or no text that can be kept.
    """
    if not isinstance(thread_id, str) and isinstance(thread_id, int | UUID) and not isinstance(thread_id, bool):
        return str(thread_id)
    return text(thread_id, what)


def text(value: object, what: str) -> str:
    """Return a text that can be kept (InvalidInputError, naming `what`)."""
    if not isinstance(value, str):
        msg = f"{what}: wanted a text, found {shown(value)}"
        raise InvalidInputError(msg)
    try:
        value.encode()
    except UnicodeEncodeError:
        msg = f"{what}: {value!r:.80} holds a lone surrogate, which is no character: remove it"
        raise InvalidInputError(msg) from None
    return value


_OF_THE_ROW = frozenset({"id", "channel_values"})


def put_request(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    codec: ValueCodec,
    memory_space: str,
    wanted: frozenset[str] = frozenset(),
) -> PutRow:
    """Turn a put into a request; the values of `wanted` channels go along although their versions are not new.

    Raises:
        InvalidInputError: An id, version or name can't be kept.
        TypeError: A value can't be serialised, or would not be rebuilt.
    """
    values = checkpoint["channel_values"]
    versions = {
        text(channel, "a channel's name"): _version(channel, version)
        for channel, version in checkpoint["channel_versions"].items()
    }
    new = {
        channel: codec.encode(f"channel {channel!r}", values[channel]) if channel in values else None
        for channel in versions
        if channel in wanted or (new_versions and channel in new_versions)
    }
    kept_metadata = get_checkpoint_metadata(config, metadata)
    run = kept_metadata.get("run_id")
    owner = find_owner(config)
    return PutRow(
        place=place_of(config),
        owner=None if owner is None else Scope(memory_space=memory_space, user_id=owner),
        checkpoint_id=text(checkpoint["id"], "checkpoint['id']"),
        run=text(run, "run_id") if isinstance(run, str) else None,
        body=codec.encode_whole("the checkpoint", {k: v for k, v in checkpoint.items() if k not in _OF_THE_ROW}),
        metadata=_json(kept_metadata),
        versions=versions,
        new=new,
        held=frozenset(channel for channel in values if channel in versions and channel not in new),
    )


def _version(channel: str, version: object) -> Version:
    if isinstance(version, str):
        return text(version, f"the version of channel {channel!r}")
    if isinstance(version, int) and not isinstance(version, bool) and -(1 << 63) <= version < 1 << 63:
        return version
    if isinstance(version, float) and math.isfinite(version):
        return version
    msg = f"the version of channel {channel!r}: wanted a text or a number below 2**63, found {shown(version)}"
    raise InvalidInputError(msg)


def _json(metadata: Mapping[str, Any]) -> str:
    try:
        return compact_json(metadata)
    except (TypeError, ValueError) as exc:
        msg = f"the metadata of a checkpoint can't be kept, since it is no JSON: {exc}"
        raise TypeError(msg) from exc


def write_requests(writes: Sequence[tuple[str, Any]], codec: ValueCodec) -> list[WriteRow]:
    """Turn the writes of a task into requests.

    Raises:
        InvalidInputError: The name of a channel can't be kept.
        TypeError: A value can't be serialised, or would not be rebuilt.
    """
    return [
        WriteRow(
            idx=WRITES_IDX_MAP.get(text(channel, "a channel's name"), position),
            channel=channel,
            value=codec.encode(f"the write to channel {channel!r}", value),
        )
        for position, (channel, value) in enumerate(writes)
    ]


def list_request(
    config: RunnableConfig | None,
    metadata: Mapping[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> ListQuery:
    """Turn the arguments of a list into a request.

    Raises:
        InvalidInputError: The limit is negative, or an id can't be looked for.
    """
    if limit is not None and limit < 0:
        msg = f"limit: wanted 0 or more, found {limit}"
        raise InvalidInputError(msg)
    place = None if config is None else place_of(config)
    older = ((before or {}).get("configurable") or {}).get("checkpoint_id")
    has_ns = config is not None and config["configurable"].get("checkpoint_ns") is not None
    return ListQuery(
        thread=None if place is None else place.thread,
        ns=place.ns if place is not None and has_ns else None,
        checkpoint_id=None if place is None else place.checkpoint_id,
        before=text(older, "before: checkpoint_id") if older else None,
        metadata=metadata or None,
        limit=limit,
    )


def delete_work(thread_id: str) -> Care:
    """Turn the deletion of a thread into work on the file (InvalidInputError where that is no id)."""
    name = thread_name(thread_id)
    return lambda connection, _: delete_thread(connection, name), name


def runs_work(run_ids: Sequence[str]) -> Care:
    """Turn the deletion of runs into work on the file (InvalidInputError where those are no ids)."""
    runs = [thread_name(run, "run_ids") for run in _several(run_ids, "run_ids")]
    return damage_told()(lambda connection, _: delete_runs(connection, runs)), None


def copy_work(source: str, target: str) -> Care:
    """Turn the copy of a thread into work on the file (InvalidInputError where one is no id)."""
    names = thread_name(source, "source_thread_id"), thread_name(target, "target_thread_id")
    return damage_told()(lambda connection, known: copy_thread(connection, known, *names)), None


def prune_work(thread_ids: Sequence[str], strategy: str) -> Care:
    """Turn pruning into work on the file.

    Raises:
        InvalidInputError: The strategy is unknown, or those are no ids.
    """
    names = [thread_name(thread, "thread_ids") for thread in _several(thread_ids, "thread_ids")]
    works = {"keep_latest": prune_thread, "delete": delete_thread}
    if strategy not in works:
        msg = f"strategy: {strategy!r} is not known: use 'keep_latest' or 'delete'"
        raise InvalidInputError(msg)

    @damage_told()
    def prune_all(connection: SqlConnection, _: KnownDigests) -> None:
        for name in sorted(names):  # in this order, and before anything else is waited for
            find_thread(connection, name, locked=True)
        for name in names:
            works[strategy](connection, name)

    return prune_all, None


def _several(ids: Sequence[str], what: str) -> Sequence[str]:
    """Refuse a single text, whose letters would be taken for ids, and what is no list."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        msg = f"{what}: wanted a list of ids, found {shown(ids)}: put it into a list"
        raise InvalidInputError(msg)
    return ids


class RemovalCalls:
    """The part of `ReMeSaver` that removes and copies threads."""

    _file: SaverFile

    def delete_thread(self, thread_id: str) -> None:
        """Remove all of a thread, in every namespace; an unknown one is none.

        What waits for the history sink goes as well; what the sink has got is its own.
        """
        self._file.write(*delete_work(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """Do what `delete_thread` does, without blocking the event loop."""
        await self._file.awrite(*delete_work(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints whose metadata have one of these run ids, with their writes.

        What later checkpoints need to rebuild a delta channel stays, hidden, as long as they do.
        """
        self._file.write(*runs_work(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do what `delete_for_runs` does, without blocking the event loop."""
        await self._file.awrite(*runs_work(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all of a thread to an empty one; an unknown source copies nothing.

        Raises:
            InvalidInputError: The target holds checkpoints; nothing was copied.
        """
        self._file.write(*copy_work(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do what `copy_thread` does, without blocking the event loop."""
        await self._file.awrite(*copy_work(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove the older checkpoints of threads, all in one transaction.

        Args:
            thread_ids: The threads; unknown ones are none.
            strategy: "keep_latest": the newest checkpoint of each namespace stays, with its writes; what it needs to
                rebuild a delta channel stays as well, hidden. "delete": nothing stays.

        Raises:
            InvalidInputError: Another strategy.
        """
        self._file.write(*prune_work(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do what `prune` does, without blocking the event loop."""
        await self._file.awrite(*prune_work(thread_ids, strategy))
