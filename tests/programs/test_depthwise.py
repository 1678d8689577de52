"""DEPTHWISE gives what the plain model gives on every device, and the simulator takes the RTL's cycles."""

from dataclasses import replace

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program

from tests.programs.devices import DEVICES, device, refused_as_unsafe
from tests.programs.model import Model
from vdla.hw.spec import codec, isa
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType

UOPS, DATA, RESULT = 4096, 8192, 65536  # byte addresses
SLIDING = TINY.with_changes(name="sliding", block_in=8, block_out=8, extensions=tuple(Extension))
PACKED = SLIDING.with_changes(
    name="sliding packed", batch=2, packed=18, gemm_stages=2, inp_bits=4, alu_lanes=0
)
WIDE = SLIDING.with_changes(
    name="sliding wide", block_in=16, block_out=16, gemm_stages=1, acc_ports=2, alu_stages=1
)
CONFIGS = (
    SLIDING,
    PACKED,
    WIDE,
    PACKED.with_changes(name="sliding wide packed", block_in=16, block_out=16),
    SLIDING.with_changes(
        name="sliding without rows",
        extensions=tuple(extension for extension in Extension if extension is not Extension.DEPTHWISE_ROWS),
    ),
)
PARAMS = [
    pytest.param(config, id=config.name, marks=pytest.mark.slow if config is PACKED else ())
    for config in CONFIGS
]
TABLE = [isa.MicroOp(dst=2 * k, src=9 * k, wgt=k) for k in range(8)]


def depthwise(**fields) -> isa.Depthwise:
    return isa.Depthwise(
        **{"uop_end": 3, "iter_out": 1, "iter_in": 4, "dst_factor_in": 1, "src_factor_in": 1, **fields}
    )


CASES = {
    "a row": [depthwise(uop_end=1)],
    "rows of a kernel on one row of sums": [depthwise(uop_end=3), depthwise(uop_begin=1, uop_end=2)],
    "every second column": [depthwise(stride_2=1)],
    "a single sum": [depthwise(iter_in=1)],
    "a single sum, wide": [depthwise(iter_in=1, stride_2=1, iter_out=5, dst_factor_out=3)],
    "outer trips": [
        depthwise(iter_out=3, dst_factor_out=6, src_factor_out=9, wgt_factor_out=1, iter_in=6, stride_2=1),
        depthwise(iter_out=4, dst_factor_out=5, src_factor_out=2, iter_in=2),
    ],
    "one accumulator for all": [depthwise(dst_factor_in=0, iter_in=9)],
    "columns that stand apart": [depthwise(src_factor_in=3), depthwise(src_factor_in=2, stride_2=1)],
    "a column again and again": [depthwise(src_factor_in=0)],
    "several rows": [depthwise(more_rows=rows, row_step=3, uop_end=1, iter_out=2) for rows in range(4)],
    "several rows, far apart": [depthwise(more_rows=2, row_step=8, stride_2=1), depthwise(more_rows=1)],
    "rows of a dense image": [depthwise(more_rows=3, row_step=0, src_factor_in=3)],
    "five columns": [depthwise(wide=1, uop_end=1), depthwise(wide=1, stride_2=1, more_rows=2, row_step=3)],
    "three and five columns": [
        depthwise(more_rows=1, row_step=2, uop_end=1),
        depthwise(wide=1, more_rows=1, row_step=2, iter_in=1),
        isa.Gemm(uop_end=3, iter_out=2, iter_in=2, src_factor_in=1),
        depthwise(wide=1, iter_in=7, more_rows=2, row_step=1),
        depthwise(iter_in=1),
    ],
    "overwritten": [depthwise(overwrite=1), depthwise(overwrite=1, stride_2=1, iter_out=2, dst_factor_out=1)],
    "without sums": [
        depthwise(iter_in=0),
        depthwise(iter_out=0),
        depthwise(uop_begin=3),
        depthwise(uop_begin=4),
    ],
    "between other steps": [
        depthwise(uop_end=1, iter_in=3),
        isa.Gemm(uop_end=3, iter_out=2, iter_in=2, src_factor_in=1),
        depthwise(uop_end=1, iter_in=1),
        isa.Alu(
            alu_opcode=AluOpcode.ADD, uop_end=1, iter_out=1, iter_in=4, use_imm=1, imm=3, dst_factor_in=1
        ),
        depthwise(stride_2=1),
        isa.Alu(
            alu_opcode=AluOpcode.SHR, uop_end=1, iter_out=1, iter_in=9, use_imm=1, imm=2, dst_factor_in=1
        ),
    ],
}


def program_of(name: str, config) -> Program:
    """Return a program: random operands, the instructions of a case, 40 accumulators stored. Windows are the
    smallest where a configuration has no others."""
    extents = (
        {} if config.has(Extension.DEPTHWISE_ROWS) else dict.fromkeys(("more_rows", "row_step", "wide"), 0)
    )
    case = [replace(item, **extents) if isinstance(item, isa.Depthwise) else item for item in CASES[name]]

    def load(memory: MemoryType, address: int, count: int, **fields) -> isa.Load:
        base = address // config.element_bytes(memory)
        return isa.Load(memory_type=memory, dram_base=base, y_size=1, x_size=count, x_stride=count, **fields)

    out = RESULT // config.element_bytes(MemoryType.OUT)
    instructions = (
        load(MemoryType.INP, DATA, 60),
        load(MemoryType.WGT, DATA + 4096, 16, push_next=1),
        load(MemoryType.ACC, DATA, 40),
        load(MemoryType.UOP, UOPS, len(TABLE), pop_prev=1),
        *case,
        isa.Load(memory_type=MemoryType.UOP, push_next=1),
        isa.Store(
            memory_type=MemoryType.OUT,
            dram_base=out,
            y_size=1,
            x_size=40,
            x_stride=40,
            pop_prev=1,
            push_prev=1,
        ),
        isa.Finish(pop_next=1),
    )
    image = np.random.default_rng(7).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    table = np.frombuffer(codec.uops_to_bytes(TABLE, config), np.uint8)
    image[UOPS : UOPS + len(table)] = table
    return Program(config, instructions, image, codec.to_bytes(instructions, config))


@pytest.mark.parametrize("config", PARAMS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("on", DEVICES)
def test_depthwise_gives_what_the_model_gives(on, name, config):
    program = program_of(name, config)
    if refused_as_unsafe(on, program):
        return
    expected = np.frombuffer(Model(config, bytearray(program.image)).run(program.instructions), np.uint8)
    _, image = program.run_on(device(on, config))
    np.testing.assert_array_equal(image, expected)
    assert (image != program.image).any()


@pytest.mark.parametrize("memory", [MemoryParameters(), MemoryParameters(1, 1)], ids=str)
@pytest.mark.parametrize("config", PARAMS)
@pytest.mark.parametrize("name", CASES)
def test_the_simulator_takes_the_cycles_of_the_rtl(name, config, memory):
    program = program_of(name, config)
    (simulated, _), (measured, _) = (program.run_on(device(on, config, memory)) for on in ("cycle", "rtl"))
    assert simulated.cycles == measured.cycles
    assert simulated.counters == measured.counters
