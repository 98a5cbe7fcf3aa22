"""An embedding model behind an OpenAI-compatible endpoint, and the vectors read from its answers."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, JsonValue, SecretStr, ValidationError

from reme_core.errors import ConfigurationError, ModelOutputError, ModelRejectedError
from reme_core.models.defaults import Tally
from reme_core.models.endpoint import OPENAI_URL, Endpoint, EndpointModel, as_secret
from reme_core.models.endpoint_failures import EndpointAddress, complaint
from reme_core.models.json_text import clean_text
from reme_core.ports import Matrix
from reme_core.telemetry import model_span


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


_PATH = "/embeddings"
_ABOUT_DIMENSIONS = re.compile(r"dimensions|matryoshka")

_ANSWER_BYTES = 64 << 20  # vectors are long as JSON: some 60 kB each at 3,072 dimensions

BATCH_SIZE = 10
"""Texts in a request. DashScope's text-embedding-v4 takes 10; OpenAI takes 2,048 and, in all, 300,000 tokens."""

MAX_CHARS = 8000
"""Text-embedding models of OpenAI and DashScope take 8,192 tokens; Chinese has up to one token a character."""


class OpenAIEmbedder(EndpointModel):
    """An embedding model of any endpoint that speaks OpenAI's embeddings. An `Embedder`.

    One object serves all event loops and threads of the process; its connections live as those of `OpenAIChat`.
    A text longer than `max_chars` is embedded by its beginning. A blank one is embedded as a full stop, since
    endpoints refuse empty texts.
    """

    def __init__(  # one argument for each setting that users know from elsewhere
        self,
        model: str,
        *,
        dimension: int,
        api_key: SecretStr | str | None = None,
        base_url: str = OPENAI_URL,
        batch_size: int = BATCH_SIZE,
        max_chars: int = MAX_CHARS,
        ask_for_dimension: bool = True,
        name: str | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 3,
        max_concurrency: int = 4,
    ) -> None:
        """Keep the settings; nothing is opened yet.

        Args:
            model: The model's name at the endpoint.
            dimension: The length of the vectors; another length in an answer is an error.
            api_key: None sends no key, as local servers want it.
            base_url: Most end in `/v1`.
            batch_size: Texts in a request.
            max_chars: Characters of a text that are embedded.
            ask_for_dimension: Send `dimensions`; an endpoint that refuses it is not sent it again.
            name: What its vectors go by in a store; None: `model`. A model with two names at two endpoints needs it.
            timeout_s: For a request as a whole, its retries included.
            max_retries: After the first attempt, for connection errors, 408, 409, 429 and 5xx.
            max_concurrency: Requests under way at once, over all event loops and threads.

        Raises:
            ConfigurationError: Naming the option.
        """
        for option, value in (("dimension", dimension), ("batch_size", batch_size), ("max_chars", max_chars)):
            if value < 1:
                msg = f"{option} is {value}: wanted 1 or more"
                raise ConfigurationError(msg)
        place = EndpointAddress(
            model=model,
            base_url=base_url,
            key_variable="REME_EMBEDDING_API_KEY",
            url_variable="REME_EMBEDDING_BASE_URL",
            secret=as_secret(api_key),
        )
        super().__init__(
            Endpoint(
                place,
                timeout_s=timeout_s,
                max_retries=max_retries,
                max_concurrency=max_concurrency,
                answer_bytes=_ANSWER_BYTES,
            )
        )
        self._dimension = dimension
        self._batch_size = batch_size
        self._max_chars = max_chars
        self._asks_for_dimension = ask_for_dimension
        self._name = name

    @property
    def name(self) -> str:
        """What its vectors go by."""
        return self._name or self.model

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return float32 of shape (len(texts), dimension), rows of unit norm; no texts, no request.

        All or nothing: when one batch fails, the others are given up.

        Raises:
            ModelUnavailableError: No answer after the retries; it may pass.
            ModelRejectedError: The endpoint refuses the request as it is.
            ModelOutputError: A wrong number of vectors, a wrong dimension, values that are not finite, or all zero.
            ContextTooLongError: A text is too long for the model: lower `max_chars`.
        """
        sent = [self._fitting(text) for text in texts]
        batches = [sent[start : start + self._batch_size] for start in range(0, len(sent), self._batch_size)]
        if not batches:
            return np.zeros((0, self._dimension), dtype=np.float32)
        if len(batches) == 1:
            return await self._embed_batch(batches[0])
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._embed_batch(batch)) for batch in batches]
        except BaseExceptionGroup as failures:
            first = failures.exceptions[0]
            raise first from first.__cause__
        return np.concatenate([task.result() for task in tasks])

    def __repr__(self) -> str:
        """Name the model, its dimension and the endpoint, never the key."""
        return f"OpenAIEmbedder({self.model!r}, dimension={self._dimension}, base_url={self._endpoint.place.url!r})"

    def _fitting(self, text: str) -> str:
        cut = clean_text(text[: self._max_chars])
        return cut if cut.strip() else "."

    async def _embed_batch(self, texts: list[str]) -> Matrix:
        tally = Tally()
        try:
            with model_span("embeddings", self.model, lambda: tally.usage("embedding")):
                text = await self._ask(texts, tally)
                answer = read_vectors(text, count=len(texts), dimension=self._dimension)
                tally.prompt_tokens = answer.prompt_tokens
        finally:
            self._meter.add(tally.usage("embedding"))
        return answer.vectors

    async def _ask(self, texts: list[str], tally: Tally) -> str:
        inputs: list[JsonValue] = list(texts)
        body: dict[str, JsonValue] = {"model": self.model, "input": inputs, "encoding_format": "float"}
        if not self._asks_for_dimension:
            return await self._endpoint.post(_PATH, body, tally=tally)
        try:
            return await self._endpoint.post(_PATH, {**body, "dimensions": self._dimension}, tally=tally)
        except ModelRejectedError as exc:
            if not _ABOUT_DIMENSIONS.search(complaint(exc)):
                raise
        answer = await self._endpoint.post(_PATH, body, tally=tally)
        self._asks_for_dimension = False
        return answer
