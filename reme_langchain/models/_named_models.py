"""Models named by a text such as `openai:gpt-5`, made when they are first needed."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from reme_core.errors import ConfigurationError, MissingExtraError

T = TypeVar("T")


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
