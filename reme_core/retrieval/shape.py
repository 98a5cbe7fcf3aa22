"""What follows from the rows of a partition alone and serves every query until they change."""

from dataclasses import dataclass

import numpy as np

from reme_core.retrieval.arrays import BoolArray, FloatArray, Matrix
from reme_core.retrieval.bm25 import length_norm
from reme_core.retrieval.columns import Columns
from reme_core.retrieval.line import GAP, Line, line_of, triangle
from reme_core.retrieval.vectors import VectorColumn

# Messages either side that the nearby text and the nearby cosines take in, nearer ones counting more; chosen on LoCoMo,
# where one more or one fewer changes little.
TEXT_REACH = GAP
VECTOR_REACH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Columns derived from the rows.

    Attributes:
        mean_length: mean terms of a living row.
        vectors: which living rows have a vector, (n,).
        line: the rows laid out, where what stands nearby counts.
        nearby_norm: BM25's length norm of each place of the line with what stands round it.
        vector_share: what the nearby cosines of each place divide by.
    """

    mean_length: float
    vectors: BoolArray
    line: Line
    nearby_norm: Matrix
    vector_share: FloatArray

    @property
    def nbytes(self) -> int:
        """The bytes held."""
        return self.vectors.nbytes + self.line.nbytes + self.nearby_norm.nbytes + self.vector_share.nbytes


def shape_of(columns: Columns, own: VectorColumn, *, neighbours: bool) -> Shape:
    """Derive the shape of a partition; removed rows count nothing and are nobody's neighbours."""
    n, alive = len(columns), columns.alive
    living = max(n - columns.dead, 1)
    lengths = np.where(alive, columns.lengths, 0).astype(np.float64)
    line = line_of(columns.sessions, columns.positions, alive if neighbours else np.zeros(n, np.bool_))
    nearby = triangle(line.lay(lengths), TEXT_REACH)
    return Shape(
        mean_length=float(lengths.sum()) / living,
        vectors=alive & own.present(n),
        line=line,
        nearby_norm=length_norm(nearby, float(nearby.sum(where=line.taken)) / living).astype(np.float32),
        vector_share=np.maximum(triangle(line.taken.astype(np.float64), VECTOR_REACH), 1.0),
    )
