"""Registers of the multipliers' adder tree: as many as the configuration has stages, evenly spread."""

from itertools import product

import pytest

from vdla.hw.gemm import registers_after


@pytest.mark.parametrize(("stages", "levels"), list(product(range(1, 12), range(6))))
def test_registers_are_as_many_as_stages_and_evenly_spread(stages, levels):
    counts = registers_after(stages, levels)
    assert len(counts) == levels + 1
    assert sum(counts) == stages
    assert min(counts) >= 0
    assert counts[-1] >= 1, "the sum is registered"
    assert stages == 1 or counts[0] >= 1 + (levels == 0), "the products are registered"
    between = counts[1:-1]
    assert max(between, default=0) - min(between, default=0) <= 1


def test_levels_get_registers_in_the_middle_first():
    assert registers_after(3, 4) == [1, 0, 1, 0, 1]
    assert registers_after(4, 3) == [1, 1, 1, 1]
    assert registers_after(2, 5) == [1, 0, 0, 0, 0, 1]
