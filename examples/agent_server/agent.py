"""The graph that the server runs. The server hands it store and checkpointer, so none is named here.

Needs: pip install 'reme-memory[langchain]'
"""

from __future__ import annotations

from typing import TypedDict

from langgraph.config import get_config, get_store
from langgraph.graph import START, StateGraph

from reme_langchain import memory_namespace


class State(TypedDict):
    """What is said, and what is known of it."""

    said: str
    known: list[str]


async def remember(state: State) -> dict[str, list[str]]:
    """Keep what was said under the user that the server's login has put into the configuration."""
    store, user = get_store(), get_config()["configurable"]["user_id"]
    namespace = memory_namespace(user)
    known = await store.asearch(namespace, query=state["said"], limit=3)
    await store.aput(namespace, state["said"][:60], {"content": state["said"]})
    return {"known": [str(item.value["content"]) for item in known]}


agent = StateGraph(State).add_node("remember", remember).add_edge(START, "remember").compile()
