"""The fenced block of AGENTS.md and CLAUDE.md: what MEMORY.md says, where agents of any kind read it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from reme_core.errors import ConflictError
from reme_core.files.folder import UnreadableFileError, read_page
from reme_core.files.markdown import MarkdownPage
from reme_core.files.targets import MEMORY_PAGE
from reme_core.files.writer import write_page
from reme_core.ports import MemoryFilter, Store
from reme_core.schema import Scope, TrustClass
from reme_core.steps.targets import all_memories

MAX_LINES = 200
"""At most so many, the two marks included. Source: the specification of files, section 8."""

_BEGIN, _END = "<!-- reme:begin -->", "<!-- reme:end -->"
_TRIES = 5


TRUSTED = (TrustClass.USER, TrustClass.ASSISTANT)
"""What agents read in such a page they take for instructions: words of tools and of the web have no place there."""


async def find_untrusted(store: Store, scope: Scope) -> frozenset[str]:
    """Return the ids of the memories of a user that no such page tells."""
    wanted = MemoryFilter(trust=tuple(trust for trust in TrustClass if trust not in TRUSTED))
    return frozenset(memory.memory_id for memory in await all_memories(store, scope, wanted))


def write_block(
    root: Path,
    name: str,
    *,
    make: bool,
    told: Sequence[str] | None = None,
    without: Collection[str] = (),
) -> int:
    """Bring the block of a page up to date; return how many lines it has, 0 where there is none and none is made.

    The newest statements are kept where there are too many. Nothing else of the page is touched.

    Args:
        root: The folder of the page.
        name: Its name.
        make: Make a page or a block where there is none.
        told: Statements, oldest first, each of one line; None: those of MEMORY.md in the folder.
        without: Ids of memories whose statements are left out of the latter.

    Raises:
        ConflictError: Somebody else is writing the page.
        UnreadableFileError: The page can't be read as text.
        StorageFullError: No room; the old block is there.
        StoreAccessError: The system refuses it.
    """
    for _ in range(_TRIES):
        is_there = (root / name).is_file()
        if not is_there and not make:
            return 0
        read = read_page(root, name) if is_there else None
        page = MarkdownPage(()) if read is None else MarkdownPage.parse(read.data)
        place = find_block(page)
        if place is None and not make:
            return 0
        block = _block(_statements(root, without) if told is None else told)
        if place is None:
            gap = [""] if page.lines and page.lines[-1].strip() else []
            longer = page.spliced(len(page.lines), len(page.lines), [*gap, *block])
        else:
            longer = page.spliced(place[0], place[1] + 1, block)
        try:
            if longer != page:
                write_page(root / name, longer.print(), expected=None if read is None else read.sha256)
        except ConflictError:
            continue
        return len(block)
    msg = f"{name!r} is written by somebody else all the time: try again"
    raise ConflictError(msg)


def find_block(page: MarkdownPage) -> tuple[int, int] | None:
    """Return the first and the last line of the first block, from 0; None where none has both its marks.

    A mark that lost the other one is text: a block begins at the last mark before its end.
    """
    begun: int | None = None
    for number, line in enumerate(page.lines):
        if line.strip() == _BEGIN:
            begun = number
        elif line.strip() == _END and begun is not None:
            return begun, number
    return None


def _statements(root: Path, without: Collection[str]) -> list[str]:
    try:
        statements = MarkdownPage.parse(read_page(root, MEMORY_PAGE).data).statements
    except UnreadableFileError:
        return []  # there is no such page
    return [statement.shown for statement in statements if statement.memory_id not in without]


def _block(told: Sequence[str]) -> list[str]:
    # What a memory says ends no block and opens none.
    lines = [f"- {text.replace('<!--', '&lt;!--')}" for text in told]
    return [_BEGIN, *lines[-(MAX_LINES - 2) :], _END]
