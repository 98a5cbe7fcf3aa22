"""Memory libraries: what loading and dumping one answers."""

from __future__ import annotations

from reme_core.schema.mapping import MappingModel


class LineProblem(MappingModel):
    """A line of a file that can't be used: its number, from 1, and why."""

    line: int
    reason: str


class LoadedLibrary(MappingModel):
    """The answer of `load`; all of it is on disk when it is returned.

    Attributes:
        memory_ids: The memories written, in the order of the file.
        known_memory_ids: Memories of the file that were there already, and so were not written again.
        duplicates: Lines that say what another line, or a memory that was there, says.
        tool_calls: Tool calls recorded.
        problems: Lines that can't be used; only where they were to be skipped.
        run_id: The run that wrote, for `undo`; None where nothing was written.
    """

    memory_ids: tuple[str, ...] = ()
    known_memory_ids: tuple[str, ...] = ()
    duplicates: tuple[int, ...] = ()
    tool_calls: int = 0
    problems: tuple[LineProblem, ...] = ()
    run_id: str | None = None


class DumpedLibrary(MappingModel):
    """The answer of `dump`: how many memories were written."""

    memories: int = 0


class TransferCounts(MappingModel):
    """How many things an export wrote, or an import read (those that were there already included)."""

    messages: int = 0
    blocks: int = 0
    memories: int = 0
    events: int = 0
    offloads: int = 0
    tool_calls: int = 0
