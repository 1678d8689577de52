"""GATHER gives what the plain model gives on every device, and the simulator takes the RTL's cycles."""

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program

from tests.programs.devices import DEVICES, device
from tests.programs.model import Model
from vdla.hw.spec import codec, isa
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType

UOPS, DATA, RESULT = 4096, 8192, 65536  # byte addresses
GATHERING = TINY.with_changes(name="gathering", block_in=16, extensions=tuple(Extension))
CONFIGS = (
    GATHERING,
    TINY.with_changes(name="gathering in wide beats", bus_bits=256, extensions=(Extension.GATHER,)),
    GATHERING.with_changes(name="gathering of 4 bits", batch=2, block_in=8, inp_bits=4, gemm_stages=2),
)
IDS = [config.name for config in CONFIGS]
ELEMENTS = 40


def gather(**fields) -> isa.Gather:
    return isa.Gather(memory_type=MemoryType.INP, **{"dram_base": DATA + 5, "y_size": 1, **fields})


CASES = {
    "windows of three channels": [gather(y_size=4, x_size=10, x_stride=45, step=3)],
    "every second window": [gather(y_size=3, x_size=13, x_stride=90, step=6)],
    "parts of wider blocks": [gather(dram_base=DATA, y_size=2, x_size=20, x_stride=1280, step=64)],
    "an element again and again": [gather(x_size=ELEMENTS, step=0)],
    "rows that overlap": [gather(y_size=8, x_size=5, x_stride=1, step=255)],
    "one element a row": [gather(y_size=ELEMENTS, x_size=1, x_stride=17)],
    "rows of padding": [gather(y_size=2, x_size=8, y_pad_0=2, y_pad_1=1, x_stride=33, step=5)],
    "padding alone": [gather(y_size=0, x_size=4, y_pad_0=3, y_pad_1=1, step=2)],
    "nothing": [gather(x_size=0, y_size=3, y_pad_0=2), gather(x_size=3, y_size=0)],
    "many short ones": [
        gather(sram_base=place, dram_base=DATA + 3 * place, x_size=1 + place % 4, step=place)
        for place in range(36)
    ],
    "between others": [
        gather(x_size=6, step=3),
        isa.Load(memory_type=MemoryType.INP, dram_base=600, sram_base=6, y_size=2, x_size=5, x_stride=7),
        gather(dram_base=DATA + 63, sram_base=16, y_size=2, x_size=9, x_stride=27, step=1),
        isa.Load(memory_type=MemoryType.WGT, dram_base=700, sram_base=0, y_size=1, x_size=1),
        gather(dram_base=DATA + 255, sram_base=34, x_size=6, step=16),
    ],
}


def program_of(config, instructions) -> Program:
    """Return a program: what is gathered, or was there before, times a matrix; all products stored."""

    def load(memory: MemoryType, address: int, count: int, **fields) -> isa.Load:
        base = address // config.element_bytes(memory)
        return isa.Load(memory_type=memory, dram_base=base, y_size=1, x_size=count, x_stride=count, **fields)

    kept = {"memory_type": MemoryType.OUT, "y_size": 1, "x_size": ELEMENTS, "x_stride": ELEMENTS}
    program = (
        load(MemoryType.INP, DATA + 4096, ELEMENTS),
        load(MemoryType.WGT, DATA + 1024, 1),
        *instructions,
        isa.Load(memory_type=MemoryType.INP, push_next=1),
        load(MemoryType.UOP, UOPS, 1, pop_prev=1),
        isa.Gemm(iter_out=1, iter_in=ELEMENTS, dst_factor_in=1, reset=1, uop_end=1),
        isa.Gemm(iter_out=1, iter_in=ELEMENTS, dst_factor_in=1, src_factor_in=1, uop_end=1, push_next=1),
        isa.Store(dram_base=RESULT // config.element_bytes(MemoryType.OUT), pop_prev=1, push_prev=1, **kept),
        isa.Finish(pop_next=1),
    )
    image = np.random.default_rng(7).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    image[UOPS : UOPS + 8] = 0
    return Program(config, program, image, codec.to_bytes(program, config))


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("on", DEVICES)
def test_gather_gives_what_the_model_gives(on, name, config):
    program = program_of(config, CASES[name])
    expected = np.frombuffer(Model(config, bytearray(program.image)).run(program.instructions), np.uint8)
    _, image = program.run_on(device(on, config))
    np.testing.assert_array_equal(image, expected)
    assert (image != program.image).any()


def test_gathers_pad_with_the_least_value_or_the_pad_register():
    register = isa.Load(memory_type=MemoryType.INP, sram_base=0x37, pad_value=1)
    pads = [
        gather(x_size=3, y_pad_0=2, step=1, sram_base=6 * k, pad_value=k & 1, pad_minimum=k >> 1)
        for k in range(4)
    ]
    ignored = gather(x_size=0, sram_base=0x11, pad_value=1)  # does not write the register
    program = program_of(GATHERING, [register, ignored, *pads])
    expected = np.frombuffer(Model(GATHERING, bytearray(program.image)).run(program.instructions), np.uint8)
    for on in DEVICES:
        _, image = program.run_on(device(on, GATHERING))
        np.testing.assert_array_equal(image, expected, err_msg=on)


@pytest.mark.parametrize(
    "memory", [MemoryParameters(), MemoryParameters(1, 1), MemoryParameters(20, 4, 3)], ids=str
)
@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
@pytest.mark.parametrize("name", CASES)
def test_the_simulator_takes_the_cycles_of_the_rtl(name, config, memory):
    program = program_of(config, CASES[name])
    (simulated, _), (measured, _) = (program.run_on(device(on, config, memory)) for on in ("cycle", "rtl"))
    assert simulated.cycles == measured.cycles
    assert simulated.counters == measured.counters
