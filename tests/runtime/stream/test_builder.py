"""The builder's pieces: encoding by columns, micro-kernels, and tokens that order what must be ordered and
nothing else."""

import random

import numpy as np
import pytest

from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.errors import EncodingError, ProgramError
from vdla.hw.spec.memories import LOADABLE
from vdla.hw.spec.presets import DEFAULT, PAPER, SMALL, TINY, VTA
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType
from vdla.runtime.stream.builder import Loop, Rows, StreamBuilder
from vdla.runtime.stream.encode import encode_micro_ops, encode_rows
from vdla.runtime.stream.micro_kernels import MicroKernels
from vdla.runtime.windows import GatheredLines
from vdla.sim.decoded import decode_stream
from vdla.sim.interleave import interleave

INP, WGT, ACC_8BIT = MemoryType.INP, MemoryType.WGT, MemoryType.ACC_8BIT

WIDE = DEFAULT.with_changes(name="wide", block_in=1, block_out=1, acc_buffer_bytes=1 << 20)
"""Instructions of 256 bits, micro-ops of 64."""


CONFIGS = (DEFAULT, TINY, VTA, WIDE)


def forms_of(config):
    """Return the forms of instruction that a configuration has."""
    return [form for form in isa.INSTRUCTIONS if form.extension is None or config.has(form.extension)]


@pytest.mark.parametrize(
    ("config", "form"),
    [(config, form) for config in CONFIGS for form in forms_of(config)],
    ids=lambda value: getattr(value, "name", None) or value.__name__,
)
def test_columns_encode_as_single_instructions_do(config, form):
    rng, fields = random.Random(1), [field for field in encoding.layout(form, config) if field.kind is int]
    rows = [[rng.randint(field.low, field.high) for field in fields] for _ in range(20)]
    words = encode_rows(form, config, [field.name for field in fields], rows)
    for row, encoded in zip(rows, words, strict=True):
        instruction = form(**{field.name: value for field, value in zip(fields, row, strict=True)})
        assert encoded.tobytes() == codec.to_bytes([instruction], config)


def test_a_form_that_the_configuration_lacks_is_refused():
    with pytest.raises(EncodingError, match=r"DEPTHWISE needs the extension 'depthwise', which this config"):
        encode_rows(isa.Depthwise, TINY, ["iter_in"], [[1]])


def test_a_store_into_inputs_that_the_accelerator_lacks_is_refused():
    with pytest.raises(
        EncodingError, match=r"a STORE into INP needs the extension 'feedback', which this config"
    ):
        StreamBuilder(PAPER).feed_back(0, 0, Rows(1, 1, 1))


def test_a_value_that_does_not_fit_is_named():
    with pytest.raises(EncodingError, match=r"LOAD.x_size = 70000 is outside 0..65535"):
        encode_rows(isa.Load, TINY, ["x_size"], [[1], [70000]])
    with pytest.raises(EncodingError, match=r"GEMM\.overwrite = 1, but this configuration has no such field"):
        encode_rows(isa.Gemm, VTA, ["overwrite"], [[1]])


def test_a_micro_kernel_is_loaded_once_and_the_least_recently_used_makes_room():
    kernels = MicroKernels(TINY.with_changes(uop_buffer_bytes=32))  # eight micro-ops
    first, second, third = (tuple((number, i, 0) for i in range(4)) for number in range(3))
    assert [kernels.place(kernel).must_load for kernel in (first, second, first)] == [True, True, False]
    assert kernels.place(third).begin == 4  # where the second kernel was
    assert [kernels.place(kernel).must_load for kernel in (first, second)] == [False, True]
    assert len(kernels.words) == 12
    with pytest.raises(
        ProgramError, match="a micro-kernel of 9 micro-ops does not fit micro-op memory, which holds 8"
    ):
        kernels.place(tuple((0, i, 0) for i in range(9)))


def decoded(builder: StreamBuilder):
    stream = builder.finish()
    return decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 1 << 16)), stream.config)


@pytest.mark.parametrize(("below", "place"), [(2, 2), (1, 1)])
def test_a_tensor_beyond_the_reach_of_dram_base_is_refused_with_its_first_instruction(below, place):
    builder, highest, offsets = StreamBuilder(TINY), (1 << 32) - 1, (0, 2, 3)
    for element in offsets:
        builder.load(MemoryType.INP, 0, "x", element, Rows(1, 1, 1))
    stream, base = builder.finish(), highest - below
    message = (
        f"instruction {stream.tensors['x'][place]} has dram_base = {base + offsets[place]} in the tensor 'x', "
        f"which is outside 0..{highest}; put the tensor lower, or compile it again"
    )
    with pytest.raises(EncodingError) as caught:
        stream.relocated({"x": base * TINY.element_bytes(MemoryType.INP)})
    assert str(caught.value) == message


def test_only_what_conflicts_is_ordered():
    builder = StreamBuilder(TINY)
    loop = Loop(4, 1, 1, 0)
    for half in range(2):
        builder.load(MemoryType.INP, 8 * half, "A", 0, Rows(1, 4, 4))
    builder.load(MemoryType.WGT, 0, "B", 0, Rows(1, 1, 1))
    for half in range(2):
        builder.gemm(((4 * half, 8 * half, 0),), loop, Loop())
    builder.load(MemoryType.INP, 16, "A", 0, Rows(1, 4, 4))
    builder.load(MemoryType.INP, 0, "A", 0, Rows(1, 4, 4))
    builder.store(0, "C", 0, Rows(1, 8, 8))
    program = decoded(builder)
    loads = [index for index in range(len(program)) if program.unit[index] == Unit.LOAD]
    names = [str(edge) for edge in TOKEN_EDGES]
    pops = {
        index: [names[edge] for edge in np.flatnonzero(program.pops[index])] for index in range(len(program))
    }
    gemms = np.flatnonzero(program.opcode == isa.Opcode.GEMM).tolist()
    assert [pops[index] for index in gemms] == [
        ["load->compute"],
        [],
    ]  # the second knows what the first waited for
    assert [pops[index] for index in loads] == [[], [], [], [], ["compute->load"]]
    assert program.pushes.sum() == program.pops.sum() == 3


def test_what_two_units_without_an_edge_share_is_ordered_through_the_third():
    builder = StreamBuilder(TINY)
    builder.store(0, "A", 0, Rows(1, 4, 4))
    builder.load(MemoryType.INP, 0, "A", 0, Rows(1, 4, 4))
    program = decoded(builder)
    for seed in range(20):
        order = interleave(program, seed).order.tolist()
        store, load = (int(np.flatnonzero(program.unit == unit)[0]) for unit in (Unit.STORE, Unit.LOAD))
        assert order.index(store) < order.index(load)


@pytest.mark.parametrize("depth", [1, 2, 255])
def test_streams_go_on_however_few_tokens_there_is_room_for(depth):
    rng, config = (
        random.Random(depth),
        TINY.with_changes(token_depth=depth, load_queue_depth=2, store_queue_depth=2, compute_queue_depth=2),
    )
    builder = StreamBuilder(config)
    for _ in range(300):
        place = rng.randrange(6)
        match rng.randrange(4):
            case 0:
                builder.load(rng.choice((MemoryType.INP, MemoryType.WGT)), place, "A", 0, Rows(1, 2, 2))
            case 1:
                builder.gemm(((place, rng.randrange(6), rng.randrange(6)),), Loop(2, 1), Loop())
            case 2:
                builder.store(place, rng.choice("AB"), 0, Rows(1, 2, 2))
            case 3:
                builder.load(MemoryType.ACC, place, "B", 0, Rows(1, 2, 2))
    program = decoded(builder)
    for seed in (None, 0, 1, 2):
        assert interleave(program, seed).error is None


@pytest.mark.parametrize("field", ["dst", "src", "wgt"])
def test_micro_ops_are_encoded_as_the_codec_does_and_refused_where_a_value_does_not_fit(field):
    rows = [(1, 2, 3), (0, 0, 0), (5, 4, 3)]
    words = [codec.encode(isa.MicroOp(dst=dst, src=src, wgt=wgt), TINY) for dst, src, wgt in rows]
    assert encode_micro_ops(rows, TINY) == words
    greatest = [tuple(placed.high for placed in encoding.layout(isa.MicroOp, WIDE))]
    assert encode_micro_ops(greatest, WIDE) == [(1 << 54) - 1]
    for value in (1 << 20, -1):
        wrong = isa.MicroOp(**{field: value})
        with pytest.raises(EncodingError, match=rf"UOP\.{field} = {value} is outside 0\.\."):
            encode_micro_ops([*rows, (wrong.dst, wrong.src, wrong.wgt)], TINY)


def test_a_micro_kernel_longer_than_a_row_is_loaded_by_several_instructions():
    builder = StreamBuilder(TINY.with_changes(uop_buffer_bytes=1 << 20))
    micro_ops = tuple((index % 16, 0, 0) for index in range(isa.LONGEST_ROW + 3))
    builder.gemm(micro_ops, Loop(), Loop())
    stream = builder.finish()
    decoded = decode_stream(stream.relocated({"micro-ops": 4096}), builder.config)
    loads = decoded.fields(isa.Load)
    moving = loads("x_size") > 0
    names = "x_size", "sram_base", "dram_base", "y_size"
    fields = [loads(name)[moving].tolist() for name in names]
    assert fields == [[isa.LONGEST_ROW, 3], [0, isa.LONGEST_ROW], [1024, 1024 + isa.LONGEST_ROW], [1, 1]]


def test_a_micro_kernel_that_is_resident_is_not_loaded_again():
    builder = StreamBuilder(TINY)
    for micro_ops in (UOPS, UOPS[:1], UOPS):
        builder.gemm(micro_ops, Loop(), Loop())
    program = decoded(builder)
    assert program.fields(isa.Load)("x_size").tolist() == [2, 1]
    assert program.fields(isa.Gemm)("uop_begin").tolist() == [0, 2, 0]


def test_a_pad_register_is_written_where_its_value_changes():
    builder = StreamBuilder(DEFAULT)
    for memory, value in ((INP, 0), (INP, -3), (INP, -3), (INP, 0), (ACC_8BIT, -3), (WGT, -3), (INP, 7)):
        builder.load(memory, 5, "x", 0, Rows(1, 2, 2), pad_value=value)
    program = decoded(builder)
    loads = [
        (item.memory_type, item.sram_base, item.x_size, item.pad_value)
        for item in map(program.instruction, range(len(program)))
        if isinstance(item, isa.Load) and (item.x_size or item.pad_value)
    ]
    assert loads == [
        (INP, 5, 2, 0),
        (INP, 253, 0, 1),
        (INP, 5, 2, 1),
        (INP, 5, 2, 1),
        (INP, 5, 2, 0),
        (ACC_8BIT, 253, 0, 1),
        (ACC_8BIT, 5, 2, 1),
        (WGT, 5, 2, 1),
        (INP, 7, 0, 1),
        (INP, 5, 2, 1),
    ]


@pytest.mark.parametrize("value", [1, -1])
def test_a_pad_register_holds_0_at_first_and_its_write_has_no_other_fields(value):
    builder = StreamBuilder(DEFAULT)
    builder.load(WGT, 0, "x", 0, Rows(1, 2, 2), pad_value=value)
    program = decoded_at_0(builder)
    items = [item for item in map(program.instruction, range(len(program))) if isinstance(item, isa.Load)]
    assert items[0] == isa.Load(memory_type=WGT, sram_base=value & 0xFF, pad_value=1)


def test_a_configuration_without_pad_registers_refuses_to_pad_with_a_value():
    builder = StreamBuilder(VTA)
    builder.load(INP, 0, "x", 0, Rows(1, 1, 1), pad_value=1)
    with pytest.raises(EncodingError, match=r"LOAD\.pad_value = 1, but this configuration has no such field"):
        builder.finish()


def test_a_program_takes_the_place_behind_the_one_before_where_it_fits():
    builder, depth = StreamBuilder(TINY), TINY.depth(MemoryType.WGT)
    sizes = {"a": 10, "b": 20, "c": depth - 30, "d": 1, "e": depth, "f": 0}
    places = [builder.next_place(MemoryType.WGT, size, program) for program, size in sizes.items()]
    assert places == [0, 10, 30, 0, 0, depth]
    assert builder.next_place(MemoryType.INP, 1, "a") == 0


def test_a_program_that_was_placed_keeps_its_place():
    builder = StreamBuilder(TINY)
    places = [builder.next_place(MemoryType.WGT, 10, program) for program in "abac"]
    assert places == [0, 10, 0, 10]


def test_what_lasts_takes_the_end_and_other_programs_begin_again_in_front_of_it():
    builder, depth = StreamBuilder(TINY), TINY.depth(MemoryType.WGT)
    programs = [("a", 10, True), ("b", 20, True), ("c", depth - 40, False), ("d", 11, False), ("a", 10, True)]
    programs += [("e", depth, False), ("f", depth, True)]
    places = [builder.next_place(MemoryType.WGT, size, name, lasts=lasts) for name, size, lasts in programs]
    assert places == [depth - 10, depth - 30, 0, 0, depth - 10, 0, 0]


WHOLE = SMALL.with_changes(name="whole", extensions=tuple(Extension))
UOPS, OUTER, INNER = ((1, 2, 3), (4, 5, 6)), Loop(3, 5, 7, 9), Loop(2, 4, 6, 8)
FLAGS = set(isa.FLAGS)
LOOPS = {"iter_out": 3, "iter_in": 2, "dst_factor_out": 5, "dst_factor_in": 4, "src_factor_out": 7}
GEMM = {**LOOPS, "src_factor_in": 6, "wgt_factor_out": 9, "wgt_factor_in": 8, "uop_end": 2}
ALU = {**LOOPS, "src_factor_in": 6, "uop_end": 2}
SIZE = {"y_size": 2, "x_size": 3, "x_stride": 10}
PADS = {"y_pad_0": 1, "y_pad_1": 2, "x_pad_0": 3, "x_pad_1": 4}
ROWS, PADDED = Rows(2, 3, 10), Rows(2, 3, 10, (1, 2), (3, 4))
RECORDED = {
    "a plain load": (
        lambda builder: builder.load(WGT, 5, "x", 6, ROWS),
        isa.Load,
        {"memory_type": WGT, "sram_base": 5, "dram_base": 6, **SIZE},
    ),
    "a load of narrow weights": (
        lambda builder: builder.load(WGT, 5, "x", 6, ROWS, halvings=2),
        isa.Load,
        {"memory_type": WGT, "sram_base": 5, "dram_base": 6, **SIZE, "halvings": 2},
    ),
    "a padded load": (
        lambda builder: builder.load(INP, 5, "x", 6, PADDED, pad_minimum=True),
        isa.Load,
        {"memory_type": INP, "sram_base": 5, "dram_base": 6, **SIZE, **PADS, "pad_minimum": 1},
    ),
    "a gather": (
        lambda builder: builder.gather_elements(7, 5, "x", 6, ROWS),
        isa.Gather,
        {"memory_type": INP, "sram_base": 5, "dram_base": 6, **SIZE, "step": 7},
    ),
    "a store": (
        lambda builder: builder.store(5, "x", 6, ROWS, parameters=1, table=2, residual=3),
        isa.Store,
        {"memory_type": MemoryType.OUT, "sram_base": 5, "dram_base": 6, **SIZE}
        | {"parameters": 1, "table": 2, "residual": 3},
    ),
    "a store into inputs": (
        lambda builder: builder.feed_back(5, 6, ROWS, parameters=1, table=2, residual=3),
        isa.Store,
        {"memory_type": INP, "sram_base": 5, "dram_base": 6, **SIZE}
        | {"parameters": 1, "table": 2, "residual": 3},
    ),
    "a plain store": (
        lambda builder: builder.store(5, "x", 6, ROWS),
        isa.Store,
        {"memory_type": MemoryType.OUT, "sram_base": 5, "dram_base": 6, **SIZE},
    ),
    "a product": (lambda builder: builder.gemm(UOPS, OUTER, INNER), isa.Gemm, GEMM),
    "a reset": (lambda builder: builder.gemm(UOPS, OUTER, INNER, reset=True), isa.Gemm, {**GEMM, "reset": 1}),
    "an overwriting product": (
        lambda builder: builder.gemm(UOPS, OUTER, INNER, overwrite=True),
        isa.Gemm,
        {**GEMM, "overwrite": 1},
    ),
    "an operation of two accumulators": (
        lambda builder: builder.alu(AluOpcode.MAX, UOPS, OUTER, INNER),
        isa.Alu,
        {**ALU, "alu_opcode": AluOpcode.MAX},
    ),
    "an operation with a constant": (
        lambda builder: builder.alu(AluOpcode.SHR, UOPS, OUTER, INNER, imm=-3),
        isa.Alu,
        {**ALU, "alu_opcode": AluOpcode.SHR, "use_imm": 1, "imm": -3},
    ),
    "an operation with the constant 0": (
        lambda builder: builder.alu(AluOpcode.MAX, UOPS, OUTER, INNER, imm=0),
        isa.Alu,
        {**ALU, "alu_opcode": AluOpcode.MAX, "use_imm": 1},
    ),
    "sliding windows": (
        lambda builder: builder.depthwise(UOPS, OUTER, INNER),
        isa.Depthwise,
        {**ALU, "wgt_factor_out": 9},
    ),
    "sliding windows that overwrite": (
        lambda builder: builder.depthwise(UOPS, OUTER, INNER, stride_2=True, overwrite=True),
        isa.Depthwise,
        {**ALU, "wgt_factor_out": 9, "stride_2": 1, "overwrite": 1},
    ),
}


def fields_of(program, form) -> list[dict[str, int]]:
    """Return the fields of each instruction of a form that are not 0, without tokens; the load of micro-ops left out."""
    items = [item for item in map(program.instruction, range(len(program))) if isinstance(item, form)]
    all_fields = [{name: getattr(item, name) for name in isa.field_names(form)} for item in items]
    return [
        {name: value for name, value in fields.items() if value and name not in FLAGS}
        for fields in all_fields
        if form is not isa.Load or (fields["memory_type"] != MemoryType.UOP and fields["x_size"])
    ]


@pytest.mark.parametrize("title", RECORDED)
def test_a_call_records_an_instruction_with_its_fields(title):
    record, form, fields = RECORDED[title]
    builder = StreamBuilder(WHOLE)
    record(builder)
    stream = builder.finish()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), WHOLE)
    assert fields_of(program, form) == [fields]


def test_loops_and_rows_that_are_not_given_step_nowhere_and_pad_nothing():
    builder = StreamBuilder(WHOLE)
    builder.gemm(UOPS, Loop(), Loop())
    builder.load(INP, 0, "x", 0, Rows(1, 1, 1))
    program = decoded(builder)
    assert fields_of(program, isa.Gemm) == [{"uop_end": 2, "iter_out": 1, "iter_in": 1}]
    (load,) = fields_of(program, isa.Load)
    assert load.keys() == {"memory_type", "y_size", "x_size", "x_stride", "dram_base"}


@pytest.mark.parametrize("memory", LOADABLE)
def test_addresses_count_elements_of_their_memory(memory):
    builder = StreamBuilder(WHOLE)
    builder.load(memory, 0, "x", 3, Rows(1, 1, 1))
    stream, size = builder.finish(), WHOLE.element_bytes(memory)
    for address in (0, 5 * size, size << 16):
        program = decode_stream(stream.relocated({"x": address}), WHOLE)
        assert max(program.fields(isa.Load)("dram_base")) == 3 + address // size


@pytest.mark.parametrize("halvings", [0, 1, 2])
def test_addresses_of_narrow_weights_count_narrow_elements(halvings):
    builder = StreamBuilder(WHOLE)
    builder.load(WGT, 0, "x", 3, Rows(1, 1, 1), halvings=halvings)
    builder.load(INP, 0, "y", 3, Rows(1, 1, 1))
    stream, size = builder.finish(), WHOLE.element_bytes(WGT) >> halvings
    for address in (0, 5 * size, size << 16):
        program = decode_stream(stream.relocated({"x": address, "y": 64}), WHOLE)
        loads = program.fields(isa.Load)
        places = dict(zip(loads("memory_type").tolist(), loads("dram_base").tolist(), strict=True))
        assert places[WGT] == 3 + address // size
        assert places[INP] == 3 + 64 // WHOLE.element_bytes(INP)


@pytest.mark.parametrize(
    ("memory", "halvings", "changes", "message"),
    [
        (INP, 1, {}, "a LOAD of INP has halvings = 1, outside 0..0"),
        (WGT, 2, {"wgt_bits": 4}, "a LOAD of WGT has halvings = 2, outside 0..1"),
        (
            WGT,
            1,
            {"extensions": ()},
            "a LOAD with halvings = 1 needs the extension 'narrow_weights', which this configuration has "
            "switched off",
        ),
    ],
)
def test_halvings_that_a_load_cannot_have_are_refused(memory, halvings, changes, message):
    builder = StreamBuilder(WHOLE.with_changes(**changes))
    with pytest.raises(EncodingError) as caught:
        builder.load(memory, 0, "x", 0, Rows(1, 1, 1), halvings=halvings)
    assert str(caught.value) == message


def test_addresses_of_gathers_count_bytes_and_those_of_stores_outputs():
    builder = StreamBuilder(WHOLE)
    builder.gather_elements(4, 0, "x", 3, Rows(1, 1, 0))
    builder.store(0, "y", 3, Rows(1, 1, 1))
    program = decode_stream(builder.finish().relocated({"x": 4097, "y": 4096, "micro-ops": 0}), WHOLE)
    assert program.fields(isa.Gather)("dram_base").tolist() == [4100]
    assert program.fields(isa.Store)("dram_base").tolist() == [
        3 + 4096 // WHOLE.element_bytes(MemoryType.OUT)
    ]


def test_windows_are_gathered_piece_by_piece_and_bring_their_padding():
    builder = StreamBuilder(WHOLE)
    lines = GatheredLines(columns=5, step=4, pitch=32)
    builder.gather(lines, 7, "x", 3, Rows(2, 4, 9))  # each row goes over the end of a line
    fields = [
        (gather.get("sram_base"), gather.get("dram_base"), gather["x_size"], gather["step"])
        for gather in fields_of(decoded_at_0(builder), isa.Gather)
    ]
    assert fields == [(7, 12, 2, 4), (9, 32, 2, 4), (11, 72, 3, 4), (14, 96, 1, 4)]
    builder = StreamBuilder(WHOLE)
    builder.gather(lines, 0, "x", 1, Rows(3, 4, 10))  # every second line
    assert fields_of(decoded_at_0(builder), isa.Gather) == [
        {"memory_type": INP, "dram_base": 4, "y_size": 3, "x_size": 4, "x_stride": 64, "step": 4}
    ]
    for pads in ({"y_pads": (0, 1)}, {"x_pads": (1, 0)}):
        with pytest.raises(ValueError, match=r"x is packed with its border, and .* would add padding"):
            builder.gather(lines, 0, "x", 0, Rows(1, 1, 1, **pads))


@pytest.mark.parametrize("form", [isa.Load, isa.Gather])
def test_flags_change_no_address(form):
    builder = StreamBuilder(WHOLE)
    for _ in range(2):  # the second waits for the product
        if form is isa.Gather:
            builder.gather_elements(4, 0, "x", 3, Rows(1, 1, 0))
        else:
            builder.load(INP, 0, "x", 3, Rows(1, 1, 1))
        builder.gemm(((0, 0, 0),), Loop(), Loop())
    program = decode_stream(builder.finish().relocated({"x": 4096, "micro-ops": 0}), WHOLE)
    size = 1 if form is isa.Gather else WHOLE.element_bytes(INP)
    moves = program.fields(form)("memory_type") == INP
    assert program.fields(form)("dram_base")[moves].tolist() == [3 + 4096 // size] * 2


def decoded_at_0(builder: StreamBuilder):
    stream = builder.finish()
    return decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), stream.config)


def test_a_label_has_what_is_recorded_after_it_and_the_waits_behind_that():
    builder = StreamBuilder(TINY)
    builder.load(WGT, 0, "w", 0, Rows(1, 1, 1))
    builder.label("one")
    builder.store(0, "A", 0, Rows(1, 4, 4))
    builder.label("none")
    builder.label("two")
    builder.load(INP, 0, "A", 0, Rows(1, 4, 4))  # behind the STORE, through the compute unit
    builder.load(INP, 4, "A", 0, Rows(1, 4, 4))
    stream = builder.finish()
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), TINY)
    assert program.unit.tolist() == [Unit.LOAD, Unit.STORE, Unit.COMPUTE, Unit.LOAD, Unit.LOAD, Unit.COMPUTE]
    positions_by_label = {name: positions.tolist() for name, positions in stream.labels.items()}
    assert positions_by_label == {"one": [1, 2], "none": [], "two": [3, 4, 5]}
    assert {name: positions.tolist() for name, positions in stream.tensors.items()} == {
        "w": [0],
        "A": [1, 3, 4],
    }
