"""Estimates of cycles over all tiles of convolutions that differ in every way that the estimate looks at."""

import pytest

from vdla.compiler.codegen.estimate import costs_of
from vdla.compiler.codegen.tiles import KEEPS, TilingProblem, fitting_tiles
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import Extension

EVERY = tuple(Extension)
WIDE_OUT = DEFAULT.with_changes(block_in=8, extensions=EVERY)
WIDE_IN = DEFAULT.with_changes(block_out=8, batch=2)
FAR = MemoryParameters(400)
BORDERED = Convolution(40, 13, 11, 72, (3, 2), (2, 1), (1, 2, 0, 1))
DILATED = Convolution(64, 12, 10, 96, (3, 3), dilation=(2, 1), padding=(2, 1, 2, 1))
GROUPED = Convolution(96, 9, 7, 64, (3, 3), groups=2, batch=3)
POINTWISE = Convolution(48, 9, 11, 80, (1, 1))
OF_ONE_ROW = WIDE_OUT.with_changes(
    block_in=16, extensions=set(DEFAULT.extensions) - {Extension.DEPTHWISE_ROWS}
)
DEPTHWISE = Convolution(64, 15, 12, 64, (3, 3), (2, 1), (1, 1, 1, 1), groups=64)

CASES = {
    "one thread": TilingProblem(BORDERED, DEFAULT, 1, scales=True),
    "two threads": TilingProblem(BORDERED, DEFAULT, 2, scales=True),
    "four threads, far memory": TilingProblem(DILATED, DEFAULT, 4, scales=True, memory=FAR),
    "without parameters": TilingProblem(DILATED, DEFAULT, 2, scales=False),
    "residuals": TilingProblem(DILATED, DEFAULT, 2, scales=True, adds=True),
    "groups, wide inputs": TilingProblem(GROUPED, WIDE_IN, 2, scales=True),
    "groups, wide outputs": TilingProblem(GROUPED, WIDE_OUT, 2, scales=True),
    "one port": TilingProblem(GROUPED, TINY, 3, scales=True),
    "more parameters than stand on chip": TilingProblem(
        Convolution(16, 6, 5, 700, (1, 1)), TINY, 2, scales=True
    ),
    "sums reset": TilingProblem(POINTWISE, DEFAULT.with_changes(extensions=()), 2, scales=True),
    "few requests": TilingProblem(
        POINTWISE, DEFAULT.with_changes(max_requests=2), 3, scales=True, memory=FAR
    ),
    "alternating inputs, gathered": TilingProblem(POINTWISE, WIDE_OUT, 2, scales=True, reads=2),
    "alternating inputs, one by one": TilingProblem(
        POINTWISE, WIDE_OUT.with_changes(extensions=()), 2, True, reads=2
    ),
    "alternating bordered inputs": TilingProblem(BORDERED, WIDE_OUT, 2, scales=True, reads=2),
    "alternating outputs": TilingProblem(BORDERED, WIDE_IN, 3, scales=True, writes=2),
    "alike weights": TilingProblem(DEPTHWISE, DEFAULT, 2, scales=True, alike=True),
    "sliding windows": TilingProblem(DEPTHWISE, OF_ONE_ROW, 2, scales=True, slides=True),
    "slow memory": TilingProblem(DILATED, DEFAULT, 2, True, memory=MemoryParameters(90, cycles_per_beat=3)),
}


def mean(numbers) -> int:
    """Return the mean of numbers over all tiles, in hundredths."""
    return round(100 * float(sum(numbers)) / len(numbers))


PINNED = {  # tiles, and means over them: cycles, slots, and cycles of the bus, of loads, of stores, of waits
    "one thread": (1344, 4542108, 734500, 2894700, 2609734, 92410, 504864),
    "two threads": (336, 3943211, 737286, 3274329, 2986098, 92454, 414975),
    "four threads, far memory": (288, 17297813, 2616000, 13768300, 15751303, 337359, 930238),
    "without parameters": (1224, 12232903, 2616000, 10517697, 9876267, 174684, 967452),
    "reserved accumulators": (1224, 12243620, 2616000, 10536897, 9876267, 174684, 967452),
    "groups, wide inputs": (576, 6977509, 1558667, 5819844, 5127400, 140701, 954411),
    "groups, wide outputs": (688, 8691843, 2303163, 7118907, 6189233, 105523, 1020386),
    "one port": (223, 21808259, 18663358, 10616743, 10019064, 165979, 1056729),
    "more parameters than stand on chip": (314, 10000576, 3922903, 4564960, 3656878, 569699, 1536525),
    "sums reset": (276, 1124930, 198000, 765710, 583452, 119742, 270196),
    "few requests": (372, 11419709, 193742, 1006409, 10259424, 229525, 1099071),
    "alternating inputs, gathered": (552, 1415777, 346500, 1006391, 730858, 119742, 267912),
    "alternating inputs, one by one": (552, 1403061, 346500, 885009, 811288, 119742, 257900),
    "alternating bordered inputs": (336, 5004053, 1205286, 3725462, 4036713, 92454, 372896),
    "alternating outputs": (524, 4779022, 1315044, 4082986, 3602198, 414948, 506995),
    "alike weights": (96, 941313, 350400, 561467, 401667, 92947, 222489),
    "sliding windows": (96, 1209197, 209600, 813200, 640600, 92947, 311231),
    "slow memory": (1224, 34800705, 2616000, 31610690, 29628800, 475149, 2835217),
}


@pytest.mark.parametrize("name", CASES)
def test_the_costs_are_those_that_were_fitted(name):
    """Whoever changes the estimate compares it with simulations again, and then changes these figures."""
    work = CASES[name]
    table = fitting_tiles(work, KEEPS)
    costs = costs_of(work, table)
    parts = costs.cycles, costs.slots, costs.bus, costs.load, costs.store, costs.waits
    assert (len(table), *map(mean, parts)) == PINNED[name]
