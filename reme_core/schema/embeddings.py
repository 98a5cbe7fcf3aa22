"""Outcome of a change of the embedding model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Reembedded(BaseModel):
    """What `ReMe.reembed` did.

    Attributes:
        before: The model of the old vectors; None where it isn't known, or there were none.
        model: The model of the new ones.
        texts: How many texts were embedded now; what an earlier run had done is not among them.
        refused: How many of them the model refused: they are found by their words.
        embedding_calls: How often the model was asked.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    before: str | None
    model: str
    texts: int = 0
    refused: int = 0
    embedding_calls: int = 0
