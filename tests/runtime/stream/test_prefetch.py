"""Which LOADs of weights move, where to, and what reads them then."""

from dataclasses import replace

import numpy as np
import pytest

from tests.runtime.stream.recorded import instructions
from vdla.hw.spec import isa
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType, Statistic
from vdla.runtime.stream.builder import Loop, Rows, StreamBuilder
from vdla.runtime.stream.prefetch import PIECE_CYCLES, Schedule, prefetch
from vdla.runtime.stream.weight_moves import MARGIN_CYCLES
from vdla.runtime.stream.weights import weights_of

INP, WGT = MemoryType.INP, MemoryType.WGT
NARROW = TINY.with_changes(extensions=(Extension.NARROW_WEIGHTS,))
ELEMENT_CYCLES = TINY.element_bytes(WGT) // (TINY.bus_bits // 8)
PIECE = PIECE_CYCLES // ELEMENT_CYCLES  # elements
LATENCY = 64
STALL = 10_000  # cycles that the LOAD of inputs waits


def normalising(*, cycles: int) -> tuple[StreamBuilder, Schedule]:
    """Return two layers of a GEMM each, and a schedule in which a NORMALISE takes so many of the cycles for
    which the inputs of the second layer wait."""
    builder = StreamBuilder(TINY.with_changes(extensions=tuple(Extension)))
    builder.load(WGT, 0, "w0", 0, Rows(1, 8, 8))
    builder.gemm(((0, 0, 0),), Loop(), Loop(8, wgt=1))
    builder.gather_statistics(0, Rows(1, 1, 1), Statistic.MOMENTS, anew=True)
    builder.load(INP, 4, "x", 0, Rows(1, 4, 4))
    builder.load(WGT, 64, "w1", 0, Rows(1, 8, 8))
    builder.gemm(((0, 4, 64),), Loop(), Loop(8, wgt=1))
    builder.finish()
    schedule = schedule_of(builder)
    number = next(
        number for number, each in enumerate(instructions(builder.record)) if each.form is isa.Normalise
    )
    schedule.retired[number] = schedule.started[number] + cycles
    return builder, schedule


def recorded(*, place: int = 64, size: int = 8, after_store: bool = False, pads: int = 0, halvings: int = 0):
    """Record two layers of a GEMM each. The second loads inputs and then weights.

    Args:
        place, size: of the second layer's weights.
        after_store: a STORE writes the second layer's weights.
        pads: elements of padding before the second layer's weights.
        halvings: of the width of the second layer's weights.
    """
    builder = StreamBuilder(NARROW)
    builder.label("first")
    builder.load(INP, 0, "x", 0, Rows(1, 4, 4))
    builder.load(WGT, 0, "w0", 0, Rows(1, 8, 8))
    builder.gemm(((0, 0, 0),), Loop(), Loop(8, wgt=1))
    builder.store(0, "w1" if after_store else "y", 0, Rows(1, 1, 1))
    builder.label("second")
    builder.load(INP, 4, "y", 0, Rows(1, 4, 4))
    builder.load(WGT, place, "w1", 0, Rows(1, size, size, x_pads=(pads, 0)), halvings=halvings)
    builder.gemm(((0, 4, place),), Loop(), Loop(size, wgt=1))
    builder.finish()
    return builder


def schedule_of(builder, *, waiting=(4,), bus=((0, 1),)) -> Schedule:
    """Return a schedule in which some LOADs wait for STALL cycles, and each instruction takes 10.

    Args:
        waiting: places of inputs whose LOADs wait.
        bus: begin and end of the times at which the bus is busy.
    """
    started, cycle = [], 0
    for each in instructions(builder.record):
        waits = each.form is isa.Load and each.row[0] == INP and each.row[1] in waiting
        cycle += 10 + waits * STALL
        started.append(cycle)
    started = np.array(started)
    begins, ends = np.array(bus).T.copy()
    return Schedule(started, started + 9, started + 1, begins, ends, 1, LATENCY)


def moved_of(builder, schedule, *, renames: bool = True) -> StreamBuilder | None:
    return prefetch(builder, weights_of(builder.record, builder.config), schedule, renames=renames)


def loads(builder) -> list[tuple[int, int, int]]:
    """Return memory, place and elements of the LOADs of inputs and weights, in order."""
    rows = [each.row for each in instructions(builder.record) if each.form is isa.Load]
    return [(row[0], row[1], row[3] * row[4]) for row in rows if row[0] in (INP, WGT)]


def test_weights_move_before_the_inputs_that_wait():
    builder = recorded()
    moved = moved_of(builder, schedule_of(builder))
    assert loads(builder) == [(INP, 0, 4), (WGT, 0, 8), (INP, 4, 4), (WGT, 64, 8)]
    assert loads(moved) == [(INP, 0, 4), (WGT, 0, 8), (WGT, 64, 8), (INP, 4, 4)]
    owners = [each.owner for each in instructions(moved.record) if each.form is isa.Load]
    assert owners == [0, 0, 0, 1, 1, 1]  # the third loads micro-ops


@pytest.mark.parametrize(("cycles", "moves"), [(STALL // 3, True), (STALL * 3 // 4, False)])
def test_weights_stay_behind_waits_that_normalises_fill(cycles, moves):
    builder, schedule = normalising(cycles=cycles)
    assert (moved_of(builder, schedule) is not None) == moves


@pytest.mark.parametrize(
    "changes",
    [{"after_store": True}, {"pads": 2}],
    ids=["weights that a STORE writes", "weights with padding"],
)
def test_other_loads_stay(changes):
    builder = recorded(**changes)
    assert moved_of(builder, schedule_of(builder)) is None


def test_weights_whose_place_is_taken_move_to_another_and_micro_ops_follow():
    builder = recorded(place=4)
    moved = moved_of(builder, schedule_of(builder, waiting=(0, 4)))
    assert loads(moved) == [(WGT, 0, 8), (WGT, 8, 8), (INP, 0, 4), (INP, 4, 4)]
    kernels = [each.uops for each in instructions(moved.record) if each.uops is not None]
    assert kernels == [((0, 0, 0),), ((0, 4, 8),)]
    stays = moved_of(builder, schedule_of(builder, waiting=(0, 4)), renames=False)
    assert loads(stays) == [(WGT, 0, 8), (INP, 0, 4), (INP, 4, 4), (WGT, 4, 8)]


def weights_read(builder: StreamBuilder) -> list[list[object]]:
    """Return the elements of tensors that each product reads, in order."""
    held, read = dict[int, object](), []
    for each in instructions(builder.record):
        if each.form is isa.Load and each.row[0] == WGT:
            _, place, element, _, size, _ = each.row[:6]
            held |= {place + at: (each.tensor, element + at) for at in range(size)}
        elif each.form is isa.Gemm:
            (uop,), trips = each.uops, each.row[4]  # iter_in
            read.append([held[uop[2] + at] for at in range(trips)])
    return read


def test_weights_of_which_a_part_is_loaded_keep_their_place():
    """The second part of `b` finds its place taken by `a` in the wait. Places 64 to 79 are free then, but not
    yet where the first part is loaded."""
    builder = StreamBuilder(TINY)

    def load(place: int, tensor: str, element: int, size: int) -> None:
        builder.load(WGT, place, tensor, element, Rows(1, size, size))

    def product(place: int, size: int) -> None:
        builder.gemm(((0, 0, place),), Loop(), Loop(size, wgt=1))

    builder.label("layer")
    load(0, "last", 0, 64)
    load(64, "first", 0, 16)
    load(96, "b", 0, 8)
    load(104, "a", 0, 8)
    product(64, 16)
    builder.load(INP, 4, "x", 0, Rows(1, 4, 4))
    product(104, 8)
    load(104, "b", 8, 8)
    for place, size in ((96, 16), (0, 64)):
        product(place, size)
    builder.finish()
    moved = moved_of(builder, schedule_of(builder))
    assert weights_read(moved or builder) == weights_read(builder)


def test_no_more_moves_than_the_bus_can_carry():
    builder = recorded(size=4 * PIECE)
    idle = MARGIN_CYCLES + 2 * PIECE * ELEMENT_CYCLES + 1
    end = 60 + STALL  # of the wait of the sixth instruction
    moved = moved_of(builder, schedule_of(builder, bus=((0, end + LATENCY - idle),)))
    assert loads(moved)[2:] == [(WGT, 64, 2 * PIECE), (INP, 4, 4), (WGT, 64 + 2 * PIECE, 2 * PIECE)]


@pytest.mark.parametrize("halvings", [0, 1, 2])
def test_pieces_of_narrow_weights_have_more_elements_and_the_bus_carries_more_of_them(halvings):
    piece = PIECE << halvings
    builder = recorded(size=4 * piece, place=0, halvings=halvings)
    idle = MARGIN_CYCLES + 2 * PIECE * ELEMENT_CYCLES + 1
    bus = ((0, 60 + STALL + LATENCY - idle),)
    moved = moved_of(builder, schedule_of(builder, bus=bus), renames=False)
    assert loads(moved)[2:] == [(WGT, 0, 2 * piece), (INP, 4, 4), (WGT, 2 * piece, 2 * piece)]
    rows = [each.row for each in instructions(moved.record) if each.form is isa.Load and each.row[0] == WGT]
    assert [row[-1] for row in rows] == [0, halvings, halvings]
    assert [row[2] for row in rows] == [0, 0, 2 * piece]


def test_nothing_moves_where_the_bus_is_busy_or_nothing_stalls():
    builder = recorded()
    cycles = int(schedule_of(builder).retired[-1])
    assert moved_of(builder, schedule_of(builder, bus=((0, cycles + LATENCY),))) is None
    calm = schedule_of(builder)
    steady = np.arange(len(calm.started)) * 10
    assert moved_of(builder, replace(calm, started=steady, retired=steady + 9, requested=steady + 1)) is None
