"""LOADs of weights of fewer bits in DRAM, on every device: each width, rows that begin anywhere in a beat, and
padding."""

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program

from tests.programs.devices import DEVICES, device
from tests.programs.model import Model
from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType

UOPS, DATA, RESULT = 4096, 8192, 65536  # byte addresses
NARROW = TINY.with_changes(name="narrow", extensions=tuple(Extension))  # an element has 2 beats, 1, or half
CONFIGS = (
    NARROW,
    TINY.with_changes(name="several elements a beat", bus_bits=256, extensions=(Extension.NARROW_WEIGHTS,)),
    NARROW.with_changes(name="four beats an element", block_in=8, wgt_buffer_bytes=2048, gemm_stages=2),
    NARROW.with_changes(name="narrow of 4 bits", block_in=16, wgt_bits=4, batch=2),
)
IDS = [config.name for config in CONFIGS]
ELEMENTS = 40


def load(halvings: int = 1, **fields) -> isa.Load:
    fields = {"dram_base": DATA // 4, "y_size": 1, **fields}
    return isa.Load(memory_type=MemoryType.WGT, halvings=halvings, **fields)


CASES = {
    "a row": [load(x_size=ELEMENTS, x_stride=ELEMENTS)],
    "one element": [load(dram_base=DATA // 4 + 1, x_size=1)],
    "rows that begin anywhere in a beat": [load(y_size=5, x_size=7, x_stride=9, dram_base=DATA // 4 + 3)],
    "rows that overlap": [load(y_size=8, x_size=5, x_stride=1, dram_base=DATA // 4 + 1)],
    "padding around": [
        load(sram_base=2, y_size=2, x_size=4, x_stride=6, y_pad_0=1, y_pad_1=1, x_pad_0=2, x_pad_1=1)
    ],
    "padding alone": [load(y_size=0, x_size=4, y_pad_0=3, y_pad_1=1)],
    "nothing": [load(x_size=0, y_size=3, y_pad_0=2), load(x_size=3, y_size=0)],
    "each width in turn": [
        load(place % 2, sram_base=place, dram_base=DATA // 16 + 5 * place, x_size=1 + place % 4, x_stride=3)
        for place in range(36)
    ],
    "between inputs": [
        load(x_size=3, dram_base=DATA // 4 + 7),
        isa.Load(memory_type=MemoryType.INP, dram_base=600, sram_base=6, y_size=2, x_size=5, x_stride=7),
        load(0, sram_base=3, dram_base=700, y_size=2, x_size=4, x_stride=5),
        isa.Load(memory_type=MemoryType.INP, dram_base=601, y_size=1, x_size=1, halvings=3),
        load(sram_base=11, y_size=3, x_size=5, x_stride=11),
    ],
}
"""Of weights whose width is halved once; see `program_of`."""


def program_of(config, instructions) -> Program:
    """Return a program: inputs times what is loaded, or was there before; all products are stored."""

    def whole(memory: MemoryType, address: int, count: int, **fields) -> isa.Load:
        base = address // config.element_bytes(memory)
        return isa.Load(memory_type=memory, dram_base=base, y_size=1, x_size=count, x_stride=count, **fields)

    kept = {"memory_type": MemoryType.OUT, "y_size": 1, "x_size": ELEMENTS, "x_stride": ELEMENTS}
    multiply = {"iter_out": 1, "iter_in": ELEMENTS, "dst_factor_in": 1, "uop_end": 1}
    program = (
        whole(MemoryType.INP, DATA + 4096, ELEMENTS),
        whole(MemoryType.WGT, DATA + 1024, ELEMENTS),
        *instructions,
        isa.Load(memory_type=MemoryType.INP, push_next=1),
        whole(MemoryType.UOP, UOPS, 1, pop_prev=1),
        isa.Gemm(**multiply, reset=1),
        isa.Gemm(**multiply, src_factor_in=1, wgt_factor_in=1, push_next=1),
        isa.Store(dram_base=RESULT // config.element_bytes(MemoryType.OUT), pop_prev=1, push_prev=1, **kept),
        isa.Finish(pop_next=1),
    )
    image = np.random.default_rng(7).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    image[UOPS : UOPS + 8] = 0
    return Program(config, program, image, codec.to_bytes(program, config))


def widths(config, case: list[isa.Instruction]) -> list[list[isa.Instruction]]:
    """Return a case with every width that weights can have in DRAM instead of the half."""
    return [
        [codec.decode(codec.encode(each, config) + halved(each, halvings, config), config) for each in case]
        for halvings in config.halvings(MemoryType.WGT)[1:]
    ]


def halved(instruction: isa.Instruction, halvings: int, config) -> int:
    """Return what turns the encoding of a LOAD of half the width into that of these halvings."""
    is_half = instruction.memory_type is MemoryType.WGT and instruction.halvings
    return (halvings - 1) * bool(is_half) << encoding.field_of(isa.Load, "halvings", config).start


def expected_of(program: Program) -> np.ndarray:
    """Return DRAM after a program, by the model in plain Python."""
    model = Model(program.config, bytearray(program.image))
    return np.frombuffer(model.run(program.instructions), np.uint8)


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("on", DEVICES)
def test_a_narrow_load_gives_what_the_model_gives(on, name, config):
    for instructions in widths(config, CASES[name]):
        program = program_of(config, instructions)
        _, image = program.run_on(device(on, config))
        np.testing.assert_array_equal(image, expected_of(program))
        assert (image != program.image).any()


@pytest.mark.parametrize("on", DEVICES)
def test_the_padding_is_that_of_the_narrow_type(on):
    register = isa.Load(memory_type=MemoryType.WGT, sram_base=0x36, pad_value=1)
    pads = [
        load(halvings, x_size=2, y_pad_0=2, sram_base=6 * place, pad_value=place & 1, pad_minimum=place >> 1)
        for place in range(4)
        for halvings in (1, 2)
    ]
    for halvings in (1, 2):
        chosen = [each for each in pads if each.halvings == halvings]
        program = program_of(NARROW, [register, *chosen])
        _, image = program.run_on(device(on, NARROW))
        np.testing.assert_array_equal(image, expected_of(program))


@pytest.mark.parametrize(("halvings", "value"), [(0, 0x36), (1, 6), (2, -2)])
def test_the_pad_register_is_wrapped_to_the_width_in_dram(halvings, value):
    assert NARROW.pad_value(MemoryType.WGT, 0x36, halvings) == value


@pytest.mark.parametrize(("halvings", "beats"), [(0, 2), (1, 1), (2, 1 / 2)])
def test_a_beat_is_taken_a_cycle_and_an_element_is_written_a_cycle(halvings, beats):
    """An element of `beats`: a longer LOAD takes as many more beats, and as many more cycles or one."""
    short, long = (
        program_of(NARROW, [load(halvings, x_size=size, x_stride=size)]).run_on(device("cycle", NARROW))[0]
        for size in (40, 240)
    )
    assert long.counters["WGT_BEATS"] - short.counters["WGT_BEATS"] == 200 * beats
    assert long.cycles - short.cycles == 200 * max(1, beats)


@pytest.mark.parametrize(
    "memory", [MemoryParameters(), MemoryParameters(1, 1), MemoryParameters(20, 4, 3)], ids=str
)
@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
@pytest.mark.parametrize("name", CASES)
def test_the_simulator_takes_the_cycles_of_the_rtl(name, config, memory):
    for instructions in widths(config, CASES[name]):
        program = program_of(config, instructions)
        (simulated, _), (measured, _) = (
            program.run_on(device(on, config, memory)) for on in ("cycle", "rtl")
        )
        assert simulated.cycles == measured.cycles
        assert simulated.counters == measured.counters
