"""`reme files`: a folder of Markdown as the memory of a user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from pydantic import JsonValue

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import CommonOptions, NoEmbedding, with_common_options
from reme_core.cli.output import Output, counted, listed
from reme_core.errors import ConflictError, InvalidInputError, NotFoundError, ReMeError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from reme_core.files import FileMemory
    from reme_core.files.folder import FileProblem
    from reme_core.files.sync import SyncReport
    from reme_core.transfer.trees.import_tree import ImportedTree

files = typer.Typer(name="files", no_args_is_help=True, help="Keep a user's memory as Markdown files in a folder.")

_MOST_LINES = 50


class NoFolderError(NotFoundError):
    """A path is no folder of files; looking must not make one."""

    def __init__(self, root: str) -> None:
        """Name the path."""
        ReMeError.__init__(self, f"{root!r} is no folder of files yet: reme files init makes it one")
        self.missing = (root,)


Root: TypeAlias = Annotated[str, typer.Argument(metavar="FOLDER", help="The folder of the files.")]


@files.command("init")
@with_common_options
async def init(where: CommonOptions, output: Output, root: Root, *, no_embedding: NoEmbedding = False) -> int:
    """Make a folder, or take one over: its lines become memories, and memories become lines. Again, it syncs."""
    return await _sync(where, output, root, with_embedding=not no_embedding, rebuild=False)


@files.command("rebuild")
@with_common_options
async def rebuild(where: CommonOptions, output: Output, root: Root, *, no_embedding: NoEmbedding = False) -> int:
    """Index all files anew, as after the database was lost; the files say what holds."""
    _there(root)
    return await _sync(where, output, root, with_embedding=not no_embedding, rebuild=True)


@files.command("status")
@with_common_options
async def status(where: CommonOptions, output: Output, root: Root) -> int:
    """Tell what the folder holds as it was synced last."""
    _there(root)
    async with _opened(where, root) as opened:
        index = await opened.status()
    entries = [entry for file in index.files.values() for entry in file.entries]
    counts = {
        "files": len(index.files),
        "statements": len({entry.memory_id for entry in entries if not entry.is_passage}),
        "passages": len({entry.memory_id for entry in entries if entry.is_passage}),
    }
    if output.as_json:
        output.value({"folder": root, **counts})
    else:
        output.table({name: f"{count:,}" for name, count in counts.items()})
    return ExitCode.DONE


@files.command("check")
@with_common_options
async def check(where: CommonOptions, output: Output, root: Root) -> int:
    """Compare every line with the memory, change nothing, and tell what does not agree."""
    _there(root)
    async with _opened(where, root) as opened:
        problems = await opened.check()
    if output.as_json:
        output.value({"folder": root, "problems": _told(problems)})
    else:
        _print_problems(output, problems)
        output.line(f"checked {root}: {counted(len(problems), 'problem')}")
    return ExitCode.CONFLICT if problems else ExitCode.DONE


@files.command("watch")
@with_common_options
async def watch(where: CommonOptions, output: Output, root: Root, *, no_embedding: NoEmbedding = False) -> int:
    """Take over changes of both sides until Ctrl-C."""
    _there(root)
    async with _opened(where, root, with_embedding=not no_embedding, watch=True) as opened, opened:
        if not opened.is_watching:
            msg = f"{root!r} is watched by another process, which takes over what changes: nothing is to be done here"
            raise ConflictError(msg)
        _print_report(output, root, opened.last_report)
        output.remark("watching; Ctrl-C ends it")
        await asyncio.Event().wait()
    return ExitCode.DONE


@files.command("consolidate")
@with_common_options
async def consolidate(
    where: CommonOptions,
    output: Output,
    root: Root,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the difference and write nothing.")] = False,
    no_llm: Annotated[bool, typer.Option("--no-llm", help="Only what is marked with #keep.")] = False,
) -> int:
    """Move what lasts from the journal to MEMORY.md, and show the difference; reme undo takes the run back."""
    _there(root)
    from reme_core.files import FileMemory  # noqa: PLC0415  # help is shown without it

    where.check_folder()
    async with where.open(with_llm=not no_llm, with_embedding=True) as memory:
        folder = FileMemory(_folder(root), memory=memory, **where.whose)
        done = await folder.consolidate(memory.llm, dry_run=dry_run)
    if output.as_json:
        output.value(
            {
                "folder": root,
                "difference": done.difference,
                "run_id": done.run_id,
                "days": list(done.days),
                "added": done.added,
                "changed": done.changed,
                "removed": done.removed,
                "problems": _told(done.problems),
            }
        )
    else:
        for line in done.difference.splitlines():
            output.line(line)
        _print_problems(output, done.problems)
        changes = listed(f"{done.added} added", f"{done.changed} changed", f"{done.removed} removed")
        run = "" if done.run_id is None else f"run {done.run_id}"
        output.line(f"{root}: {counted(len(done.days), 'day')} of the journal, {changes}", run)
    return ExitCode.PARTLY_DONE if done.problems else ExitCode.DONE


@files.command("export")
@with_common_options
async def export(
    where: CommonOptions,
    output: Output,
    root: Root,
    *,
    obsidian: Annotated[
        bool, typer.Option("--obsidian", help="A vault: also journal and dialogues, linked with each other.")
    ] = False,
) -> int:
    """Write all memories as files into an empty folder: a copy, which nothing keeps in step."""
    from reme_core.files.export import export_pages  # noqa: PLC0415  # as above
    from reme_core.files.vault import export_vault  # noqa: PLC0415
    from reme_core.schema import make_scope  # noqa: PLC0415

    folder, write = _folder(root), export_vault if obsidian else export_pages
    async with where.existing() as (memory, whose):
        written = await write(memory.store, make_scope(where.space, **whose), folder)
    if output.as_json:
        output.value({"folder": root, "files": dict(written)})
        return ExitCode.DONE
    for path, count in written.items():
        output.line(path, counted(count, "message" if path.startswith("dialog/") else "memory"))
    return ExitCode.DONE if written else ExitCode.NOTHING_FOUND


@files.command("block")
@with_common_options
async def block(
    where: CommonOptions,
    output: Output,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="AGENTS.md or CLAUDE.md of any folder; made if it is not there.")
    ],
) -> int:
    """Write what is remembered of the user into a block of AGENTS.md or CLAUDE.md, and touch nothing else of it."""
    from reme_core.files.agent_page import TRUSTED, write_block  # noqa: PLC0415  # help is shown without it
    from reme_core.files.folder import AGENT_PAGES  # noqa: PLC0415
    from reme_core.files.markdown import shown_content  # noqa: PLC0415
    from reme_core.files.store_changes import list_all  # noqa: PLC0415
    from reme_core.files.targets import OWN_TARGET  # noqa: PLC0415
    from reme_core.ports import MemoryFilter  # noqa: PLC0415
    from reme_core.schema import make_scope  # noqa: PLC0415

    path = _folder(file)
    if path.name not in AGENT_PAGES or not path.parent.is_dir():
        msg = f"FILE: wanted {' or '.join(AGENT_PAGES)} in a folder that is there, found {file!r}"
        raise InvalidInputError(msg)
    about = MemoryFilter(types=(OWN_TARGET.memory_type,), targets=(OWN_TARGET.memory_target,), trust=TRUSTED)
    async with where.existing() as (memory, whose):
        memories = await list_all(memory.store, make_scope(where.space, **whose), about)
    told = [shown_content(item.content) for item in reversed(memories)]
    lines = await asyncio.to_thread(write_block, path.parent, path.name, make=True, told=told)
    if output.as_json:
        output.value({"file": file, "lines": lines})
    else:
        output.line(f"{file}: a block of {counted(lines, 'line')}")
    return ExitCode.DONE


@files.command("import")
@with_common_options
async def import_(
    where: CommonOptions,
    output: Output,
    root: Annotated[str, typer.Argument(metavar="DIR", help="The folder to read; nothing in it is changed.")],
    *,
    kind: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="KIND", help="basic-memory, memfs, memory-md, agents-md or reme-0.4; guessed if left out."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing, and tell what would be.")] = False,
    no_embedding: NoEmbedding = False,
) -> int:
    """Take over what basic-memory, MemFS, ReMe 0.4, a MEMORY.md or AGENTS.md says; doing it twice adds nothing."""
    from reme_core.schema import make_scope  # noqa: PLC0415  # help is shown without it
    from reme_core.transfer.trees.import_tree import import_tree  # noqa: PLC0415
    from reme_core.transfer.trees.statement import TreeKind  # noqa: PLC0415

    if kind is not None and kind not in list(TreeKind):
        msg = f"--from: wanted {', '.join(TreeKind)}, found {kind!r}"
        raise InvalidInputError(msg)
    folder, whose = _folder(root), where.whose
    with TemporaryDirectory() as nothing:  # looking must not make a file
        if dry_run and where.database_url is None and not where.file.exists():
            where = replace(where, folder=nothing)
        async with where.open(with_embedding=not no_embedding) as memory:
            done = await import_tree(
                memory.store,
                memory.resting_embedder,
                make_scope(where.space, **whose),
                folder,
                kind=None if kind is None else TreeKind(kind),
                at=memory.clock.now(),
                dry_run=dry_run,
            )
    if output.as_json:
        output.value({"folder": root, "dry_run": dry_run, **_imported(done)})
    else:
        _print_imported(output, done, dry_run=dry_run)
    return ExitCode.PARTLY_DONE if done.problems else ExitCode.DONE


def _imported(done: ImportedTree) -> dict[str, JsonValue]:
    return {
        "kind": done.kind,
        "files": dict(done.files),
        "added": list(done.added),
        "known": done.known,
        "repeated": done.repeated,
        "left_out": _told(done.left_out),
        "problems": _told(done.problems),
        "run_id": done.run_id,
    }


def _print_imported(output: Output, done: ImportedTree, *, dry_run: bool) -> None:
    output.line(f"read as {done.kind}")
    _print_some(output, [(path, counted(count, "statement")) for path, count in done.files.items()])
    _print_some(output, [(f"left out {problem.path}: {problem.message}",) for problem in done.left_out])
    _print_problems(output, done.problems)
    known = f"{done.known} known before" if done.known else ""
    repeated = f"{done.repeated} that repeated others" if done.repeated else ""
    beside = listed(known, repeated)
    verb = "would import" if dry_run else "imported"
    output.line(f"{verb} {counted(len(done.added), 'memory')}{f'; beside them {beside}' if beside else ''}")
    if done.run_id is not None:
        output.line(f"written by run {done.run_id}; reme undo takes it back")


def _print_some(output: Output, lines: Sequence[tuple[str, ...]]) -> None:
    """Print what a person still reads of a list; `--json` tells all."""
    for line in lines[:_MOST_LINES]:
        output.line(*line)
    if len(lines) > _MOST_LINES:
        output.line(f"and {len(lines) - _MOST_LINES} more")


@asynccontextmanager
async def _opened(
    where: CommonOptions, root: str, *, with_embedding: bool = False, watch: bool = False
) -> AsyncIterator[FileMemory]:
    from reme_core.files import FileMemory  # noqa: PLC0415  # help is shown without it

    whose = where.whose
    where.check_folder()
    async with where.open(with_embedding=with_embedding) as memory:
        yield FileMemory(_folder(root), memory=memory, watch=watch, **whose)


def _folder(root: str) -> Path:
    if not root.strip():
        msg = "FOLDER is empty: give the path of a folder"
        raise InvalidInputError(msg)
    return Path(root).expanduser()


def _there(root: str) -> None:
    """Refuse to look where no folder was ever made (NoFolderError)."""
    if not (_folder(root) / ".reme" / "folder.json").is_file():
        raise NoFolderError(root)


async def _sync(where: CommonOptions, output: Output, root: str, *, with_embedding: bool, rebuild: bool) -> ExitCode:
    async with _opened(where, root, with_embedding=with_embedding) as opened:
        report = await (opened.rebuild() if rebuild else opened.sync())
    return _print_report(output, root, report)


def _print_report(output: Output, root: str, report: SyncReport) -> ExitCode:
    """Print what a sync did; partly done is what left files out."""
    if output.as_json:
        output.value(
            {
                "folder": root,
                "files": report.files,
                "runs": [
                    {"path": run.path, "run_id": run.run_id, "put": run.put, "deleted": run.deleted}
                    for run in report.runs
                ],
                "written": list(report.written),
                "conflicts": list(report.conflicts),
                "problems": _told(report.problems),
            }
        )
    else:
        for run in report.runs:
            put, deleted = counted(run.put, "line") + " taken over", counted(run.deleted, "line") + " deleted"
            output.line(run.path, listed(put if run.put else "", deleted if run.deleted else ""), f"run {run.run_id}")
        for copy in report.conflicts:
            output.line(f"both sides changed a line: the other text is in {copy}")
        _print_problems(output, report.problems)
        output.line(f"{root}: {counted(report.files, 'file')}, {len(report.written)} written")
    return ExitCode.PARTLY_DONE if report.problems else ExitCode.DONE


def _told(problems: Sequence[FileProblem]) -> list[JsonValue]:
    return [{"path": problem.path, "message": problem.message} for problem in problems]


def _print_problems(output: Output, problems: Sequence[FileProblem]) -> None:
    for problem in problems:
        output.line(f"{problem.path}: {problem.message}")
