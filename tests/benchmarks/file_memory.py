"""What a folder of files costs: indexing it, opening it unchanged, and finding an edit while it is watched."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from figures import Figure, show

from reme_core import FileMemory, ReMe

_EDITS = 20


def write_pages(root: Path, count: int) -> None:
    """Write notes, and as many pages of targets with two statements each."""
    for folder in ("memory", "targets/personal"):
        (root / folder).mkdir(parents=True)
    for number in range(0, count, 2):
        prose = "We walked along the river and ate some bread with cheese. " * 10
        note = f"# Note {number}\n\nOn day {number}: {prose}\n\n## Evening\n\nMusic {number}. {prose}\n"
        (root / "memory" / f"note{number}.md").write_text(note)
        facts = f"# P{number}\n\n- likes fish {number}\n- lives in street {number}\n\nMet on day {number}.\n"
        (root / "targets" / "personal" / f"p{number}.md").write_text(facts)


def opened(folder: Path) -> ReMe:
    return ReMe("bench", folder / "store", llm=None, embedding=None)


async def indexing(folder: Path) -> list[Figure]:
    """Index 1,000 files; then 10,000, of which the second opening finds none changed."""
    figures = []
    for count in (1_000, 10_000):
        place = folder / str(count)
        root = place / "files"
        write_pages(root, count)
        async with opened(place) as memory:
            begun = time.perf_counter()
            report = await FileMemory(root, user_id="ann", memory=memory).sync()
            first = time.perf_counter() - begun
            assert (len(report.runs), report.problems) == (count, ())
            await asyncio.sleep(2.5)  # until the times of the files are old enough to be trusted
            await FileMemory(root, user_id="ann", memory=memory).sync()
        async with opened(place) as memory:
            begun = time.perf_counter()
            await FileMemory(root, user_id="ann", memory=memory).sync()
            again = time.perf_counter() - begun
        if count == 1_000:
            figures.append(Figure("1,000 files indexed", round(first, 2), "s", 3, True))
        else:
            told = f"indexed in {first:.1f} s"
            figures.append(Figure("10,000 unchanged files opened", round(again, 2), "s", 1, True, told))
    return figures


async def watching(folder: Path) -> list[Figure]:
    """Edit a page of a watched folder of 1,000 and ask until the edit is found."""
    root = folder / "1000" / "files"
    page, spent = root / "memory" / "note0.md", []
    async with (
        opened(folder / "1000") as memory,
        FileMemory(root, user_id="ann", memory=memory, watch=True) as files,
    ):
        for number in range(_EDITS):
            begun = time.perf_counter()
            page.write_text(f"# Note\n\nThe word of this edit is quokka{number}.\n")
            while not await files.memory_search(f"quokka{number}"):  # noqa: ASYNC110  # nobody tells it
                await asyncio.sleep(0.005)
            spent.append(1000 * (time.perf_counter() - begun))
    told = f"p50 {statistics.median(spent):.0f} ms"
    return [Figure("edit found in a watched folder, slowest of 20", round(max(spent)), "ms", 500, True, told)]


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(indexing(Path(folder)))
        if find_spec("watchfiles") is not None:
            figures += asyncio.run(watching(Path(folder)))
    return figures


if __name__ == "__main__":
    print(show(measure()))
