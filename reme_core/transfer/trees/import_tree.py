"""Import of a tree: its kind is told or found, each statement becomes a memory, a second time adds nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from reme_core.errors import InvalidInputError
from reme_core.files.folder import (
    AGENT_PAGES,
    OUR_FOLDER,
    FileProblem,
    UnreadableFileError,
    mapped_errors,
    read_page,
    scan,
)
from reme_core.files.markdown import MarkdownPage
from reme_core.ports import Embedder, Store
from reme_core.schema import LoadedLibrary, Scope, describe, new_id
from reme_core.steps.message_lines import pieces_of
from reme_core.transfer.deleted_memories import deleted_memories
from reme_core.transfer.memory_library import load_lines, plan_lines
from reme_core.transfer.transfer_file import Library, LibraryLine
from reme_core.transfer.trees import agents_md, basic_memory, memfs, memory_md, reme_notes
from reme_core.transfer.trees.statement import TreeKind, TreePage, TreeStatement

_AT_ONCE = 1000
"""Statements of one write: what was interrupted goes on behind the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTree:
    """What came of a tree.

    Attributes:
        kind: What it was read as.
        files: How many statements each page has.
        added: Ids of memories that were added; of a dry run, those that would be.
        known: How many statements were there already.
        repeated: How many say what another statement says.
        left_out: Files, and lines of them, that were not taken over, and why.
        problems: Files that could not be read, and what to do.
        run_id: The run that wrote, for `undo`; None where nothing was written.
    """

    kind: TreeKind
    files: dict[str, int]
    added: tuple[str, ...]
    known: int
    repeated: int
    left_out: tuple[FileProblem, ...]
    problems: tuple[FileProblem, ...]
    run_id: str | None


@dataclass(frozen=True, slots=True)
class Tree:
    """The pages of a folder by path, other files, and what could not be read."""

    name: str
    pages: dict[str, TreePage]
    others: Sequence[str]
    problems: Sequence[FileProblem]


async def import_tree(
    store: Store,
    embedder: Embedder | None,
    scope: Scope,
    folder: Path,
    *,
    kind: TreeKind | None,
    at: datetime,
    dry_run: bool = False,
) -> ImportedTree:
    """Take over the statements of a tree as memories; nothing in the folder is changed.

    A statement that was imported before is known again, also where its memory was changed since; one whose memory was
    deleted since is left out. What was interrupted is completed by importing again.

    Args:
        store: Where they are written.
        embedder: Gives vectors; None: they are found by their words.
        scope: Whose they become.
        folder: The tree.
        kind: What it is; None: that is found out.
        at: The time of writing.
        dry_run: Write nothing, and tell what would be.

    Raises:
        InvalidInputError: It is no folder, one of ours, or of no kind that is known.
        StoreAccessError: The folder can't be read.
        ConflictError: Other writers took ids three times meanwhile; import again.
    """
    tree = await asyncio.to_thread(read_tree, folder)
    kind = kind or _guess(tree)
    statements, left_out = await asyncio.to_thread(read_statements, tree, kind)
    entries, unfit = await asyncio.to_thread(_entries, statements, scope, kind, at)
    deleted = await deleted_memories(
        store, scope, {entry.memory_id for entry in entries if entry.memory_id is not None}
    )
    unfit += [
        FileProblem(
            _place(statements[entry.line - 1]), "its memory was deleted since it was imported: reme undo brings it back"
        )
        for entry in entries
        if entry.memory_id in deleted
    ]
    entries = [entry for entry in entries if entry.memory_id not in deleted]
    if dry_run:
        parts = [await plan_lines(store, scope, entries)]
    else:
        parts = await _written(store, embedder, scope, entries, at)
    bad = [problem for part in parts for problem in part.problems]
    placed = [FileProblem(_place(statements[problem.line - 1]), problem.reason) for problem in bad]
    return ImportedTree(
        kind=kind,
        files=dict(Counter(statement.path for statement in statements)),
        added=tuple(memory_id for part in parts for memory_id in part.memory_ids),
        known=sum(len(part.known_memory_ids) for part in parts),
        repeated=sum(len(part.duplicates) for part in parts),
        left_out=(*left_out, *unfit, *placed),
        problems=tuple(tree.problems),
        run_id=next((part.run_id for part in parts if part.run_id is not None), None),
    )


async def _written(
    store: Store, embedder: Embedder | None, scope: Scope, entries: Sequence[LibraryLine], at: datetime
) -> list[LoadedLibrary]:
    run_id = new_id()
    return [
        await load_lines(
            store,
            embedder,
            scope,
            Library(entries=tuple(some), problems=()),
            refused=None,
            similarity=None,
            at=at,
            run_id=run_id,
            reason="import of files",
        )
        for some in pieces_of(entries, _AT_ONCE)
    ]


def read_tree(folder: Path) -> Tree:
    """Read the pages of a folder that is none of ours.

    Raises:
        InvalidInputError: It is no folder, or one of ours.
        StoreAccessError: It can't be read.
    """
    with mapped_errors(folder):
        root = folder.resolve(strict=True)
        if not root.is_dir():
            msg = f"{str(folder)!r} is no folder: give the one that holds the files"
            raise InvalidInputError(msg)
        if (root / OUR_FOLDER).exists():
            msg = f"{str(folder)!r} is a folder of ours: reme files init takes it over as it is"
            raise InvalidInputError(msg)
    found = scan(root)
    problems = list(found.problems)
    pages: dict[str, TreePage] = {}
    agents = [path for path in found.others if path.rpartition("/")[2] in AGENT_PAGES]
    for path in sorted([*found.stamps, *agents]):
        try:
            pages[path] = TreePage(path, MarkdownPage.parse(read_page(root, path).data))
        except UnreadableFileError as exc:
            problems.append(FileProblem(path, exc.message))
    others = [path for path in found.others if path not in agents]
    return Tree(root.name, pages, others, problems)


def _guess(tree: Tree) -> TreeKind:
    """Find out what a tree is by what only one kind has."""
    signs: list[tuple[TreeKind, Callable[[TreePage], bool]]] = [
        (TreeKind.MEMFS, memfs.looks_so),
        (TreeKind.REME, reme_notes.looks_so),
        (TreeKind.MEMORY_MD, memory_md.looks_so),
        (TreeKind.BASIC_MEMORY, basic_memory.looks_so),
        (TreeKind.AGENTS_MD, lambda page: page.path.rpartition("/")[2] in AGENT_PAGES),
    ]
    for kind, looks_so in signs:
        if any(map(looks_so, tree.pages.values())):
            return kind
    msg = (
        f"{tree.name!r}: no sign of a known kind in its {len(tree.pages)} pages; name it by --from {'|'.join(TreeKind)}"
    )
    raise InvalidInputError(msg)


def read_statements(tree: Tree, kind: TreeKind) -> tuple[list[TreeStatement], list[FileProblem]]:
    """Read the pages that are of a kind; tell which are not."""
    if kind is TreeKind.REME:
        pages = {path: page for path, page in tree.pages.items() if reme_notes.is_note(path)}
        tree = replace(tree, pages=pages, others=[path for path in tree.others if reme_notes.is_note(path)])
    left_out = [FileProblem(path, "is no Markdown") for path in tree.others] if kind is not TreeKind.AGENTS_MD else []
    statements: list[TreeStatement] = []
    known = memory_md.hooks(tree.pages) if kind is TreeKind.MEMORY_MD else {}
    for path, page in tree.pages.items():
        name = path.rpartition("/")[2]
        if (name in AGENT_PAGES) != (kind is TreeKind.AGENTS_MD):
            if kind is not TreeKind.AGENTS_MD:
                left_out.append(
                    FileProblem(path, f"tells agents what to do: --from {TreeKind.AGENTS_MD} takes it over")
                )
        elif kind is TreeKind.MEMFS and name in memfs.MADE_PAGES:
            left_out.append(FileProblem(path, "is a list of the others, which MemFS writes itself"))
        else:
            said = list(_reader(kind, known, tree.name)(page))
            statements += said
            if not said and not (kind is TreeKind.REME and reme_notes.is_day_list(path)):
                left_out.append(FileProblem(path, "says nothing but headings and links to other pages"))
    return statements, left_out


def _reader(kind: TreeKind, known: dict[str, str], name: str) -> Callable[[TreePage], Iterator[TreeStatement]]:
    readers: dict[TreeKind, Callable[[TreePage], Iterator[TreeStatement]]] = {
        TreeKind.BASIC_MEMORY: basic_memory.read,
        TreeKind.MEMFS: memfs.read,
        TreeKind.MEMORY_MD: partial(memory_md.read, known=known),
        TreeKind.AGENTS_MD: partial(agents_md.read, tree=name),
        TreeKind.REME: reme_notes.read,
    }
    return readers[kind]


def _entries(
    statements: Sequence[TreeStatement], scope: Scope, kind: TreeKind, at: datetime
) -> tuple[list[LibraryLine], list[FileProblem]]:
    """Make memories of statements, each with its place in the list, from 1, as its line."""
    entries: list[LibraryLine] = []
    unfit: list[FileProblem] = []
    for number, statement in enumerate(statements, 1):
        try:
            memory = statement.memory(scope, kind, at)
            entries.append(LibraryLine(line=number, memory=memory, memory_id=memory.memory_id))
        except ValidationError as exc:
            unfit.append(FileProblem(_place(statement), describe(exc, "memory")))
    return entries, unfit


def _place(statement: TreeStatement) -> str:
    return f"{statement.path}:{statement.line}"
