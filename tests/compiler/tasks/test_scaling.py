"""Sums by the multiplier array are exact for every factor and number of elements; how they are tiled."""

import numpy as np
import pytest
from generators.making import Case

from tests.loading import load_file
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.scaling import (
    SumTask,
    diagonal_weights,
    elements_of_a_sum,
    high_and_low_part,
    multiplies_sums,
)
from vdla.compiler.te.operators.narrowing import blocked_parameters
from vdla.hw.spec.presets import DEFAULT, TINY, VTA
from vdla.hw.spec.target import Target
from vdla.runtime.layout import blocked
from vdla.runtime.requantise import parameter_words, requantise


@pytest.fixture(scope="module")
def campaign():
    return load_file("scripts/random_operators.py")


def case_of(elements: int, factors: tuple[int, int], threads: int, config=TINY) -> Case:
    rng = np.random.default_rng(elements)
    first, second = rng.integers(-128, 128, (2, 1, config.block_out, 1, elements), np.int8)
    words = parameter_words(*(np.array([value]) for value in (17, 40_000, 30, 3, -120, 110)))
    totals = first.astype(np.int64) * factors[0] + second.astype(np.int64) * factors[1]
    given = {name: blocked(array, config.block_out, 1) for name, array in (("A", first), ("B", second))}
    given["P"] = blocked_parameters(np.repeat(words, config.block_out, 1), config)
    given["W"] = diagonal_weights(factors, config)
    func = SumTask(elements).program(Choice(threads), config)
    expected = requantise(totals, words[:, :, None, None], config.acc_bits)
    return Case("sum", config, func, given, expected)


@pytest.mark.parametrize(
    ("elements", "threads"),
    [(1, 1), (1, 3), (2, 3), (3, 3), (169, 3), (170, 3), (171, 3), (510, 3), (511, 3), (1999, 2), (1040, 1)],
)
def test_any_number_of_elements_is_exact(campaign, elements, threads):
    """Around what fits once, and once for each thread; and more rounds with a rest."""
    assert elements_of_a_sum(TINY, 3) == 169
    assert campaign.failures(case_of(elements, (12345, -777), threads), on_rtl=False) == []


@pytest.mark.parametrize("factors", [(0, 1), (127, 128), (-128, -129), (255, 256), (32639, -32768)])
def test_the_ends_of_both_parts_are_exact(campaign, factors):
    assert campaign.failures(case_of(20, factors, 2), on_rtl=False) == []


def test_a_factor_is_the_sum_of_its_parts():
    for factor in range(-32768, 32640):
        high, low = high_and_low_part(factor)
        assert high * 256 + low == factor
        assert max(high, low) < 128
        assert min(high, low) >= -128
    assert high_and_low_part(32640) is None
    assert high_and_low_part(-32769 - 128) is None


@pytest.mark.parametrize(
    ("config", "factors", "can"),
    [
        (TINY, (1, 32639), True),
        (TINY, (1, 32640), False),
        (VTA, (1, 2), False),
        (TINY.with_changes(alu_opcodes="ADD,MUL"), (1, 2), False),
        (TINY.with_changes(block_in=8), (1, 2), False),
    ],
)
def test_what_the_array_can_do(config, factors, can):
    assert multiplies_sums(config, factors) == can


def test_the_most_threads_that_fit_are_taken():
    assert space_of(SumTask(50), Target(TINY)).threads == 3
    assert isinstance(space_of(SumTask(50), Target(TINY.with_changes(wgt_buffer_bytes=32))), Unfit)


def test_it_is_near_the_bound_of_the_bus_and_faster_than_the_alu():
    target, elements = Target(DEFAULT), 12_544
    beats = elements * 3 * DEFAULT.block_out // DEFAULT.bus_bytes
    cycles = simulated_cycles(SumTask(elements), Choice(3), target)
    by_alu = simulated_cycles(ElementsTask(Elements.ADD, elements, (12345, 777)), Choice(2), target)
    assert beats < cycles < 1.06 * beats < 0.75 * by_alu  # which loads accumulators beside its steps
