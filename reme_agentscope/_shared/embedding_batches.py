"""Embedding for both generations: batches, lengths, and the check of the vectors that come back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from reme_core import model_error, unit_rows
from reme_core.errors import ConfigurationError, ContextTooLongError, ModelError
from reme_core.schema import shown

if TYPE_CHECKING:
    from reme_core.ports import Matrix

Rows: TypeAlias = Callable[[list[str]], Awaitable[object]]

_SHORTER = 3  # times that texts are halved where a model still finds them too long


class CheckedEmbedder:
    """An embedding model behind the core's port. Bound to no event loop."""

    def __init__(self, *, model: str, dimension: int, rows: Rows, batch: int | None, max_chars: int) -> None:
        """Keep what is known of the model.

        Args:
            model: Names it; tells its vectors from those of others.
            dimension: The length of its vectors.
            rows: Asks it for the vectors of some texts.
            batch: At most so many texts a call; None: it divides them itself.
            max_chars: Longer texts are cut. A character is a token at most, but for emoji and the like.
        """
        self._model = model
        self._dimension = dimension
        self._rows = rows
        self._batch = batch
        self._max_chars = max_chars

    def __repr__(self) -> str:
        """Name the model."""
        return f"{type(self).__name__}({self._model!r}, dims={self._dimension})"

    @property
    def model(self) -> str:
        """The name of the model, with that of its class."""
        return self._model

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return float32 of shape (len(texts), dimension), rows of unit norm, in the order of the texts.

        Raises:
            ModelUnavailableError: No answer; it may pass.
            ModelRejectedError: The model refuses the request, or failed.
            ModelOutputError: A wrong number of vectors, a wrong dimension, zeros, or values that are not finite.
            ContextTooLongError: A text is too long for the model, cut as it is.
        """
        wanted = [text if text.strip() else "." for text in texts]  # providers refuse blank texts
        if not wanted:
            return np.zeros((0, self._dimension), dtype=np.float32)
        size = self._batch or len(wanted)
        batches = [await self._ask(wanted[begin : begin + size]) for begin in range(0, len(wanted), size)]
        return np.concatenate(batches)

    async def _ask(self, texts: list[str]) -> Matrix:
        most = self._max_chars
        for halvings in range(_SHORTER + 1):
            try:
                rows = await self._rows([text[:most] for text in texts])
            except ModelError:
                raise
            except Exception as exc:  # providers share no base error; each is mapped, none is dropped
                error = model_error(exc, self._model)
                if not isinstance(error, ContextTooLongError) or halvings == _SHORTER:
                    raise error from exc
                most = min(most, max(map(len, texts))) // 2
            else:
                return unit_rows(rows, count=len(texts), dimension=self._dimension, who=self._model)
        msg = "each turn returns or raises"
        raise AssertionError(msg)


def checked_dimension(model: object, found: object) -> int:
    """Return the length of a model's vectors as it tells it.

    Raises:
        ConfigurationError: It tells none.
    """
    if isinstance(found, int) and not isinstance(found, bool) and found > 0:
        return found
    msg = f"{type(model).__name__}: wanted `dimensions`, the length of the vectors, found {shown(found)}"
    raise ConfigurationError(msg)
