"""Memory tools of LangChain agents."""

from reme_langchain.tools.tool_factory import create_memory_tools

__all__ = ["create_memory_tools"]
