"""Times of facts as models write them."""

from __future__ import annotations

import pytest

from reme_core.schema import parse_partial_time
from reme_core.schema.times import parse_said_time as read_said_time


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2023-5", "2023-05"),
        (2023, "2023"),
        ("2023-05-08 Mon", "2023-05-08"),
        ("2023-05-08 Mon 13:56", "2023-05-08 13:56"),
        (" May 2023 ", "2023-05"),
        ("2023-05-08T13:56:00Z", "2023-05-08T13:56:00Z"),
    ],
)
def test_a_time_is_read_with_the_precision_in_which_it_was_written(written: object, meant: str) -> None:
    assert read_said_time(written) == parse_partial_time(meant)


@pytest.mark.parametrize("written", [None, "", " Present ", "null", "unknown", "N/A", "至今", "不详"])
def test_words_for_no_time_are_none(written: object) -> None:
    assert read_said_time(written) is None


@pytest.mark.parametrize("written", [True, 5, 1.5, ["2023"], "someday", "2023-13", "99999-01-01", "8888-88-88"])
def test_what_is_no_time_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"is no time: write 2023, 2023-01|is a text such as"):
        read_said_time(written)
