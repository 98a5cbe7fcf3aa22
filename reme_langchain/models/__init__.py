"""Models of LangChain behind the ports of the core; LangChain's own model classes are loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reme_langchain.models.adapted_models import as_chat_model, as_embedder

__all__ = ["as_chat_model", "as_embedder"]

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__, __dir__ = lazy_names(__name__, {"adapted_models": "as_chat_model as_embedder"})
