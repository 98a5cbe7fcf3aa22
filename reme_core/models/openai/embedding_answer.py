"""Conversion of the body of an embeddings answer into vectors."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from reme_core.errors import ModelOutputError
from reme_core.ports import Matrix
from reme_core.schema import shown


class _WireEmbeddingModel(BaseModel):
    """What endpoints send: anything may be missing, null or unknown. Not a TypedDict, since it is validated."""

    model_config = ConfigDict(extra="ignore")


class WireVector(_WireEmbeddingModel):
    """One vector: numbers, or base64 of little-endian float32."""

    index: int | None = None
    embedding: list[float] | str


class WireTokens(_WireEmbeddingModel):
    """The tokens of the call."""

    prompt_tokens: int | None = None


class WireVectors(_WireEmbeddingModel):
    """The body of an answer."""

    data: list[WireVector]
    usage: WireTokens | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """Vectors of unit norm, in the order of the texts, and the tokens of the call."""

    vectors: Matrix
    prompt_tokens: int


def read_vectors(text: str, *, count: int, dimension: int) -> Vectors:
    """Read the body of an answer.

    Raises:
        ModelOutputError: It is not what was asked for: form, number, order, dimension, values. `raw` is the text.
    """
    try:
        answer = WireVectors.model_validate(json.loads(text))
        rows = [_numbers(item.embedding) for item in _ordered(answer.data, count)]
        vectors = _unit_rows(rows, dimension)
    except ValidationError:
        # Not chained: pydantic's own text repeats parts of the answer.
        msg = "the endpoint's answer is no list of embeddings: it is kept in `raw`; check the base URL"
        raise ModelOutputError(msg, raw=text) from None
    except (ValueError, RecursionError) as exc:
        msg = f"the endpoint's embeddings can't be used: {_reason(exc)}"
        raise ModelOutputError(msg, raw=text) from exc
    return Vectors(vectors=vectors, prompt_tokens=(answer.usage and answer.usage.prompt_tokens) or 0)


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


def _reason(exc: Exception) -> str:
    if isinstance(exc, json.JSONDecodeError | RecursionError):
        return "wanted JSON, found something else (a web page?): check the base URL, most end in '/v1'"
    return str(exc)


def _ordered(data: Sequence[WireVector], count: int) -> list[WireVector]:
    """Sort by index; where none is given, the order is that of the texts."""
    if len(data) != count:
        msg = f"wanted {count} vectors, found {len(data)}"
        raise ValueError(msg)
    if all(item.index is None for item in data):
        return list(data)
    indices = [-1 if item.index is None else item.index for item in data]
    if sorted(indices) != list(range(count)):
        msg = f"wanted each index from 0 to {count - 1} once, found {indices[:10]}"
        raise ValueError(msg)
    return sorted(data, key=lambda item: item.index or 0)


def _numbers(embedding: list[float] | str) -> Sequence[float]:
    if isinstance(embedding, list):
        return embedding
    try:
        packed = base64.b64decode(embedding, validate=True)
    except binascii.Error as exc:
        msg = "an embedding is neither numbers nor base64"
        raise ValueError(msg) from exc
    numbers: list[float] = np.frombuffer(packed[: len(packed) // 4 * 4], dtype="<f4").tolist()
    return numbers


def _unit_rows(rows: Sequence[Sequence[float]], dimension: int) -> Matrix:
    for row in rows:
        if len(row) != dimension:
            msg = f"wanted vectors of {dimension} dimensions, found {len(row)}: set `dimension` to what the model gives"
            raise ValueError(msg)
    matrix = np.asarray(rows, dtype=np.float64).reshape(len(rows), dimension)
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not np.isfinite(norms).all():
        msg = "a vector holds values that are not finite"
        raise ValueError(msg)
    if not norms.all():
        msg = "a vector is all zeros, so it has no direction"
        raise ValueError(msg)
    unit: Matrix = (matrix / norms[:, None]).astype(np.float32)
    return unit
