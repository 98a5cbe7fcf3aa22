"""The middleware of LangChain: an agent that remembers, with a context that fits."""

from reme_langchain.middleware.reme_middleware import Capture, Compact, Offload, Recall, ReMeMiddleware

__all__ = ["Capture", "Compact", "Offload", "ReMeMiddleware", "Recall"]
