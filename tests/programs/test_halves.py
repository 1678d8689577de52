"""LOADs of accumulators beside instructions in the other half give what the plain model gives on every
device, and the simulator takes the RTL's cycles."""

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program

from tests.programs.devices import DEVICES, device
from tests.programs.model import Model
from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import AccessError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType

UOPS, DATA, RESULT = 4096, 8192, 65536  # byte addresses
HALVED = TINY.with_changes(name="halved", acc_ports=2, extensions=tuple(Extension))
CONFIGS = (
    HALVED,
    TINY.with_changes(name="halved with one port", extensions=(Extension.ACC_HALVES,)),
    HALVED.with_changes(
        name="halved in parts", batch=2, block_out=16, acc_buffer_bytes=1 << 14, gemm_stages=1
    ),
)
IDS = [config.name for config in CONFIGS]
TILE = 24
LOWER, UPPER = 0, 1


def half_of(config) -> int:
    """Return the elements of a half of ACC."""
    return config.depth(MemoryType.ACC) // 2


def load(config, half: int, *, memory=MemoryType.ACC, **fields) -> isa.Load:
    """Return a LOAD of accumulators into a half, beside what works in the other."""
    shape = {"sram_base": half * half_of(config), "y_size": 1, "x_size": TILE, "x_stride": TILE, "beside": 1}
    base = DATA // config.element_bytes(memory)
    return isa.Load(memory_type=memory, **shape | {"dram_base": base, **fields})


def gemm(half: int, rows: int = 3, **fields) -> isa.Gemm:
    """Return a GEMM of `rows` products for each accumulator of a tile."""
    loops = {"iter_out": rows, "iter_in": TILE, "dst_factor_in": 1, "src_factor_in": 1}
    return isa.Gemm(**{"uop_begin": half, "uop_end": half + 1, **loops, **fields})


def add(half: int, **fields) -> isa.Alu:
    """Return an ALU instruction that adds the accumulators of a tile to themselves."""
    loops = {"iter_out": 1, "iter_in": TILE, "dst_factor_in": 1, "src_factor_in": 1}
    return isa.Alu(alu_opcode=AluOpcode.ADD, uop_begin=half, uop_end=half + 1, **loops, **fields)


CASES = {
    "tiles in turn": lambda config: [
        item
        for tile in range(6)
        for item in (gemm(tile % 2), load(config, 1 - tile % 2, dram_base=600 + 30 * tile))
    ],
    "a short instruction before": lambda config: [
        item
        for tile in range(6)
        for item in (
            gemm(1 - tile % 2, 1, iter_in=1),
            gemm(tile % 2, 1, iter_in=1),
            load(config, 1 - tile % 2, dram_base=600 + 30 * tile, x_size=2, y_pad_0=1),
        )
    ],
    "several loads": lambda config: [
        gemm(LOWER, 5),
        load(config, UPPER, x_size=5),
        load(config, UPPER, memory=MemoryType.ACC_8BIT, sram_base=half_of(config) + 5, x_size=9),
        load(config, UPPER, beside=0, sram_base=half_of(config) + 14, x_size=3),
        load(config, UPPER, sram_base=half_of(config) + 17, y_size=2, x_size=2, x_stride=3, x_pad_1=1),
        add(UPPER),
        load(config, LOWER, sram_base=3, x_size=1),
        gemm(UPPER),
    ],
    "sums of two accumulators": lambda config: [
        item for tile in range(4) for item in (add(tile % 2), load(config, 1 - tile % 2))
    ],
    "nothing": lambda config: [
        gemm(LOWER),
        load(config, UPPER, x_size=0),
        gemm(LOWER, 0),
        load(config, LOWER),
    ],
    "a load that pushes a token": lambda config: [
        gemm(LOWER, 4),
        load(config, LOWER, push_prev=1),
        isa.Load(memory_type=MemoryType.INP, pop_next=1),
    ],
}


def program_of(config, instructions) -> Program:
    """Return a program: a case on loaded operands; both halves stored."""

    def chunk(memory: MemoryType, address: int, count: int, **fields) -> isa.Load:
        base = address // config.element_bytes(memory)
        return isa.Load(memory_type=memory, dram_base=base, y_size=1, x_size=count, x_stride=count, **fields)

    half, outputs = half_of(config), config.element_bytes(MemoryType.OUT)
    kept = {"memory_type": MemoryType.OUT, "y_size": 1, "x_size": TILE, "x_stride": TILE}
    program = (
        *(chunk(MemoryType.INP, DATA + 4096, TILE, sram_base=base) for base in (0, half)),
        chunk(MemoryType.WGT, DATA + 1024, 2, push_next=1),
        chunk(MemoryType.UOP, UOPS, 2, pop_prev=1),
        *(chunk(MemoryType.ACC, DATA + 2048, TILE, sram_base=base) for base in (0, half)),
        *instructions,
        isa.Load(memory_type=MemoryType.UOP, push_next=1),
        isa.Store(dram_base=RESULT // outputs, pop_prev=1, **kept),
        isa.Store(dram_base=RESULT // outputs + TILE, sram_base=half, push_prev=1, **kept),
        isa.Finish(pop_next=1),
    )
    image = np.random.default_rng(7).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    uops = codec.uops_to_bytes([isa.MicroOp(wgt=1), isa.MicroOp(dst=half, src=half)], config)
    image[UOPS : UOPS + len(uops)] = np.frombuffer(uops, np.uint8)
    return Program(config, program, image, codec.to_bytes(program, config))


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("on", DEVICES)
def test_the_other_half_is_loaded_as_the_model_says(on, name, config):
    program = program_of(config, CASES[name](config))
    expected = np.frombuffer(Model(config, bytearray(program.image)).run(program.instructions), np.uint8)
    _, image = program.run_on(device(on, config))
    np.testing.assert_array_equal(image, expected)


@pytest.mark.parametrize(
    "memory", [MemoryParameters(), MemoryParameters(1, 1), MemoryParameters(20, 4, 3)], ids=str
)
@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
@pytest.mark.parametrize("name", CASES)
def test_the_simulator_takes_the_cycles_of_the_rtl(name, config, memory):
    program = program_of(config, CASES[name](config))
    (simulated, _), (measured, _) = (program.run_on(device(on, config, memory)) for on in ("cycle", "rtl"))
    assert simulated.cycles == measured.cycles
    assert simulated.counters == measured.counters


def cycles(instructions) -> int:
    """Return the simulated cycles of a program on HALVED."""
    return program_of(HALVED, instructions).run_on(device("cycle", HALVED))[0].cycles


def test_loads_beside_cost_an_instruction_no_cycle():
    tiles = [(gemm(tile % 2, 9), load(HALVED, 1 - tile % 2)) for tile in range(8)]
    alone = cycles([instruction for instruction, _ in tiles])
    beside = cycles([item for pair in tiles for item in pair])
    waiting = cycles(
        [load(HALVED, UPPER, beside=0) if isinstance(it, isa.Load) else it for p in tiles for it in p]
    )
    last = cycles([load(HALVED, LOWER)]) - cycles([])  # nothing hides the last LOAD
    assert beside - alone <= last
    assert waiting - alone > 7 * last / 2


def test_a_load_and_a_step_in_one_half_are_a_fault_of_the_rtl():
    """The verifier refuses such a stream; the hardware loses what the LOAD writes, and says so."""
    program = program_of(HALVED, [gemm(LOWER, 40), load(HALVED, LOWER)])
    with pytest.raises(AccessError):
        program.run_on(device("rtl", HALVED))
