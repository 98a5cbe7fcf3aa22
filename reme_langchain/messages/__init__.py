"""Messages of LangChain as ours, and back."""

from reme_langchain.messages.conversions import from_langchain, to_langchain

__all__ = ["from_langchain", "to_langchain"]
