"""The same methods without await, for scripts and notebooks; and what an edit leaves behind."""

from __future__ import annotations

import tempfile

from reme_core import ReMe
from reme_core.errors import MemoryNotFoundError


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ReMe.sync("notes", folder, llm=None, embedding=None) as memory:
        note = memory.add_memory("The release is on Friday", user_id="carol", memory_target="release")
        memory.update_memory(note.memory_id, user_id="carol", content="The release is on Monday", reason="postponed")

        for event in memory.history(note.memory_id, user_id="carol"):
            text = event.after.content if event.after else "(gone)"
            print(f"{event.operation}: {text}  {event.reason}".rstrip())

        memory.add_memories(
            [{"content": "Ship the docs first"}, {"content": "Ask Dan for a review"}],
            user_id="carol",
            run_id="planning",
        )
        print(f"{len(memory.list_memories(user_id='carol').memories)} memories")
        memory.undo("planning", user_id="carol")
        print(f"{len(memory.list_memories(user_id='carol').memories)} after taking the run back")

        try:
            memory.get_memory(note.memory_id, user_id="dan")
        except MemoryNotFoundError as error:
            print(f"dan: {error}")


if __name__ == "__main__":
    main()
