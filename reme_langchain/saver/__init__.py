"""The checkpointer of LangGraph in the memory's file."""

from reme_langchain.saver._thread_history import MemoryHistory
from reme_langchain.saver.reme_saver import ReMeSaver, open_saver

__all__ = ["MemoryHistory", "ReMeSaver", "open_saver"]
