"""Exact vector search, and the block matrix under it."""

import numpy as np
import pytest

from reme_core.retrieval import Matrix
from reme_core.retrieval.arrays import VectorColumn


def unit_rows(n: int, seed: int = 0) -> Matrix:
    made = np.random.default_rng(seed).normal(size=(n, 16)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


def test_vectors_put_in_any_order_over_many_blocks_are_all_found() -> None:
    rows = np.random.default_rng(1).permutation(20_000)[:9_000]
    vectors = unit_rows(9_000)
    column = VectorColumn()
    for part in np.array_split(np.arange(9_000), 7):
        column.put(rows[part], vectors[part])
    expected = np.zeros(20_000, np.float32)
    expected[rows] = vectors @ vectors[0]
    np.testing.assert_allclose(column.products(vectors[0], 20_000), expected, atol=1e-5)
    assert len(column) == int(column.present(20_000).sum()) == 9_000


def test_renumbering_drops_and_moves_vectors() -> None:
    column = VectorColumn()
    vectors = unit_rows(10_000)
    column.put(np.arange(10_000), vectors)
    keep = np.arange(10_000) % 3 != 0
    column.renumber(np.where(keep, np.cumsum(keep) - 1, -1))
    left = vectors[keep]
    np.testing.assert_allclose(column.products(vectors[1], len(left)), left @ vectors[1], atol=1e-5)
    assert len(column) == len(left)


def test_a_vector_put_again_replaces_the_first() -> None:
    column = VectorColumn()
    first, second = unit_rows(2)
    column.put(np.array([3]), first[None])
    column.put(np.array([3]), second[None])
    assert column.products(second, 5)[3] == pytest.approx(1.0, abs=1e-5)
    assert len(column) == 1


@pytest.mark.parametrize("shape", [(1, 16), (2, 15), (2,)])
def test_a_matrix_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    column = VectorColumn()
    column.put(np.array([0]), unit_rows(1))
    with pytest.raises(ValueError, match="shape"):
        column.put(np.array([1, 2]), np.ones(shape, np.float32))


def test_growing_by_single_rows_keeps_room_for_no_more_than_a_quarter() -> None:
    column = VectorColumn()
    for row in range(1_000):
        column.put(np.array([row]), unit_rows(1, row))
    assert column.nbytes <= 1_000 * 16 * 4 * 1.3
