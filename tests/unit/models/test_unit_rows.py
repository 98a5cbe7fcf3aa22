"""What models behind other frameworks answer as vectors."""

from __future__ import annotations

import numpy as np
import pytest

from reme_core import unit_rows
from reme_core.errors import ModelOutputError


def test_rows_are_brought_to_unit_norm_and_zeros_stay() -> None:
    matrix = unit_rows([[3, 4], [0.0, 0.0], [0, -2]], count=3, dimension=2, who="m")
    assert matrix.dtype == np.float32
    assert matrix.tolist() == [pytest.approx([0.6, 0.8]), [0.0, 0.0], [0.0, -1.0]]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([[1.0, 0.0]], "wanted 2 vectors"),
        ([[1.0], [1.0]], "2 dimensions"),
        ([[1.0, 0.0], [1.0]], "one length"),
        ([["a", "b"], ["c", "d"]], "lists of numbers"),
        ([[1.0, float("nan")], [1.0, 0.0]], "1 of 2 vectors are not finite"),
        (None, "found shape"),
    ],
)
def test_what_is_no_answer_is_told_with_the_models_name(rows: object, problem: str) -> None:
    with pytest.raises(ModelOutputError, match=rf"m: .*{problem}"):
        unit_rows(rows, count=2, dimension=2, who="m")
