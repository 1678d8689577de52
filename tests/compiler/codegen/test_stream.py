"""Compiled convolutions are exact on every device, whatever the units' interleaving; what cannot be compiled says why."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from vdla.compiler.codegen.fold import Dimension, Steps, fold_kernel, fold_transfer
from vdla.compiler.codegen.schedules import Tiles, ranked_tiles, schedule_add, schedule_conv2d
from vdla.compiler.codegen.stream import compile_stream
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.te.operators import Convolution, add, conv2d, matrix_product
from vdla.hw.spec.presets import TINY, VTA
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.devices.launch import place

SCRIPT = Path(__file__).parents[3] / "scripts" / "random_operators.py"
SIZE = Convolution(8, 6, 6, 8, padding=(1, 1))


@pytest.fixture(scope="module")
def campaign():
    spec = importlib.util.spec_from_file_location("random_operators", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(40))
def test_random_convolutions_are_exact(campaign, seed):
    assert campaign.failures(campaign.random_case(seed), on_rtl=False) == []


@pytest.mark.parametrize("seed", [1, 12])
def test_the_rtl_agrees_in_data_and_cycles(campaign, seed):
    from dataclasses import replace
    case = replace(campaign.random_case(seed), config=TINY)
    case = replace(case, tiles=ranked_tiles(case.size, TINY, 2)[0], threads=2)
    assert campaign.failures(case, on_rtl=True) == []


def test_virtual_threads_hide_latency():
    from vdla.compiler.codegen.choose import best_tiles, simulated_cycles
    size = Convolution(32, 16, 16, 32, padding=(1, 1))
    one, two = (simulated_cycles(best_tiles(size, TINY, threads, 8), size, TINY, threads) for threads in (1, 2))
    assert two < 0.97 * one


def test_a_stream_compiles_to_the_same_words_twice():
    words = [compile_stream(schedule_conv2d(conv2d(SIZE, TINY, shift=4), SIZE, TINY, shift=4).lower(), TINY).words for _ in range(2)]
    np.testing.assert_array_equal(*words)


def test_tiles_that_do_not_fit_are_named():
    schedule = schedule_conv2d(conv2d(SIZE, TINY, shift=4), Convolution(8, 6, 6, 8, padding=(1, 1)), TINY, shift=4, threads=1,
                               tiles=Tiles(2, 6, 6, 2))
    small = TINY.with_changes(acc_buffer_bytes=512)
    with pytest.raises(IrError, match=r"buffer Y of 72 elements does not fit the accumulator memory: it holds 32, and 0 are taken; "
                                      "use smaller tiles or fewer virtual threads"):
        compile_stream(schedule.lower(), small)


def test_no_tiles_at_all_is_said():
    with pytest.raises(IrError, match=r"no tile of .* fits the memories of tiny 64 times; use fewer virtual threads"):
        ranked_tiles(SIZE, TINY, 64)


def test_a_statement_without_an_intrinsic_is_shown():
    from vdla.compiler.te.schedule import create_schedule
    with pytest.raises(IrError, match="no intrinsic has been put in place of\n"):
        compile_stream(create_schedule(conv2d(SIZE, TINY, shift=4).out).lower(), TINY)


def test_requantisation_in_one_pass_needs_its_operation():
    with pytest.raises(IrError, match="needs the ALU operation NARROW; vta has MIN, MAX, ADD, SHR, MUL"):
        schedule_conv2d(conv2d(SIZE, VTA, shift=4), SIZE, VTA, shift=4)


@pytest.mark.parametrize(("rows", "outputs", "inputs"), [(1, 10, 40), (37, 12, 9), (16, 64, 64)])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_matrix_product_is_exact(campaign, rows, outputs, inputs, batch):
    config = TINY.with_changes(batch=batch, block_in=8)
    size = matrix_product(rows, outputs, inputs, config)
    case = campaign.Case(config, size, 3, False, 1, ranked_tiles(size, config, 1)[0], 5)
    assert campaign.failures(case, on_rtl=False) == []


@pytest.mark.parametrize("elements", [1, 7, 300, 1000])
@pytest.mark.parametrize(("shift", "rectifies"), [(0, False), (1, True)])
def test_an_element_wise_sum_is_exact(elements, shift, rectifies):
    operator = add(elements, TINY, shift=shift, rectifies=rectifies)
    stream = compile_stream(schedule_add(operator, TINY, shift=shift, rectifies=rectifies).lower(), TINY)
    rng = np.random.default_rng(elements)
    left, right = (rng.integers(-128, 128, operator.out.shape, np.int8) for _ in range(2))
    expected = np.clip((left.astype(int) + right + (1 << shift >> 1)) >> shift, 0 if rectifies else -128, 127)
    for seed in (None, 0, 1):
        launch = place(FunctionalDevice(TINY, 1 << 20, seed), stream, dict.fromkeys("ABZ", left.size))
        launch.write("A", left)
        launch.write("B", right)
        launch.run()
        np.testing.assert_array_equal(launch.read("Z", left.shape, np.int8), expected)


# Folding

def test_the_longest_loops_become_hardware_loops_and_the_rest_micro_ops():
    loops = [Steps(3, (0, 1, 1)), Steps(14, (1, 1, 0)), Steps(2, (200, 0, 18)), Steps(10, (14, 16, 0))]
    kernel, = fold_kernel(loops, (5, 7, 9), TINY)
    assert (kernel.outer.trips, kernel.inner.trips, len(kernel.uops)) == (14, 10, 6)
    assert sorted(kernel.uops)[0] == (5, 7, 9)


@pytest.mark.parametrize("seed", range(30))
def test_folded_kernels_take_every_step_once(seed):
    rng = np.random.default_rng(seed)
    loops = [Steps(int(rng.integers(1, 6)), tuple(int(step) for step in rng.integers(0, 5, 3))) for _ in range(rng.integers(1, 6))]
    base = tuple(int(place) for place in rng.integers(0, 9, 3))
    found = [tuple(uop[which] + i * outer[which] + j * inner[which] for which in range(3))
             for kernel in fold_kernel(loops, base, TINY)
             for outer, inner in [((kernel.outer.dst, kernel.outer.src, kernel.outer.wgt), (kernel.inner.dst, kernel.inner.src, kernel.inner.wgt))]
             for i in range(kernel.outer.trips) for j in range(kernel.inner.trips) for uop in kernel.uops]
    expected = [base]
    for loop in loops:
        expected = [tuple(start + count * step for start, step in zip(place, loop.steps, strict=True))
                    for place in expected for count in range(loop.trips)]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("seed", range(60))
def test_folded_transfers_move_every_element_to_its_place(seed):
    rng = np.random.default_rng(seed)
    trips = [int(count) for count in rng.integers(1, 40 if seed % 3 == 0 else 6, 3)]
    low = [int(rng.integers(0, count)) for count in trips]
    high = [int(rng.integers(start + 1, count + 1)) for start, count in zip(low, trips, strict=True)]
    dram = (900, 40 * int(rng.integers(1, 3)), 1)
    chip = (trips[1] * trips[2], trips[2], 1)
    dimensions = [Dimension(*row) for row in zip(trips, chip, dram, low, high, strict=True)]
    found = {}
    for part in fold_transfer(dimensions, 10, 5000):
        rows, place = part.rows, part.chip
        width = rows.x_pads[0] + rows.width + rows.x_pads[1]
        for y in range(rows.y_pads[0] + rows.height + rows.y_pads[1]):
            for x in range(width):
                inside = 0 <= y - rows.y_pads[0] < rows.height and 0 <= x - rows.x_pads[0] < rows.width
                assert place not in found
                found[place] = part.dram + (y - rows.y_pads[0]) * rows.stride + x - rows.x_pads[0] if inside else None
                place += 1
    expected = {10 + int(np.dot(at, chip)): 5000 + int(np.dot(at, dram)) if all(a <= b < c for a, b, c in zip(low, at, high, strict=True)) else None
                for at in np.ndindex(*trips)}
    assert found == expected


def test_a_nest_is_folded_once_for_each_value_of_the_variables_that_it_depends_on(monkeypatch):
    from vdla.compiler.codegen import stream
    size, folded = Convolution(32, 16, 16, 32, padding=(1, 1)), []
    fold = stream.fold_transfer
    monkeypatch.setattr(stream, "fold_transfer", lambda dimensions, *rest, **options: folded.append(dimensions) or fold(dimensions, *rest, **options))
    tiles = Tiles(outputs=1, rows=4, columns=16, inputs=1)
    words = compile_stream(schedule_conv2d(conv2d(size, TINY, shift=4), size, TINY, shift=4, threads=1, tiles=tiles).lower(), TINY)
    loads = np.count_nonzero(words.words[:, 0] & np.uint64(7) == np.uint64(0))
    rows_of_tiles, nests = 4, 4  # inputs, weights and outputs, with what is left of the last iteration
    assert 0 < len(folded) <= rows_of_tiles * nests < loads
