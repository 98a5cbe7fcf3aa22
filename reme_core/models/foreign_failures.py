"""Vectors and failures of models behind other frameworks, as ours; no provider's library is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from reme_core.errors import (
    ContextTooLongError,
    ModelError,
    ModelOutputError,
    ModelRejectedError,
    ModelUnavailableError,
)
from reme_core.ports import Matrix
from reme_core.schema import shown

_PASSING = frozenset({408, 409, 425, 429})
_MAY_BE_LENGTH = frozenset({None, 400, 413, 422, 500})
# By name, since the libraries are not ours to import: openai, anthropic, httpx, aiohttp, google, cohere, botocore.
_PASSING_NAMES = re.compile(
    r"timeout|timedout|connect|ratelimit|toomanyrequests|overloaded|unavailable|internalserver|throttl|"
    r"resourceexhausted|remoteprotocol|readerror|writeerror|apiconnection|deadlineexceeded",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context_length_exceeded|context (?:length|window|size)|(?:prompt|input|request)\W+(?:is|was)?\W*too long|"
    r"too many (?:input )?tokens|range of input length|input token count|maximum (?:input|sequence) length|"
    r"reduce (?:the|your) (?:length|prompt|input)|exceeds? the (?:available )?context",
    re.IGNORECASE,
)
_BUILTIN = frozenset({Exception, BaseException, object, RuntimeError, ValueError, OSError})
_USED_UP = re.compile(r"insufficient_quota", re.IGNORECASE)


def model_error(exc: Exception, who: str) -> ModelError:
    """Return our error for what a provider raised; its text names the kind and status, and no words of it.

    Those are in the cause, and may hold parts of the prompt. Raise it `from exc`.
    """
    status = _status(exc)
    names = [kind.__name__ for kind in type(exc).__mro__ if kind not in _BUILTIN]
    kind = type(exc).__name__
    what = f"{who}: {kind}" + ("" if status is None else f" ({status})")
    if "ContextOverflowError" in names or (status in _MAY_BE_LENGTH and _TOO_LONG.search(_said(exc))):
        return ContextTooLongError(f"{what}: the request is longer than the model's context window: shorten it")
    if _may_pass(exc, status, names):
        return ModelUnavailableError(f"{what}: no answer for now: try again later; see the cause")
    if status in {401, 403}:
        return ModelRejectedError(f"{what}: the key was refused: check the key and the account of the model")
    return ModelRejectedError(f"{what}: the model refused the request or failed: see the cause for its own words")


def _may_pass(exc: Exception, status: int | None, names: Sequence[str]) -> bool:
    if status is not None:
        return (status in _PASSING and not _USED_UP.search(_said(exc))) or status >= 500
    # Some errors say it themselves, as those of LangChain do.
    if isinstance(exc, TimeoutError | ConnectionError) or getattr(exc, "is_retryable", False) is True:
        return True
    return any(map(_PASSING_NAMES.search, names))


def _said(exc: Exception) -> str:
    # `code` and `body` are what clients in the manner of OpenAI's have; foreign objects may lack them.
    return f"{exc} {getattr(exc, 'code', '')} {getattr(exc, 'body', '')!r}"


def _status(exc: Exception) -> int | None:
    """Return the HTTP status, where the error tells one in one of the usual ways."""
    response = getattr(exc, "response", None)
    inner = response.get("ResponseMetadata") if isinstance(response, Mapping) else None  # botocore
    found = (
        getattr(exc, "status_code", None),
        getattr(response, "status_code", None),
        inner.get("HTTPStatusCode") if isinstance(inner, Mapping) else None,
        getattr(exc, "http_status", None),
        getattr(exc, "code", None),
    )
    return next((code for code in found if isinstance(code, int) and 100 <= code < 600), None)


def unit_rows(rows: object, *, count: int, dimension: int, who: str) -> Matrix:
    """Return what a model behind another framework answered as float32 of shape (count, dimension), of unit norm.

    A row of zeros stays one: the text is like no other.

    Raises:
        ModelOutputError: A wrong number or dimension, values that are not finite, or no numbers; `who` is the model.
    """
    try:
        matrix = np.asarray(rows, dtype=np.float64)
    except (ValueError, TypeError) as exc:
        msg = f"{who}: wanted {count} lists of numbers of one length, found {shown(rows)}: check the model"
        raise ModelOutputError(msg, raw="") from exc
    if matrix.shape != (count, dimension):
        msg = (
            f"{who}: wanted {count} vectors of {dimension} dimensions, found shape {matrix.shape}: "
            "check the model, and the dimension that is set for it"
        )
        raise ModelOutputError(msg, raw="")
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    bad = int((~np.isfinite(norms)).sum())
    if bad:
        msg = f"{who}: {bad} of {count} vectors are not finite: check the model"
        raise ModelOutputError(msg, raw="")
    unit: Matrix = (matrix / np.where(norms > 0, norms, 1.0)).astype(np.float32)
    return unit
