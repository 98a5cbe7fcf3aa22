"""Checkpoints of langgraph-checkpoint-postgres, or of a saver of ours, moved to a saver of ours.

python -m reme_langchain.import_checkpoints postgresql://.../old postgresql://.../new --dry-run
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from reme_core.errors import ConfigurationError, ReMeError
from reme_langchain.importing.foreign_savers import (
    ForeignSaver,
    Key,
    checkpoint_keys,
    foreign_saver,
    is_sqlite_saver,
    is_url,
    place_to_write,
)
from reme_langchain.saver import ReMeSaver
from reme_langchain.saver._checkpoint_rows import ListQuery, list_rows
from reme_langchain.saver._saver_requests import put_request, write_requests


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointImport:
    """What an import has done, or would do.

    Attributes:
        threads: The threads that were looked at.
        imported: The checkpoints that were written, or would be.
        present: Those that were there before, and stay as they are.
    """

    threads: int
    imported: int
    present: int


def import_checkpoints(
    source: str | ReMeSaver,
    target: ReMeSaver,
    *,
    threads: Sequence[str] | None = None,
    serde: SerializerProtocol | None = None,
    dry_run: bool = False,
    progress: Callable[[int], None] | None = None,
) -> CheckpointImport:
    """Copy checkpoints, values and writes of LangGraph's savers, or of another one of ours; the source is only read.

    A checkpoint that the target has is left alone, so doing it again changes nothing, and goes on where it was stopped.

    Args:
        source: The URL of the database, as `PostgresSaver.from_conn_string` takes it; the path of a file of
            `SqliteSaver`; or a saver of ours, which is to `allow` those types as well: so threads move between a file
            and PostgreSQL.
        target: Where they go; it is to `allow` the types that are in them.
        threads: Only these; None: all.
        serde: The serialiser that the source was written with, where that is not the default one; what it is allowed
            to rebuild, it does. Left out, no class is built and no module imported but those that the target allows.
        dry_run: Read all of it, and check that it can be kept, but write nothing.
        progress: Told how many checkpoints were looked at, after each.

    Raises:
        ConfigurationError: The source can't be read, or the library that wrote it is not installed.
        StoreAccessError: The file can't be read.
        TypeError: A value that the target would not rebuild; it names what to add to `allow`. What came before is kept.
    """
    done, present, names = 0, 0, set[str]()
    with _opened(source, serde or target.serde) as saver:
        for name, keys in groupby(_keys(saver, threads), key=itemgetter(0)):
            names.add(name)
            there = _held(target, name)
            for key in keys:
                if key[1:] in there:
                    present += 1
                elif (found := _read(saver, key, target)) is not None:
                    _copy(found, key, target, dry_run=dry_run)
                    done += 1
                if progress is not None:
                    progress(done + present)
    return CheckpointImport(threads=len(names), imported=done, present=present)


@contextmanager
def _opened(source: str | ReMeSaver, serde: SerializerProtocol) -> Iterator[ForeignSaver | ReMeSaver]:
    if isinstance(source, ReMeSaver):
        yield source
        return
    with foreign_saver(source, serde) as saver:
        yield saver


def _keys(saver: ForeignSaver | ReMeSaver, threads: Sequence[str] | None) -> Iterator[Key]:
    """Yield what is there, thread by thread, parents before their children."""
    if isinstance(saver, ReMeSaver):
        found = saver._file.read(lambda c: c.execute(_OURS).fetchall())  # noqa: SLF001  # of this package
        yield from (key for key in found if threads is None or key[0] in threads)
        return
    yield from checkpoint_keys(saver, threads)


_OURS = """SELECT name, ns, checkpoint_id FROM langgraph_checkpoints
    JOIN langgraph_threads ON langgraph_threads.id = langgraph_checkpoints.thread
    WHERE hidden = 0 ORDER BY name, checkpoint_id, ns"""


def _read(saver: ForeignSaver | ReMeSaver, key: Key, target: ReMeSaver) -> CheckpointTuple | None:
    """Read a checkpoint (TypeError: it holds a class that is not allowed, which was not built)."""
    try:
        with target._codec.reading():  # noqa: SLF001  # of this package
            return saver.get_tuple(_config(key))
    except ConfigurationError as exc:
        raise TypeError(exc.message) from exc


def _copy(found: CheckpointTuple, key: Key, target: ReMeSaver, *, dry_run: bool) -> None:
    """Write a checkpoint, behind its writes: whoever is stopped in between begins with it again."""
    parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    metadata = dict(found.metadata)
    user = metadata.get("user_id")  # langgraph puts there what the run was configured with
    config = _config((key[0], key[1], parent), **({"user_id": user} if isinstance(user, str) and user else {}))
    versions = found.checkpoint["channel_versions"]
    tasks: dict[str, list[tuple[str, Any]]] = {}
    for task, channel, value in found.pending_writes or []:
        tasks.setdefault(task, []).append((channel, value))
    if dry_run:
        codec = target._codec  # noqa: SLF001  # of this package
        put_request(config, found.checkpoint, cast("Any", metadata), versions, codec, _SPACE)
        for writes in tasks.values():
            write_requests(writes, codec)
        return
    for place, (task, writes) in enumerate(tasks.items()):
        target.put_writes(_config(key), writes, task, f"{place:06}")  # so that they keep their order
    target.put(config, found.checkpoint, cast("Any", metadata), versions)


_SPACE = "checked"  # no memory space that anything is written to


def _held(target: ReMeSaver, thread: str) -> set[tuple[str, str]]:
    """Return namespace and id of what the target has of a thread."""
    query = partial(list_rows, query=ListQuery(thread=thread))
    return {(ns, checkpoint_id) for _, ns, checkpoint_id in target._file.read(query)}  # noqa: SLF001  # as above


def _config(key: tuple[str, str, str | None], **more: str) -> RunnableConfig:
    named = {} if key[2] is None else {"checkpoint_id": key[2]}
    return {"configurable": {"thread_id": key[0], "checkpoint_ns": key[1], **named, **more}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Import from a database into another one, or into a file; return 0 when it is done."""
    parser = argparse.ArgumentParser(prog="python -m reme_langchain.import_checkpoints", description=main.__doc__)
    parser.add_argument(
        "source", help="postgresql://... of PostgresSaver, a file of SqliteSaver, or a folder or file of ours"
    )
    parser.add_argument("target", help="postgresql://..., or the path of a folder or file, of a ReMeSaver")
    parser.add_argument("--thread", action="append", help="only this thread; may be repeated")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="MODULE:NAME", help="a class to be rebuilt; see ReMeSaver"
    )
    parser.add_argument("--from-reme", action="store_true", help="the source, a database, is that of a ReMeSaver too")
    parser.add_argument("--dry-run", action="store_true", help="write nothing, and say what would be done")
    given = parser.parse_args(arguments)
    try:
        allow = [(module, name) for module, _, name in (text.partition(":") for text in given.allow)]
        with ExitStack() as opened:
            source, is_path = given.source, not is_url(given.source)
            if is_path and not Path(source).exists():
                msg = f"there is no memory at {source!r}: wanted a folder, a file, or postgresql://..."
                raise ConfigurationError(msg)
            if given.from_reme or (is_path and not is_sqlite_saver(Path(source))):
                source = opened.enter_context(ReMeSaver(source, allow=allow))
            place = opened.enter_context(place_to_write(given.target, dry_run=given.dry_run))
            target = opened.enter_context(ReMeSaver(place, allow=allow))
            done = import_checkpoints(source, target, threads=given.thread, dry_run=given.dry_run)
    except (ReMeError, TypeError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    what = "would import" if given.dry_run else "imported"
    there = f", {done.present} were there" if done.present else ""
    sys.stdout.write(f"{what} {done.imported} checkpoints of {done.threads} threads{there}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
