"""Models of LangChain behind the ports of the core."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from reme_core.errors import ConfigurationError
from reme_core.ports import ChatModel, Embedder
from reme_core.schema import shown
from reme_langchain.models._chat_model import ChatFunction, LangChainChat, Messages
from reme_langchain.models._embedder import EmbeddingFunction, LangChainEmbedder, NamedModel


def as_chat_model(
    model: BaseChatModel | Runnable[Messages, object] | ChatFunction | str,
    *,
    metadata: Mapping[str, object] | None = None,
) -> ChatModel:
    """Return a chat model of LangChain as one of the core's: `ReMe(llm=as_chat_model(model))`.

    Args:
        model: A chat model; a runnable from messages to a message or a text, such as a model with retries; a function
            from messages to a text or an `AIMessage`, synchronous (it is run in a thread) or not; or a name
            `provider:model`, resolved by LangChain's `init_chat_model` at the first call. Tools need a model that
            binds them; temperature and limits of tokens are told to chat models alone.
        metadata: Joined to the metadata of each run, by which tracers and streams tell these calls apart.

    Raises:
        ConfigurationError: It is none of these; of a name, at the first call, that its package is missing.
    """
    tags = dict(metadata or {})
    if isinstance(model, str):
        return LangChainChat(NamedModel(model, _init_chat_model), tags)
    if not _is_one(model, Runnable):
        msg = f"model: wanted a chat model, a runnable, a function or 'provider:model', found {shown(model)}"
        raise ConfigurationError(msg)
    return LangChainChat(model, tags)


def as_embedder(embed: Embeddings | EmbeddingFunction | str, *, dims: int | None = None) -> Embedder:
    """Return embeddings of LangChain as an embedder of the core: `ReMe(embedding=as_embedder(embeddings))`.

    Args:
        embed: Embeddings; a function from a list of texts to a list of vectors, synchronous (it is run in a thread) or
            not; or a name `provider:model`, resolved by LangChain's `init_embeddings` at the first call.
        dims: The length of the vectors; may be left out where the embeddings tell it as `dimensions`, `dimension` or
            `size`.

    Raises:
        ConfigurationError: It is none of these, or the length is not known; of a name, at the first call, that its
            package is missing.
    """
    if dims is not None and (type(dims) is not int or dims < 1):
        msg = f"dims: wanted the length of the vectors, an int above 0, found {shown(dims)}"
        raise ConfigurationError(msg)
    if isinstance(embed, str):
        return LangChainEmbedder(NamedModel(embed, _init_embeddings), dims)
    if not _is_one(embed, Embeddings):
        msg = f"embed: wanted Embeddings, a function or 'provider:model', found {shown(embed)}"
        raise ConfigurationError(msg)
    embedder = LangChainEmbedder(embed, dims)
    embedder.dimension  # noqa: B018  # raises where nothing tells it
    return embedder


def _is_one(given: object, kind: type) -> bool:
    return isinstance(given, kind) or callable(given)


def _init_chat_model(name: str) -> BaseChatModel:
    from langchain.chat_models import init_chat_model  # noqa: PLC0415  # an extra of its own

    return init_chat_model(name)


def _init_embeddings(name: str) -> Embeddings:
    from langchain.embeddings import init_embeddings  # noqa: PLC0415  # an extra of its own

    return init_embeddings(name)
