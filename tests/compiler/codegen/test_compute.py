"""Depthwise convolutions become DEPTHWISE instructions: few, exact on every device, and fast."""

import random
from collections import Counter
from itertools import product

import pytest
from generators.operators import random_case

from tests.loading import load_file
from vdla.compiler.codegen.choose import by_estimate, by_simulator, simulated_cycles
from vdla.compiler.codegen.compute import window_instructions
from vdla.compiler.codegen.hardware_loops import Steps
from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.stream import compile_stream, lowered_task
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.te.operators.convolution import with_whole_windows
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec import encoding, isa
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.stream.builder import Loop
from vdla.sim.decoded import decode_stream

SLIDING = TINY.with_changes(name="sliding", block_in=8, block_out=8, extensions=tuple(Extension))
WINDOW = (2, 3, 5)  # rows, columns, elements from row to row
ADDING = SLIDING.with_changes(extensions=(Extension.REQUANTISE, Extension.DEPTHWISE))


def depthwise(channels: int, side: int, stride: int = 1) -> Convolution:
    pads = (1, 1, 1, 1)
    return Convolution(channels, side, side, channels, (3, 3), (stride, stride), pads, groups=channels)


def instructions_of(size: Convolution, config) -> list[isa.Instruction]:
    task = ConvolutionTask(with_whole_windows(size, config), slides=True)
    choice = by_estimate(space_of(task, Target(config)))
    stream = compile_stream(lowered_task(task, choice, config), config)
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 1 << 16)), config)
    return [program.instruction(index) for index in range(len(program))]


@pytest.mark.parametrize("stride", [1, 2])
def test_the_first_row_of_a_kernel_overwrites_and_the_others_add(stride):
    every = instructions_of(depthwise(8, 8, stride), SLIDING)
    instructions = [item for item in every if isinstance(item, isa.Depthwise)]
    assert not any(isinstance(item, isa.Gemm) for item in every)
    rows = [(item.uop_end - item.uop_begin, item.overwrite) for item in instructions]
    assert rows == [(1, 1), (1, 0)] * (len(instructions) // 2)  # two windows, which overlap in the middle row
    assert {(item.more_rows, item.wide) for item in instructions} == {(1, 0)}
    assert {item.stride_2 for item in instructions} == {stride - 1}
    assert sum(item.iter_out * item.iter_in for item in instructions) == 2 * (8 // stride) ** 2


def test_accumulators_are_reset_where_nothing_overwrites():
    instructions = instructions_of(depthwise(8, 6), ADDING)
    resets = [item for item in instructions if isinstance(item, isa.Gemm)]
    assert {item.reset for item in resets} == {1}
    assert {item.uop_end - item.uop_begin for item in instructions if isinstance(item, isa.Depthwise)} == {3}


ROW, LINES, TAPS = Steps(5, (1, 2, 0)), Steps(4, (5, 12, 0)), Steps(3, (0, 12, 1))


def test_the_longest_loop_of_columns_is_the_inner_one_and_sums_are_written_out():
    loops = {"dy": TAPS, "y": LINES, "x": ROW}
    first, others = window_instructions(loops, frozenset({"dy"}), (7, 3, 1), 1, WINDOW, SLIDING)
    assert (first.overwrite, others.overwrite, first.stride_2, others.stride_2) == (True, False, True, True)
    assert (tuple(first.uops), tuple(others.uops)) == (((7, 3, 1),), ((7, 15, 2), (7, 27, 3)))
    assert (first.outer, first.inner) == (Loop(4, 5, 12, 0), Loop(5, 1, 1))


def test_without_a_loop_of_columns_a_row_has_one_sum():
    (instruction,) = window_instructions({"y": LINES}, None, (0, 0, 0), 1, WINDOW, SLIDING)
    assert (
        instruction.inner.trips,
        instruction.outer.trips,
        instruction.stride_2,
        instruction.overwrite,
    ) == (1, 4, False, False)


Step = tuple[int, int, int]


def walked(instructions, column: int) -> list[tuple[Step, bool]]:
    """Return the sums of instructions in order: accumulator, first column and weights, and what overwrites."""
    return [
        (
            (
                dst + instruction.outer.dst * line + instruction.inner.dst * place,
                src + instruction.outer.src * line + column * (1 + instruction.stride_2) * place,
                wgt + instruction.outer.wgt * line,
            ),
            instruction.overwrite,
        )
        for instruction in instructions
        for line in range(instruction.outer.trips)
        for dst, src, wgt in instruction.uops
        for place in range(instruction.inner.trips)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_every_sum_is_walked_once_and_the_first_of_each_accumulator_overwrites(seed):
    rng = random.Random(seed)
    column = rng.choice((1, 1, 3))
    adds, dst = rng.random() < 0.3, 1
    loops: dict[str, Steps] = {}
    for name in rng.sample(("o", "y", "x"), rng.randint(0, 3)):
        trips = rng.randint(1, 5)
        src, wgt = rng.choice(((column, 0), (2 * column, 0), (column, 2), (7, 0), (0, 1)))
        loops[name] = Steps(trips, (dst, src, wgt))
        dst *= trips
    summed = {
        name: Steps(rng.randint(1, 4), (0, rng.choice((column, 11)), rng.randint(1, 3)))
        for name in ("dy", "dx")
    }
    every, base = loops | summed, (4, 9, 2)
    instructions = list(
        window_instructions(every, None if adds else frozenset(summed), base, column, WINDOW, SLIDING)
    )
    steps = walked(instructions, column)
    counts = product(*(range(loop.trips) for loop in every.values()))
    wanted = [
        tuple(
            base[place] + sum(n * loop.steps[place] for n, loop in zip(count, every.values(), strict=True))
            for place in range(3)
        )
        for count in counts
    ]
    assert Counter(step for step, _ in steps) == Counter(wanted)
    seen: set[int] = set()
    for (accumulator, *_), overwrites in steps:
        assert overwrites == (accumulator not in seen and not adds)
        seen.add(accumulator)
    assert {instruction.inner.src for instruction in instructions} == {column}


@pytest.mark.parametrize(
    ("loops", "outer", "inner", "uops", "stride_2"),
    [
        ({"x": Steps(5, (1, 1, 0)), "y": Steps(4, (5, 2, 0))}, Loop(4, 5, 2, 0), Loop(5, 1, 1), 1, False),
        ({"x": Steps(3, (1, 1, 0)), "y": Steps(4, (5, 2, 0))}, Loop(3, 1, 1, 0), Loop(4, 5, 1), 1, True),
        ({"x": Steps(5, (1, 3, 0)), "y": Steps(4, (5, 0, 0))}, Loop(5, 1, 3, 0), Loop(1, 0, 1), 4, False),
        ({"x": Steps(5, (1, 1, 1)), "y": Steps(4, (5, 9, 0))}, Loop(5, 1, 1, 1), Loop(1, 0, 1), 4, False),
        ({"x": Steps(5, (-1, 1, 0)), "y": Steps(4, (5, 9, 0))}, Loop(4, 5, 9, 0), Loop(1, 0, 1), 5, False),
        ({"x": Steps(5, (1, 1, 0)), "y": Steps(4, (-5, 9, 0))}, Loop(1, 0, 0, 0), Loop(5, 1, 1), 4, False),
        ({"x": Steps(2, (SLIDING.depth(MemoryType.ACC) - 1, 1, 0))}, Loop(1, 0, 0, 0), Loop(2, SLIDING.depth(MemoryType.ACC) - 1, 1), 1, False),
        ({"x": Steps(2, (SLIDING.depth(MemoryType.ACC), 1, 0))}, Loop(1, 0, 0, 0), Loop(1, 0, 1), 2, False),
        ({"x": Steps(2, (0, 2, 0)), "y": Steps(1, (9, 9, 9))}, Loop(1, 0, 0, 0), Loop(2, 0, 1), 1, True),
    ],
)  # fmt: skip
def test_which_loops_are_the_instructions(loops, outer, inner, uops, stride_2):
    (instruction,) = window_instructions(loops, None, (900, 0, 0), 1, WINDOW, SLIDING)
    assert (instruction.outer, instruction.inner, len(instruction.uops)) == (outer, inner, uops)
    assert (instruction.window, instruction.stride_2, instruction.overwrite) == (WINDOW, stride_2, False)


@pytest.mark.parametrize("more", [0, 1])
def test_a_row_is_as_long_as_a_loop_may_be(more):
    trips = encoding.field_of(isa.Depthwise, "iter_in", SLIDING).high + more
    loops = {"x": Steps(trips, (0, 1, 0)), "y": Steps(3, (0, 2, 0))}
    (instruction,) = window_instructions(loops, None, (0, 0, 0), 1, WINDOW, SLIDING)
    assert (instruction.outer.trips, instruction.inner.trips) == ((trips, 3) if more else (3, trips))
    assert instruction.stride_2 == bool(more)


ROOM = SLIDING.depth(MemoryType.UOP) // 2


@pytest.mark.parametrize("more", [0, 1])
def test_more_micro_ops_than_there_are_is_an_error(more):
    loops = {"dy": Steps(ROOM + more, (0, 12, 1)), "dx": ROW}
    if not more:
        first, others = window_instructions(loops, frozenset({"dy"}), (0, 0, 0), 1, WINDOW, SLIDING)
        assert len(first.uops) + len(others.uops) == ROOM
        return
    with pytest.raises(IrError) as error:
        list(window_instructions(loops, frozenset({"dy"}), (0, 0, 0), 1, WINDOW, SLIDING))
    assert str(error.value) == (
        f"the windows of a tile take {ROOM + 1} micro-ops, and sliding has room for {ROOM}; use smaller tiles"
    )


def test_only_an_accelerator_with_depthwise_has_its_intrinsics():
    assert [len(part) for part in (accelerator(SLIDING).slide, accelerator(SLIDING).slide_from)] == [3, 2]
    assert [len(part) for part in (accelerator(ADDING).slide, accelerator(ADDING).slide_from)] == [2, 0]
    assert accelerator(TINY).slide == accelerator(TINY).slide_from == ()


@pytest.mark.parametrize(
    ("size", "bus_bits", "times"),
    [
        (depthwise(256, 28), 128, 2.5),
        (depthwise(512, 14), 128, 2.4),
        (depthwise(256, 28), 64, 1.7),  # its data take half of the cycles that it took before
        (depthwise(128, 28, 2), 128, 1.3),
    ],
)
def test_a_layer_takes_less_than_half_of_the_cycles_where_the_bus_allows_it(size, bus_bits, times):
    target = Target(DEFAULT.with_changes(bus_bits=bus_bits))
    tasks = ConvolutionTask(size), ConvolutionTask(with_whole_windows(size, target.config), slides=True)
    before, after = (simulated_cycles(task, by_simulator(space_of(task, target)), target) for task in tasks)
    assert before > times * after


@pytest.mark.parametrize("seed", [*(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 4)), 8])
def test_the_rtl_agrees_in_data_and_cycles(seed):
    campaign = load_file("scripts/random_operators.py")
    case = next(
        case
        for number in range(seed, 4000, 10)
        if "windows" in (case := random_case(number, (SLIDING,))).text
    )
    assert campaign.failures(case, on_rtl=True) == []
