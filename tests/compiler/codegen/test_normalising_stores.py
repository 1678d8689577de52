"""NORMALISEs in place of the STOREs of a program, and where their parameters stand."""

import pytest

from vdla.compiler.codegen.choose import stream_of
from vdla.compiler.codegen.normalising_stores import Normal, NormalisingStores
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.operands.address_map import Operand
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.normalising import NormalisingTask
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType, Statistic
from vdla.runtime.stream.builder import Rows, Stream, StreamBuilder
from vdla.sim.decoded import decode_stream

CONFIG = TINY.with_changes(extensions=tuple(Extension))
FIRST = 8
ROWS = Rows(2, 3, 5)
MEANS, SHARES = Normal(Statistic.MOMENTS, 2, 2), Normal(Statistic.POWERS, 2, 1)


def instructions(stream: Stream, config: AcceleratorConfig = CONFIG) -> list[isa.Instruction]:
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), config)
    return [program.instruction(index) for index in range(len(program))]


def normalises(normal: Normal, rows: Rows = ROWS) -> list[tuple[Statistic, int, int, int]]:
    """Return the NORMALISEs of a tile of two blocks: statistic, whether it is gathered anew, first
    accumulator, and set of parameters of normalisation."""
    builder = StreamBuilder(CONFIG)
    stores = NormalisingStores(builder, {"N": Operand("normal"), "T": Operand("table")}, normal, FIRST)
    stores.begin()
    for block in range(2):
        stores.scaled(3 + block)(100 + 6 * block, "out", 20 * block, rows)
    return [
        (Statistic(each.statistic), each.anew, each.sram_base, each.normal)
        for each in instructions(builder.finish())
        if isinstance(each, isa.Normalise)
    ]


def test_moments_are_gathered_from_each_block_and_then_all_blocks_are_written():
    moments = Statistic.MOMENTS
    assert normalises(MEANS) == [
        (moments, 1, 100, 0),
        (moments, 0, 106, 0),
        (moments, 0, 100, FIRST // 4 + 1),
        (moments, 0, 106, FIRST // 4 + 2),
    ]


def test_powers_are_gathered_when_the_greatest_values_of_all_blocks_are():
    greatest, powers = Statistic.GREATEST, Statistic.POWERS
    assert normalises(SHARES) == [
        (greatest, 1, 100, 0),
        (greatest, 0, 106, 0),
        (powers, 1, 100, 0),
        (powers, 0, 106, 0),
        (powers, 0, 100, FIRST // 4 + 1),
        (powers, 0, 106, FIRST // 4 + 1),
    ]


def test_a_store_of_too_many_rows_is_refused():
    with pytest.raises(IrError, match="a STORE of 257 rows is to be normalised"):
        normalises(MEANS, Rows(1, 257, 257))


@pytest.mark.parametrize(("accumulators", "first"), [(1 << 10, 232), (128, 96), (64, 32)])
def test_parameters_stand_behind_those_of_the_next_program_as_far_as_sums_leave_room(accumulators, first):
    """Three blocks of 3 rows, with 3 sets of normalisation and 2 of requantisation."""
    size = accumulators * CONFIG.element_bytes(MemoryType.ACC)
    config = CONFIG.with_changes(acc_buffer_bytes=size)
    stream = stream_of(NormalisingTask(1, 3, 3, False, True), Choice(1), config)
    loads = [
        each.sram_base
        for each in instructions(stream, config)
        if isinstance(each, isa.Load) and each.memory_type == MemoryType.ACC
    ]
    assert loads == [first, first + 12]
