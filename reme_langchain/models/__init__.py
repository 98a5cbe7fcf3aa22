"""Models of LangChain behind the ports of the core."""

from reme_langchain.models.adapted_models import as_chat_model, as_embedder

__all__ = ["as_chat_model", "as_embedder"]
