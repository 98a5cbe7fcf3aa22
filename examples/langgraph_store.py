"""An agent's notes, moved from InMemoryStore to a file by changing one line.

python examples/langgraph_store.py

Needs: pip install 'reme-memory[langchain]'
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TypedDict

from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore

from reme_langchain import ReMeStore


class State(TypedDict):
    user: str
    said: str
    notes: list[str]


def note(state: State) -> dict[str, list[str]]:
    """Keep what was said, and return what is known."""
    store, namespace = get_store(), ("notes", state["user"])
    store.put(namespace, state["said"][:20], {"text": state["said"]})
    return {"notes": [str(item.value["text"]) for item in store.search(namespace)]}


def run(store: BaseStore, said: str) -> list[str]:
    graph = StateGraph(State).add_node("note", note).add_edge(START, "note").compile(store=store)
    return list(graph.invoke({"user": "ann", "said": said, "notes": []})["notes"])


def main(path: Path) -> None:
    # The line that changed; it was InMemoryStore().
    with ReMeStore.from_path(path) as store:
        print(run(store, "The bins go out on Tuesday"))
    with ReMeStore.from_path(path) as store:  # after a restart
        notes = run(store, "Bring back the drill")
    print(notes)
    assert notes == ["Bring back the drill", "The bins go out on Tuesday"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place) / "notes.db")
