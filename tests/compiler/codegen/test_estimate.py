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
    "one thread": (1344, 4329966, 734500, 2894700, 2609734, 78000, 307131),
    "two threads": (336, 3639487, 737286, 3274329, 2986098, 78000, 746287),
    "four threads, far memory": (288, 17139636, 2616000, 13768300, 15751303, 144000, 1209430),
    "without parameters": (1224, 11491400, 2616000, 10517697, 9876267, 144000, 1533099),
    "residuals": (1224, 11601104, 2616000, 10680897, 9876267, 144000, 1581099),
    "groups, wide inputs": (576, 6302605, 1558667, 5819844, 5127400, 112000, 1722167),
    "groups, wide outputs": (688, 8071704, 2303163, 7118907, 6189233, 84000, 1592599),
    "one port": (223, 21227514, 18663358, 10616743, 10019064, 84000, 771164),
    "more parameters than stand on chip": (314, 8572239, 3922903, 2935778, 3656878, 262500, 1813639),
    "sums reset": (276, 935770, 198000, 765710, 583452, 99000, 413729),
    "few requests": (372, 10494191, 193742, 1006409, 10259424, 99000, 1157162),
    "alternating inputs, gathered": (552, 1211424, 346500, 1006391, 730858, 99000, 359414),
    "alternating inputs, one by one": (552, 1212124, 346500, 885009, 811288, 99000, 313365),
    "alternating bordered inputs": (336, 4703986, 1205286, 3725462, 4036713, 78000, 554730),
    "alternating outputs": (524, 4378460, 1315044, 4082986, 3602198, 344748, 677284),
    "alike weights": (96, 819572, 350400, 561467, 401667, 76800, 386541),
    "sliding windows": (96, 1001290, 209600, 813200, 640600, 76800, 578899),
    "slow memory": (1224, 32477921, 2616000, 31610690, 29628800, 432000, 4930734),
}


@pytest.mark.parametrize("name", CASES)
def test_the_costs_are_those_that_were_fitted(name):
    """Whoever changes the estimate compares it with simulations again, and then changes these figures."""
    work = CASES[name]
    table = fitting_tiles(work, KEEPS)
    costs = costs_of(work, table)
    parts = costs.cycles, costs.slots, costs.bus, costs.load, costs.store, costs.waits
    assert (len(table), *map(mean, parts)) == PINNED[name]
