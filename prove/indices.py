"""Index arithmetic of instructions, in NumPy: steps of loops over micro-ops, elements of transfers.

A GEMM becomes few matrix products: the steps that share a row of weights are multiplied at once, and rows of
weights that are multiplied with the same inputs stand side by side.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa
from vdla.hw.spec.window import Window, row_distance, window_columns

Indices = NDArray[np.int64]
KNOWN_BLOCKS = 256
Transfer: TypeAlias = isa.Load | isa.Gather | isa.Store | isa.Normalise


@dataclass(frozen=True, kw_only=True)
class LoopFactors:
    """The loops of an instruction; `vdla.hw.spec.isa` explains the fields."""

    iter_out: int
    iter_in: int
    dst_factor_out: int = 0
    dst_factor_in: int = 0
    src_factor_out: int = 0
    src_factor_in: int = 0
    wgt_factor_out: int = 0
    wgt_factor_in: int = 0
    stride_2: int = 0
    more_rows: int = 0
    wide: int = 0
    row_step: int = 0


@dataclass(frozen=True)
class Steps:
    """The steps of a loop instruction, in order.

    Attributes:
        dst, src, wgt: int64[n], the elements that each step touches.
    """

    dst: Indices
    src: Indices
    wgt: Indices

    def __len__(self) -> int:
        return len(self.dst)

    def chosen(self, which: NDArray[np.bool_] | Indices | slice) -> "Steps":
        """Return the steps that `which` selects, in its order."""
        return Steps(self.dst[which], self.src[which], self.wgt[which])


@dataclass(frozen=True)
class Product:
    """Sums of products: accumulator dst[p, o] receives the sum over r of inp[src[p, r]] * wgt[wgt[o, r]].

    Attributes:
        dst: int64[P, O], distinct.
        src: int64[P, R].
        wgt: int64[O, R].
    """

    dst: Indices
    src: Indices
    wgt: Indices


@dataclass(frozen=True)
class Rows:
    """The sums of a DEPTHWISE: accumulator dst[s] receives the products of a window of inputs with one
    weight.

    Attributes:
        dst: int64[n].
        src: int64[n, m], the elements of the windows.
        wgt: int64[n].
        terms: int64[t, 3], see `window_terms`.
        shared: channels that neighbours share, a power of two.
    """

    dst: Indices
    src: Indices
    wgt: Indices
    terms: Indices
    shared: int

    def chosen(self, which: NDArray[np.bool_] | Indices) -> "Rows":
        """Return the sums that `which` selects, in its order."""
        return Rows(self.dst[which], self.src[which], self.wgt[which], self.terms, self.shared)


def steps_of(loop: LoopFactors, uops: tuple[Indices, Indices, Indices]) -> Steps:
    """Return the steps of a GEMM or ALU instruction.

    Args:
        uops: dst, src and wgt of its micro-ops: int64[count] each.
    """
    factors = (
        (loop.dst_factor_out, loop.dst_factor_in),
        (loop.src_factor_out, loop.src_factor_in),
        (loop.wgt_factor_out, loop.wgt_factor_in),
    )
    outer, inner = np.arange(loop.iter_out)[:, None, None], np.arange(loop.iter_in)[:, None]
    dst, src, wgt = (
        (outer * out + inner * step + base).reshape(-1)
        for (out, step), base in zip(factors, uops, strict=True)
    )
    return Steps(dst, src, wgt)


def window_terms(window: Window, more_rows: int, wide: int) -> Indices:
    """Return the terms of each sum of a DEPTHWISE, int64[t, 3]: the number of the element in its window, the
    channel among the channels that neighbours share, and the number of the weight."""
    columns = window_columns(wide)
    terms = window.terms(more_rows, wide)
    return np.array([(term.row * columns + term.column, term.channel, term.place) for term in terms])


def depthwise_rows(loop: LoopFactors, uops: tuple[Indices, Indices, Indices], window: Window) -> Rows:
    """Return the sums of a DEPTHWISE, in order.

    Args:
        loop, uops: as of `steps_of`.
        window: the largest window of the array.
    """
    dst, src, wgt = (column[:, None] for column in uops)
    outer, inner = np.arange(loop.iter_out)[:, None, None], np.arange(loop.iter_in)
    step = loop.src_factor_in
    first = src + outer * loop.src_factor_out + inner * (1 + loop.stride_2) * step
    to = dst + outer * loop.dst_factor_out + inner * loop.dst_factor_in
    weights = np.broadcast_to(wgt + outer * loop.wgt_factor_out, to.shape)
    down, across = np.arange(1 + loop.more_rows)[:, None], np.arange(window_columns(loop.wide))
    within = (down * row_distance(loop.row_step) + across * step).reshape(-1)
    terms = window_terms(window, loop.more_rows, loop.wide)
    src = first.reshape(-1, 1) + within
    return Rows(to.reshape(-1), src, weights.reshape(-1), terms, window.channels)


def levels(dst: Indices, src: Indices) -> list[Indices]:
    """Divide steps that read elements `dst` and `src` and write `dst` into levels.

    The steps of a level can run at once, all reading before any writes, and the levels one after another:
    the results are as if the steps ran in order.

    Args:
        dst, src: int64[n].

    Returns:
        the positions of each level's steps.
    """
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    level_of_step = np.zeros(len(dst), np.int64)
    for step, (to, source) in enumerate(zip(dst.tolist(), src.tolist(), strict=True)):
        level = max(written.get(to, -1) + 1, written.get(source, -1) + 1, read.get(to, 0))
        written[to], read[source], level_of_step[step] = level, max(read.get(source, 0), level), level
    return [np.flatnonzero(level_of_step == level) for level in range(int(level_of_step.max(initial=-1)) + 1)]


@dataclass(frozen=True)
class Gathered:
    """Steps to some destinations, as many to each, whose sources no step writes.

    Attributes:
        dst: int64[n], distinct.
        src: int64[m, n], the sources of each.
    """

    dst: Indices
    src: Indices


def gathered(steps: Steps) -> list[Gathered] | None:
    """Return the steps of an associative and commutative operation by destinations; None if a source is a
    destination, so that the order of the steps counts."""
    if np.isin(steps.src, steps.dst).any():
        return None
    return [Gathered(dst, ordered.src.T) for dst, ordered in _by_destination(steps)]


def _by_destination(steps: Steps) -> Iterator[tuple[Indices, Steps]]:
    """Yield destinations int64[n] with as many steps, and these, as int64[n, m] in order."""
    ordered = steps.chosen(np.argsort(steps.dst, kind="stable"))
    begins = np.flatnonzero(np.diff(ordered.dst, prepend=-1))
    counts = np.diff(begins, append=len(ordered))
    for count in np.unique(counts).tolist():
        rows = begins[counts == count][:, None] + np.arange(count)
        yield ordered.dst[rows[:, 0]], ordered.chosen(rows)


def last_of_each(dst: Indices) -> NDArray[np.bool_]:
    """Return bool[n]: whether no later step has the same destination."""
    last = np.zeros(len(dst), bool)
    last[len(dst) - 1 - np.unique(dst[::-1], return_index=True)[1]] = True
    return last


def products(steps: Steps) -> list[Product]:
    """Return the matrix products that compute the sums of the steps of a GEMM.

    Every accumulator occurs in one product and once.
    """
    return [
        product
        for dst, ordered in _by_destination(steps)
        for product in _equal_sums(dst, ordered.src, ordered.wgt)
    ]


def _equal_sums(dst: Indices, src: Indices, wgt: Indices) -> Iterator[Product]:
    """Yield the products of sums of equally many terms: dst[D], src[D, R], wgt[D, R]."""
    inputs, pixel = _numbered(src)
    weights, column = _numbered(wgt)
    whole = len(inputs) * len(weights)
    if len(dst) == whole == len(np.unique(pixel * len(weights) + column)):
        grid = np.zeros((len(inputs), len(weights)), np.int64)
        grid[pixel, column] = dst
        yield Product(grid, src[inputs], wgt[weights])
        return
    for number, row in enumerate(weights.tolist()):
        mine = column == number
        yield Product(dst[mine][:, None], src[mine], wgt[row : row + 1])


def _numbered(rows: Indices) -> tuple[Indices, Indices]:
    """Return where each distinct row of int64[n, r] stands first, and the number of the row that equals
    each."""
    whole = np.ascontiguousarray(rows)
    keys = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).reshape(-1)
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return first, number.reshape(-1)


class Block(NamedTuple):
    """The elements that a LOAD, GATHER or STORE moves, relative to the first of each memory.

    Attributes:
        elements: elements on chip, with padding.
        filled: int64[n], the places of elements that stand in DRAM, among `elements`.
        source: int64[n], where each stands in DRAM: elements, of a GATHER bytes.
        is_whole: whether there is no padding.
        last: the last of `source`; -1 if there is none.
    """

    elements: int
    filled: Indices
    source: Indices
    is_whole: bool
    last: int


def block_of(it: Transfer) -> Block:
    """Return the elements that an instruction moves, which moves something."""
    match it:
        case isa.Load():
            pads = it.y_pad_0, it.y_pad_1, it.x_pad_0, it.x_pad_1
            return _block(it.y_size, it.x_size, it.x_stride, 1, pads)
        case isa.Gather():
            return _block(it.y_size, it.x_size, it.x_stride, it.step, (it.y_pad_0, it.y_pad_1, 0, 0))
        case isa.Store() | isa.Normalise():
            return _block(it.y_size, it.x_size, it.x_stride, 1, (0, 0, 0, 0))


@lru_cache(KNOWN_BLOCKS)
def _block(rows: int, columns: int, stride: int, step: int, pads: tuple[int, int, int, int]) -> Block:
    above, below, left, right = pads
    line = left + columns + right
    row, column = np.arange(rows)[:, None], np.arange(columns)
    filled, source = (above + row) * line + left + column, (row * stride + column * step).reshape(-1)
    last = int(source[-1]) if source.size else -1
    return Block((above + rows + below) * line, filled.reshape(-1), source, not any(pads), last)


def halvings_of(it: Transfer) -> int:
    """Return how often the width of the values is halved in DRAM."""
    return it.halvings if isinstance(it, isa.Load) else 0


def first_byte(it: Transfer, size: int) -> int:
    """Return the byte address of the first element that an instruction moves, of elements of `size` bytes."""
    return it.dram_base if isinstance(it, isa.Gather) else it.dram_base * size
