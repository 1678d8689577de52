"""A decoder as in Llama: the layers that are trained on windows of text.

A block adds attention, then a SwiGLU, to the rows. Each of the two takes rows that RMSNorm has normalised.
Queries and keys carry rotary position embeddings. Each key-value head serves several query heads.

Sources: Vaswani et al., Attention is all you need, NeurIPS 2017, section 3.2; Zhang and Sennrich, Root mean
square layer normalization, NeurIPS 2019; Su et al., RoFormer, arXiv:2104.09864; Shazeer, GLU variants improve
transformer, arXiv:2002.05202; Ainslie et al., GQA, EMNLP 2023.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accuracy.differentiation import (
    Variable,
    normalised,
    products,
    reshape,
    rotated,
    silu,
    softmax,
    take,
    transpose,
)
from accuracy.layers import Trainable, Weights, normal

EPSILON = 1e-5  # added to mean squares
MASKED = -1e4  # added to scores of places that are not valid; their softmax is 0
BASE = 1000.0  # of the rotary angles: the slowest turns by nearly 1 / BASE from a position to the next


@dataclass(frozen=True)
class Sizes:
    """Sizes of a decoder.

    Attributes:
        symbols: of the alphabet.
        width: of a row between blocks.
        blocks: number of them.
        query_heads: a multiple of `heads`.
        heads: of keys and values.
        head_size: elements of a query, a key or a value; even.
        hidden: width inside a SwiGLU.
        context: positions that a position attends to, itself included.
        positions: that have rotary angles, from 0 on.
    """

    symbols: int
    width: int
    blocks: int
    query_heads: int
    heads: int
    head_size: int
    hidden: int
    context: int
    positions: int

    def layers(self) -> tuple[Trainable, ...]:
        """Return the layers: symbols, int[batch, length], to scores, float[length * batch, symbols]."""
        return (Symbols(self), *(Block(self) for _ in range(self.blocks)), Scores(self))

    def angles(self) -> tuple[np.ndarray, np.ndarray]:
        """Return cosines and sines of the rotary angles, float32[positions, head_size] each."""
        speeds = BASE ** -(np.arange(0, self.head_size, 2) / self.head_size)
        angles = np.tile(np.outer(np.arange(self.positions), speeds), 2)
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@dataclass(frozen=True)
class Rows:
    """Rows of windows: float[length * batch, width], position by position."""

    values: Variable
    length: int


@dataclass(frozen=True)
class Symbols:
    """A row for each symbol."""

    sizes: Sizes

    def initial(self, random: np.random.Generator) -> Weights:
        """Return the table, float32[symbols, width]."""
        return (normal(random, self.sizes.symbols, self.sizes.width, deviation=1),)

    def apply(self, weights: Sequence[Variable], data: np.ndarray) -> Rows:
        """Return the rows of symbols, int[batch, length]."""
        return Rows(take(weights[0], data.T.reshape(-1)), data.shape[1])


@dataclass(frozen=True)
class Block:
    """A block of a decoder."""

    sizes: Sizes

    def initial(self, random: np.random.Generator) -> Weights:
        """Return the weights, float32.

        Returns:
            of attention: a scale [width]; matrices for queries [width, query_heads * head_size], for keys and
            values [width, heads * head_size], and for results [query_heads * head_size, width].
            of SwiGLU: a scale [width]; two matrices [width, hidden], of which the first gates the second; a
            matrix [hidden, width].
        """
        sizes = self.sizes
        width, hidden = sizes.width, sizes.hidden
        queries, keys = sizes.query_heads * sizes.head_size, sizes.heads * sizes.head_size
        ones = np.ones(width, np.float32)

        def matrix(inputs: int, outputs: int, terms: int = 1) -> np.ndarray:
            return normal(random, inputs, outputs, deviation=(inputs * terms) ** -0.5)

        terms = 2 * sizes.blocks  # that are added to the rows
        attention = [matrix(width, outputs) for outputs in (queries, keys, keys)]
        gated = [matrix(width, hidden) for _ in range(2)]
        return (
            ones,
            *attention,
            matrix(queries, width, terms),
            ones.copy(),
            *gated,
            matrix(hidden, width, terms),
        )

    def apply(self, weights: Sequence[Variable], data: Rows) -> Rows:
        """Return the rows with what the block adds."""
        scale, query, key, value, result, gated_scale, gate, up, down = weights
        rows = data.values
        inputs = normalised(rows, scale, EPSILON)
        rows = rows + self._attention(inputs @ query, inputs @ key, inputs @ value, data.length) @ result
        inputs = normalised(rows, gated_scale, EPSILON)
        return Rows(rows + (silu(inputs @ gate) * (inputs @ up)) @ down, data.length)

    def _attention(self, query: Variable, key: Variable, value: Variable, length: int) -> Variable:
        """Return the values that each query attends to.

        Args:
            query: float[length * batch, query_heads * head_size].
            key, value: float[length * batch, heads * head_size].
            length: of windows.

        Returns:
            float[length * batch, query_heads * head_size].
        """
        sizes = self.sizes
        group = sizes.query_heads // sizes.heads
        cosines, sines = (table[:length] for table in sizes.angles())
        by_head = (length, -1, sizes.heads, group, sizes.head_size)
        queries = rotated(transpose(reshape(query, *by_head), (1, 2, 3, 0, 4)), cosines, sines)
        queries = reshape(queries, -1, sizes.heads, group * length, sizes.head_size)
        keys, values = (
            transpose(reshape(each, length, -1, sizes.heads, sizes.head_size), (1, 2, 0, 3))
            for each in (key, value)
        )
        scores = products(queries, transpose(rotated(keys, cosines, sines), (0, 1, 3, 2)))
        weights = softmax(scores, sizes.head_size**-0.5, np.tile(causal(length, sizes.context), (group, 1)))
        by_query = reshape(products(weights, values), -1, sizes.heads, group, length, sizes.head_size)
        return reshape(transpose(by_query, (3, 0, 1, 2, 4)), *query.value.shape)


@dataclass(frozen=True)
class Scores:
    """The scores of the symbols that may come next."""

    sizes: Sizes

    def initial(self, random: np.random.Generator) -> Weights:
        """Return a scale, float32[width], and the matrix, float32[width, symbols]."""
        width = self.sizes.width
        return np.ones(width, np.float32), normal(random, width, self.sizes.symbols, deviation=width**-0.5)

    def apply(self, weights: Sequence[Variable], data: Rows) -> Variable:
        """Return float[length * batch, symbols]."""
        return normalised(data.values, weights[0], EPSILON) @ weights[1]


def causal(length: int, context: int) -> np.ndarray:
    """Return the mask of attention, float32[length, length].

    A row attends to itself and the `context - 1` rows before it.
    """
    distance = np.subtract.outer(np.arange(length), np.arange(length))
    return np.where((distance >= 0) & (distance < context), 0, MASKED).astype(np.float32)
