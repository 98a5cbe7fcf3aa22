"""Moving a user's memory: export to JSON Lines, import elsewhere, delete here for good."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from reme_core import ReMe


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "eve.jsonl"
        async with ReMe("old", folder / "old", llm=None, embedding=None) as old:
            await old.summary([("user", "My passport number ends in 417."), ("assistant", "Noted.")], user_id="eve")
            await old.add_memory("Eve prefers window seats", user_id="eve")
            print("exported:", dict(await old.export(file, user_id="eve")))
            print("deleted: ", dict(await old.delete_all_memories(user_id="eve")))
        left = b"417" in (folder / "old" / "memory.db").read_bytes()
        print(f"the text is {'still' if left else 'no longer'} in the old file")

        async with ReMe("new", folder / "new", llm=None, embedding=None) as new:
            await new.import_(file, user_id="eve")
            again = await new.import_(file, user_id="eve")  # changes nothing more
            print("imported:", dict(again))
            found = await new.retrieve("What seats does Eve like?", user_id="eve", limit=1)
            print("found:   ", found.results[0].memory)


if __name__ == "__main__":
    asyncio.run(main())
