"""A writer and a reader on one folder: what one acknowledges, the other finds with its next call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile

from reme_core import ReMe

FACTS = ("The spare key is under the blue pot", "The cat is called Miso", "The bins go out on Tuesday")


async def write(folder: str) -> None:
    """Write a fact for each line on standard input, and say so when it is on disk."""
    async with ReMe("home", folder, llm=None, embedding=None) as memory:
        for line in iter(sys.stdin.readline, ""):
            await memory.add_memory(line.strip(), user_id="family")
            print("written", flush=True)


async def read(folder: str, writer: subprocess.Popen[str]) -> None:
    assert writer.stdin is not None
    assert writer.stdout is not None
    async with ReMe("home", folder, llm=None, embedding=None) as memory:
        for fact in FACTS:
            writer.stdin.write(fact + "\n")
            writer.stdin.flush()
            writer.stdout.readline()
            found = await memory.retrieve(fact.rsplit(maxsplit=1)[-1], user_id="family", limit=1)
            print(f"the other process wrote, this one finds: {found.results[0].memory}")


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(write(sys.argv[1]))
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(  # noqa: S603  # this file, by this interpreter
            [sys.executable, __file__, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        ) as writer,
    ):
        asyncio.run(read(folder, writer))
        assert writer.stdin is not None
        writer.stdin.close()
        writer.wait()


if __name__ == "__main__":
    main()
