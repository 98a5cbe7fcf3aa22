"""What stands round each row of its session, nearer rows counting more.

The weight of a row falls linearly with its distance: the triangle kernel of Lv and Zhai 2009, Positional Language
Models for Information Retrieval, over messages in place of words.
"""

from dataclasses import dataclass

import numpy as np

from reme_core.retrieval.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Ring:
    """The rows at one distance before or after each row: (n,), -1 for none; and what they count."""

    rows: IntArray
    share: float


def rings(before: IntArray, after: IntArray, reach: int) -> list[Ring]:
    """Follow the links of n rows up to `reach` steps either way; distance d counts 1 - d / (reach + 1)."""
    found: list[Ring] = []
    for links in (before, after):
        padded = np.append(links, -1)
        at = links
        for distance in range(1, reach + 1):
            found.append(Ring(at, 1.0 - distance / (reach + 1)))
            at = padded[at]
    return found


def spread(values: FloatArray, around: list[Ring]) -> FloatArray:
    """Add to each value (n,) those around it, each times its share."""
    # The place after the last stands for a missing row: links of -1 read it.
    padded = np.append(values, 0.0)
    total = values.astype(np.float64)
    for ring in around:
        total += ring.share * padded[ring.rows]
    return total
