"""The lower bound of a task holds for every choice."""

import numpy as np
import pytest

from tests.explore.tune.networks import LARGE, POOLING, SMALL
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.explore.tune.bounds import bytes_of, lower_bound
from vdla.explore.tune.measure import stream_of
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import UOP_TENSOR

SUM = ElementsTask(Elements.ADD, 64, (3, 4))


@pytest.mark.parametrize("task", [LARGE, SMALL, POOLING, SUM], ids=lambda task: type(task).__name__)
@pytest.mark.parametrize("memory", [MemoryParameters(), MemoryParameters(cycles_per_beat=16)])
def test_no_choice_is_below_the_bound_and_all_have_the_same(task, memory):
    target = Target(TINY, memory)
    space = space_of(task, target)
    choices = [space.choice(place) for place in range(0, len(space), max(1, len(space) // 9))]
    bounds = {lower_bound(stream_of(task, choice, target.config), target) for choice in choices}
    (bound,) = bounds
    assert 1 < bound <= min(simulated_cycles(task, choice, target) for choice in choices)


def test_the_bound_is_that_of_the_array_or_of_the_bus():
    space = space_of(SMALL, Target(TINY))
    stream = stream_of(SMALL, space.choice(0), TINY)
    macs = 8 * 16 * 4 * 4
    assert lower_bound(stream, Target(TINY, MemoryParameters())) >= macs // TINY.macs_per_cycle
    slow, slower = (
        lower_bound(stream, Target(TINY, MemoryParameters(cycles_per_beat=beat))) for beat in (64, 128)
    )
    assert slower == pytest.approx(2 * slow, abs=2)


@pytest.mark.parametrize("seed", range(5))
def test_the_bytes_of_intervals_are_those_that_a_table_counts(seed):
    rng = np.random.default_rng(seed)
    begins = rng.integers(0, 400, 40)
    ends = begins + rng.integers(1, 30, 40)
    table = np.zeros(500, bool)
    for begin, end in zip(begins, ends, strict=True):
        table[begin:end] = True
    assert bytes_of(begins, ends) == table.sum()
    assert bytes_of(begins[:0], ends[:0]) == 0


def test_each_byte_of_each_tensor_counts_once():
    space = space_of(SUM, Target(TINY))
    stream = stream_of(SUM, space.choice(0), TINY)
    target = Target(TINY, MemoryParameters(cycles_per_beat=64))
    size, parameters = 64 * TINY.block_out, 4 * TINY.element_bytes(MemoryType.ACC)
    assert stream.tensors.keys() == {"A", "B", "Z", "P", UOP_TENSOR}
    assert lower_bound(stream, target) == np.ceil((3 * size + parameters) / target.bytes_per_cycle)
