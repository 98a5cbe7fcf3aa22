"""The nearby vector part: how near a query is to what stands round a row.

It comes from the cosines of the rows themselves: on LoCoMo their mean under a triangle of two rows either side finds
as much evidence (86.0) as embedded windows of three messages do (85.5), and needs no second embedding, no second matrix
and no second search.
"""

import numpy as np

from reme_core.retrieval.arrays import BoolArray, FloatArray
from reme_core.retrieval.ranking.partition_shape import VECTOR_REACH
from reme_core.retrieval.ranking.score_weights import MEAN_TO_WINDOW
from reme_core.retrieval.ranking.session_line import SessionLine, triangle


def fill_mean(cosines: FloatArray, present: BoolArray) -> FloatArray:
    """Give rows without a vector the mean cosine of those `present`: unknown is neither near nor far.

    With 0 in place of the mean, a partition of which a third is embedded finds less than it does by words alone.
    """
    if present.all() or not present.any():
        return cosines
    return np.where(present, cosines, cosines.mean(where=present))


def nearby_cosines(cosines: FloatArray, line: SessionLine, share: FloatArray) -> FloatArray:
    """Average cosines (n,) over each row and what stands round it, scaled like the cosine of a window.

    `share` (length,) is the `triangle` of 1 for each row: what the average divides by.
    """
    around = triangle(line.lay(cosines), VECTOR_REACH) / share
    return MEAN_TO_WINDOW * around[line.places]
