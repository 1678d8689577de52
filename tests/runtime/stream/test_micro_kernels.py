"""Micro-kernels in micro-op memory, against a memory that is looked at cell by cell."""

import random

import pytest

from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.presets import TINY
from vdla.runtime.stream.micro_kernels import MicroKernel, MicroKernels

CELLS = 16
CONFIG = TINY.with_changes(uop_buffer_bytes=4 * CELLS)


class Memory:
    """Cells, each with the kernel that stands there, and the kernels in the order of their last use."""

    def __init__(self) -> None:
        self.cells: list[object] = [None] * CELLS
        self.used: list[object] = []

    def place(self, kernel: tuple) -> tuple[int, bool]:
        """Return where a kernel stands, and whether it was loaded there."""
        if kernel in self.used:
            self.used.remove(kernel)
            self.used.append(kernel)
            return self.cells.index(kernel), False
        self.used.append(kernel)
        while True:
            for begin in range(CELLS - len(kernel) + 1):
                if not any(self.cells[begin : begin + len(kernel)]):
                    self.cells[begin : begin + len(kernel)] = [kernel] * len(kernel)
                    return begin, True
            oldest = self.used.pop(0)
            self.cells = [None if cell == oldest else cell for cell in self.cells]


@pytest.mark.parametrize("seed", range(20))
def test_a_kernel_goes_to_the_first_gap_and_the_least_recently_used_make_way(seed):
    rng = random.Random(seed)
    lengths = [rng.choice((1, 2, 3, 5, 8, CELLS)) for _ in range(8)]
    kernels = [tuple((number, place, 0) for place in range(length)) for number, length in enumerate(lengths)]
    held, memory = MicroKernels(CONFIG), Memory()
    asked = [rng.choice(kernels) for _ in range(60)]
    for kernel in asked:
        placement = held.place(MicroKernel(kernel))
        assert (placement.begin, placement.must_load) == memory.place(kernel)
    words: list[int] = []
    for kernel in dict.fromkeys(asked):
        assert held.starts[kernel] == len(words)
        words += [codec.encode(isa.MicroOp(dst=dst, src=src, wgt=wgt), CONFIG) for dst, src, wgt in kernel]
    assert held.words == words


def test_a_kernel_of_all_of_the_memory_fits_and_no_longer_one():
    kernels = MicroKernels(CONFIG)
    assert kernels.place(((0, 0, 0),) * CELLS).must_load
    with pytest.raises(ProgramError) as caught:
        kernels.place(((0, 0, 0),) * (CELLS + 1))
    assert str(caught.value) == (
        f"a micro-kernel of {CELLS + 1} micro-ops does not fit micro-op memory, which holds {CELLS}"
    )


def test_a_kernel_knows_the_bounds_of_its_indices():
    kernel = MicroKernel([(3, 9, 5), (7, 1, 5), (4, 4, 6)])
    assert kernel.ranges == ((3, 7), (1, 9), (5, 6))
    assert hash(kernel) == hash(tuple(kernel))
    assert kernel == tuple(kernel)
