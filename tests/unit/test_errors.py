"""Errors survive a trip to another process, and form the tree that their module draws."""

from __future__ import annotations

import pickle

import pytest

from reme_core import errors
from reme_core.errors import (
    DimensionMismatchError,
    EmbeddingModelMismatchError,
    MemoryNotFoundError,
    MissingExtraError,
    ModelOutputError,
    ModelUnavailableError,
    PartialFailureError,
    ReMeError,
)

KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ReMeError)),
    key=lambda kind: kind.__name__,
)
MADE: list[ReMeError] = [
    MissingExtraError(library="qdrant_client", extra="qdrant", wanted_for="QdrantIndex"),
    MemoryNotFoundError(["a", "b"]),
    DimensionMismatchError(expected=3, found=4, what="the vector"),
    EmbeddingModelMismatchError(expected="old", found="new", what="the vector"),
    ModelOutputError("bad", raw="{"),
    PartialFailureError("half", done=(1, 2), failures=[ModelUnavailableError("down")]),
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_after_pickling(error: ReMeError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert {k: repr(v) for k, v in vars(again).items()} == {k: repr(v) for k, v in vars(error).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_stands_in_the_tree(kind: type[ReMeError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.__doc__


def test_many_missing_ids_are_not_all_told() -> None:
    error = MemoryNotFoundError([f"id{number}" for number in range(100_000)])
    assert len(str(error)) < 200
    assert len(error.missing) == 100_000


def test_a_partial_failure_may_pass_if_all_of_it_may() -> None:
    down, broken = ModelUnavailableError("down"), ModelOutputError("bad", raw="")
    assert PartialFailureError("", done=None, failures=[down]).all_retryable
    assert not PartialFailureError("", done=None, failures=[down, broken]).all_retryable
