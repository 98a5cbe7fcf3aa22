"""Fit of the times of texts to the dates that a query names."""

from collections.abc import Sequence
from datetime import date

import numpy as np

from reme_core.retrieval.arrays import FloatArray, IntArray
from reme_core.retrieval.times.named_dates import DaySpan, NamedDate

# Things are told after they happen: a text of the next month fits a named month a little, one of the week after a named
# day fits the less the later it is. Chosen on LoCoMo, rounded.
_NEXT_MONTH = 0.3
DAYS_AFTER = 8
_EPOCH = date(1970, 1, 1).toordinal()
_LAST_MONTHS = 12


def date_fit(days: IntArray, named: Sequence[NamedDate], spans: Sequence[DaySpan]) -> FloatArray:
    """Score days since 1970 (n,) against what a query names: the best of its dates, 0 to 2.

    1 for a text of the named month, 0.3 for one of the month after; up to 1 more where a day is named, falling to 0
    eight days after it. 1 for a text inside a span. A year that is named must agree; a year alone gives 0.3.
    """
    known = days > -(10**8)
    if not known.all():
        fit = np.zeros(len(days))
        fit[known] = date_fit(days[known], named, spans)
        return fit
    fit = np.zeros(len(days))
    months: IntArray = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    for name in named:
        if name.month is None:
            agrees = months // 12 + 1970 == name.year
            np.maximum(fit, np.where(agrees, _NEXT_MONTH, 0.0), out=fit)
        else:
            np.maximum(fit, _month_fit(days, months, name.month, name), out=fit)
    for span in spans:
        inside = (days >= span.first.toordinal() - _EPOCH) & (days <= span.last.toordinal() - _EPOCH)
        np.maximum(fit, inside, out=fit)
    return fit


def _month_fit(days: IntArray, months: IntArray, month: int, name: NamedDate) -> FloatArray:
    """Score days and months since 1970; without a year, against the last such month before or at each of them."""
    later = (months - (month - 1)) % _LAST_MONTHS if name.year is None else months - (name.year - 1970) * 12 - month + 1
    fit: FloatArray = np.where(later == 0, 1.0, np.where(later == 1, _NEXT_MONTH, 0.0))
    if name.day is not None:
        first_days = (months - later).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        after = days - first_days - (name.day - 1)
        fit += np.where((after >= 0) & (after < DAYS_AFTER), 1.0 - after / DAYS_AFTER, 0.0)
    return fit
