"""Exact vector search, and the block matrix under it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.retrieval import Matrix, vector_top_k
from reme_core.retrieval.vectors import VectorColumn


def unit_rows(n: int, seed: int = 0) -> Matrix:
    made = np.random.default_rng(seed).normal(size=(n, 16)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 99))
def test_the_nearest_rows_come_first(n: int, k: int, seed: int) -> None:
    matrix = unit_rows(n, seed)
    hits = vector_top_k(matrix[n // 2], matrix, k)
    assert hits[0][0] == n // 2
    assert hits[0][1] == pytest.approx(1.0, abs=1e-5)
    assert len(hits) == min(n, k)
    assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)


def test_equal_rows_stand_in_their_order() -> None:
    matrix = np.ones((5, 16), np.float32)
    assert [row for row, _ in vector_top_k(matrix[0], matrix, 3)] == [0, 1, 2]


def test_no_rows_have_no_hits() -> None:
    assert vector_top_k(np.ones(16, np.float32), np.empty((0, 16), np.float32), 3) == []


def test_a_k_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="k must"):
        vector_top_k(np.ones(16, np.float32), unit_rows(2), 0)


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
