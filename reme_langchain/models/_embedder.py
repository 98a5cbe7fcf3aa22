"""LangChain's embeddings as an embedder of the core; models named by a text, and the failures of providers."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.exceptions import OutputParserException
from langchain_core.runnables.config import run_in_executor

from reme_core import model_error, unit_rows
from reme_core.errors import (
    ConfigurationError,
    ContextTooLongError,
    MissingExtraError,
    ModelError,
    ModelOutputError,
    ReMeError,
)
from reme_core.ports import Matrix, Vector

T = TypeVar("T")


def translated(exc: Exception, who: str) -> ModelError:
    """Return the core's error for what a provider or a parser raised, as `model_error` does. Raise it `from exc`."""
    error = model_error(exc, who)
    if not isinstance(exc, OutputParserException) or isinstance(error, ContextTooLongError):
        return error
    msg = f"{who}: {type(exc).__name__}: the answer can't be read: it is kept in `raw`"
    return ModelOutputError(msg, raw=exc.llm_output or "")


class NamedModel(Generic[T]):
    """A model by name; one object is made, whoever asks first and from however many threads."""

    def __init__(self, name: str, make: Callable[[str], T]) -> None:
        """Keep the name.

        Raises:
            ConfigurationError: It names no provider.
        """
        provider, colon, model = name.partition(":")
        if not (colon and provider.strip() and model.strip()):
            msg = f"model {name[:60]!r}: wanted 'provider:model', such as 'openai:gpt-5'"
            raise ConfigurationError(msg)
        self.name = name
        self._make = make
        self._gate = threading.Lock()
        self._made: T | None = None

    def get(self) -> T:
        """Return the model.

        Raises:
            MissingExtraError: LangChain is not installed.
            ConfigurationError: The provider's package is missing, its key is, or there is no such provider.
        """
        with self._gate:
            if self._made is None:
                self._made = self._make_one()
            return self._made

    def _make_one(self) -> T:
        try:
            importlib.import_module("langchain")
        except ModuleNotFoundError as exc:
            if exc.name != "langchain":
                raise
            raise MissingExtraError(library="langchain", extra="langchain", wanted_for=f"{self.name!r}") from exc
        try:
            return self._make(self.name)
        except ImportError as exc:  # LangChain's own text names the package to install
            msg = f"model {self.name!r}: {exc}"
            raise ConfigurationError(msg) from exc
        except Exception as exc:  # providers refuse missing keys and settings by errors of their own
            msg = f"model {self.name!r} can't be made: {type(exc).__name__}: check its name and its key; see the cause"
            raise ConfigurationError(msg) from exc


Rows: TypeAlias = Sequence[Sequence[float]]
EmbeddingFunction: TypeAlias = Callable[[list[str]], Rows] | Callable[[list[str]], Awaitable[Rows]]

_DIMENSION_FIELDS = ("dimensions", "dimension", "size")
_MODEL_FIELDS = ("model", "model_name", "model_id", "deployment")


class LangChainEmbedder:
    """Embeddings of LangChain, or a function, behind the core's port. Bound to no event loop."""

    def __init__(self, embed: Embeddings | EmbeddingFunction | NamedModel[Embeddings], dims: int | None) -> None:
        """Keep them; nothing is called."""
        self._embed = embed
        self._dims = dims

    def __repr__(self) -> str:
        """Name the model."""
        return f"LangChainEmbedder({self.model!r}, dims={self._dims})"

    @property
    def model(self) -> str:
        """Class and model name, or the name of the function: what tells the vectors from those of another model."""
        embed = self._embed
        if isinstance(embed, NamedModel):
            return embed.name
        if isinstance(embed, Embeddings):
            names = [getattr(embed, field, None) for field in _MODEL_FIELDS]  # each provider has its own
            # LangGraph wraps functions into embeddings.
            names += [_name(inner) for field in ("func", "afunc") if callable(inner := getattr(embed, field, None))]
            model = next((name for name in names if isinstance(name, str) and name), "")
            return f"{type(embed).__name__}:{model}" if model else type(embed).__name__
        return _name(embed)

    @property
    def dimension(self) -> int:
        """The length of every vector.

        Raises:
            ConfigurationError: It was not given, and the model does not tell it.
        """
        if self._dims is None:
            source = self._embed.get() if isinstance(self._embed, NamedModel) else self._embed
            told = [getattr(source, field, None) for field in _DIMENSION_FIELDS]
            self._dims = next((n for n in told if isinstance(n, int) and not isinstance(n, bool) and n > 0), None)
        if self._dims is None:
            msg = f"embedder {self.model!r} does not tell the length of its vectors: give it, as by dims=1536"
            raise ConfigurationError(msg)
        return self._dims

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return float32 of shape (len(texts), dimension), rows of unit norm, in the order of the texts.

        A text in which the model finds nothing, so that its vector is zero, keeps a row of zeros: it is like no other.

        Raises:
            ModelUnavailableError: No answer; it may pass.
            ModelRejectedError: The model refuses the request, or failed.
            ModelOutputError: A wrong number of vectors, a wrong dimension, or values that are not finite.
        """
        try:
            return await self.embed_plainly(texts)
        except ReMeError:
            raise
        except Exception as exc:  # providers share no base error; each is mapped, none is dropped
            raise translated(exc, self.model) from exc

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a query, shape (dimension,): some models embed it otherwise; raises as `embed`."""
        try:
            return await self.embed_query_plainly(text)
        except ReMeError:
            raise
        except Exception as exc:  # as in `embed`
            raise translated(exc, self.model) from exc

    async def embed_plainly(self, texts: Sequence[str]) -> Matrix:
        """Return what `embed` returns; what the embeddings or the function raise comes as they raised it."""
        wanted = list(texts)
        if not wanted:
            return np.zeros((0, self.dimension), dtype=np.float32)
        model = await self._model()
        rows = await (model.aembed_documents(wanted) if isinstance(model, Embeddings) else _call(model, wanted))
        return unit_rows(rows, count=len(wanted), dimension=self.dimension, who=self.model)

    async def embed_query_plainly(self, text: str) -> Vector:
        """Return what `embed_query` returns; raises as `embed_plainly`."""
        model = await self._model()
        if isinstance(model, Embeddings):
            matrix = unit_rows([await model.aembed_query(text)], count=1, dimension=self.dimension, who=self.model)
        else:
            matrix = await self.embed_plainly([text])
        vector: Vector = matrix[0]
        return vector

    async def _model(self) -> Embeddings | EmbeddingFunction:
        # Making a model imports the provider's library, which takes seconds.
        return await asyncio.to_thread(self._embed.get) if isinstance(self._embed, NamedModel) else self._embed


def _name(function: object) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)  # a callable object has none
    return f"{getattr(function, '__module__', '')}.{name}"


async def _call(function: EmbeddingFunction, texts: list[str]) -> Rows:
    """Call a function: an asynchronous one here, another one in a thread."""
    if is_async(function):
        answer = function(texts)
    else:
        answer = await run_in_executor(None, function, texts)  # unlike asyncio's, it survives a StopIteration
    return await answer if inspect.isawaitable(answer) else answer


def is_async(function: Callable[..., object]) -> bool:
    """Tell whether calling it only makes a coroutine, and so belongs on the caller's loop."""
    # An object whose __call__ is asynchronous is one as well.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
