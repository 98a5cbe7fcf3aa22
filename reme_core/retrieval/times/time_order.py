"""The order in which what lies in a time is listed: what is of the time itself first, and of this the most telling.

No word is compared. Chosen to be explained, not measured: a text that says much stands before a short one, a statement
before a question, what was said in the time asked for before what was said soon after it.
"""

from __future__ import annotations

import numpy as np

from reme_core.retrieval.arrays import BoolArray, FloatArray, IntArray, NumberArray
from reme_core.retrieval.ranking.score_weights import LONG
from reme_core.retrieval.times.time_fit import date_fit
from reme_core.retrieval.times.time_question import AskedTime

# A question tells half of what a statement of its length does.
_QUESTION = 0.5
# What is of a relative time on the wide side alone, as Monday of this week is of "last week".
_WIDE = 0.5


def time_scores(lengths: NumberArray, questions: BoolArray, fit: FloatArray | None) -> FloatArray:
    """Score texts by their terms, whether they ask, and how well they fit a time asked for, each (n,): (n,) in [0, 1].

    Above 0.5 what is of that time, or everything where `fit` is None; at most 0.5 what is near it; 0 anything else.
    """
    told = np.log1p(1.0 + np.minimum(lengths, LONG)) / np.log1p(1.0 + LONG)
    told = np.where(questions, _QUESTION * told, told)
    fits = np.ones(len(lengths)) if fit is None else fit
    scores: FloatArray = np.where(fits >= 1.0, 0.5, 0.0) + 0.5 * fits * told
    return scores


def asked_fit(days: IntArray, asked: AskedTime) -> FloatArray:
    """Tell how well days since 1970 (n,) fit a time asked for: (n,); 1 inside it, above 0 near it, 0 elsewhere.

    Near a named day are the seven after it, the less the later; near a relative time its wide side.
    """
    fit = np.where(date_fit(days, (), asked.wide) > 0.0, _WIDE, 0.0)
    np.maximum(fit, date_fit(days, (), asked.spans), out=fit)
    for name in asked.dates:
        one = date_fit(days, (name,), ())
        if name.day is not None:
            one = np.maximum(one - 1.0, 0.0)
        elif name.month is not None:
            one = np.where(one >= 1.0, 1.0, 0.0)
        else:
            one = np.where(one > 0.0, 1.0, 0.0)
        np.maximum(fit, one, out=fit)
    return fit
