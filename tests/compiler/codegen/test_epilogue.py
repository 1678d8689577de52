"""STOREs divided into parts, and residuals that are loaded ahead of them."""

import random

import pytest

from vdla.compiler.codegen.epilogue import Epilogue, EpilogueStores, PlannedStore, row_parts
from vdla.compiler.codegen.space import ChoiceSpace, space_of
from vdla.compiler.codegen.stream import emit_calls, lowered_task
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.operands.address_map import DENSE, Operand
from vdla.compiler.operands.interleaved import Interleaved
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.te.operators.narrowing import AddingScale
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec import codec, isa
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder
from vdla.sim.decoded import decode_stream

CONFIG = TINY.with_changes(extensions=tuple(Extension), res_buffer_bytes=256)
OPERANDS = {"T": Operand("table"), "R": Operand("residuals"), "S": Operand("sum")}


@pytest.mark.parametrize("most", [1, 3, 7, 100])
@pytest.mark.parametrize("rows", [Rows(1, 1, 1), Rows(5, 4, 9), Rows(3, 8, 8), Rows(2, 17, 20)])
def test_parts_are_all_elements_in_order(rows, most):
    whole = [(y * rows.width + x, y * rows.stride + x) for y in range(rows.height) for x in range(rows.width)]
    moves = []
    for part in row_parts(rows, most):
        assert part.rows.height * part.rows.width <= most
        moves += [
            (part.chip + y * part.rows.width + x, part.dram + y * part.rows.stride + x)
            for y in range(part.rows.height)
            for x in range(part.rows.width)
        ]
    assert moves == whole


def instructions(stores: list[PlannedStore], after: Epilogue) -> list[isa.Instruction]:
    """Return the instructions for STOREs from accumulator 10 on by the second set of parameters."""
    builder = StreamBuilder(CONFIG)
    followed = EpilogueStores(builder, OPERANDS, after, stores)
    followed.begin()
    for store in stores:
        followed.scaled(2)(10, "out", store.element, store.rows)
    stream = builder.finish()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), CONFIG)
    return [program.instruction(index) for index in range(len(program))]


def test_a_table_is_loaded_once():
    load, *stores = instructions(
        [PlannedStore(3, Rows(1, 5, 5)), PlannedStore(9, Rows(2, 2, 4))], Epilogue(table=3)
    )
    assert isinstance(load, isa.Load)
    assert (load.memory_type, load.sram_base, load.x_size) == (MemoryType.TABLE, 128, isa.TABLE_ELEMENTS)
    store_instructions = [item for item in stores if isinstance(item, isa.Store)]
    assert [(item.table, item.residual, item.parameters) for item in store_instructions] == [(3, 0, 2)] * 2


@pytest.mark.parametrize("seed", range(5))
def test_every_store_adds_the_residuals_of_its_own_elements(seed):
    rng = random.Random(seed)
    stores = [
        PlannedStore(rng.randrange(1000), Rows(rng.randint(1, 9), width, width + rng.randrange(3)))
        for width in (rng.randint(1, 40) for _ in range(20))
    ]
    held: dict[int, int] = {}  # the element of DRAM that stands in each of RES
    ahead = 0
    for item in instructions(stores, Epilogue(adds=True)):
        assert codec.decode(codec.encode(item, CONFIG), CONFIG) == item
        if isinstance(item, isa.Load) and item.memory_type is MemoryType.RES:
            ahead += 1
            for y in range(item.y_size):
                for x in range(item.x_size):
                    held[item.sram_base + y * item.x_size + x] = item.dram_base + y * item.x_stride + x
        if isinstance(item, isa.Store):
            ahead -= 1
            assert ahead >= 0
            for y in range(item.y_size):
                for x in range(item.x_size):
                    place = item.residual - 1 + y * item.x_size + x
                    assert held[place] == item.dram_base + y * item.x_stride + x
    assert ahead == 0
    assert max(held) < CONFIG.depth(MemoryType.RES)


MAP = Interleaved(2, 6, 4)
SUM_TASK = ConvolutionTask(Convolution(8, 2, 3, 16, (1, 1)), AddingScale())


@pytest.mark.parametrize(
    ("residual", "result", "fits"),
    [(DENSE, DENSE, True), (MAP, DENSE, True), (DENSE, MAP, True), (MAP, MAP, False)],
)
def test_residuals_and_results_with_an_address_map_each_are_refused(residual, result, fits):
    space = space_of(SUM_TASK, Target(CONFIG))
    assert isinstance(space, ChoiceSpace)
    program, builder = lowered_task(SUM_TASK, space.usual.choice(0), CONFIG), StreamBuilder(CONFIG)
    operands = {**OPERANDS, "R": Operand("residuals", 0, residual), "Z": Operand("out", 0, result)}
    if fits:
        emit_calls(program, builder, operands, Epilogue(adds=True))
        assert {"residuals", "out"} <= set(builder.finish().tensors)
        return
    message = (
        r"operand R has the address map Interleaved\(parts=2, .*\) and operand Z of \w+ has Interleaved.*mapped "
        "twice; .*copy R into a separate dense tensor"
    )
    with pytest.raises(IrError, match=message):
        emit_calls(program, builder, operands, Epilogue(adds=True))
