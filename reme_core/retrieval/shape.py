"""What follows from the rows of a partition alone and serves every query until they change."""

from dataclasses import dataclass

import numpy as np

from reme_core.retrieval.arrays import BoolArray, FloatArray
from reme_core.retrieval.bm25 import length_norm
from reme_core.retrieval.columns import Columns
from reme_core.retrieval.neighbours import Neighbours
from reme_core.retrieval.surroundings import Ring, rings, spread
from reme_core.retrieval.vectors import VectorColumn

# Messages either side that the nearby text and the nearby cosines take in, nearer ones counting more; chosen on LoCoMo,
# where one more or one fewer changes little.
_TEXT_REACH = 4
_VECTOR_REACH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Columns (n,) derived from the rows.

    Attributes:
        mean_length: mean terms of a living row.
        text_rings: what the nearby text takes in.
        nearby_norm: BM25's length norm of each row with what stands round it.
        vector_rings: what the nearby cosines take in.
        vector_share: what the nearby cosines divide by.
        vectors: which living rows have a vector.
    """

    mean_length: float
    text_rings: list[Ring]
    nearby_norm: FloatArray
    vector_rings: list[Ring]
    vector_share: FloatArray
    vectors: BoolArray

    @property
    def nbytes(self) -> int:
        """The bytes held."""
        around = [ring.rows for ring in self.text_rings + self.vector_rings]
        columns = (*around, self.nearby_norm, self.vector_share, self.vectors)
        return sum(column.nbytes for column in columns)


def shape_of(columns: Columns, links: Neighbours, own: VectorColumn) -> Shape:
    """Derive the shape of a partition; removed rows count nothing and are nobody's neighbours."""
    n, alive = len(columns), columns.alive
    living = max(n - columns.dead, 1)
    lengths = np.where(alive, columns.lengths, 0).astype(np.float64)
    text_rings = rings(links.before, links.after, _TEXT_REACH)
    vector_rings = rings(links.before, links.after, _VECTOR_REACH)
    nearby = spread(lengths, text_rings)
    return Shape(
        mean_length=float(lengths.sum()) / living,
        text_rings=text_rings,
        nearby_norm=length_norm(nearby, float(nearby.sum(where=alive)) / living),
        vector_rings=vector_rings,
        vector_share=spread(alive.astype(np.float64), vector_rings),
        vectors=alive & own.present(n),
    )
