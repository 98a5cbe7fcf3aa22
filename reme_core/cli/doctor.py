"""`reme doctor`: what a set-up consists of, what is wrong with it, and what to do."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from reme_core import __version__
from reme_core.cli.database import examine_database
from reme_core.cli.exits import ExitCode, exit_code
from reme_core.cli.findings import Finding, wrong
from reme_core.cli.options import CommonOptions, of_the_space, other_spaces
from reme_core.cli.output import Output, counted
from reme_core.errors import (
    ConfigurationError,
    ModelUnavailableError,
    ReMeError,
    StorageFullError,
    StoreAccessError,
)
from reme_core.facade.parts import UNSET
from reme_core.facade.reme import ReMe
from reme_core.schema import Message

if TYPE_CHECKING:
    from reme_core.ports import IndexedBy
    from reme_core.stores import FileFacts

_ANSWER_S = 20.0
_LEAST_FREE_BYTES = 64 << 20  # a migration, a backup, or the log of one long transaction may take as much as the file
_FRAMEWORKS = {
    "agentscope": (((1, 0, 16), (2,)), ((2, 0, 4), (3,))),
    "langchain": (((1, 4, 7), (2,)),),
    "langgraph": (((1, 2, 22), (2,)),),
}
"""Versions of frameworks that the adapters are made for, from and below, as pyproject.toml has them."""


@of_the_space
async def doctor(where: CommonOptions, output: Output) -> int:
    """Look at versions, file or database, rights, room and models, and say what is wrong; models are asked once."""
    found = await examine(where)
    if output.as_json:
        told: list[JsonValue] = [{"name": item.name, "state": item.state, "text": item.text} for item in found]
        output.value({"findings": told})
    else:
        for item in found:
            output.line(item.state, f"{item.name}:", item.text, style="" if item.error is None else "bold red")
    return next((exit_code(item.error) for item in found if item.error is not None), ExitCode.DONE)


async def examine(where: CommonOptions) -> list[Finding]:
    """Look at everything; nothing is written, and nothing is raised for what is wrong."""
    if where.database_url is not None:
        looked, _ = examine_database(where.database_url)
        found = [*_versions(), *looked]
        stored, target = await _embeddings_in_database(where)
    else:
        file, facts = _file(where)
        found = [*_versions(), *_place(where.file), file]
        if facts is not None:
            found += _contents(facts, where.space)
        stored = None if facts is None else facts.embeddings.get(where.space)
        target = None if facts is None else facts.targets.get(where.space)
    found.append(await _chat_model(where))
    found += await _embedding_model(where, stored, target)
    return found


def _versions() -> Iterator[Finding]:
    import sqlite3  # noqa: PLC0415  # help is shown without it

    from reme_core.stores import has_fts5  # noqa: PLC0415  # help is shown without it

    with closing(sqlite3.connect(":memory:")) as connection:
        words = "" if has_fts5(connection) else ", without FTS5: keywords are found by reading all texts"
    told = f"reme {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}{words}"
    yield Finding(name="versions", text=told, is_hint=bool(words))
    for name, ranges in _FRAMEWORKS.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            continue
        numbers = tuple(int(part) for part in found.split(".")[:3] if part.isdecimal())
        if any(first <= numbers < end for first, end in ranges):
            yield Finding(name=name, text=found)
            continue
        wanted = " or ".join(f"'{name}>={_dotted(first)},<{_dotted(end)}'" for first, end in ranges)
        msg = f"{name} {found} is installed, the adapters are made for others: pip install {wanted}"
        yield wrong(name, ConfigurationError(msg))
    own, first = shutil.which("reme", path=sysconfig.get_path("scripts")), shutil.which("reme")
    if own is not None and first is not None and not Path(own).samefile(first):
        msg = f"the first 'reme' on the path is {first}, another program: call {own}, or reme-memory"
        yield wrong("program", ConfigurationError(msg))


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _place(file: Path) -> Iterator[Finding]:
    from reme_core.stores import is_read_only  # noqa: PLC0415  # help is shown without it

    folder = next(place for place in (file.parent, *file.absolute().parents) if place.is_dir())
    if is_read_only(file) or not os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        msg = f"{str(file)!r} or its folder can't be written: change the rights (chmod u+w), or give another --dir"
        yield wrong("rights", StoreAccessError(msg))
    else:
        yield Finding(name="rights", text=f"{folder} can be written")
    free = shutil.disk_usage(folder).free
    size = file.stat().st_size if file.is_file() else 0
    if free < max(_LEAST_FREE_BYTES, size):
        msg = f"{free:,} bytes are free at {str(folder)!r}, the file has {size:,}: free some space, or move the folder"
        yield wrong("room", StorageFullError(msg))
    else:
        yield Finding(name="room", text=f"{free:,} bytes free")


def _file(where: CommonOptions) -> tuple[Finding, FileFacts | None]:
    from reme_core.stores import check_unused, file_facts  # noqa: PLC0415  # help is shown without it

    file = where.file
    try:
        if not file.exists() or not file.stat().st_size:
            check_unused(file)
    except ReMeError as exc:
        return wrong("file", exc), None
    if not file.exists():
        return Finding(name="file", text=f"{file} is not there yet: reme add makes it", is_hint=True), None
    try:
        facts = file_facts(file)
    except ReMeError as exc:
        return wrong("file", exc), None
    size = file.stat().st_size
    held = f"{size:,} bytes, {facts.free_bytes:,} of them free, schema version {facts.schema_version}"
    told = f"{file} ({held}); reme check reads all of it"
    is_hint = facts.free_bytes > max(_LEAST_FREE_BYTES, size // 4)
    if is_hint:
        told += "; reme backup writes a copy without what is free, reme restore puts it in place"
    return Finding(name="file", text=told, is_hint=is_hint), facts


def _contents(facts: FileFacts, space: str) -> Iterator[Finding]:
    hint = other_spaces(facts.scopes, space)
    users = sum(item.scope.memory_space == space for item in facts.scopes)
    yield Finding(name="space", text=hint or f"{space!r}, {counted(users, 'user')}", is_hint=bool(hint))
    if facts.waiting:
        told = f"{counted(facts.waiting, 'text')} without a vector, found by words alone: reme flush, with a model"
        yield Finding(name="vectors", text=told, is_hint=True)
    if facts.dead_jobs:
        told = f"{counted(facts.dead_jobs, 'job')} given up: reme jobs says why, reme jobs --retry ID tries again"
        yield Finding(name="jobs", text=told, is_hint=True)


async def _chat_model(where: CommonOptions) -> Finding:
    from reme_core.ports import ChatRequest  # noqa: PLC0415  # help is shown without it

    name = "chat model"
    try:
        memory = ReMe(where.space, where.folder, llm=UNSET, embedding=None, vector_store={})
        try:
            if memory.llm is None:
                told = "none, so messages are kept as they are said: set REME_LLM_MODEL and REME_LLM_API_KEY for one"
                return Finding(name=name, text=told, is_hint=True)
            request = ChatRequest(messages=[Message(role="user", content="Say OK.")])
            async with asyncio.timeout(_ANSWER_S):
                await memory.llm.chat(request)
            return Finding(name=name, text=f"{memory.llm!r} answers")
        finally:
            await memory.close(finish_jobs=False)
    except TimeoutError:
        return wrong(name, _no_answer("REME_LLM_BASE_URL"))
    except ReMeError as exc:
        return wrong(name, exc)


async def _embeddings_in_database(where: CommonOptions) -> tuple[IndexedBy | None, IndexedBy | None]:
    """Return what made the vectors of the space, and to what they are being changed; none where nothing can be read."""
    from reme_core.stores import PostgresStore, find_embedding, find_target  # noqa: PLC0415  # as above

    store = PostgresStore(where.database_url or "")
    try:
        return await store.database.read(
            lambda c: (find_embedding(c, where.space), find_target(c, where.space)), within=where.space
        )
    except ReMeError:  # what is wrong with the database was told already
        return None, None
    finally:
        await store.close()


async def _embedding_model(where: CommonOptions, stored: IndexedBy | None, target: IndexedBy | None) -> list[Finding]:
    found = []
    if stored is not None:
        told = f"of {_named(stored)}" if stored.model else f"{_named(stored)}: the first to use them gives it"
        found.append(Finding(name="stored vectors", text=told))
    if target is not None:
        told = (
            f"a change to {_named(target)} is under way, the old vectors serve until it ends: reme reembed with that "
            "model goes on, reme reembed --abandon gives it up"
        )
        found.append(Finding(name="reembed", text=told, is_hint=True))
    return [*found, await _asked_embedding_model(where, stored)]


def _named(indexed: IndexedBy) -> str:
    return f"{repr(indexed.model) if indexed.model else 'no known model'}, {indexed.dimension} dimensions"


async def _asked_embedding_model(where: CommonOptions, stored: IndexedBy | None) -> Finding:
    from reme_core.ports import IndexedBy, embedder_name  # noqa: PLC0415  # help is shown without it

    name = "embedding model"
    try:
        memory = ReMe(where.space, where.folder, llm=None, embedding=UNSET, vector_store={})
        try:
            model = memory.embedder
            if model is None:
                told = "none, so texts are found by their words: set REME_EMBEDDING_MODEL and REME_EMBEDDING_API_KEY"
                return Finding(name=name, text=told, is_hint=True)
            if stored is not None:
                stored.check(IndexedBy(dimension=model.dimension, model=embedder_name(model)), "a new vector")
            async with asyncio.timeout(_ANSWER_S):
                await model.embed(["OK"])
            return Finding(name=name, text=f"{model!r} answers")
        finally:
            await memory.close(finish_jobs=False)
    except TimeoutError:
        return wrong(name, _no_answer("REME_EMBEDDING_BASE_URL"))
    except ReMeError as exc:
        return wrong(name, exc)


def _no_answer(variable: str) -> ModelUnavailableError:
    msg = f"no answer within {_ANSWER_S:.0f} seconds: is the server up, and is the URL right ({variable})?"
    return ModelUnavailableError(msg)
