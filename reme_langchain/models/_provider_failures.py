"""Failures of providers behind LangChain, mapped to the core's."""

from __future__ import annotations

from langchain_core.exceptions import OutputParserException

from reme_core import model_error
from reme_core.errors import ContextTooLongError, ModelError, ModelOutputError


def translated(exc: Exception, who: str) -> ModelError:
    """Return the core's error for what a provider or a parser raised, as `model_error` does. Raise it `from exc`."""
    error = model_error(exc, who)
    if not isinstance(exc, OutputParserException) or isinstance(error, ContextTooLongError):
        return error
    msg = f"{who}: {type(exc).__name__}: the answer can't be read: it is kept in `raw`"
    return ModelOutputError(msg, raw=exc.llm_output or "")
