"""The checkpointer of LangGraph in the memory's file."""

from reme_langchain.saver.reme_saver import ReMeSaver, open_saver

__all__ = ["ReMeSaver", "open_saver"]
