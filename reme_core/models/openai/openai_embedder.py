"""An embedding model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn, Self

import numpy as np
from pydantic import JsonValue, SecretStr

from reme_core.errors import ConfigurationError, ModelRejectedError
from reme_core.models.json_text import clean_text
from reme_core.models.openai.back_off import BackOff
from reme_core.models.openai.embedding_answer import read_vectors
from reme_core.models.openai.endpoint import OPENAI_URL, Endpoint, as_secret
from reme_core.models.openai.endpoint_failures import EndpointAddress, complaint
from reme_core.models.usage_meter import Meter, Tally
from reme_core.ports import Matrix
from reme_core.schema import Usage

_PATH = "/embeddings"
_ABOUT_DIMENSIONS = re.compile(r"dimensions|matryoshka")

BATCH_SIZE = 10
"""Texts in a request. DashScope's text-embedding-v4 takes 10; OpenAI takes 2,048 and, in all, 300,000 tokens."""

MAX_CHARS = 8000
"""Text-embedding models of OpenAI and DashScope take 8,192 tokens; Chinese has up to one token a character."""


class OpenAIEmbedder:
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
        timeout_s: float = 60.0,
        max_retries: int = 3,
        max_concurrency: int = 4,
        back_off: BackOff | None = None,
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
            timeout_s: For each attempt.
            max_retries: After the first attempt, for connection errors, time-outs, 408, 409, 429 and 5xx.
            max_concurrency: Requests under way at once, over all event loops and threads.
            back_off: How long to wait between attempts.

        Raises:
            ConfigurationError: Naming the option.
        """
        for name, value in (("dimension", dimension), ("batch_size", batch_size), ("max_chars", max_chars)):
            if value < 1:
                msg = f"{name} is {value}: wanted 1 or more"
                raise ConfigurationError(msg)
        place = EndpointAddress(
            model=model,
            base_url=base_url,
            key_variable="REME_EMBEDDING_API_KEY",
            url_variable="REME_EMBEDDING_BASE_URL",
            secret=as_secret(api_key),
        )
        self._endpoint = Endpoint(
            place,
            timeout_s=timeout_s,
            max_retries=max_retries,
            max_concurrency=max_concurrency,
            back_off=back_off or BackOff(),
        )
        self._dimension = dimension
        self._batch_size = batch_size
        self._max_chars = max_chars
        self._asks_for_dimension = ask_for_dimension
        self._meter = Meter()

    @property
    def model(self) -> str:
        """The model's name."""
        return self._endpoint.place.model

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._dimension

    @property
    def usage(self) -> Usage:
        """The cost of all calls so far, failed ones included."""
        return self._meter.total

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

    async def close(self) -> None:
        """Close the connections of the running event loop. A later call opens new ones."""
        await self._endpoint.close()

    async def __aenter__(self) -> Self:
        """Return the embedder itself; nothing is opened."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections of the running event loop."""
        await self.close()

    def __repr__(self) -> str:
        """Name the model and the endpoint, never the key."""
        return f"OpenAIEmbedder({self.model!r}, dimension={self._dimension}, base_url={self._endpoint.place.url!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: the key must not get into a file.

        Raises:
            TypeError: Always.
        """
        msg = "an OpenAIEmbedder holds a key, so it is not pickled or copied: build it anew where it is needed"
        raise TypeError(msg)

    def _fitting(self, text: str) -> str:
        cut = clean_text(text[: self._max_chars])
        return cut if cut.strip() else "."

    async def _embed_batch(self, texts: list[str]) -> Matrix:
        tally = Tally()
        try:
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
