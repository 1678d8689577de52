"""Vector clocks over the token edges: which instructions are done when another starts, in any interleaving.

Units start their instructions in order, and the k-th pop on an edge takes the token of the k-th push. So an
instruction knows everything that the previous one of its unit knew and, for each token it pops, the
instruction that pushed it and everything that one knew.
"""

import numpy as np

from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.compiled import whole
from vdla.sim.decoded import DecodedStream
from vdla.sim.records import Grid, IntArray, Ints

UNITS = len(Unit)


def pushers(program: DecodedStream) -> IntArray:
    """Return int64[n, edges]: the instruction whose token each instruction pops, by edge; -1 where it pops
    none."""
    found = np.full((len(program), len(TOKEN_EDGES)), -1)
    for number in range(len(TOKEN_EDGES)):
        pushing, popping = np.flatnonzero(program.pushes[:, number]), np.flatnonzero(program.pops[:, number])
        matched = min(len(pushing), len(popping))
        found[popping[:matched], number] = pushing[:matched]
    return found


def clocks(program: DecodedStream, order: IntArray) -> IntArray:
    """Return int64[n, units]: the last instruction of each unit that is done when an instruction starts; -1:
    none is known to be.

    Args:
        order: a legal order of execution.
    """
    known = np.full((len(program), UNITS), -1)
    latest = np.full((UNITS, UNITS), -1)
    _fill(order, program.unit, pushers(program), known, latest)
    return known


@whole
def _fill(order: Ints, unit: Ints, pushed_by: Grid, known: Grid, latest: Grid) -> None:
    for place in range(order.size):
        index = order[place]
        own = unit[index]
        for edge in range(pushed_by.shape[1]):
            other = pushed_by[index, edge]
            if other >= 0:
                for column in range(known.shape[1]):
                    latest[own, column] = max(latest[own, column], known[other, column])
                latest[own, unit[other]] = max(latest[own, unit[other]], other)
        for column in range(known.shape[1]):
            known[index, column] = latest[own, column]
