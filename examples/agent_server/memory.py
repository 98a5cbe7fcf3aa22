"""The hooks that langgraph.json names. Both take their settings from the environment; see their docstrings.

Needs: pip install 'reme-memory[langchain]'
"""

from reme_langchain import open_saver, open_store

__all__ = ["open_saver", "open_store"]
